// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/activation.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::sigmoid_gate_policy {
  using gate_format = float;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::sigmoid_gate: the policy must derive from ratify::sigmoid_gate_policy
struct policy {
  using input_format = ratify::f16;
  using gate_format = ratify::f16;
  using output_format = ratify::f16;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::sigmoid_gate: input_format must be float, f16 or bf16
struct policy : ratify::sigmoid_gate_policy {
  using input_format = double;
};
#elif RATIFY_CASE == 3
// EXPECT: ratify::sigmoid_gate: gate_format must be float, f16 or bf16
struct policy : ratify::sigmoid_gate_policy {
  using gate_format = double;
};
#elif RATIFY_CASE == 4
// EXPECT: ratify::sigmoid_gate: output_format must be float, f16 or bf16
struct policy : ratify::sigmoid_gate_policy {
  using output_format = double;
};
#endif

ratify::sigmoid_gate<policy>::params p;
