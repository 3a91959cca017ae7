// SPDX-License-Identifier: Apache-2.0
/// What the embedding reads from device memory to steer by, held against the capacities of a launch.
#pragma once

#include <ratify/detail/contents.hpp>
#include <ratify/embedding_params.hpp>

#if !defined(__CUDACC_RTC__)  // of the host
RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy, class Checker>
void check_contents(embedding_params<Policy> const& p, Checker& checker) {
  checker.in_range("tokens", p.tokens, p.rows, 0, int64_t{p.vocab} - 1, "which is no token of the vocabulary");
}

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
