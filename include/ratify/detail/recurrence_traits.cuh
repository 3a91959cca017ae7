// SPDX-License-Identifier: Apache-2.0
/// Parameters, derived sizes and support rules of the gated delta rule.
#pragma once

#include <ratify/detail/meta.hpp>
#include <ratify/recurrence_policy.hpp>
#include <ratify/status.hpp>
#include <ratify/views.hpp>

#define RATIFY_RECURRENCE_RULES(RULE)                                                                                  \
  RULE(policy, (RATIFY_STD::is_base_of_v<recurrence_policy, Policy>),                                                  \
       "ratify::recurrence: the policy must derive from ratify::recurrence_policy")                                    \
  RULE(input_format, (detail::is_one_of_v<typename Policy::input_format, float, f16, bf16>),                           \
       "ratify::recurrence: input_format must be float, f16 or bf16")                                                  \
  RULE(output_format, (detail::is_one_of_v<typename Policy::output_format, float, f16, bf16>),                         \
       "ratify::recurrence: output_format must be float, f16 or bf16")                                                 \
  RULE(key_dim, (Policy::key_dim == 64 || Policy::key_dim == 128),                                                     \
       "ratify::recurrence: key_dim must be 64 or 128 elements")                                                       \
  RULE(value_dim, (Policy::value_dim == 64 || Policy::value_dim == 128),                                               \
       "ratify::recurrence: value_dim must be 64 or 128 elements")                                                     \
  RULE(mode,                                                                                                           \
       (Policy::mode == recurrence_mode::snapshots || Policy::mode == recurrence_mode::replay ||                       \
        Policy::mode == recurrence_mode::read),                                                                        \
       "ratify::recurrence: mode must be recurrence_mode::snapshots, replay or read")                                  \
  RULE(a_format, (detail::is_one_of_v<typename Policy::a_format, float, f16, bf16>),                                   \
       "ratify::recurrence: a_format must be float, f16 or bf16")                                                      \
  RULE(b_format, (detail::is_one_of_v<typename Policy::b_format, float, f16, bf16>),                                   \
       "ratify::recurrence: b_format must be float, f16 or bf16")                                                      \
  RULE(state_layout, (Policy::state_layout == recurrence_layout::kv || Policy::state_layout == recurrence_layout::vk), \
       "ratify::recurrence: state_layout must be recurrence_layout::kv or vk")                                         \
  RULE(value_block,                                                                                                    \
       (Policy::value_block == 2 || Policy::value_block == 4 || Policy::value_block == 8 ||                            \
        Policy::value_block == 16 || Policy::value_block == 32),                                                       \
       "ratify::recurrence: value_block must be 2, 4, 8, 16 or 32 value columns")                                      \
  RULE(column_threads,                                                                                                 \
       (Policy::column_threads == 0 || Policy::column_threads == 1 || Policy::column_threads == 4 ||                   \
        Policy::column_threads == 8),                                                                                  \
       "ratify::recurrence: column_threads must be 0, 1, 4 or 8; 0 chooses")

#define RATIFY_RECURRENCE_LAUNCH_RULES(RULE)                                                                   \
  RULE(rows, (p.rows >= 0), "ratify::recurrence: rows must not be negative")                                   \
  RULE(requests, (p.requests >= (p.rows > 0 ? 1 : 0) && p.requests <= 65535),                                  \
       "ratify::recurrence: requests must be 1 to 65535 (0 where there are no rows)")                          \
  RULE(key_heads, (p.key_heads >= 1), "ratify::recurrence: key_heads must be at least 1")                      \
  RULE(value_heads, (p.value_heads >= 1 && p.value_heads <= 65535 && p.value_heads % p.key_heads == 0),        \
       "ratify::recurrence: value_heads must be a multiple of key_heads, at most 65535")                       \
  RULE(max_rows, (p.max_rows >= 1 && p.max_rows <= 32),                                                        \
       "ratify::recurrence: max_rows must be 1 to 32 rows a request; split longer runs into several launches") \
  RULE(slot_stride, (p.slot_stride >= int64_t{p.value_heads} * Policy::key_dim * Policy::value_dim),           \
       "ratify::recurrence: slot_stride must be at least value_heads * key_dim * value_dim elements")          \
  RULE(selectors, (p.rows <= 0 || detail::has_selectors(p)),                                                   \
       "ratify::recurrence: a selector is missing; mode snapshots takes initial_slot, selector and "           \
       "snapshot_slot, mode replay slot, ring_start, ring_count and flush, mode read initial_slot")            \
  RULE(gates, (p.rows <= 0 || detail::has_gates(p)),                                                           \
       "ratify::recurrence: gates are missing; give g and beta, with fused_gating a, b, a_log and dt_bias")    \
  RULE(rings, (p.rows <= 0 || detail::has_rings(p)),                                                           \
       "ratify::recurrence: mode replay needs ring_k, ring_u and ring_g")                                      \
  RULE(ring_places, (detail::has_ring_places(p)), "ratify::recurrence: ring_places must be 16, 32 or 64")      \
  RULE(ring_room, (detail::has_ring_room(p)),                                                                  \
       "ratify::recurrence: ring_places must be at least 2 * max_rows; take a longer ring or fewer rows")      \
  RULE(ring_strides, (detail::has_ring_strides(p)),                                                            \
       "ratify::recurrence: ring strides must be at least ring_places * key_heads * key_dim (ring_k), "        \
       "ring_places * value_heads * value_dim (ring_u) and ring_places * value_heads (ring_g) elements")

