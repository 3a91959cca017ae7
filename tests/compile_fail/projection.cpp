// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/projection.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::projection_policy {
  static constexpr int split_k = 7;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::projection: the policy must derive from ratify::projection_policy
struct policy {
  using input_format = ratify::f16;
  using output_format = ratify::f16;
  static constexpr int split_k = 1, column_warps = 0;
  static constexpr auto effective_scale = ratify::projection_scale::fp16;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::projection: input_format must be float, f16 or bf16
struct policy : ratify::projection_policy {
  using input_format = double;
};
#elif RATIFY_CASE == 3
// EXPECT: ratify::projection: output_format must be float, f16 or bf16
struct policy : ratify::projection_policy {
  using output_format = double;
};
#elif RATIFY_CASE == 4
// EXPECT: ratify::projection: split_k must be 1 to 32
struct policy : ratify::projection_policy {
  static constexpr int split_k = 33;
};
#elif RATIFY_CASE == 5
// EXPECT: ratify::projection: effective_scale must be projection_scale::fp16 or projection_scale::fp32
struct policy : ratify::projection_policy {
  static constexpr int effective_scale = 16;
};
#elif RATIFY_CASE == 6
// EXPECT: ratify::projection: column_warps must be 0 (chosen) to 8, and column_warps * split_k at most 32 warps
struct policy : ratify::projection_policy {
  static constexpr int column_warps = 9;
};
#endif

ratify::projection<policy>::params p;
