// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/acceptance.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::acceptance_policy {
  using logit_format = ratify::f16;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::acceptance_summary: the policy must derive from ratify::acceptance_policy
struct policy {
  using logit_format = float;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::acceptance_summary: logit_format must be float, f16 or bf16
struct policy : ratify::acceptance_policy {
  using logit_format = ratify::acceptance_word;
};
#endif

ratify::acceptance_summary<policy>::params p;
