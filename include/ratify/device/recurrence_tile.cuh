// SPDX-License-Identifier: Apache-2.0
/// A tile of one head's state in the registers of a block, and the rows that are staged for it in shared storage. For
/// kernels of your own too.
#pragma once

#include <ratify/detail/recurrence_traits.cuh>
#include <ratify/device/recurrence.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// How the threads of a block share a head's state. `block_threads` is the number of threads that the block must have.
template <class Policy, int ColumnThreads>
using recurrence_schedule = detail::recurrence_traits<Policy, ColumnThreads>;

/// The canonical NaN for any NaN. On a card arithmetic gives no other one, and the compiler may see that a maximum with
/// itself changes nothing; `canonical` would cost three instructions per element.
template <class Schedule>
RATIFY_HD inline float canonical_result(float x) {
  if constexpr (Schedule::alone)
    return detail::canonical(x);
  else
    return detail::max_rn(x, x);
}

/// One thread's part of a tile: its keys of its value columns.
template <class Schedule>
class recurrence_tile {
 public:
  static constexpr int keys = Schedule::keys, columns = Schedule::thread_columns;

  /// Tile number `number` of a head. The state is not set.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD recurrence_tile(Block const& block, int number) : first_column_(number * Schedule::columns) {
    constexpr int warp_columns = Schedule::warp_threads / Schedule::column_threads;
    int const in_warp = block.thread() % Schedule::warp_threads;
    int const group =
        block.thread() / Schedule::warp_threads * warp_columns +
        (Schedule::lane_stride == 1 ? in_warp / Schedule::column_threads : in_warp % Schedule::lane_stride);
    part_ = in_warp / Schedule::lane_stride % Schedule::column_threads;
    own_column_ = group * columns;
  }

  /// Which of a column's threads this one is: it holds the keys recurrence_key<column_threads>(n, part()).
  RATIFY_HD int part() const { return part_; }
  /// The tile's first column of the head.
  RATIFY_HD int first_column() const { return first_column_; }
  /// The thread's first column of the tile, and of the head.
  RATIFY_HD int own_column() const { return own_column_; }
  RATIFY_HD int head_column() const { return first_column_ + own_column_; }

  /// Starts from a zero state.
  RATIFY_HD void clear() {
    RATIFY_UNROLL
    for (int n = 0; n < keys; ++n) {
      RATIFY_UNROLL
      for (int c = 0; c < columns; ++c) state[n][c] = 0.0f;
    }
  }
  /// Reads the tile from a head's state in the pool.
  RATIFY_HD void read(float const* head) {
    RATIFY_UNROLL
    for (int n = 0; n < keys; ++n) {
      RATIFY_UNROLL
      for (int c = 0; c < columns; ++c) state[n][c] = head[element(n, c)];
    }
  }
  /// Writes it to one.
  RATIFY_HD void write(float* head) const {
    RATIFY_UNROLL
    for (int n = 0; n < keys; ++n) {
      RATIFY_UNROLL
      for (int c = 0; c < columns; ++c) head[element(n, c)] = canonical_result<Schedule>(state[n][c]);
    }
  }

  float state[keys][columns];
 private:
  /// Where element [n][c] lies in a head's state.
  RATIFY_HD int element(int n, int c) const {
    int const key = recurrence_key<Schedule::column_threads>(n, part_), column = head_column() + c;
    return Schedule::policy::state_layout == recurrence_layout::kv ? key * Schedule::value_dim + column
                                                                   : column * Schedule::key_dim + key;
  }

  int first_column_, own_column_, part_;
};

/// Rows in shared storage, as the threads of a block use them.
template <class Schedule>
struct recurrence_staged_rows {
  static constexpr int capacity = Schedule::staged_rows;
  alignas(16) float k[capacity][Schedule::row_floats];
  alignas(16) float q[capacity][Schedule::row_floats];
  float v[capacity][Schedule::columns];
  float decay[capacity];
  float beta[capacity];

  /// The floats of one vector: 2 t is the key of row t, 2 t + 1 its query.
  RATIFY_HD float* vector(int number) { return number % 2 == 0 ? k[number / 2] : q[number / 2]; }
  /// Where a key of a row stands among the row's floats.
  RATIFY_HD static int key_place(int key) {
    recurrence_place const at = recurrence_place_of<Schedule::column_threads>(key);
    return at.j * Schedule::part_floats + at.n;
  }
};

/// Takes a tile over `count` staged rows, and calls `each(t, u, o)` after row t with the thread's elements of beta (v -
/// k . S) and of q . S; the tile's state is the one after that row.
RATIFY_ANY_BLOCK
template <class Schedule, class Block, class Each>
RATIFY_HD inline void run_recurrence_rows(Block const& block, recurrence_staged_rows<Schedule> const& rows, int count,
                                          recurrence_tile<Schedule>& tile, Each&& each) {
  constexpr int keys = Schedule::keys, columns = Schedule::thread_columns, part_floats = Schedule::part_floats;
  for (int t = 0; t < count; ++t) {
    float k[keys], q[keys], v[columns], u[columns], o[columns];
    RATIFY_UNROLL
    for (int n = 0; n < keys; ++n) k[n] = rows.k[t][tile.part() * part_floats + n];
    RATIFY_UNROLL
    for (int n = 0; n < keys; ++n) q[n] = rows.q[t][tile.part() * part_floats + n];
    RATIFY_UNROLL
    for (int c = 0; c < columns; ++c) v[c] = rows.v[t][tile.own_column() + c];
    recurrence_row<Schedule::column_threads, Schedule::lane_stride>(block, tile.state, k, q, rows.decay[t],
                                                                    rows.beta[t], v, u, o);
    each(t, u, o);
  }
}

/// Takes a tile over `count` staged rows of which u is known already: it stands in place of v.
template <class Schedule>
RATIFY_HD inline void advance_over_rows(recurrence_staged_rows<Schedule> const& rows, int count,
                                        recurrence_tile<Schedule>& tile) {
  constexpr int keys = Schedule::keys, columns = Schedule::thread_columns, part_floats = Schedule::part_floats;
  for (int t = 0; t < count; ++t) {
    float k[keys], u[columns];
    RATIFY_UNROLL
    for (int n = 0; n < keys; ++n) k[n] = rows.k[t][tile.part() * part_floats + n];
    RATIFY_UNROLL
    for (int c = 0; c < columns; ++c) u[c] = rows.v[t][tile.own_column() + c];
    recurrence_advance(tile.state, k, rows.decay[t], u);
  }
}

}  // namespace device
RATIFY_END_NAMESPACE
