// SPDX-License-Identifier: Apache-2.0
/// Rounds in which attention and recurrence of every layer run under a second policy too, on the same operands, so that
/// what differs can be counted while the first policy drives.
#pragma once

#include <common/round.hpp>
#include <ratify/shadow.cuh>

#include <cstddef>
#include <cstring>

namespace example {

/// The largest difference between driver and shadow that a record has seen.
inline double largest_error(ratify::shadow_record const& record) {
  float error = 0;
  std::memcpy(&error, &record.largest_error, sizeof error);
  return static_cast<double>(error);
}

/// Where the shadow writes what the driver writes elsewhere: the outputs of one layer, and a pool of states.
struct spare_tensors {
  float* attended = nullptr;        ///< [rows, q_heads, head_dim]
  ratify::f16* read_out = nullptr;  ///< [rows, value_heads, value_dim]
  float* states = nullptr;          ///< [state_slots, value_heads, key_dim, value_dim]
};

/// Launches one step; the steps of attention and recurrence together with those of `Shadow`, and what differs is added
/// to the record of the layer.
/// @tparam Shadow names the shadow's operations as `round_operations` does
/// @param records one per layer
template <class Shadow, part Where, class Operation, class Memory, class Executor>
ratify::status launch_shadowed(step<Where, Operation> const& s, Memory const& m, spare_tensors const& spare,
                               ratify::shadow_record* records, ratify::workspace scratch, Executor& on) {
  auto const& p = s.params;
  if constexpr (Where == part::attention || Where == part::recurrence) {
    layer_steps<Shadow> const shadow(m.shape, m.between, m.at(p.rows));
    auto const& layer = m.layers[static_cast<size_t>(s.layer)];
    ratify::shadow_record* const record = records + s.layer;
    if constexpr (Where == part::attention) {
      auto q = shadow.attention_params(layer);
      q.out.data = spare.attended;
      ratify::shadow_tensor<float> const out{
          {p.out.data, p.out.row_stride}, {q.out.data, q.out.row_stride}, p.rows, m.shape.q_width()};
      return ratify::shadow<Operation, typename Shadow::attention>::launch(p, q, scratch, record, on, out);
    } else {
      auto q = shadow.recurrence_params(layer);
      q.out.data = spare.read_out;
      q.state_pool = spare.states;
      ratify::shadow_tensor<ratify::f16> const out{
          {p.out.data, p.out.row_stride}, {q.out.data, q.out.row_stride}, p.rows, m.shape.gdn_values()};
      ratify::shadow_tensor<float> const states{{p.state_pool, p.slot_stride},
                                                {q.state_pool, q.slot_stride},
                                                static_cast<int>(p.pool_slots),
                                                p.slot_stride,
                                                true};
      return ratify::shadow<Operation, typename Shadow::recurrence>::launch(p, q, scratch, record, on, out, states);
    }
  } else {
    return Operation::launch(p, scratch, on);
  }
}

}  // namespace example
