// SPDX-License-Identifier: Apache-2.0
/// What the convolution reads from device memory to steer by, held against the capacities of a launch.
#pragma once

#include <ratify/convolution_params.hpp>
#include <ratify/detail/contents.hpp>

#if !defined(__CUDACC_RTC__)  // of the host
RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy, class Checker>
void check_contents(convolution_params<Policy> const& p, Checker& checker) {
  auto const bounds = checker.row_bounds(p.query_start, p.requests, p.rows, p.max_rows);
  auto const slots_of = checker.load(p.slot, p.requests), kept = checker.load(p.kept, p.requests),
             fresh = checker.load(p.fresh, p.requests);
  place_writers writers;
  for (size_t r = 0; r < kept.size() && r + 1 < bounds.size() && r < slots_of.size(); ++r) {
    if (bounds[r] == bounds[r + 1] || slots_of[r] < 0) continue;  // not in this round, or retired
    auto const request = static_cast<int64_t>(r);
    if (slots_of[r] >= p.pool_slots)
      return checker.contradicts("slot", request, slots_of[r], "which is outside the pool of pool_slots slots");
    if (kept[r] < 0 || kept[r] > p.max_rows)
      return checker.contradicts("kept", request, kept[r], "which is outside 0 to max_rows");
    if (int64_t const other = writers.add(slots_of[r], request); other >= 0)
      return checker.shares(other, request, slots_of[r]);
    checker.agrees_with_fresh(fresh, request, "kept", kept[r]);
  }
}

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
