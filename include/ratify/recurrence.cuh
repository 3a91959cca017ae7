// SPDX-License-Identifier: Apache-2.0
/// The gated delta rule over the rows of a round, with a snapshot of the state after each row, or with a checkpoint and
/// what each row did to it.
#pragma once

#include <ratify/cuda.cuh>
#include <ratify/detail/recurrence_contents.hpp>
#include <ratify/detail/recurrence_kernels.cuh>

RATIFY_BEGIN_NAMESPACE

/// Whether `recurrence<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_recurrence = recurrence_knobs::supports<Knobs...>;

#if !defined(__CUDACC_RTC__)

/// Per row and value head h, with key head h / (value_heads / key_heads), all in FP32:
///
///   S = exp(g) S;  u = beta (v - k^T S);  S = S + k u^T;  out = scale q^T S
///
/// Mode snapshots: the state after row t of a request goes to slot snapshot_slot[t] of the pool (-1: it is not kept).
/// The next round names in `selector` how many of those rows were kept, s, and starts from snapshot_slot[s - 1]; the
/// slot it starts from may be among those it writes. With two sets of snapshot slots (`snapshot_sets`) a round writes
/// the set that its selector does not name, so that the state it started from outlives a round of which no row is kept;
/// the next selector is then `device::next_selector`.
///
/// Mode replay: the pool holds a checkpoint, and rings of R places hold what the rows since then did: their k as used,
/// u and g. The kept ones, ring_count of them, stand at places (ring_start + j) mod R. A launch takes the state over
/// them (S = exp(g) S + k u^T: no sum, so the bits are those of the original rows), writes it to the pool only where
/// flush is 1, and puts k, u and g of the new rows at the places after the kept ones. The caller then adds the rows it
/// keeps to ring_count; after a flush it first moves ring_start past the rows that were folded in and counts from 0. A
/// fresh request's zero state is written to the pool.
///
/// Mode read: from initial_slot; states are read and none is written.
///
/// With `fused_gating` g and beta are those that `gating` makes of a, b, a_log and dt_bias, to the bit.
///
/// Ordered: bits depend on `l2norm` alone; not on mode, schedule knobs, layout, batch, strides, executor, or how many
/// rows a launch has. Order, error bound and range: docs/arithmetic.md.
///
/// @tparam Knobs   knobs that differ from their defaults, in any order: recurrence_policy.hpp lists them
/// Parameters: `recurrence_params`. Preconditions: no slot is written by two rows of a launch, or by one request and
/// used by another (`check_contents` looks), and out overlaps no input (the launch rules look whether one begins where
/// the other does). On the device: a request without rows is not touched. Rows of a retired request
/// (initial_slot or slot -1, whatever else stands there) are zeros, and nothing of it is read or written. So are rows
/// that no request names, and those of a request that contradicts: a slot that is not one of the pool; a selector
/// outside 0 to snapshot_sets * T or one that names a snapshot_slot of -1; a ring_start outside 0 to R - 1; a
/// ring_count outside 0 to R - rows; flush or fresh other than 0 and 1; fresh with a selector or a ring_count; rows
/// outside the launch or more than T. A row that two requests name is the first one's, and the second one contradicts.
/// Limits: 32 rows and 65535 requests, 65535 value heads, rings of 16, 32 or 64 places.
/// Reads a request's state once; writes it once per row in mode snapshots, at a flush in mode replay. Reads q and k,
/// and the kept rows of the rings, once per value_block columns. No workspace.
/// @return of `launch`: ok, invalid_argument, unsupported, no_device, launch_failed
template <class... Knobs>
struct recurrence : detail::operation<recurrence<Knobs...>, recurrence_params<recurrence_policy<Knobs...>>> {
  using policy = recurrence_policy<Knobs...>;
  using params = recurrence_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  static size_t scratch_bytes(params const&) { return 0; }

  /// Row bounds, slots, and where each request starts from.
  template <class Checker>
  static void contents(params const& p, Checker& checker) {
    if (p.rows > 0) detail::check_contents(p, checker);
  }

  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    constexpr bool host = std::is_same_v<Executor, host_executor>;
    if constexpr (!host && policy::column_threads == 1) {
      return {status_code::unsupported,
              "ratify::recurrence: column_threads 1 is for the host executor; on a card take 0, 4 or 8"};
    } else {
      using kernel = recurrence_kernel<policy, host ? detail::recurrence_host_threads<policy>
                                                    : detail::recurrence_card_threads<policy>>;
      if (p.rows == 0) return {};
      return visit(stage<kernel>{{kernel::schedule::blocks, p.value_heads, p.requests}, p});
    }
  }
};

#endif

RATIFY_END_NAMESPACE
