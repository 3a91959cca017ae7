// SPDX-License-Identifier: Apache-2.0
/// A verification round of one request through a hybrid language model, from token ids to accepted tokens: the memory
/// that the host shares with the device, and the launches in their order.
#pragma once

#include <common/acceptance.hpp>
#include <common/layers.hpp>

#include <cstdint>
#include <vector>

namespace example {

/// Everything a launch reads that changes from launch to launch, in one struct, so that it takes one copy to the
/// device.
/// @tparam MaxRows capacity: the most rows of any launch
/// @tparam MaxDrafts capacity: the most drafts of a round
template <int MaxRows, int MaxDrafts>
struct round_inputs {
  static constexpr int max_drafts = MaxDrafts;
  int64_t seed, position;
  float temperature, top_p;
  int32_t top_k, limit, end_token;
  int32_t query_start[2];
  int32_t context_len, slot, initial_slot;
  int32_t snapshot_slot[MaxRows];
  int32_t tokens[MaxRows], positions[MaxRows];
  int32_t drafts[MaxDrafts];
};

/// What the next round starts from: the snapshot after the last row that is kept, and the convolution window there.
/// Acceptance writes it on the device.
struct round_cursors {
  int32_t selector, kept, fresh;
};

/// Everything a round leaves for the host: one copy back.
template <int MaxDrafts>
struct round_outputs {
  int32_t tokens[MaxDrafts + 1];
  int32_t emitted, accepted, finish;
  int32_t row_status[MaxDrafts + 1];
};

/// A model and a request in memory that the kernels can reach.
template <class KvFormat, int MaxRows, int MaxDrafts>
struct round_memory {
  using inputs_type = round_inputs<MaxRows, MaxDrafts>;
  using outputs_type = round_outputs<MaxDrafts>;

  geometry shape;
  ratify::f16 const* embedding = nullptr;  ///< [vocabulary, hidden]
  std::vector<layer_view<KvFormat>> layers;
  float const* norm = nullptr;  ///< [hidden]
  /// [vocabulary, hidden], or fewer rows where the vocabulary is split over ranks.
  linear_view head;
  activations between;
  /// [shards, rows of the launch, rows of the head]. A rank writes the first shard; the others come from other ranks.
  float* logits = nullptr;
  inputs_type* inputs = nullptr;
  round_cursors* cursors = nullptr;
  outputs_type* outputs = nullptr;
  /// What does not change from launch to launch: rotary tables, cache, scales, the number of slots.
  launch_rows constant;

  /// The rows of a launch, as the inputs on the device describe them.
  launch_rows at(int rows) const {
    launch_rows r = constant;
    r.rows = rows;
    r.max_rows = MaxRows;
    r.query_start = inputs->query_start;
    r.positions = inputs->positions;
    r.context_len = &inputs->context_len;
    r.fresh = &cursors->fresh;
    r.initial_slot = &inputs->initial_slot;
    r.selector = &cursors->selector;
    r.snapshot_slot = {inputs->snapshot_slot, MaxRows};
    r.window_slot = &inputs->slot;
    r.kept = &cursors->kept;
    return r;
  }
};

/// How much of a round a launch runs: text that is only taken in needs no logits, and known text no acceptance.
enum class stop_after { layers, logits, acceptance };

/// Calls `visit(step)` for the operations of a launch in their order.
/// @tparam Operations `round_operations`, or a struct that names the same operations
template <class Operations, class Memory, class Visit>
void visit_round(Memory const& m, int rows, stop_after last, Visit&& visit) {
  geometry const& g = m.shape;
  layer_steps<Operations> const steps(g, m.between, m.at(rows));

  step<part::embedding, typename Operations::embedding> embed;
  embed.params.table = m.embedding;
  embed.params.tokens = m.inputs->tokens;
  embed.params.out = {m.between.update, g.hidden};
  embed.params.rows = rows;
  embed.params.columns = g.hidden;
  embed.params.vocab = g.vocabulary;
  visit(embed);

  for (int i = 0; i < g.layers; ++i) steps.layer(i, m.layers[static_cast<size_t>(i)], visit);
  if (last == stop_after::layers) return;

  steps.norm(-1, true, m.norm, visit);
  steps.template project<part::head>(-1, m.head, {m.between.normed, g.hidden}, {m.logits, m.head.n}, visit);
  if (last == stop_after::logits) return;

  using accept = typename Operations::acceptance;
  step<part::acceptance, accept> s;
  s.params = acceptance_of_one_request<typename accept::policy>(m.inputs, m.outputs, m.cursors);
  s.params.logits = {m.logits, m.head.n};
  s.params.shards = (g.vocabulary + m.head.n - 1) / m.head.n;
  s.params.shard_vocab = m.head.n;
  s.params.shard_stride = int64_t{rows} * m.head.n;
  s.params.draft = {m.inputs->drafts, Memory::inputs_type::max_drafts};
  s.params.rows = rows;
  s.params.vocab = g.vocabulary;
  s.params.max_drafts = Memory::inputs_type::max_drafts;
  visit(s);
}

}  // namespace example
