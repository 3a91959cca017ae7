// SPDX-License-Identifier: Apache-2.0
/// The list of operations. Another one is a file that defines it, and its line here.
#include <run/operation.hpp>

namespace ratify_run {

extern operation const decode, append, attention, merge, convolution, recurrence, projection, acceptance;
extern operation const draft_walk, draft_convolution;
extern operation const gating, silu_and_mul, sigmoid_gate, rmsnorm, gated_rmsnorm, qk_norm_rotary, embedding;

std::vector<operation const*> const& operations() {
  static std::vector<operation const*> const all = {
      &decode,       &append,       &attention,         &merge,  &convolution, &recurrence,    &projection,
      &acceptance,   &draft_walk,   &draft_convolution, &gating, &rmsnorm,     &gated_rmsnorm, &qk_norm_rotary,
      &silu_and_mul, &sigmoid_gate, &embedding};
  return all;
}

}  // namespace ratify_run
