// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/drafting.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::draft_walk_policy {
  using pair_format = ratify::bf16;
  static constexpr auto mode = ratify::draft_mode::sample;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::draft_walk: the policy must derive from ratify::draft_walk_policy
struct policy {
  using pair_format = float;
  static constexpr auto mode = ratify::draft_mode::argmax;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::draft_walk: pair_format must be float or bf16
struct policy : ratify::draft_walk_policy {
  using pair_format = ratify::f16;
};
#elif RATIFY_CASE == 3
// EXPECT: ratify::draft_walk: mode must be a ratify::draft_mode
struct policy : ratify::draft_walk_policy {
  static constexpr int mode = 0;
};
#elif RATIFY_CASE == 4
// EXPECT: ratify::draft_walk: mode must be draft_mode::argmax or draft_mode::sample
struct policy : ratify::draft_walk_policy {
  static constexpr auto mode = static_cast<ratify::draft_mode>(2);
};
#endif

ratify::draft_walk<policy>::params p;
