// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/normalization.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::gated_rmsnorm_policy {
  using weight_format = ratify::f16;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::gated_rmsnorm: the policy must derive from ratify::gated_rmsnorm_policy
struct policy {
  using input_format = ratify::f16;
  using gate_format = ratify::f16;
  using output_format = ratify::f16;
  using weight_format = ratify::f16;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::gated_rmsnorm: input_format must be float, f16 or bf16
struct policy : ratify::gated_rmsnorm_policy {
  using input_format = double;
};
#elif RATIFY_CASE == 3
// EXPECT: ratify::gated_rmsnorm: gate_format must be float, f16 or bf16
struct policy : ratify::gated_rmsnorm_policy {
  using gate_format = double;
};
#elif RATIFY_CASE == 4
// EXPECT: ratify::gated_rmsnorm: output_format must be float, f16 or bf16
struct policy : ratify::gated_rmsnorm_policy {
  using output_format = double;
};
#elif RATIFY_CASE == 5
// EXPECT: ratify::gated_rmsnorm: weight_format must be float, f16 or bf16
struct policy : ratify::gated_rmsnorm_policy {
  using weight_format = double;
};
#endif

ratify::gated_rmsnorm<policy>::params p;