RATIFY_BEGIN_NAMESPACE

/// What a launch needs to know of the states it starts from and keeps: another set in each mode.
template <recurrence_mode Mode>
struct recurrence_states;

template <>
struct recurrence_states<recurrence_mode::snapshots> {
  int32_t const* initial_slot = nullptr;   ///< [requests], -1: retired
  int32_t const* selector = nullptr;       ///< [requests], 0: initial_slot; s: snapshot_slot[s - 1]
  rows_view<int32_t const> snapshot_slot;  ///< [requests, T], -1: not written
};

template <>
struct recurrence_states<recurrence_mode::replay> {
  int32_t const* slot = nullptr;        ///< [requests], -1: retired; of the state and of the rings
  int32_t const* ring_start = nullptr;  ///< [requests], 0 to R - 1: the place of the first kept row
  int32_t const* ring_count = nullptr;  ///< [requests], 0 to R - rows: kept rows since the state in the pool
  int32_t const* flush = nullptr;       ///< [requests], 1: the state after the kept rows goes to the pool
  rows_view<float> ring_k;              ///< [slots, R, H, K], dense inside a slot: keys as used
  rows_view<float> ring_u;              ///< [slots, R, HV, V], dense inside a slot: beta (v - k^T S)
  rows_view<float> ring_g;              ///< [slots, R, HV], dense inside a slot
  int ring_places = 0;                  ///< R: 16, 32 or 64, at least 2 T
};

template <>
struct recurrence_states<recurrence_mode::read> {
  int32_t const* initial_slot = nullptr;  ///< [requests], -1: retired
};

/// The gates of each row, or what they are made of.
template <class Policy, bool Fused = Policy::fused_gating>
struct recurrence_gates {
  float const* g = nullptr;     ///< [rows, HV] dense, log of the decay
  float const* beta = nullptr;  ///< [rows, HV] dense
};

template <class Policy>
struct recurrence_gates<Policy, true> {
  rows_view<typename Policy::a_format const> a;  ///< [rows, HV]
  rows_view<typename Policy::b_format const> b;  ///< [rows, HV]
  float const* a_log = nullptr;                  ///< [HV]
  float const* dt_bias = nullptr;                ///< [HV]
};

/// One launch of `recurrence`; with the members of `recurrence_states` for the policy's mode and of `recurrence_gates`.
/// Every pointer is the caller's; strides are in elements. H = key_heads, HV = value_heads, K = key_dim,
/// V = value_dim, T = max_rows.
template <class Policy>
struct recurrence_params : recurrence_states<Policy::mode>, recurrence_gates<Policy> {
  using input_format = typename Policy::input_format;
  heads_view<input_format const> q;                ///< [rows, H, K]; q, k and v may lie in one row of any stride
  heads_view<input_format const> k;                ///< [rows, H, K]
  heads_view<input_format const> v;                ///< [rows, HV, V]
  float* state_pool = nullptr;                     ///< [slots, HV, K, V] or [slots, HV, V, K] (state_layout)
  int64_t slot_stride = 0;                         ///< elements from slot to slot, at least HV * K * V
  int32_t const* query_start = nullptr;            ///< [requests + 1]
  int32_t const* fresh = nullptr;                  ///< [requests] or nullptr, 1: the state is zero, and so must be
                                                   ///< selector or ring_count
  heads_view<typename Policy::output_format> out;  ///< [rows, HV, V]
  int rows = 0;
  int requests = 0;
  int key_heads = 0;
  int value_heads = 0;
  int max_rows = 0;                  ///< T, most rows of one request, at most 32
  float scale = 1.0f;                ///< of the output, usually K^-0.5
  int64_t slots = int64_t{1} << 31;  ///< slots in the pool and rings; an index at or past it is refused on the device
};

