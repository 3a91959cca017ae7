// SPDX-License-Identifier: Apache-2.0
/// Launch rules of the gated delta rule, and how its kernel cuts a head.
#pragma once

#include <ratify/detail/extents.hpp>
#include <ratify/detail/recurrence_tuning.hpp>
#include <ratify/recurrence_params.hpp>
#include <ratify/status.hpp>

#define RATIFY_RECURRENCE_SHAPE_RULES(INVALID, UNSUPPORTED)                                                      \
  INVALID(rows, (p.rows >= 0 && p.requests >= 0), "ratify::recurrence: rows and requests must not be negative")  \
  INVALID(requests, (p.rows == 0 || p.requests > 0),                                                             \
          "ratify::recurrence: requests must be at least 1 if there are rows")                                   \
  UNSUPPORTED(most_requests, (p.requests <= 65535), "ratify::recurrence: requests must be at most 65535")        \
  INVALID(heads, (p.key_heads > 0 && p.value_heads > 0 && p.value_heads % p.key_heads == 0),                     \
          "ratify::recurrence: value_heads must be a positive multiple of key_heads")                            \
  UNSUPPORTED(most_heads, (p.value_heads <= 65535), "ratify::recurrence: value_heads must be at most 65535")     \
  INVALID(max_rows, (p.max_rows > 0),                                                                            \
          "ratify::recurrence: max_rows, the most rows of one request, must be at least 1")                      \
  UNSUPPORTED(most_rows, (p.max_rows <= 32),                                                                     \
              "ratify::recurrence: max_rows must be at most 32; split longer runs into several launches")        \
  INVALID(pool_slots, (p.pool_slots >= 0), "ratify::recurrence: pool_slots must not be negative")                \
  INVALID(slots_given, (p.rows == 0 || p.pool_slots > 0),                                                        \
          "ratify::recurrence: pool_slots, the slots that the pool holds, must be at least 1 if there are rows") \
  INVALID(scale, (p.rows == 0 || is_finite_scale(p.scale)), "ratify::recurrence: scale must be finite and not 0")

#define RATIFY_RECURRENCE_TENSOR_RULES(INVALID, UNSUPPORTED)                                             \
  RATIFY_REQUIRED_VIEW(INVALID, "recurrence", q, p.rows, p.key_heads, Policy::key_dim)                   \
  RATIFY_REQUIRED_VIEW(INVALID, "recurrence", k, p.rows, p.key_heads, Policy::key_dim)                   \
  RATIFY_REQUIRED_VIEW(INVALID, "recurrence", v, p.rows, p.value_heads, Policy::value_dim)               \
  RATIFY_REQUIRED_ARRAY(INVALID, "recurrence", state_pool)                                               \
  INVALID(slot_stride, (p.pool_slots == 1 || p.slot_stride >= recurrence_state_elements(p)),             \
          "ratify::recurrence: slot_stride must be at least value_heads * key_dim * value_dim elements") \
  INVALID(slot_stride_far, (detail::is_in_memory<float>(recurrence_pool_span(p))),                       \
          "ratify::recurrence: the strides of state_pool reach over 2^63 bytes")                         \
  RATIFY_REQUIRED_ARRAY(INVALID, "recurrence", query_start)                                              \
  RATIFY_OPTIONAL_ARRAY(INVALID, "recurrence", fresh)                                                    \
  RATIFY_REQUIRED_VIEW(INVALID, "recurrence", out, p.rows, p.value_heads, Policy::value_dim)             \
  INVALID(in_place, (detail::are_apart({p.out.data}, {p.q.data, p.k.data, p.v.data, p.state_pool})),     \
          "ratify::recurrence: out must not be q, k, v or state_pool")

// One of three, by the policy's mode.
#define RATIFY_RECURRENCE_SNAPSHOTS_TENSOR_RULES(INVALID, UNSUPPORTED)   \
  INVALID(snapshot_sets, (p.snapshot_sets == 1 || p.snapshot_sets == 2), \
          "ratify::recurrence: snapshot_sets must be 1 or 2")            \
  RATIFY_REQUIRED_ARRAY(INVALID, "recurrence", initial_slot)             \
  RATIFY_REQUIRED_ARRAY(INVALID, "recurrence", selector)                 \
  RATIFY_REQUIRED_VIEW(INVALID, "recurrence", snapshot_slot, p.requests, p.snapshot_sets* p.max_rows)
#define RATIFY_RECURRENCE_REPLAY_TENSOR_RULES(INVALID, UNSUPPORTED)                                              \
  INVALID(ring_places_given, (p.ring_places > 0), "ratify::recurrence: ring_places must be at least 1")          \
  UNSUPPORTED(ring_places, (p.ring_places == 16 || p.ring_places == 32 || p.ring_places == 64),                  \
              "ratify::recurrence: ring_places must be 16, 32 or 64")                                            \
  UNSUPPORTED(ring_room, (p.ring_places >= 2 * p.max_rows),                                                      \
              "ratify::recurrence: ring_places must be at least 2 * max_rows; take a longer ring or fewer rows") \
  RATIFY_REQUIRED_ARRAY(INVALID, "recurrence", slot)                                                             \
  RATIFY_REQUIRED_ARRAY(INVALID, "recurrence", ring_start)                                                       \
  RATIFY_REQUIRED_ARRAY(INVALID, "recurrence", ring_count)                                                       \
  RATIFY_REQUIRED_ARRAY(INVALID, "recurrence", flush)                                                            \
  RATIFY_REQUIRED_VIEW(INVALID, "recurrence", ring_k, p.pool_slots,                                              \
                       int64_t{p.ring_places} * p.key_heads * Policy::key_dim)                                   \
  RATIFY_REQUIRED_VIEW(INVALID, "recurrence", ring_u, p.pool_slots,                                              \
                       int64_t{p.ring_places} * p.value_heads * Policy::value_dim)                               \
  RATIFY_REQUIRED_VIEW(INVALID, "recurrence", ring_g, p.pool_slots, int64_t{p.ring_places} * p.value_heads)
