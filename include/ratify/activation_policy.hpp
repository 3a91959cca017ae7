// SPDX-License-Identifier: Apache-2.0
/// Knobs of the elementwise operations: gating, silu_and_mul and sigmoid_gate.
#pragma once

#include <ratify/detail/policy.hpp>
#include <ratify/numeric.hpp>

#define RATIFY_GATING_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE) \
  FORMAT(op, input_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of a and b")

#define RATIFY_SILU_AND_MUL_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                      \
  FORMAT(op, input_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of x") \
  FORMAT(op, output_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of out")

#define RATIFY_SIGMOID_GATE_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                        \
  FORMAT(op, input_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of x")   \
  FORMAT(op, gate_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of gate") \
  FORMAT(op, output_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of out")

RATIFY_BEGIN_NAMESPACE

RATIFY_DEFINE_POLICY(gating, RATIFY_GATING_KNOBS, "ratify/activation.cuh", "gating_kernel<$>")
RATIFY_DEFINE_POLICY(silu_and_mul, RATIFY_SILU_AND_MUL_KNOBS, "ratify/activation.cuh", "silu_and_mul_kernel<$>")
RATIFY_DEFINE_POLICY(sigmoid_gate, RATIFY_SIGMOID_GATE_KNOBS, "ratify/activation.cuh", "sigmoid_gate_kernel<$>")

RATIFY_END_NAMESPACE
