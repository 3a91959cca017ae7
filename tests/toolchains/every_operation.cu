// SPDX-License-Identifier: Apache-2.0
// Launches one policy of every operation: the source that every supported CUDA compiler must accept.
#include <ratify/ratify.cuh>

namespace {

template <class Operation>
bool launches(ratify::cuda_executor& on) {
  typename Operation::params const p{};
  return bool(Operation::launch(p, {}, on));
}

template <class... Operations>
int count_launches(ratify::cuda_executor& on) {
  return (0 + ... + int{launches<Operations>(on)});
}

}  // namespace

int launch_everything(ratify::cuda_executor& on) {
  using fused_replay = ratify::recurrence<ratify::mode<ratify::recurrence_mode::replay>, ratify::fused_gating<true>>;
  using read = ratify::recurrence<ratify::mode<ratify::recurrence_mode::read>>;
  return count_launches<ratify::acceptance<>, ratify::acceptance_summary<>, ratify::append<>, ratify::attention<>,
                        ratify::convolution<>, ratify::decode<>, ratify::draft_convolution<>, ratify::draft_walk<>,
                        ratify::embedding<>, ratify::gated_rmsnorm<>, ratify::gating<>, ratify::merge<>,
                        ratify::projection<>, ratify::qk_norm_rotary<>, ratify::recurrence<>, fused_replay, read,
                        ratify::rmsnorm<>, ratify::shadow_compare<>, ratify::shadow_copy<>, ratify::sigmoid_gate<>,
                        ratify::silu_and_mul<>>(on);
}
