// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/normalization.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::rmsnorm_policy {
  static constexpr bool unit_offset = false;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::rmsnorm: the policy must derive from ratify::rmsnorm_policy
struct policy {
  using input_format = ratify::f16;
  using output_format = ratify::f16;
  using weight_format = ratify::f16;
  static constexpr bool unit_offset = true;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::rmsnorm: input_format must be float, f16 or bf16
struct policy : ratify::rmsnorm_policy {
  using input_format = double;
};
#elif RATIFY_CASE == 3
// EXPECT: ratify::rmsnorm: output_format must be float, f16 or bf16
struct policy : ratify::rmsnorm_policy {
  using output_format = double;
};
#elif RATIFY_CASE == 4
// EXPECT: ratify::rmsnorm: weight_format must be float, f16 or bf16
struct policy : ratify::rmsnorm_policy {
  using weight_format = double;
};
#elif RATIFY_CASE == 5
// EXPECT: ratify::rmsnorm: unit_offset must be a bool, true (1 + weight) or false (weight)
struct policy : ratify::rmsnorm_policy {
  static constexpr int unit_offset = 2;
};
#endif

ratify::rmsnorm<policy>::params p;
