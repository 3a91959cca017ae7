// SPDX-License-Identifier: Apache-2.0
/// Parameters of one launch of the verify attention, and of the merge of softmax partials.
#pragma once

#include <ratify/attention_policy.hpp>
#include <ratify/views.hpp>

RATIFY_BEGIN_NAMESPACE

/// One launch of `attention`. Every pointer is the caller's memory that the executor can reach; contents of all tensors
/// are read by the kernels, so that a captured graph replays with new lengths, tables and scales. All tensors are
/// required unless called optional. Strides are in elements of the tensor, the innermost extent is dense, and no stride
/// is smaller than what it steps over.
///
/// @tparam Policy `attention_policy<Knobs...>`
template <class Policy>
struct attention_params {
  /// [rows, q_heads, head_dim]
  heads_view<typename Policy::q_format const> q;
  /// [pool_pages, page_size, kv_heads, head_dim]. Pointer and strides are multiples of 16 bytes.
  pages_view<typename Policy::kv_format const> k_pages;
  /// Like k_pages; K and V may interleave in one buffer.
  pages_view<typename Policy::kv_format const> v_pages;
  /// [requests, max_pages]: entry i names the page of tokens i * page_size up of the request. Entries of tokens that no
  /// row sees may hold anything.
  rows_view<int32_t const> block_table;
  int32_t const* context_len = nullptr;  ///< [requests]: tokens in the cache, those of this round included
  int32_t const* query_start =
      nullptr;                     ///< [requests + 1]: request r has rows query_start[r] to query_start[r + 1] - 1
  float const* k_scale = nullptr;  ///< [1] or [kv_heads], see scale_stride: K is what is stored times this
  float const* v_scale = nullptr;  ///< [1] or [kv_heads], likewise for V
  /// [rows, q_heads, head_dim]
  heads_view<typename Policy::output_format> out;
  float* lse = nullptr;  ///< [rows, q_heads] dense, optional: log of the sum of exp(score) of each row and head
  int rows = 0;          ///< of all requests: the extent of q and out
  int requests = 0;
  int max_rows = 0;  ///< capacity: most rows of one request, at most 32; 0 stands for `rows`
  int q_heads = 0;   ///< a multiple of kv_heads, at most 64 per KV head
  int kv_heads = 0;
  int scale_stride = 0;  ///< 0: one scale for all KV heads; 1: one per KV head
  int page_size = 0;     ///< tokens of one page
  int max_pages = 0;     ///< entries in a row of block_table; max_pages * page_size is at least max_context
  /// Pages that the pool holds, 0 if the caller does not say. A row that sees a token of a page outside 0 to
  /// pool_pages - 1 is zeros, and its lse -inf.
  int64_t pool_pages = 0;
  int64_t max_context = 0;    ///< capacity: most tokens of one request, at most 2^30
  int64_t total_context = 0;  ///< capacity: most tokens of all requests together; 0 stands for requests * max_context
  float softmax_scale = 0;    ///< factor of each dot product, usually head_dim^-0.5; finite and not 0
  int window = 0;             ///< tokens that a row looks back over, itself included; 0 is no window
  bool causal = true;         ///< false: a row also sees the tokens of the rows after it
};

/// One launch of `merge`. Strides are in elements. Outputs must not overlap inputs.
///
/// @tparam Policy `merge_policy<Knobs...>`
template <class Policy>
struct merge_params {
  pages_view<float const> partial_out;  ///< [parts, rows, q_heads, head_dim]
  rows_view<float const> partial_lse;   ///< [parts, rows * q_heads]: log of the sum of exp(score); -inf: an empty part
  heads_view<typename Policy::output_format> out;  ///< [rows, q_heads, head_dim]
  float* lse = nullptr;                            ///< [rows, q_heads] dense, optional
  int parts = 0;
  int rows = 0;
  int q_heads = 0;   ///< 1 to 65535
  int head_dim = 0;  ///< elements, 1 to 65536
};

RATIFY_END_NAMESPACE
