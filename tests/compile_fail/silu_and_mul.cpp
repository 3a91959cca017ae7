// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/activation.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::silu_and_mul_policy {
  using output_format = ratify::bf16;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::silu_and_mul: the policy must derive from ratify::silu_and_mul_policy
struct policy {
  using input_format = ratify::f16;
  using output_format = ratify::f16;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::silu_and_mul: input_format must be float, f16 or bf16
struct policy : ratify::silu_and_mul_policy {
  using input_format = double;
};
#elif RATIFY_CASE == 3
// EXPECT: ratify::silu_and_mul: output_format must be float, f16 or bf16
struct policy : ratify::silu_and_mul_policy {
  using output_format = double;
};
#endif

ratify::silu_and_mul<policy>::params p;
