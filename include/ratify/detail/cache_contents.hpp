// SPDX-License-Identifier: Apache-2.0
/// What append reads from device memory to steer by, held against the capacities of a launch.
#pragma once

#include <ratify/cache_params.hpp>
#include <ratify/detail/contents.hpp>

#if !defined(__CUDACC_RTC__)  // of the host
RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Row bounds, lengths, and the pages of the tokens that are written: each token once.
template <class Policy, class Checker>
void check_contents(append_params<Policy> const& p, Checker& checker) {
  auto const bounds = checker.row_bounds(p.query_start, p.requests, p.rows, p.rows);
  auto const lengths = checker.load(p.context_len, p.requests);
  place_writers writers;
  int64_t const room = int64_t{p.max_pages} * p.page_size;
  for (size_t r = 0; r < lengths.size() && r + 1 < bounds.size() && !checker.is_done(); ++r) {
    int const rows = bounds[r + 1] - bounds[r];
    if (rows == 0) continue;  // not in this round
    auto const request = static_cast<int64_t>(r);
    int64_t const context = lengths[r];
    if (context < 0 || context > room)
      return checker.contradicts("context_len", request, context, "which is outside 0 to max_pages * page_size");
    int64_t const begin = max_of<int64_t>(context - rows, 0);
    auto const pages =
        checker.pages(p.block_table.row(request), request * p.max_pages, begin, context, p.page_size, p.pool_pages);
    for (int64_t token = begin; token < context && !pages.empty(); ++token) {
      int64_t const page = pages[static_cast<size_t>(token / p.page_size - begin / p.page_size)],
                    place = page * p.page_size + token % p.page_size;
      if (int64_t const other = writers.add(place, request); other >= 0)
        return checker.shares(other, request, token % p.page_size, page);
    }
  }
}

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
