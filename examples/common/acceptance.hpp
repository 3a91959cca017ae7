// SPDX-License-Identifier: Apache-2.0
/// Acceptance of one request whose inputs, outputs and cursors each lie in one struct on the device.
#pragma once

#include <ratify/acceptance.cuh>

namespace example {

/// Parameters with everything but logits, drafts and extents filled in.
/// @param in temperature, top_p, top_k, seed, position, end_token, limit, query_start[2]
/// @param out tokens[rows], emitted, accepted, finish, row_status[rows]
/// @param at what the next round starts from: selector, kept, fresh
template <class Policy, class Inputs, class Outputs, class Cursors>
ratify::acceptance_params<Policy> acceptance_of_one_request(Inputs const* in, Outputs* out, Cursors* at) {
  ratify::acceptance_params<Policy> a{};
  a.query_start = in->query_start;
  a.temperature = &in->temperature;
  a.top_p = &in->top_p;
  a.top_k = &in->top_k;
  a.seed = &in->seed;
  a.position = &in->position;
  a.end_tokens = &in->end_token;
  a.end_count = 1;
  a.limit = &in->limit;
  a.tokens = out->tokens;
  a.emitted = &out->emitted;
  a.accepted = &out->accepted;
  a.finish = &out->finish;
  a.row_status = out->row_status;
  a.cursors.selector = &at->selector;
  a.cursors.kept = &at->kept;
  a.cursors.fresh = &at->fresh;
  a.requests = 1;
  return a;
}

}  // namespace example
