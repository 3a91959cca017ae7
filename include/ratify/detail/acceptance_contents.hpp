// SPDX-License-Identifier: Apache-2.0
/// What acceptance and its summary read from device memory to steer by, held against what it may be.
#pragma once

#include <ratify/acceptance_params.hpp>
#include <ratify/detail/contents.hpp>
#include <ratify/device/sampling.cuh>

#if !defined(__CUDACC_RTC__)  // of the host
#include <vector>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// The sampling parameters of the requests that own rows, as the kernels judge them. @return the bounds of their rows
template <class Params, class Checker>
std::vector<int32_t> check_sampling(Params const& p, Checker& checker) {
  auto bounds = checker.row_bounds(p.query_start, p.requests, p.rows, p.max_drafts + 1,
                                   "which gives the request before it more rows than max_drafts + 1");
  checker.each(
      "temperature", p.temperature, bounds, [](float t) { return device::is_valid(device::without_cuts(t)); },
      "which is not finite or is negative");
  checker.each(
      "top_p", p.top_p, bounds,
      [](float share) {
        return device::is_valid({1.0f, share, 0});
      },
      "which is outside 0 to 1");
  checker.each(
      "top_k", p.top_k, bounds,
      [](int32_t k) {
        return device::is_valid({1.0f, 1.0f, k});
      },
      "which is below -1");
  return bounds;
}

/// A ring part that cannot be one is not moved.
template <class Checker>
void check_ring_cursors(acceptance_cursors const& c, std::vector<int32_t> const& bounds, Checker& checker) {
  if (c.ring_count == nullptr || bounds.empty()) return;
  auto const requests = static_cast<int64_t>(bounds.size()) - 1;
  auto const slot = checker.load(c.slot, requests), start = checker.load(c.ring_start, requests),
             count = checker.load(c.ring_count, requests);
  for (size_t r = 0; r < count.size(); ++r) {
    if (bounds[r] == bounds[r + 1] || (!slot.empty() && slot[r] < 0)) continue;  // not in this round, or retired
    auto const request = static_cast<int64_t>(r);
    if (start[r] < 0 || start[r] >= c.ring_places)
      return checker.contradicts("cursors.ring_start", request, start[r], "which is outside 0 to ring_places - 1");
    if (count[r] < 0 || count[r] > c.ring_places)
      return checker.contradicts("cursors.ring_count", request, count[r], "which is outside 0 to ring_places");
  }
}

template <class Policy, class Checker>
void check_contents(acceptance_params<Policy> const& p, Checker& checker) {
  auto const bounds = check_sampling(p, checker);
  check_ring_cursors(p.cursors, bounds, checker);
}

template <class Policy, class Checker>
void check_contents(acceptance_summary_params<Policy> const& p, Checker& checker) {
  (void)check_sampling(p, checker);
}

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
