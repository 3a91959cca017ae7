// SPDX-License-Identifier: Apache-2.0
/// Writing to the paged cache, for kernels of your own.
#pragma once

#include <ratify/detail/cache_traits.cuh>
#include <ratify/device/pages.cuh>
#include <ratify/device/rows.cuh>

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
  int token = 0;      ///< of the page

  RATIFY_HD bool exists() const { return page >= 0; }
};

/// The place of a row: row i of the n that a request owns goes to position context_len - n + i. Nowhere if the row is
/// unowned, its position is before token 0, its page is outside the pool, or the request's context contradicts the
/// capacities.
///
/// @param owner of the row: `judge_rows(...).owner_of(row)`
template <class Policy>
RATIFY_HD inline cache_place place_of_row(append_params<Policy> const& p, row_owner const& owner, int row) {
  if (owner.request < 0) return {};
  int const context = p.context_len[owner.request];
  if (context < 0 || context > int64_t{p.max_pages} * p.page_size) return {};
  int const position = context - (owner.rows.end - row);
  if (position < 0) return {};
  int32_t const page = p.block_table.row(owner.request)[position / p.page_size];
  if (!page_pool(p.pool_pages).holds(page)) return {};
  return {page, position % p.page_size};
}

/// Writes element `i` of the heads of one row, of K and of V, to a place that exists: i is head * head_dim + d.
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
