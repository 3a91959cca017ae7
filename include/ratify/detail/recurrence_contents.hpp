// SPDX-License-Identifier: Apache-2.0
/// What the recurrence reads from device memory to steer by, held against the capacities of a launch.
#pragma once

#include <ratify/detail/contents.hpp>
#include <ratify/device/recurrence_selector.cuh>
#include <ratify/recurrence_params.hpp>

#if !defined(__CUDACC_RTC__)  // of the host
#include <vector>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// What the snapshots of a launch are checked with: who writes which slot, and which slot each request starts from.
struct snapshot_slots {
  place_writers writers;
  std::vector<int64_t> starts;  ///< -1: from none
};

/// The slots for the states after `rows` rows of a request, which starts from `selector`: each is one of the pool, or
/// -1, and is written once.
template <class Policy, class Checker>
void check_written_snapshots(recurrence_params<Policy> const& p, int64_t request, int32_t selector, int rows,
                             std::vector<int32_t> const& snapshots, snapshot_slots& used, Checker& checker) {
  int64_t const columns = int64_t{p.snapshot_sets} * p.max_rows;
  bool const second = p.snapshot_sets == 2 && device::written_snapshot_set(selector, p.max_rows) == 1;
  int64_t const first = second ? p.max_rows : 0;
  for (int64_t i = first; i < first + rows; ++i) {
    int32_t const slot = snapshots[static_cast<size_t>(i)];
    if (slot < -1 || slot >= p.pool_slots)
      return checker.contradicts("snapshot_slot", request * columns + i, slot,
                                 "which is outside the pool of pool_slots slots");
    if (slot < 0) continue;  // not kept
    int64_t const other = used.writers.add(slot, request);
    if (other == request)
      return checker.contradicts("snapshot_slot", request * columns + i, slot,
                                 "which is the slot of another row of the request");
    if (other >= 0) return checker.shares(other, request, slot);
  }
}

/// Where a request starts from: `initial`, or one of its snapshots.
template <class Policy, class Checker>
int64_t check_start(recurrence_params<Policy> const& p, int64_t request, int32_t initial, int32_t selector,
                    std::vector<int32_t> const& snapshots, Checker& checker) {
  if (selector == 0) return initial;
  int32_t const slot = snapshots[static_cast<size_t>(selector - 1)];
  if (slot < 0)
    checker.contradicts("selector", request, selector, "which names a snapshot that was not kept");
  else if (slot >= p.pool_slots)
    checker.contradicts("selector", request, selector, "which names a slot outside the pool of pool_slots slots");
  return slot;
}

template <class Policy, class Checker>
void check_snapshots(recurrence_params<Policy> const& p, std::vector<int32_t> const& bounds, Checker& checker) {
  int64_t const columns = int64_t{p.snapshot_sets} * p.max_rows;
  auto const initial = checker.load(p.initial_slot, p.requests), selector = checker.load(p.selector, p.requests),
             fresh = checker.load(p.fresh, p.requests);
  snapshot_slots used;
  for (size_t r = 0; r < selector.size() && r + 1 < bounds.size() && !checker.is_done(); ++r) {
    used.starts.push_back(-1);
    if (bounds[r] == bounds[r + 1] || initial[r] < 0) continue;  // not in this round, or retired
    auto const request = static_cast<int64_t>(r);
    if (initial[r] >= p.pool_slots)
      return checker.contradicts("initial_slot", request, initial[r], "which is outside the pool of pool_slots slots");
    if (selector[r] < 0 || selector[r] > columns)
      return checker.contradicts("selector", request, selector[r], "which is outside 0 to snapshot_sets * max_rows");
    checker.agrees_with_fresh(fresh, request, "selector", selector[r]);
    auto const snapshots = checker.load(p.snapshot_slot.row(request), columns);
    if (snapshots.empty()) return;
    if (r >= fresh.size() || fresh[r] == 0)
      used.starts.back() = check_start(p, request, initial[r], selector[r], snapshots, checker);
    check_written_snapshots(p, request, selector[r], bounds[r + 1] - bounds[r], snapshots, used, checker);
  }
  for (size_t r = 0; r < used.starts.size() && !checker.is_done(); ++r) {
    auto const request = static_cast<int64_t>(r);
    if (int64_t const other = used.writers.find(used.starts[r]); other >= 0 && other != request)
      checker.shares(min_of(request, other), max_of(request, other), used.starts[r]);
  }
}

template <class Policy, class Checker>
void check_rings(recurrence_params<Policy> const& p, std::vector<int32_t> const& bounds, Checker& checker) {
  auto const slot = checker.load(p.slot, p.requests), start = checker.load(p.ring_start, p.requests),
             count = checker.load(p.ring_count, p.requests), flush = checker.load(p.flush, p.requests),
             fresh = checker.load(p.fresh, p.requests);
  place_writers writers;
  for (size_t r = 0; r < flush.size() && r + 1 < bounds.size() && !checker.is_done(); ++r) {
    int const rows = bounds[r + 1] - bounds[r];
    if (rows == 0 || slot[r] < 0) continue;  // not in this round, or retired
    auto const request = static_cast<int64_t>(r);
    if (slot[r] >= p.pool_slots)
      return checker.contradicts("slot", request, slot[r], "which is outside the pool of pool_slots slots");
    if (int64_t const other = writers.add(slot[r], request); other >= 0) return checker.shares(other, request, slot[r]);
    if (start[r] < 0 || start[r] >= p.ring_places)
      return checker.contradicts("ring_start", request, start[r], "which is outside 0 to ring_places - 1");
    if (count[r] < 0 || count[r] > p.ring_places - rows)
      return checker.contradicts("ring_count", request, count[r], "which is outside 0 to ring_places - rows");
    if (flush[r] != 0 && flush[r] != 1)
      return checker.contradicts("flush", request, flush[r], "which is neither 0 nor 1");
    checker.agrees_with_fresh(fresh, request, "ring_count", count[r]);
  }
}

/// States that are only read, which requests may share.
template <class Policy, class Checker>
void check_read_states(recurrence_params<Policy> const& p, std::vector<int32_t> const& bounds, Checker& checker) {
  auto const initial = checker.load(p.initial_slot, p.requests), fresh = checker.load(p.fresh, p.requests);
  for (size_t r = 0; r < initial.size() && r + 1 < bounds.size() && !checker.is_done(); ++r) {
    if (bounds[r] == bounds[r + 1] || initial[r] < 0) continue;  // not in this round, or retired
    auto const request = static_cast<int64_t>(r);
    if (initial[r] >= p.pool_slots)
      return checker.contradicts("initial_slot", request, initial[r], "which is outside the pool of pool_slots slots");
    checker.agrees_with_fresh(fresh, request, "fresh", 0);
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
    check_read_states(p, bounds, checker);
}

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
