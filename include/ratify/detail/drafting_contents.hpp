// SPDX-License-Identifier: Apache-2.0
/// What the walk over candidates reads from device memory to steer by, held against what it may be.
#pragma once

#include <ratify/detail/contents.hpp>
#include <ratify/device/sampling.cuh>
#include <ratify/drafting_params.hpp>

#if !defined(__CUDACC_RTC__)  // of the host
RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy, class Checker>
void check_contents(draft_walk_params<Policy> const& p, Checker& checker) {
  checker.in_range("anchor", p.anchor, p.requests, 0, int64_t{p.vocab} - 1, "which is no token of the vocabulary");
  if constexpr (Policy::mode == draft_mode::sample) {
    auto const temperature = checker.load(p.temperature, p.requests);
    for (size_t r = 0; r < temperature.size(); ++r)
      if (!device::is_valid(device::without_cuts(temperature[r])))
        return checker.contradicts("temperature", static_cast<int64_t>(r), temperature[r],
                                   "which is not finite or is negative");
  }
}

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
