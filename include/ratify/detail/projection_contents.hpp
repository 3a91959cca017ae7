// SPDX-License-Identifier: Apache-2.0
/// What the projection reads from device memory to steer by, held against the shape of a launch.
#pragma once

#include <ratify/detail/contents.hpp>
#include <ratify/projection_params.hpp>

#if !defined(__CUDACC_RTC__)  // of the host
RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy, class Checker>
void check_contents(projection_params<Policy> const& p, Checker& checker) {
  auto const ends = checker.load(p.segment_end, p.segments);
  int32_t before = 0;
  for (size_t s = 0; s < ends.size(); ++s) {
    if (ends[s] < before)
      return checker.contradicts("segment_end", static_cast<int64_t>(s), ends[s], "less than the end before it");
    before = ends[s];
  }
  if (!ends.empty() && before != p.n)
    checker.contradicts("segment_end", p.segments - 1, before, "but the last segment must end at n");
}

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
