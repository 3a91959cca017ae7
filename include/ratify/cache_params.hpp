// SPDX-License-Identifier: Apache-2.0
/// Parameters of one launch of the cache operations.
#pragma once

#include <ratify/cache_policy.hpp>
#include <ratify/views.hpp>

RATIFY_BEGIN_NAMESPACE

/// One launch of `append`. Every pointer is the caller's memory that the executor can reach; contents of all tensors
/// are read by the kernel, so that a captured graph replays with new lengths, tables and scales. All tensors are
/// required. Strides are in elements of the tensor, the innermost extent is dense, and no stride is smaller than what
/// it steps over.
///
/// @tparam Policy `append_policy<Knobs...>`
template <class Policy>
struct append_params {
  /// [rows, kv_heads, head_dim]
  heads_view<typename Policy::input_format const> k;
  /// [rows, kv_heads, head_dim]
  heads_view<typename Policy::input_format const> v;
  /// [pool_pages, page_size, kv_heads, head_dim], written. Must not overlap k and v.
  pages_view<typename Policy::kv_format> k_pages;
  /// Like k_pages; K and V may interleave in one buffer.
  pages_view<typename Policy::kv_format> v_pages;
  /// [requests, max_pages]: entry i names the page of tokens i * page_size up of the request. Entries of tokens that
  /// are not written may hold anything. No two new rows may be written to one token of a page.
  rows_view<int32_t const> block_table;
  int32_t const* context_len = nullptr;  ///< [requests]: tokens in the cache after the append
  int32_t const* query_start =
      nullptr;                     ///< [requests + 1]: request r has rows query_start[r] to query_start[r + 1] - 1
  float const* k_scale = nullptr;  ///< [1] or [kv_heads], see scale_stride: what is stored times this is K
  float const* v_scale = nullptr;  ///< [1] or [kv_heads], likewise for V
  int rows = 0;                    ///< of all requests: the extent of k and v
  int requests = 0;
  int kv_heads = 0;
  int head_dim = 0;      ///< elements; kv_heads * head_dim is at most 8388480
  int scale_stride = 0;  ///< 0: one scale for all KV heads; 1: one per KV head
  int page_size = 0;     ///< tokens of one page
  int max_pages = 0;     ///< entries in a row of block_table, at least 1 if there are rows
  /// Pages that the pool holds, 0 if the caller does not say. A row whose page is outside 0 to pool_pages - 1 is not
  /// written.
  int64_t pool_pages = 0;
};

RATIFY_END_NAMESPACE
