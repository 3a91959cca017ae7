// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/normalization.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::qk_norm_rotary_policy {
  using output_format = float;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::qk_norm_rotary: the policy must derive from ratify::qk_norm_rotary_policy
struct policy {
  using input_format = ratify::f16;
  using output_format = ratify::f16;
  using weight_format = ratify::f16;
  static constexpr bool unit_offset = true;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::qk_norm_rotary: input_format must be float, f16 or bf16
struct policy : ratify::qk_norm_rotary_policy {
  using input_format = double;
};
#elif RATIFY_CASE == 3
// EXPECT: ratify::qk_norm_rotary: output_format must be float, f16 or bf16
struct policy : ratify::qk_norm_rotary_policy {
  using output_format = double;
};
#elif RATIFY_CASE == 4
// EXPECT: ratify::qk_norm_rotary: weight_format must be float, f16 or bf16
struct policy : ratify::qk_norm_rotary_policy {
  using weight_format = double;
};
#elif RATIFY_CASE == 5
// EXPECT: ratify::qk_norm_rotary: unit_offset must be a bool, true (1 + weight) or false (weight)
struct policy : ratify::qk_norm_rotary_policy {
  static constexpr int unit_offset = 2;
};
#endif

ratify::qk_norm_rotary<policy>::params p;
