// SPDX-License-Identifier: Apache-2.0
/// Knobs of the causal depthwise convolution. `width` and `silu` say what is computed, and the formats what is read and
/// written. No knob changes the order of a sum.
#pragma once

#include <ratify/detail/policy.hpp>
#include <ratify/numeric.hpp>

#define RATIFY_CONVOLUTION_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                                                   \
  FORMAT(op, input_format, f16, (f16, bf16), "f16 or bf16", "format of x and of the window pool")                    \
  FORMAT(op, weight_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of weight and bias")              \
  FORMAT(op, output_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of out")                          \
  NUMBER(op, width, 4, value >= 2 && value <= 4, "2, 3 or 4 taps", "inputs of one output, the current row included") \
  FLAG(op, silu, true, "whether y becomes y * sigmoid(y) afterwards")

RATIFY_BEGIN_NAMESPACE

RATIFY_DEFINE_POLICY(convolution, RATIFY_CONVOLUTION_KNOBS, "ratify/convolution.cuh", "convolution_kernel<$>")

RATIFY_END_NAMESPACE
