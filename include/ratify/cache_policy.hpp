// SPDX-License-Identifier: Apache-2.0
/// Knobs of the cache operations. Derive and override by name; a misspelt knob compiles silently.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

struct append_policy {
  using input_format = f16;  ///< of the new rows of K and V: f16, bf16 or float
  using kv_format = e4m3;    ///< of the pages: e4m3, e5m2, f16 or bf16
};

RATIFY_END_NAMESPACE
