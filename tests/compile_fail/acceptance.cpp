// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/acceptance.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::acceptance_policy {
  using logit_format = ratify::bf16;
  static constexpr auto rule = ratify::acceptance_rule::rejection;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::acceptance: the policy must derive from ratify::acceptance_policy
struct policy {
  using logit_format = float;
  static constexpr auto rule = ratify::acceptance_rule::coupled;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::acceptance: logit_format must be float, f16, bf16 or acceptance_word
struct policy : ratify::acceptance_policy {
  using logit_format = double;
};
#elif RATIFY_CASE == 3
// EXPECT: ratify::acceptance: rule must be a ratify::acceptance_rule
struct policy : ratify::acceptance_policy {
  static constexpr int rule = 0;
};
#elif RATIFY_CASE == 4
// EXPECT: ratify::acceptance: rule must be acceptance_rule::coupled or acceptance_rule::rejection
struct policy : ratify::acceptance_policy {
  static constexpr auto rule = static_cast<ratify::acceptance_rule>(2);
};
#endif

ratify::acceptance<policy>::params p;
