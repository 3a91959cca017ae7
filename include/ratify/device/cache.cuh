// SPDX-License-Identifier: Apache-2.0
/// Writing to the paged cache, for kernels of your own.
#pragma once

#include <ratify/detail/cache_traits.cuh>
#include <ratify/detail/requests.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// What the cache holds of x: the FP32 quotient x / scale, rounded to nearest even into the format.
template <class Format>
RATIFY_HD inline Format quantize(float x, float scale) {
  return convert<Format>(detail::div_rn(x, scale));
}

/// Where a new row goes.
struct cache_place {
  int64_t page = -1;  ///< -1: nowhere
  int token = 0;      ///< inside the page
};

/// The place of row `row`: of the n rows of its request, row i goes to position context_len - n + i. Nowhere if the row
/// belongs to no request (of two that have it, to the first), stands before position 0, its page is negative, or its
/// request's numbers contradict the capacities.
template <class Policy>
RATIFY_HD inline cache_place place_of_row(append_params<Policy> const& p, int row) {
  detail::row_claims claims(p.rows);
  for (int r = 0; r < p.requests; ++r) {
    int const begin = p.query_start[r], end = p.query_start[r + 1];
    if (!claims.take(begin, end) || row < begin || row >= end) continue;
    int const context = p.context_len[r];
    // Both at most 2^31 - 1 and not negative, or not looked at: the difference does not overflow.
    if (context < 0 || context > int64_t{p.max_pages} * p.page_size) return {};
    int const position = context - (end - row);
    if (position < 0) return {};
    return {p.block_table.row(r)[position / p.page_size], position % p.page_size};
  }
  return {};
}

/// Writes element `i` of the heads of one row, of K and of V: i is head * head_dim + d.
template <class Policy>
RATIFY_HD void append_element(append_params<Policy> const& p, int row, cache_place place, int i) {
  using kv_format = typename Policy::kv_format;
  int const head = i / p.head_dim, d = i % p.head_dim;
  p.k_pages.at(place.page, place.token, head)[d] =
      quantize<kv_format>(to_float(p.k.at(row, head)[d]), p.k_scale[head * p.scale_stride]);
  p.v_pages.at(place.page, place.token, head)[d] =
      quantize<kv_format>(to_float(p.v.at(row, head)[d]), p.v_scale[head * p.scale_stride]);
}

}  // namespace device
RATIFY_END_NAMESPACE
