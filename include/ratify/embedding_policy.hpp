// SPDX-License-Identifier: Apache-2.0
/// Knobs of the embedding. Derive and override by name; a misspelt knob compiles silently.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

struct embedding_policy {
  using table_format = f16;     ///< f16, bf16 or float
  using output_format = float;  ///< f16, bf16 or float
};

RATIFY_END_NAMESPACE