namespace detail {

template <class Policy>
RATIFY_HD constexpr bool has_selectors(recurrence_params<Policy> const& p) {
  if constexpr (Policy::mode == recurrence_mode::snapshots)
    return p.initial_slot != nullptr && p.selector != nullptr && p.snapshot_slot.data != nullptr;
  else if constexpr (Policy::mode == recurrence_mode::replay)
    return p.slot != nullptr && p.ring_start != nullptr && p.ring_count != nullptr && p.flush != nullptr;
  else
    return p.initial_slot != nullptr;
}

template <class Policy>
RATIFY_HD constexpr bool has_gates(recurrence_params<Policy> const& p) {
  if constexpr (Policy::fused_gating)
    return p.a.data != nullptr && p.b.data != nullptr && p.a_log != nullptr && p.dt_bias != nullptr;
  else
    return p.g != nullptr && p.beta != nullptr;
}

template <class Policy>
RATIFY_HD constexpr bool has_rings(recurrence_params<Policy> const& p) {
  if constexpr (Policy::mode == recurrence_mode::replay)
    return p.ring_k.data != nullptr && p.ring_u.data != nullptr && p.ring_g.data != nullptr;
  else
    return true;
}

template <class Policy>
RATIFY_HD constexpr bool has_ring_places(recurrence_params<Policy> const& p) {
  if constexpr (Policy::mode == recurrence_mode::replay)
    return p.ring_places == 16 || p.ring_places == 32 || p.ring_places == 64;
  else
    return true;
}

template <class Policy>
RATIFY_HD constexpr bool has_ring_room(recurrence_params<Policy> const& p) {
  if constexpr (Policy::mode == recurrence_mode::replay)
    return p.ring_places >= 2 * p.max_rows;
  else
    return true;
}

template <class Policy>
RATIFY_HD constexpr bool has_ring_strides(recurrence_params<Policy> const& p) {
  if constexpr (Policy::mode == recurrence_mode::replay)
    return p.ring_k.stride >= int64_t{p.ring_places} * p.key_heads * Policy::key_dim &&
           p.ring_u.stride >= int64_t{p.ring_places} * p.value_heads * Policy::value_dim &&
           p.ring_g.stride >= int64_t{p.ring_places} * p.value_heads;
  else
    return true;
}

template <class Policy>
struct recurrence_support {
  static constexpr bool value = true RATIFY_RECURRENCE_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static constexpr char const* reason(recurrence_params<Policy> const& p) {
    RATIFY_RECURRENCE_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

/// How one schedule cuts a head. With 4 or 8 threads a column, a thread holds 2 lanes or 1 of it and a block `columns`
/// = value_block of them. With 1, a thread holds all lanes of 32 columns, which a CPU turns into vectors, and goes
/// through the whole head, so that q and k are normalised once.
template <class Policy, int ColumnThreads>
struct recurrence_traits {
  static constexpr int key_dim = Policy::key_dim;
  static constexpr int value_dim = Policy::value_dim;
  static constexpr bool alone = ColumnThreads == 1;
  /// Columns that a block, and that a thread, holds at a time.
  static constexpr int columns = alone ? 32 : Policy::value_block;
  static constexpr int thread_columns = alone ? columns : 1;
  static constexpr int block_threads = ColumnThreads * columns / thread_columns;
  static constexpr int warp_threads = min_of(block_threads, 32);
  /// How many times `columns` one block goes through.
  static constexpr int tiles = alone ? value_dim / columns : 1;
  /// Rows of q, k and v in shared storage at a time.
  static constexpr int chunk_rows = alone ? 32 : 8;
  /// Rows of a ring in shared storage at a time: a thread holds at most 32 elements of the next ones' keys.
  static constexpr int ring_rows = min_of(8, 32 * block_threads / key_dim);
  /// Threads between neighbouring lanes of a column: such that neighbouring threads touch neighbouring elements.
  static constexpr int lane_stride =
      alone || Policy::state_layout == recurrence_layout::vk ? 1 : warp_threads / ColumnThreads;
};

}  // namespace detail

RATIFY_END_NAMESPACE
