// SPDX-License-Identifier: Apache-2.0
/// Parameters of one launch of the gated delta rule. Which members there are depends on the policy's mode and on
/// whether it fuses gating.
#pragma once

#include <ratify/recurrence_policy.hpp>
#include <ratify/views.hpp>

RATIFY_BEGIN_NAMESPACE

// In this file H is key_heads, HV value_heads, K the policy's key_dim, V its value_dim, T max_rows and R ring_places.

/// What a launch is told of the states it starts from and keeps: another set of members in each mode.
template <recurrence_mode Mode>
struct recurrence_states;

template <>
struct recurrence_states<recurrence_mode::snapshots> {
  /// [requests]: the slot that a request starts from where its selector is 0. -1 retires the request.
  int32_t const* initial_slot = nullptr;
  /// [requests], 0 to snapshot_sets * T. s >= 1: the request starts from the slot that entry s - 1 of its row of
  /// snapshot_slot names.
  int32_t const* selector = nullptr;
  /// [requests, snapshot_sets * T]: slots for the states after rows 0, 1, ... of a request; -1: that state is not kept.
  rows_view<int32_t const> snapshot_slot;
  /// 1 or 2. With two sets of T slots each, a launch writes the set that its selector does not name (the first one
  /// where the selector is 0), so that the state it started from stays until a row of the launch has been kept.
  int snapshot_sets = 1;
};

template <>
struct recurrence_states<recurrence_mode::replay> {
  int32_t const* slot = nullptr;        ///< [requests]: of the state and of the rings; -1 retires the request
  int32_t const* ring_start = nullptr;  ///< [requests], 0 to R - 1: the place of the first kept row
  int32_t const* ring_count = nullptr;  ///< [requests], 0 to R - rows: kept rows since the state in the pool
  int32_t const* flush = nullptr;       ///< [requests], 0 or 1. 1: the state after the kept rows goes to the pool
  rows_view<float> ring_k;              ///< [pool_slots, R, H, K], dense inside a slot: keys as used
  rows_view<float> ring_u;              ///< [pool_slots, R, HV, V], dense inside a slot: beta (v - k^T S)
  rows_view<float> ring_g;              ///< [pool_slots, R, HV], dense inside a slot: log of the decay
  int ring_places = 0;                  ///< R: 16, 32 or 64, and at least 2 T
};

template <>
struct recurrence_states<recurrence_mode::read> {
  int32_t const* initial_slot = nullptr;  ///< [requests]: the slot that a request starts from; -1 retires the request
};

/// The gates of each row, or what they are made of.
template <class Policy, bool Fused = Policy::fused_gating>
struct recurrence_gates {
  float const* g = nullptr;     ///< [rows, HV] dense: log of the decay
  float const* beta = nullptr;  ///< [rows, HV] dense
};

template <class Policy>
struct recurrence_gates<Policy, true> {
  rows_view<typename Policy::a_format const> a;  ///< [rows, HV]
  rows_view<typename Policy::b_format const> b;  ///< [rows, HV]
  float const* a_log = nullptr;                  ///< [HV]
  float const* dt_bias = nullptr;                ///< [HV]
};

/// One launch of `recurrence`, with the members of `recurrence_states` for the policy's mode and those of
/// `recurrence_gates`. Every pointer is the caller's memory that the executor can reach; contents of all tensors are
/// read by the kernel, so that a captured graph replays with new slots, selectors and lengths. All tensors are required
/// unless called optional. Strides are in elements of the tensor, the innermost extent is dense.
///
/// @tparam Policy `recurrence_policy<Knobs...>`
template <class Policy>
struct recurrence_params : recurrence_states<Policy::mode>, recurrence_gates<Policy> {
  using input_format = typename Policy::input_format;

  /// [rows, H, K]. q, k and v may lie in one row of any stride.
  heads_view<input_format const> q;
  heads_view<input_format const> k;  ///< [rows, H, K]
  heads_view<input_format const> v;  ///< [rows, HV, V]
  /// [pool_slots, HV, K, V], or [pool_slots, HV, V, K] with state_layout vk; dense inside a slot.
  float* state_pool = nullptr;
  int64_t slot_stride = 0;  ///< elements from slot to slot of state_pool
  int32_t const* query_start =
      nullptr;  ///< [requests + 1]: request r has rows query_start[r] to query_start[r + 1] - 1
  /// [requests], optional. 1: the request starts from a zero state, and its selector or ring_count must be 0.
  int32_t const* fresh = nullptr;
  /// [rows, HV, V]
  heads_view<typename Policy::output_format> out;
  int rows = 0;            ///< of all requests: the extent of q, k, v, the gates and out
  int requests = 0;        ///< at most 65535
  int key_heads = 0;       ///< H
  int value_heads = 0;     ///< HV, a multiple of H, at most 65535. Value head h uses key head h / (HV / H)
  int max_rows = 0;        ///< capacity T: most rows of one request, 1 to 32
  float scale = 1.0f;      ///< factor of the output, usually K^-0.5; finite and not 0
  int64_t pool_slots = 0;  ///< slots that state_pool and the rings hold
};

RATIFY_END_NAMESPACE
