// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/convolution.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::convolution_policy {
  static constexpr int width = 2;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::convolution: the policy must derive from ratify::convolution_policy
struct policy {
  using input_format = ratify::f16;
  using weight_format = ratify::f16;
  using output_format = ratify::f16;
  static constexpr int width = 4;
  static constexpr bool silu = true;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::convolution: input_format must be f16 or bf16
struct policy : ratify::convolution_policy {
  using input_format = float;
};
#elif RATIFY_CASE == 3
// EXPECT: ratify::convolution: weight_format must be float, f16 or bf16
struct policy : ratify::convolution_policy {
  using weight_format = double;
};
#elif RATIFY_CASE == 4
// EXPECT: ratify::convolution: output_format must be float, f16 or bf16
struct policy : ratify::convolution_policy {
  using output_format = double;
};
#elif RATIFY_CASE == 5
// EXPECT: ratify::convolution: width must be 2, 3 or 4 taps
struct policy : ratify::convolution_policy {
  static constexpr int width = 5;
};
#endif

ratify::convolution<policy>::params p;
