// SPDX-License-Identifier: Apache-2.0
/// Knobs of the normalizations: rmsnorm, gated_rmsnorm and qk_norm_rotary.
#pragma once

#include <ratify/detail/policy.hpp>
#include <ratify/numeric.hpp>

/// `unit_offset` is arithmetic: it says by what a normalised number is multiplied.
#define RATIFY_RMSNORM_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                                 \
  FORMAT(op, input_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of x")       \
  FORMAT(op, weight_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of weight") \
  FORMAT(op, output_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of out")    \
  FLAG(op, unit_offset, true, "multiply by 1 + weight (true) or by weight (false)")

#define RATIFY_GATED_RMSNORM_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                             \
  FORMAT(op, input_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of x")         \
  FORMAT(op, gate_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of z")          \
  FORMAT(op, weight_format, float, (float, f16, bf16), "float, f16 or bf16", "format of weight") \
  FORMAT(op, output_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of out")

#define RATIFY_QK_NORM_ROTARY_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                          \
  FORMAT(op, input_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of x")       \
  FORMAT(op, weight_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of weight") \
  FORMAT(op, output_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of out")    \
  FLAG(op, unit_offset, true, "multiply by 1 + weight (true) or by weight (false)")

RATIFY_BEGIN_NAMESPACE

RATIFY_DEFINE_POLICY(rmsnorm, RATIFY_RMSNORM_KNOBS, "ratify/normalization.cuh", "rmsnorm_kernel<$>",
                     "rmsnorm_row_kernel<$>")
RATIFY_DEFINE_POLICY(gated_rmsnorm, RATIFY_GATED_RMSNORM_KNOBS, "ratify/normalization.cuh", "gated_rmsnorm_kernel<$>")
RATIFY_DEFINE_POLICY(qk_norm_rotary, RATIFY_QK_NORM_ROTARY_KNOBS, "ratify/normalization.cuh",
                     "qk_norm_rotary_kernel<$>")

RATIFY_END_NAMESPACE
