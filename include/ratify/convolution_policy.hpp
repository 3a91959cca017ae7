// SPDX-License-Identifier: Apache-2.0
/// Knobs of the causal depthwise convolution. Derive and override by name; a misspelt knob compiles silently.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

struct convolution_policy {
  using input_format = f16;           ///< of x and of the window pool: f16 or bf16
  using weight_format = f16;          ///< of weight and bias: f16, bf16 or float
  using output_format = f16;          ///< f16, bf16 or float
  static constexpr int width = 4;     ///< taps, the current row included: 2, 3 or 4
  static constexpr bool silu = true;  ///< y * sigmoid(y) afterwards
};

RATIFY_END_NAMESPACE
