// SPDX-License-Identifier: Apache-2.0
/// What the recurrence reads from device memory to steer by, held against the capacities of a launch.
#pragma once

#include <ratify/detail/contents.hpp>
#include <ratify/recurrence_params.hpp>

#if !defined(__CUDACC_RTC__)  // of the host
#include <vector>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Whether `fresh` is 0 or 1, and `start` (a selector, or a count of kept rows) 0 where it is 1.
template <class Checker>
void check_fresh(std::vector<int32_t> const& fresh, int64_t request, char const* name, int32_t start,
                 Checker& checker) {
  if (static_cast<size_t>(request) >= fresh.size()) return;
  int32_t const value = fresh[static_cast<size_t>(request)];
  if (value != 0 && value != 1)
    checker.contradicts("fresh", request, value, "which is neither 0 nor 1");
  else if (value == 1 && start != 0)
    checker.contradicts(name, request, start, "although the request is fresh");
}

template <class Policy, class Checker>
void check_snapshots(recurrence_params<Policy> const& p, std::vector<int32_t> const& bounds, Checker& checker) {
  int64_t const columns = int64_t{p.snapshot_sets} * p.max_rows;
  auto const initial = checker.load(p.initial_slot, p.requests), selector = checker.load(p.selector, p.requests),
             fresh = checker.load(p.fresh, p.requests);
  for (size_t r = 0; r < selector.size() && r + 1 < bounds.size() && !checker.is_done(); ++r) {
    if (bounds[r] == bounds[r + 1] || initial[r] < 0) continue;  // not in this round, or retired
    auto const request = static_cast<int64_t>(r);
    if (initial[r] >= p.pool_slots)
      return checker.contradicts("initial_slot", request, initial[r], "which is outside the pool of pool_slots slots");
    if (selector[r] < 0 || selector[r] > columns)
      return checker.contradicts("selector", request, selector[r], "which is outside 0 to snapshot_sets * max_rows");
    check_fresh(fresh, request, "selector", selector[r], checker);
    auto const snapshots = checker.load(p.snapshot_slot.row(request), columns);
    for (size_t i = 0; i < snapshots.size(); ++i)
      if (snapshots[i] >= p.pool_slots)
        return checker.contradicts("snapshot_slot", request * columns + static_cast<int64_t>(i), snapshots[i],
                                   "which is outside the pool of pool_slots slots");
    if (selector[r] > 0 && !snapshots.empty() && snapshots[static_cast<size_t>(selector[r] - 1)] < 0)
      return checker.contradicts("selector", request, selector[r], "which names a snapshot that was not kept");
  }
}

template <class Policy, class Checker>
void check_rings(recurrence_params<Policy> const& p, std::vector<int32_t> const& bounds, Checker& checker) {
  auto const slot = checker.load(p.slot, p.requests), start = checker.load(p.ring_start, p.requests),
             count = checker.load(p.ring_count, p.requests), flush = checker.load(p.flush, p.requests),
             fresh = checker.load(p.fresh, p.requests);
  for (size_t r = 0; r < flush.size() && r + 1 < bounds.size() && !checker.is_done(); ++r) {
    int const rows = bounds[r + 1] - bounds[r];
    if (rows == 0 || slot[r] < 0) continue;  // not in this round, or retired
    auto const request = static_cast<int64_t>(r);
    if (slot[r] >= p.pool_slots)
      return checker.contradicts("slot", request, slot[r], "which is outside the pool of pool_slots slots");
    if (start[r] < 0 || start[r] >= p.ring_places)
      return checker.contradicts("ring_start", request, start[r], "which is outside 0 to ring_places - 1");
    if (count[r] < 0 || count[r] > p.ring_places - rows)
      return checker.contradicts("ring_count", request, count[r], "which is outside 0 to ring_places - rows");
    if (flush[r] != 0 && flush[r] != 1)
      return checker.contradicts("flush", request, flush[r], "which is neither 0 nor 1");
    check_fresh(fresh, request, "ring_count", count[r], checker);
  }
}

template <class Policy, class Checker>
void check_contents(recurrence_params<Policy> const& p, Checker& checker) {
  auto const bounds = checker.row_bounds(p.query_start, p.requests, p.rows, p.max_rows);
  if constexpr (Policy::mode == recurrence_mode::snapshots)
    check_snapshots(p, bounds, checker);
  else if constexpr (Policy::mode == recurrence_mode::replay)
    check_rings(p, bounds, checker);
  else
    checker.in_range("initial_slot", p.initial_slot, bounds, -0x80000000ll, p.pool_slots - 1,
                     "which is outside the pool of pool_slots slots");
}

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
