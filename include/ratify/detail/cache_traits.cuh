// SPDX-License-Identifier: Apache-2.0
/// Parameters and support rules of the cache operations.
#pragma once

#include <ratify/cache_policy.hpp>
#include <ratify/status.hpp>
#include <ratify/views.hpp>

#define RATIFY_APPEND_RULES(RULE)                                                            \
  RULE(policy, (RATIFY_STD::is_base_of_v<append_policy, Policy>),                            \
       "ratify::append: the policy must derive from ratify::append_policy")                  \
  RULE(input_format, (detail::is_one_of_v<typename Policy::input_format, float, f16, bf16>), \
       "ratify::append: input_format must be float, f16 or bf16")                            \
  RULE(kv_format, (detail::is_one_of_v<typename Policy::kv_format, e4m3, e5m2, f16, bf16>),  \
       "ratify::append: kv_format must be e4m3, e5m2, f16 or bf16")
#define RATIFY_APPEND_LAUNCH_RULES(RULE)                                                            \
  RULE(rows, (p.rows >= 0), "ratify::append: rows must not be negative")                            \
  RULE(requests, (p.requests >= 0), "ratify::append: requests must not be negative")                \
  RULE(kv_heads, (p.kv_heads > 0), "ratify::append: kv_heads must be at least 1")                   \
  RULE(head_dim, (p.head_dim > 0), "ratify::append: head_dim must be at least 1 element")           \
  RULE(width, (int64_t{p.kv_heads} * p.head_dim <= 8388480),                                        \
       "ratify::append: kv_heads * head_dim must be at most 8388480 elements, 65535 blocks of 128") \
  RULE(page_size, (p.page_size > 0), "ratify::append: page_size must be at least 1 token")          \
  RULE(max_pages, (p.max_pages >= 0), "ratify::append: max_pages must not be negative")             \
  RULE(scale_stride, (p.scale_stride == 0 || p.scale_stride == 1),                                  \
       "ratify::append: scale_stride must be 0 (one scale a tensor) or 1 (one a KV head)")

RATIFY_BEGIN_NAMESPACE

/// One launch of `append`. Every pointer is the caller's.
template <class Policy>
struct append_params {
  using input_format = typename Policy::input_format;
  using kv_format = typename Policy::kv_format;
  heads_view<input_format const> k, v;     ///< [rows, kv_heads, head_dim]
  pages_view<kv_format> k_pages, v_pages;  ///< [pages, page_size, kv_heads, head_dim]; may interleave in one buffer
  rows_view<int32_t const> block_table;    ///< [requests, max_pages]: the pages of each request in token order
  int32_t const* context_len = nullptr;    ///< [requests]: tokens in the cache after the append
  int32_t const* query_start = nullptr;  ///< [requests + 1]: request r has rows query_start[r] .. query_start[r+1] - 1
  float const* k_scale = nullptr;        ///< [1] or [kv_heads]: what a stored value is multiplied by when read
  float const* v_scale = nullptr;        ///< the same for V
  int scale_stride = 0;                  ///< 0: one scale a tensor; 1: one a KV head
  int rows = 0;
  int requests = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int page_size = 0;  ///< tokens
  int max_pages = 0;  ///< entries of a row of block_table
};

namespace detail {

template <class Policy>
struct append_support {
  static constexpr bool value = true RATIFY_APPEND_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static constexpr char const* reason(append_params<Policy> const& p) {
    RATIFY_APPEND_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

}  // namespace detail

RATIFY_END_NAMESPACE
