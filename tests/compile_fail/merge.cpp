// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/attention.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::merge_policy {
  using out_format = ratify::bf16;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::merge: the policy must derive from ratify::merge_policy
struct policy {
  using out_format = float;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::merge: out_format must be float, f16 or bf16
struct policy : ratify::merge_policy {
  using out_format = int;
};
#endif

ratify::merge<policy>::params p;
