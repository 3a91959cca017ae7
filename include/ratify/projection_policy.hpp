// SPDX-License-Identifier: Apache-2.0
/// Knobs of the NVFP4 projection, and which `split_k` to take for a shape.
#pragma once

#include <ratify/detail/policy.hpp>
#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

/// What the scale of a group of 16 weights is rounded to before it meets the weights.
enum class projection_scale {
  fp16,  ///< matched: the scale and each weight are rounded to FP16, and the products are summed one by one
  fp32   ///< the scale stays FP32 and multiplies the sum of its group; for scales outside the range of FP16
};

namespace detail {
template <>
struct choices<projection_scale> {
  static constexpr choice values[] = {
      {"fp16", "ratify::projection_scale::fp16"},
      {"fp32", "ratify::projection_scale::fp32"},
  };
};
}  // namespace detail

RATIFY_END_NAMESPACE

/// `split_k` and `effective_scale` are arithmetic: another value may change bits of the result. No other knob does.
#define RATIFY_PROJECTION_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                             \
  FORMAT(op, input_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of x")      \
  FORMAT(op, output_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of y")     \
  NUMBER(op, split_k, 8, value >= 1 && value <= 32, "1 to 32",                                \
         "parts of K that are summed apart and then added in order; changes bits")            \
  CHOICE(op, effective_scale, projection_scale, fp16, "fp16 or fp32",                         \
         "what the scale of a group is rounded to before it meets the weights; changes bits") \
  NUMBER(op, column_warps, 0, value >= 0 && value <= 8, "0 (the library chooses) to 8",       \
         "warps of a block that share the activations of a split; column_warps * split_k is at most 32")

#define RATIFY_PROJECTION_RULES(op, RULE)                                           \
  RULE(warps, (members<Knobs...>::column_warps * members<Knobs...>::split_k <= 32), \
       "ratify::" #op ": column_warps * split_k must be at most 32 warps, the most that a block has")

RATIFY_BEGIN_NAMESPACE

RATIFY_DEFINE_POLICY_WITH_RULES(projection, RATIFY_PROJECTION_KNOBS, RATIFY_PROJECTION_RULES, "ratify/projection.cuh",
                                "projection_kernel<$, 1>", "projection_kernel<$, 8>", "projection_kernel<$, 16>",
                                "projection_kernel<$, 32>")

/// The `split_k` to take for y [rows, n] = x [rows, k] W^T with up to 32 rows, where bits are free to choose:
///
///   using project = ratify::projection<ratify::split_k<ratify::recommended_split_k(17408, 5120, 132)>>;
///
/// It is 8, which is also the default of the knob, unless there are so many columns that every multiprocessor is busy
/// without splitting K: then it is 1. A K that has fewer blocks of 64 columns than that gets one split per block.
///
/// Measured on an H200 with 132 multiprocessors, 8 rows, FP16 scale (bench/results/operations_h200.md, `ratify-bench
/// projection`): with 7 to 9 splits, 5120x3072 to 5120x17408 take 1/3.5 to 1/4.1 of the time that one split
/// takes, 8256x5120 1/3.1, 17408x5120 1/1.7 and 34816x5120 (264 columns per multiprocessor) 1/1.4; from 124160x5120
/// (940 columns per multiprocessor) on 4 splits and one are within 2 % of each other. Not measured: the counts between
/// these two shapes, 8 splits where the measurement took 5, 7 or 9, K below 3072, and other cards.
///
/// @param n                columns of y
/// @param k                columns of x, a multiple of 16
/// @param multiprocessors  of the card, such as 132 of an H100 SXM or an H200
RATIFY_HD constexpr int recommended_split_k(int64_t n, int64_t k, int multiprocessors) {
  constexpr int splits = 8, busy_columns = 940;
  if (n >= int64_t{busy_columns} * multiprocessors) return 1;
  int64_t const blocks = (k + 63) / 64;
  return blocks < splits ? static_cast<int>(blocks > 1 ? blocks : 1) : splits;
}

RATIFY_END_NAMESPACE
