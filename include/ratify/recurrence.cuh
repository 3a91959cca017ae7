// SPDX-License-Identifier: Apache-2.0
/// The gated delta rule over the rows of a round, with a snapshot of the state after each row, or with a checkpoint and
/// what each row did to it. FP32 inside, ordered: the same bits on every executor, in every mode, for every schedule
/// knob, batch, stride and number of rows a launch.
/// docs/arithmetic.md states the order.
#pragma once

#include <ratify/detail/machine/launch.cuh>
#include <ratify/detail/recurrence_kernels.cuh>

RATIFY_BEGIN_NAMESPACE

template <class Policy>
inline constexpr bool is_supported_recurrence = detail::recurrence_support<Policy>::value;

#if !defined(__CUDACC_RTC__)

/// Per row and value head, with key head = value head / (value_heads / key_heads):
///
///   S = exp(g) S;  u = beta (v - k^T S);  S = S + k u^T;  out = scale q^T S
///
/// Mode snapshots: the state after row t of a request goes to slot snapshot_slot[t] of the pool (-1: it is not kept).
/// The next round names in `selector` how many of those rows were kept, s, and starts from snapshot_slot[s - 1]; the
/// slot it starts from may be among those it writes.
///
/// Mode replay: the pool holds a checkpoint, and rings of R places what the rows since then did: their k as used, u and
/// g. The kept ones, ring_count of them, stand at places (ring_start + j) mod R. A launch takes the state over them
/// (S = exp(g) S + k u^T: no sum, the original rows' bits), writes it to the pool only where flush is 1, and puts k, u
/// and g of the new rows at the places after the kept ones. The caller then adds the rows it keeps to ring_count; after
/// a flush it first moves ring_start past the rows that were folded in and counts from 0. A fresh request's zero state
/// is written to the pool.
///
/// Mode read: from initial_slot; states are read and none is written.
///
/// With `fused_gating` g and beta are those that `gating` makes of a, b, a_log and dt_bias, to the bit.
///
/// @tparam Policy derives from `recurrence_policy`
/// Parameters: `recurrence_params`. Preconditions: no slot is written by two rows or two requests of a launch.
/// On the device: a request with zero rows is not touched; initial_slot or slot -1 retires a request whatever its other
/// entries say: zero rows, nothing read or written; so do a slot below -1 or past `slots`, a selector outside 0..T or
/// naming a snapshot_slot of -1, a ring_start outside 0..R-1, a ring_count outside 0..R-rows, flush or fresh other than
/// 0 and 1, fresh with a selector or a ring_count, and rows outside the launch, beyond T, or that a request before it
/// has (those stay that request's). Reads a request's state once; writes it once a row in mode snapshots, at a flush in
/// mode replay; reads q and k, and the kept rows of the rings, once per value block. No workspace.
/// Status: unsupported where a launch rule fails (the text names the parameter).
template <class Policy>
struct recurrence : detail::operation<recurrence<Policy>, recurrence_params<Policy>> {
  RATIFY_RECURRENCE_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(recurrence_params<Policy> const& p) {
    return detail::recurrence_support<Policy>::reason(p);
  }
  static size_t scratch_bytes(recurrence_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(recurrence_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    constexpr bool host = std::is_same_v<Executor, host_executor>;
    if constexpr (!host && Policy::column_threads == 1) {
      return {status_code::unsupported,
              "ratify::recurrence: column_threads 1 is for the host executor; on a card take 0, 4 or 8"};
    } else {
      constexpr int chosen = host ? 1 : (Policy::state_layout == recurrence_layout::kv ? 4 : 8);
      constexpr int column_threads = Policy::column_threads != 0 ? Policy::column_threads : chosen;
      using kernel = detail::recurrence_kernel<Policy, column_threads>;
      if (p.rows == 0) return {};
      constexpr int blocks = Policy::value_dim / (kernel::traits::columns * kernel::traits::tiles);
      return visit(stage<kernel>{{blocks, p.value_heads, p.requests}, p});
    }
  }
};

#endif

RATIFY_END_NAMESPACE
