// SPDX-License-Identifier: Apache-2.0
/// Staging: a block loads q, k, v and gates of some rows, normalises q and k, and puts them into shared storage. For
/// kernels of your own too.
#pragma once

#include <ratify/device/activation.cuh>
#include <ratify/device/recurrence_tile.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// The gates of one row and value head.
template <class Policy>
RATIFY_HD inline gates recurrence_gates_of(recurrence_params<Policy> const& p, int row, int head) {
  if constexpr (Policy::fused_gating) {
    return gating(to_float(p.a.row(row)[head]), to_float(p.b.row(row)[head]), p.a_log[head], p.dt_bias[head]);
  } else {
    int64_t const i = int64_t{row} * p.value_heads + head;
    return {p.g[i], p.beta[i]};
  }
}

/// The key head of a value head.
template <class Policy>
RATIFY_HD inline int key_head_of(recurrence_params<Policy> const& p, int head) {
  return head / (p.value_heads / p.key_heads);
}

/// A row's key or query, as one of the threads that share it holds it.
template <class Schedule>
struct recurrence_vector {
  using params = recurrence_params<typename Schedule::policy>;

  /// Loads a row's key (`which` 0) or query (1).
  RATIFY_HD void load(params const& p, int row, int key_head, int which, int part) {
    auto const* const from = which == 0 ? p.k.at(row, key_head) : p.q.at(row, key_head);
    RATIFY_UNROLL
    for (int n = 0; n < Schedule::keys; ++n) x[n] = to_float(from[recurrence_key<Schedule::column_threads>(n, part)]);
  }
  /// Normalises it where the policy says so, unless its squares overflow. All threads of a warp call together.
  /// @return whether they do: the vector is then to be loaded again for `normalise_any`
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD bool normalise(Block const& block) {
    if constexpr (!Schedule::policy::l2norm)
      return static_cast<void>(block), false;
    else
      return recurrence_l2norm_or_overflow<Schedule::column_threads, 1>(block, x);
  }
  /// The same of a vector of any size.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD void normalise_any(Block const& block) {
    if constexpr (Schedule::policy::l2norm)
      recurrence_l2norm<Schedule::column_threads, 1>(block, x);
    else
      static_cast<void>(block);
  }
  /// Puts it where staged vector number `vector` belongs.
  RATIFY_HD void store(recurrence_staged_rows<Schedule>& rows, int vector, int part) const {
    float* const to = rows.vector(vector) + part * Schedule::part_floats;
    RATIFY_UNROLL
    for (int n = 0; n < Schedule::keys; ++n) to[n] = x[n];
  }

  float x[Schedule::keys];
};

/// Whether the sum of squares of a vector may overflow. That of 128 FP16 elements cannot.
template <class Policy>
inline constexpr bool squares_may_overflow =
    Policy::l2norm && !RATIFY_STD::is_same_v<typename Policy::input_format, f16>;

