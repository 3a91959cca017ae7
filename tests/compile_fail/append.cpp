// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/cache.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::append_policy {
  using kv_format = ratify::e5m2;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::append: the policy must derive from ratify::append_policy
struct policy {
  using input_format = ratify::f16;
  using kv_format = ratify::f16;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::append: input_format must be float, f16 or bf16
struct policy : ratify::append_policy {
  using input_format = double;
};
#elif RATIFY_CASE == 3
// EXPECT: ratify::append: kv_format must be e4m3, e5m2, f16 or bf16
struct policy : ratify::append_policy {
  using kv_format = float;
};
#endif

ratify::append<policy>::params p;
