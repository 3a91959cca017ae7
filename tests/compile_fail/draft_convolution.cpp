// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/drafting.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::draft_convolution_policy {
  using base_format = float;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::draft_convolution: the policy must derive from ratify::draft_convolution_policy
struct policy {
  using input_format = ratify::f16;
  using base_format = ratify::f16;
  using delta_format = ratify::f16;
  using output_format = ratify::f16;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::draft_convolution: input_format must be float, f16 or bf16
struct policy : ratify::draft_convolution_policy {
  using input_format = double;
};
#elif RATIFY_CASE == 3
// EXPECT: ratify::draft_convolution: base_format must be float, f16 or bf16
struct policy : ratify::draft_convolution_policy {
  using base_format = ratify::e4m3;
};
#elif RATIFY_CASE == 4
// EXPECT: ratify::draft_convolution: delta_format must be float, f16 or bf16
struct policy : ratify::draft_convolution_policy {
  using delta_format = double;
};
#elif RATIFY_CASE == 5
// EXPECT: ratify::draft_convolution: output_format must be float, f16 or bf16
struct policy : ratify::draft_convolution_policy {
  using output_format = ratify::e5m2;
};
#endif

ratify::draft_convolution<policy>::params p;