/// Stages `count` rows from row `begin` on, at most `recurrence_staged_rows::capacity`, for the tile of a value head
/// that begins at `first_column`. `keep(t, g)` is called once per row, with the log of its decay. Each thread requests
/// its values, its gate and two vectors from memory before it uses any of them, so that the latencies overlap. Ends
/// without a barrier.
RATIFY_ANY_BLOCK
template <class Schedule, class Block, class Keep>
RATIFY_HD inline void stage_recurrence_rows(Block const& block, recurrence_params<typename Schedule::policy> const& p,
                                            int begin, int count, int head, int first_column,
                                            recurrence_staged_rows<Schedule>& rows, Keep&& keep) {
  constexpr int block_threads = Schedule::block_threads, columns = Schedule::columns;
  constexpr int groups = block_threads / Schedule::column_threads, vectors = 2 * Schedule::staged_rows;
  constexpr int at_once = groups < vectors ? Schedule::tuning::vectors_at_once : 1;
  constexpr int values = Schedule::staged_rows * columns / block_threads;
  static_assert(block_threads >= Schedule::staged_rows, "ratify: one thread makes the gates of a row");
  int const thread = block.thread(), part = thread % Schedule::column_threads,
            group = thread / Schedule::column_threads;
  int const key_head = key_head_of(p, head);

  float v[values];
  gates gate{0.0f, 0.0f};
  RATIFY_UNROLL
  for (int i = 0; i < values; ++i) {
    int const at = i * block_threads + thread, t = detail::min_of(at / columns, count - 1);
    v[i] = to_float(p.v.at(begin + t, head)[first_column + at % columns]);
  }
  if (thread < count) gate = recurrence_gates_of(p, begin + thread, head);
  // Every thread takes every turn, because whole warps exchange the sums.
  bool overflows = false;
  for (int first = 0; first < 2 * count; first += groups * at_once) {
    recurrence_vector<Schedule> x[at_once];
    RATIFY_UNROLL
    for (int i = 0; i < at_once; ++i) {
      int const vector = first + i * groups + group;
      x[i].load(p, begin + detail::min_of(vector / 2, count - 1), key_head, vector % 2, part);
    }
    RATIFY_UNROLL
    for (int i = 0; i < at_once; ++i) {
      int const vector = first + i * groups + group;
      overflows = x[i].normalise(block) || overflows;
      if (vector < 2 * count) x[i].store(rows, vector, part);
    }
  }
  if constexpr (squares_may_overflow<typename Schedule::policy>) {
    if (block.ballot(overflows) != 0) {
      RATIFY_NO_UNROLL
      for (int first = 0; first < 2 * count; first += groups) {
        int const vector = first + group;
        recurrence_vector<Schedule> x;
        x.load(p, begin + detail::min_of(vector / 2, count - 1), key_head, vector % 2, part);
        x.normalise_any(block);
        if (vector < 2 * count) x.store(rows, vector, part);
      }
    }
  }
  RATIFY_UNROLL
  for (int i = 0; i < values; ++i) {
    int const at = i * block_threads + thread;
    rows.v[at / columns][at % columns] = v[i];
  }
  if (thread < count) {
    rows.decay[thread] = detail::exp_ordered(gate.g);
    rows.beta[thread] = gate.beta;
    keep(thread, gate.g);
  }
}

/// The same for a block of one thread, in two parts. First what all tiles of a head share: q, k and gates of `count`
/// rows.
RATIFY_ANY_BLOCK
template <class Schedule, class Block, class Keep>
RATIFY_HD inline void stage_recurrence_keys_alone(Block const& block,
                                                  recurrence_params<typename Schedule::policy> const& p, int begin,
                                                  int count, int head, recurrence_staged_rows<Schedule>& rows,
                                                  Keep&& keep) {
  int const key_head = key_head_of(p, head);
  for (int t = 0; t < count; ++t) {
    for (int which = 0; which < 2; ++which) {
      recurrence_vector<Schedule> x;
      x.load(p, begin + t, key_head, which, 0);
      x.normalise_any(block);
      x.store(rows, 2 * t + which, 0);
    }
    gates const gate = recurrence_gates_of(p, begin + t, head);
    keep(t, gate.g);
    rows.decay[t] = detail::exp_ordered(gate.g);
    rows.beta[t] = gate.beta;
  }
}

/// Then what each tile has of its own: the values.
template <class Schedule>
RATIFY_HD inline void stage_recurrence_values_alone(recurrence_params<typename Schedule::policy> const& p, int begin,
                                                    int count, int head, int first_column,
                                                    recurrence_staged_rows<Schedule>& rows) {
  for (int t = 0; t < count; ++t)
    for (int c = 0; c < Schedule::columns; ++c) rows.v[t][c] = to_float(p.v.at(begin + t, head)[first_column + c]);
}

}  // namespace device
RATIFY_END_NAMESPACE
