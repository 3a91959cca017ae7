// SPDX-License-Identifier: Apache-2.0
/// Knobs of the elementwise operations. Derive and override by name; a misspelt knob compiles silently.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

struct gating_policy {
  using input_format = f16;  ///< of a and b: f16, bf16 or float
};

struct silu_and_mul_policy {
  using input_format = f16;   ///< f16, bf16 or float
  using output_format = f16;  ///< f16, bf16 or float
};

struct sigmoid_gate_policy {
  using input_format = f16;   ///< of x: f16, bf16 or float
  using gate_format = f16;    ///< f16, bf16 or float
  using output_format = f16;  ///< f16, bf16 or float
};

RATIFY_END_NAMESPACE
