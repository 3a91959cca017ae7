// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/activation.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::gating_policy {
  using input_format = float;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::gating: the policy must derive from ratify::gating_policy
struct policy {
  using input_format = ratify::f16;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::gating: input_format must be float, f16 or bf16
struct policy : ratify::gating_policy {
  using input_format = double;
};
#endif

ratify::gating<policy>::params p;
