// SPDX-License-Identifier: Apache-2.0
/// What qk_norm_rotary reads from device memory to steer by, held against the capacities of a launch.
#pragma once

#include <ratify/detail/contents.hpp>
#include <ratify/normalization_params.hpp>

#if !defined(__CUDACC_RTC__)  // of the host
RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy, class Checker>
void check_contents(qk_norm_rotary_params<Policy> const& p, Checker& checker) {
  checker.in_range("positions", p.positions, p.rows, 0, int64_t{p.max_position} - 1,
                   "which is outside 0 to max_position - 1");
}

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
