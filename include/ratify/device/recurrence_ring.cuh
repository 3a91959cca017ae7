// SPDX-License-Identifier: Apache-2.0
/// Mode replay: the rings that keep what rows did to a state, and taking a state over the kept rows again. For kernels
/// of your own too.
#pragma once

#include <ratify/device/recurrence_staging.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// One request's rings, as one value head sees them. Rows are counted from the first kept one.
template <class Policy>
class recurrence_ring {
 public:
  /// `slot`: of the pool; `start`: the place of the first kept row; `kept`: how many rows are kept
  RATIFY_HD recurrence_ring(recurrence_params<Policy> const& p, int64_t slot, int start, int kept, int head)
      : p_(p), slot_(slot), start_(start), kept_(kept), head_(head) {}

  RATIFY_HD int kept() const { return kept_; }
  /// A row's key as used [key_dim].
  RATIFY_HD float* keys(int row) const {
    return p_.ring_k.row(slot_) + (place(row) * p_.key_heads + key_head_of(p_, head_)) * Policy::key_dim;
  }
  /// A row's beta (v - k . S) [value_dim].
  RATIFY_HD float* updates(int row) const {
    return p_.ring_u.row(slot_) + (place(row) * p_.value_heads + head_) * Policy::value_dim;
  }
  /// The log of a row's decay.
  RATIFY_HD float& rate(int row) const { return p_.ring_g.row(slot_)[place(row) * p_.value_heads + head_]; }
 private:
  RATIFY_HD int64_t place(int row) const { return (start_ + row) & (p_.ring_places - 1); }

  recurrence_params<Policy> const& p_;
  int64_t slot_;
  int start_, kept_, head_;
};

/// Takes a tile over the kept rows of a ring; `rows` is shared storage to work in. While one piece of a few rows is
/// used from there, the next one is on its way from memory. Begins and ends without a barrier.
RATIFY_ANY_BLOCK
template <class Schedule, class Block>
RATIFY_HD inline void replay_kept_rows(Block const& block, recurrence_ring<typename Schedule::policy> const& ring,
                                       recurrence_staged_rows<Schedule>& rows, recurrence_tile<Schedule>& tile) {
  constexpr int piece = Schedule::ring_rows, key_dim = Schedule::key_dim, columns = Schedule::columns;
  constexpr int block_threads = Schedule::block_threads;
  constexpr int key_loads = piece * key_dim / block_threads,
                value_loads = detail::ceil_div(piece * columns, block_threads);
  static_assert(piece >= 1 && piece * key_dim % block_threads == 0,
                "ratify: the keys of a piece are shared out evenly");
  static_assert(block_threads >= piece, "ratify: one thread makes the decay of a row");
  int const thread = block.thread(), kept = ring.kept();
  float k[key_loads], u[value_loads], g = 0.0f;
  auto const load = [&](int first) {
    int const last = kept - 1;
    RATIFY_UNROLL
    for (int i = 0; i < key_loads; ++i) {
      int const at = i * block_threads + thread;
      k[i] = ring.keys(detail::min_of(first + at / key_dim, last))[at % key_dim];
    }
    RATIFY_UNROLL
    for (int i = 0; i < value_loads; ++i) {
      int const at = i * block_threads + thread;
      u[i] = ring.updates(detail::min_of(first + at / columns, last))[tile.first_column() + at % columns];
    }
    if (thread < piece) g = ring.rate(detail::min_of(first + thread, last));
  };
  if (kept > 0) load(0);
  for (int first = 0; first < kept; first += piece) {
    if (first > 0) block.barrier();
    RATIFY_UNROLL
    for (int i = 0; i < key_loads; ++i) {
      int const at = i * block_threads + thread;
      rows.k[at / key_dim][rows.key_place(at % key_dim)] = k[i];
    }
    RATIFY_UNROLL
    for (int i = 0; i < value_loads; ++i) {
      int const at = i * block_threads + thread;
      if (at < piece * columns) rows.v[at / columns][at % columns] = u[i];
    }
    if (thread < piece) rows.decay[thread] = detail::exp_ordered(g);
    block.barrier();
    if (first + piece < kept) load(first + piece);
    advance_over_rows(rows, detail::min_of(kept - first, piece), tile);
  }
}

/// The same by a block of one thread. `decay` [64] is memory to work in, which the first tile of a head fills for all.
template <class Schedule>
RATIFY_HD inline void replay_kept_rows_alone(recurrence_ring<typename Schedule::policy> const& ring, float* decay,
                                             recurrence_tile<Schedule>& tile) {
  for (int row = 0; row < ring.kept(); ++row) {
    if (tile.first_column() == 0) decay[row] = detail::exp_ordered(ring.rate(row));
    float const* const from_k = ring.keys(row);
    float const* const from_u = ring.updates(row) + tile.first_column();
    float k[Schedule::keys], u[Schedule::thread_columns];
    for (int n = 0; n < Schedule::keys; ++n) k[n] = from_k[n];
    for (int c = 0; c < Schedule::thread_columns; ++c) u[c] = from_u[c];
    recurrence_advance(tile.state, k, decay[row], u);
  }
}

/// Puts the keys of `count` staged rows, as used, into a ring, from row `first` on.
RATIFY_ANY_BLOCK
template <class Schedule, class Block>
RATIFY_HD inline void keep_keys(Block const& block, recurrence_staged_rows<Schedule> const& rows, int count,
                                recurrence_ring<typename Schedule::policy> const& ring, int first) {
  for (int t = 0; t < count; ++t) {
    float* const to = ring.keys(first + t);
    for (int key = block.thread(); key < Schedule::key_dim; key += Schedule::block_threads)
      to[key] = detail::canonical(rows.k[t][rows.key_place(key)]);
  }
}

}  // namespace device
RATIFY_END_NAMESPACE
