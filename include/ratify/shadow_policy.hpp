// SPDX-License-Identifier: Apache-2.0
/// Knobs of the shadow's operations. Derive and override by name; a misspelt knob compiles silently.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

struct shadow_policy {
  using format = float;  ///< of the elements: float, f16, bf16, e4m3, e5m2 or int32_t
};

RATIFY_END_NAMESPACE