#define RATIFY_RECURRENCE_READ_TENSOR_RULES(INVALID, UNSUPPORTED) \
  RATIFY_REQUIRED_ARRAY(INVALID, "recurrence", initial_slot)

// One of two, by the policy's fused_gating.
#define RATIFY_RECURRENCE_GATES_TENSOR_RULES(INVALID, UNSUPPORTED) \
  RATIFY_REQUIRED_ARRAY(INVALID, "recurrence", g)                  \
  RATIFY_REQUIRED_ARRAY(INVALID, "recurrence", beta)
#define RATIFY_RECURRENCE_FUSED_TENSOR_RULES(INVALID, UNSUPPORTED)      \
  RATIFY_REQUIRED_VIEW(INVALID, "recurrence", a, p.rows, p.value_heads) \
  RATIFY_REQUIRED_VIEW(INVALID, "recurrence", b, p.rows, p.value_heads) \
  RATIFY_REQUIRED_ARRAY(INVALID, "recurrence", a_log)                   \
  RATIFY_REQUIRED_ARRAY(INVALID, "recurrence", dt_bias)

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Elements of one slot of the pool.
template <class Policy>
RATIFY_HD constexpr int64_t recurrence_state_elements(recurrence_params<Policy> const& p) {
  return int64_t{p.value_heads} * Policy::key_dim * Policy::value_dim;
}

/// Elements from the first to the last one of the pool, see `span_of`.
template <class Policy>
RATIFY_HD constexpr int64_t recurrence_pool_span(recurrence_params<Policy> const& p) {
  strided_extent const dimensions[] = {{p.slot_stride, p.pool_slots}};
  return span_of(recurrence_state_elements(p), dimensions);
}

template <class Policy>
RATIFY_HD status launch_rules(recurrence_params<Policy> const& p) {
  RATIFY_RECURRENCE_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_RECURRENCE_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if constexpr (Policy::mode == recurrence_mode::snapshots) {
    RATIFY_RECURRENCE_SNAPSHOTS_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  } else if constexpr (Policy::mode == recurrence_mode::replay) {
    RATIFY_RECURRENCE_REPLAY_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  } else {
    RATIFY_RECURRENCE_READ_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  }
  if constexpr (Policy::fused_gating) {
    RATIFY_RECURRENCE_FUSED_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  } else {
    RATIFY_RECURRENCE_GATES_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  }
  return {};
}

/// Threads that share a value column on a card.
template <class Policy>
inline constexpr int recurrence_card_threads = Policy::column_threads > 1
                                                   ? Policy::column_threads
                                                   : recurrence_tuning::column_threads(Policy::state_layout);
/// And on the host.
template <class Policy>
inline constexpr int recurrence_host_threads = Policy::column_threads > 0 ? Policy::column_threads : 1;

/// How the threads of a block share a head. With 4 or 8 threads per column, each holds 2 lanes or 1 of its column, and
/// a block holds value_block columns. With 1 thread per column, the one thread of the block holds all lanes of 32
/// columns, which a CPU turns into vectors, and goes through the whole head, so that q and k are normalised once.
template <class Policy, int ColumnThreads>
struct recurrence_traits {
  using policy = Policy;
  using tuning = recurrence_tuning;
  static constexpr int column_threads = ColumnThreads;
  static constexpr int key_dim = Policy::key_dim;
  static constexpr int value_dim = Policy::value_dim;
  static constexpr bool alone = ColumnThreads == 1;
  static constexpr bool keeps_snapshots = Policy::mode == recurrence_mode::snapshots;
  static constexpr bool replays = Policy::mode == recurrence_mode::replay;

  /// Columns that a block, and that a thread, holds at a time: a tile.
  static constexpr int columns = alone ? tuning::host_columns : Policy::value_block;
  static constexpr int thread_columns = alone ? columns : 1;
  /// Keys of a column that a thread holds.
  static constexpr int keys = key_dim / ColumnThreads;
  static constexpr int block_threads = ColumnThreads * columns / thread_columns;
  static constexpr int warp_threads = min_of(block_threads, 32);
  /// Tiles that one block goes through, and blocks of a head.
  static constexpr int tiles = alone ? value_dim / columns : 1;
  static constexpr int blocks = value_dim / (columns * tiles);
  /// Rows of q, k and v in shared storage at a time.
  static constexpr int staged_rows = alone ? 32 : tuning::staged_rows;
  /// Rows of a ring in shared storage at a time.
  static constexpr int ring_rows = min_of(tuning::ring_rows, tuning::ring_elements* block_threads / key_dim);
  /// Threads between neighbouring lanes of a column: such that neighbouring threads touch neighbouring elements.
  static constexpr int lane_stride =
      alone || Policy::state_layout == recurrence_layout::vk ? 1 : warp_threads / ColumnThreads;

  /// Floats of a thread's keys in shared storage, and of a row of them: the four between threads put the 16-byte reads
  /// of eight threads into different banks.
  static constexpr int part_floats = alone ? keys : keys + 4;
  static constexpr int row_floats = part_floats * ColumnThreads;
};

}  // namespace detail
RATIFY_END_NAMESPACE
