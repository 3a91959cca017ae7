// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/shadow.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::shadow_policy {
  using format = ratify::e4m3;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::shadow: the policy must derive from ratify::shadow_policy
struct policy {
  using format = float;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::shadow: format must be float, f16, bf16, e4m3, e5m2 or int32_t
struct policy : ratify::shadow_policy {
  using format = double;
};
#endif

ratify::shadow_compare<policy>::params p;
