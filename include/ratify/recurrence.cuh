// SPDX-License-Identifier: Apache-2.0
/// The gated delta rule over the rows of a round, with a snapshot of the state after each row. FP32 inside, ordered:
/// the same bits on every executor, for every schedule knob, batch, stride and number of rows a launch.
/// docs/arithmetic.md states the order.
#pragma once

#include <ratify/detail/launch.cuh>
#include <ratify/detail/recurrence_kernels.cuh>

RATIFY_BEGIN_NAMESPACE

template <class Policy>
inline constexpr bool is_supported_recurrence = detail::recurrence_support<Policy>::value;

#if !defined(__CUDACC_RTC__)

/// Per row and value head, with key head = value head / (value_heads / key_heads):
///
///   S = exp(g) S;  u = beta (v - k^T S);  S = S + k u^T;  out = scale q^T S
///
/// The state after row t of a request goes to slot snapshot_slot[t] of the pool (-1: it is not kept). The next round
/// names in `selector` how many of those rows were kept, s, and starts from snapshot_slot[s - 1]; the slot it starts
/// from may be among those it writes.
///
/// @tparam Policy derives from `recurrence_policy`
/// Parameters: `recurrence_params`. Preconditions: no slot is written by two rows or two requests of a launch.
/// On the device: a request with zero rows is not touched; initial_slot -1 retires a request whatever selector and
/// fresh say: zero rows, nothing read or written; so do a slot below -1 or past `slots`, a selector outside 0..T or
/// naming a snapshot_slot of -1, fresh other than 0 and 1, fresh with a selector, and rows outside the launch or beyond
/// T. Reads a request's state once and writes it once a row; reads q and k once per value block. No workspace. Status:
/// unsupported where a launch rule fails (the text names the parameter).
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
