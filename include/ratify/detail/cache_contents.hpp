// SPDX-License-Identifier: Apache-2.0
/// What append reads from device memory to steer by, held against the capacities of a launch.
#pragma once

#include <ratify/cache_params.hpp>
#include <ratify/detail/contents.hpp>

#if !defined(__CUDACC_RTC__)  // of the host
RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Row bounds, lengths, and the pages of the tokens that are written.
template <class Policy, class Checker>
void check_contents(append_params<Policy> const& p, Checker& checker) {
  auto const bounds = checker.row_bounds(p.query_start, p.requests, p.rows, p.rows);
  auto const lengths = checker.load(p.context_len, p.requests);
  int64_t const room = int64_t{p.max_pages} * p.page_size;
  for (size_t r = 0; r < lengths.size() && r + 1 < bounds.size() && !checker.is_done(); ++r) {
    int const rows = bounds[r + 1] - bounds[r];
    if (rows == 0) continue;  // not in this round
    auto const request = static_cast<int64_t>(r);
    int64_t const context = lengths[r];
    if (context < 0 || context > room)
      return checker.contradicts("context_len", request, context, "which is outside 0 to max_pages * page_size");
    checker.pages(p.block_table.row(request), request * p.max_pages, max_of<int64_t>(context - rows, 0), context,
                  p.page_size, p.pool_pages);
  }
}

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
