// SPDX-License-Identifier: Apache-2.0
/// Launch rules of the cache operations.
#pragma once

#include <ratify/cache_params.hpp>
#include <ratify/detail/extents.hpp>
#include <ratify/status.hpp>

#define RATIFY_APPEND_SHAPE_RULES(INVALID, UNSUPPORTED)                                                               \
  INVALID(rows, (p.rows >= 0 && p.requests >= 0), "ratify::append: rows and requests must not be negative")           \
  INVALID(requests, (p.rows == 0 || p.requests > 0), "ratify::append: requests must be at least 1 if there are rows") \
  INVALID(heads, (p.kv_heads > 0), "ratify::append: kv_heads must be at least 1")                                     \
  INVALID(head_dim, (p.head_dim > 0), "ratify::append: head_dim must be at least 1 element")                          \
  UNSUPPORTED(width, (int64_t{p.kv_heads} * p.head_dim <= 8388480),                                                   \
              "ratify::append: kv_heads * head_dim must be at most 8388480 elements, 65535 blocks of 128")            \
  INVALID(page_size, (p.page_size > 0), "ratify::append: page_size must be at least 1 token")                         \
  INVALID(pages, (p.max_pages >= 0 && p.pool_pages >= 0),                                                             \
          "ratify::append: max_pages and pool_pages must not be negative")                                            \
  INVALID(max_pages, (p.rows == 0 || p.max_pages > 0),                                                                \
          "ratify::append: max_pages must be at least 1 if there are rows")                                           \
  INVALID(scale_stride, (p.scale_stride == 0 || p.scale_stride == 1),                                                 \
          "ratify::append: scale_stride must be 0 (one scale) or 1 (one per KV head)")

#define RATIFY_APPEND_TENSOR_RULES(INVALID, UNSUPPORTED)                                                             \
  RATIFY_REQUIRED_VIEW(INVALID, "append", k, p.rows, p.kv_heads, p.head_dim)                                         \
  RATIFY_REQUIRED_VIEW(INVALID, "append", v, p.rows, p.kv_heads, p.head_dim)                                         \
  RATIFY_REQUIRED_VIEW(INVALID, "append", k_pages, pages_or_many(p.pool_pages), p.page_size, p.kv_heads, p.head_dim) \
  RATIFY_REQUIRED_VIEW(INVALID, "append", v_pages, pages_or_many(p.pool_pages), p.page_size, p.kv_heads, p.head_dim) \
  RATIFY_REQUIRED_VIEW(INVALID, "append", block_table, p.requests, p.max_pages)                                      \
  RATIFY_REQUIRED_ARRAY(INVALID, "append", context_len)                                                              \
  RATIFY_REQUIRED_ARRAY(INVALID, "append", query_start)                                                              \
  RATIFY_REQUIRED_ARRAY(INVALID, "append", k_scale)                                                                  \
  RATIFY_REQUIRED_ARRAY(INVALID, "append", v_scale)                                                                  \
  INVALID(in_place, (detail::are_apart({p.k_pages.data, p.v_pages.data}, {p.k.data, p.v.data})),                     \
          "ratify::append: k_pages and v_pages must not be each other, k or v")

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
RATIFY_HD status launch_rules(append_params<Policy> const& p) {
  RATIFY_APPEND_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_APPEND_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

}  // namespace detail
RATIFY_END_NAMESPACE
