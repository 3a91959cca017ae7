// SPDX-License-Identifier: Apache-2.0
// Launches one policy of every operation: what a CUDA compiler must take.
#include <ratify/ratify.cuh>

// Policies have a name that other files could use: of a policy without linkage, nvcc -rdc=true makes one of hidden
// visibility, and g++ warns of every lambda that holds its parameters.
namespace every_operation {

template <class Operation>
ratify::status launch(ratify::cuda_executor& on) {
  typename Operation::params const p{};
  return Operation::launch(p, {}, on);
}

struct replay_policy : ratify::recurrence_policy {
  static constexpr auto mode = ratify::recurrence_mode::replay;
  static constexpr bool fused_gating = true;
};
struct read_policy : ratify::recurrence_policy {
  static constexpr auto mode = ratify::recurrence_mode::read;
};

}  // namespace every_operation

int launch_everything(ratify::cuda_executor& on) {
  using namespace every_operation;
  int launched = 0;
  launched += bool(launch<ratify::acceptance<ratify::acceptance_policy>>(on));
  launched += bool(launch<ratify::acceptance_summary<ratify::acceptance_policy>>(on));
  launched += bool(launch<ratify::append<ratify::append_policy>>(on));
  launched += bool(launch<ratify::attention<ratify::attention_policy>>(on));
  launched += bool(launch<ratify::convolution<ratify::convolution_policy>>(on));
  launched += bool(launch<ratify::decode<ratify::decode_policy>>(on));
  launched += bool(launch<ratify::draft_convolution<ratify::draft_convolution_policy>>(on));
  launched += bool(launch<ratify::draft_walk<ratify::draft_walk_policy>>(on));
  launched += bool(launch<ratify::embedding<ratify::embedding_policy>>(on));
  launched += bool(launch<ratify::gated_rmsnorm<ratify::gated_rmsnorm_policy>>(on));
  launched += bool(launch<ratify::gating<ratify::gating_policy>>(on));
  launched += bool(launch<ratify::merge<ratify::merge_policy>>(on));
  launched += bool(launch<ratify::projection<ratify::projection_policy>>(on));
  launched += bool(launch<ratify::qk_norm_rotary<ratify::qk_norm_rotary_policy>>(on));
  launched += bool(launch<ratify::recurrence<ratify::recurrence_policy>>(on));
  launched += bool(launch<ratify::recurrence<replay_policy>>(on));
  launched += bool(launch<ratify::recurrence<read_policy>>(on));
  launched += bool(launch<ratify::rmsnorm<ratify::rmsnorm_policy>>(on));
  launched += bool(launch<ratify::shadow_compare<ratify::shadow_policy>>(on));
  launched += bool(launch<ratify::shadow_copy<ratify::shadow_policy>>(on));
  launched += bool(launch<ratify::sigmoid_gate<ratify::sigmoid_gate_policy>>(on));
  launched += bool(launch<ratify::silu_and_mul<ratify::silu_and_mul_policy>>(on));
  return launched;
}
