// SPDX-License-Identifier: Apache-2.0
/// What the verify attention reads from device memory to steer by, held against the capacities of a launch.
#pragma once

#include <ratify/attention_params.hpp>
#include <ratify/detail/attention_traits.cuh>
#include <ratify/detail/contents.hpp>

#if !defined(__CUDACC_RTC__)  // of the host
RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Row bounds, lengths, and the pages of the tokens that some row sees.
template <class Policy, class Checker>
void check_contents(attention_params<Policy> const& p, Checker& checker) {
  using traits = attention_traits<Policy>;
  auto const bounds = checker.row_bounds(p.query_start, p.requests, p.rows, traits::max_rows(p));
  auto const lengths = checker.load(p.context_len, p.requests);
  int64_t tokens = 0;
  for (size_t r = 0; r < lengths.size() && r + 1 < bounds.size() && !checker.is_done(); ++r) {
    int const rows = bounds[r + 1] - bounds[r];
    if (rows == 0) continue;  // not in this round
    auto const request = static_cast<int64_t>(r);
    int64_t const context = lengths[r];
    if (context < 0 || context > p.max_context)
      return checker.contradicts("context_len", request, context, "which is outside 0 to max_context");
    tokens += context;
    if (tokens > traits::total_context(p))
      return checker.contradicts("context_len", request, context, "with which all requests exceed total_context");
    int64_t const first_row = context - rows;
    int64_t const begin = p.window > 0 ? max_of<int64_t>(first_row - p.window + 1, 0) : 0;
    checker.pages(p.block_table.row(request), request * p.max_pages, begin, context, p.page_size, p.pool_pages);
  }
}

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
