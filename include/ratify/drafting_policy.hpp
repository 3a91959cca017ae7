// SPDX-License-Identifier: Apache-2.0
/// Knobs of the drafter's operations.
#pragma once

#include <ratify/detail/policy.hpp>
#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

/// How a drafter picks one of the candidates of a slot.
enum class draft_mode {
  argmax,  ///< the one with the largest score
  sample   ///< by inverse CDF over the softmax of the scores; the distribution q of the draft is returned with it
};

namespace detail {
template <>
struct choices<draft_mode> {
  static constexpr choice values[] = {
      {"argmax", "ratify::draft_mode::argmax"},
      {"sample", "ratify::draft_mode::sample"},
  };
};
}  // namespace detail

RATIFY_END_NAMESPACE

/// `mode` decides which tokens are drafted; `pair_format` is the format of inputs and changes nothing else.
#define RATIFY_DRAFT_WALK_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                            \
  FORMAT(op, pair_format, float, (float, bf16), "float or bf16", "format of left and right") \
  CHOICE(op, mode, draft_mode, argmax, "argmax or sample", "how a token is picked among the candidates of a slot")

/// Every knob is the format of a tensor; sums are FP32 whatever the formats are.
#define RATIFY_DRAFT_CONVOLUTION_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                     \
  FORMAT(op, input_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of x")     \
  FORMAT(op, base_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of base")   \
  FORMAT(op, delta_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of delta") \
  FORMAT(op, output_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of out")

RATIFY_BEGIN_NAMESPACE

RATIFY_DEFINE_POLICY(draft_walk, RATIFY_DRAFT_WALK_KNOBS, "ratify/drafting.cuh", "draft_walk_kernel<$>")
RATIFY_DEFINE_POLICY(draft_convolution, RATIFY_DRAFT_CONVOLUTION_KNOBS, "ratify/drafting.cuh",
                     "draft_convolution_kernel<$>")

RATIFY_END_NAMESPACE
