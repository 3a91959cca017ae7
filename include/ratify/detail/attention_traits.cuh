// SPDX-License-Identifier: Apache-2.0
/// Launch rules and derived sizes of the verify attention and of the merge.
#pragma once

#include <ratify/attention_params.hpp>
#include <ratify/detail/attention_tuning.hpp>
#include <ratify/detail/extents.hpp>
#include <ratify/status.hpp>

#define RATIFY_ATTENTION_SHAPE_RULES(INVALID, UNSUPPORTED)                                                            \
  INVALID(rows, (p.rows >= 0 && p.requests >= 0), "ratify::attention: rows and requests must not be negative")        \
  INVALID(requests, (p.rows == 0 || p.requests > 0),                                                                  \
          "ratify::attention: requests must be at least 1 if there are rows")                                         \
  INVALID(max_rows, (p.max_rows >= 0), "ratify::attention: max_rows must not be negative")                            \
  UNSUPPORTED(most_rows, (p.max_rows <= 32),                                                                          \
              "ratify::attention: max_rows, the most rows of one request, must be 0 (= rows) to 32")                  \
  UNSUPPORTED(rows_of_a_request, (p.max_rows > 0 || p.rows <= 32),                                                    \
              "ratify::attention: a request has at most 32 rows; say the most rows of one request in max_rows")       \
  INVALID(heads, (p.q_heads > 0 && p.kv_heads > 0), "ratify::attention: q_heads and kv_heads must be at least 1")     \
  INVALID(heads_of_a_group, (p.q_heads % p.kv_heads == 0),                                                            \
          "ratify::attention: q_heads must be a multiple of kv_heads")                                                \
  UNSUPPORTED(group, (p.q_heads / p.kv_heads <= 64), "ratify::attention: at most 64 query heads may share a KV head") \
  UNSUPPORTED(most_heads, (p.q_heads <= 65535), "ratify::attention: q_heads must be at most 65535")                   \
  INVALID(page_size, (p.page_size > 0), "ratify::attention: page_size must be at least 1 token")                      \
  INVALID(pages, (p.max_pages >= 0 && p.pool_pages >= 0),                                                             \
          "ratify::attention: max_pages and pool_pages must not be negative")                                         \
  INVALID(contexts, (p.max_context >= 0 && p.total_context >= 0),                                                     \
          "ratify::attention: max_context and total_context must not be negative")                                    \
  UNSUPPORTED(capacities,                                                                                             \
              (p.max_context <= 0x40000000 && attention_traits<Policy>::total_context(p) <= (int64_t{1} << 36)),      \
              "ratify::attention: max_context must be at most 2^30 tokens and total_context (or requests * "          \
              "max_context) at most 2^36")                                                                            \
  INVALID(max_context, (p.rows == 0 || p.max_context > 0),                                                            \
          "ratify::attention: max_context must be at least 1 token if there are rows")                                \
  INVALID(table_width, (int64_t{p.max_pages} * p.page_size >= p.max_context),                                         \
          "ratify::attention: max_pages * page_size must be at least max_context")                                    \
  INVALID(scale_stride, (p.scale_stride == 0 || p.scale_stride == 1),                                                 \
          "ratify::attention: scale_stride must be 0 (one scale) or 1 (one per KV head)")                             \
  INVALID(softmax_scale, (p.rows == 0 || is_finite_scale(p.softmax_scale)),                                           \
          "ratify::attention: softmax_scale must be finite and not 0")                                                \
  INVALID(window, (p.window >= 0), "ratify::attention: window must be 0 (none) or a number of tokens")

#define RATIFY_ATTENTION_TENSOR_RULES(INVALID, UNSUPPORTED)                                                   \
  RATIFY_REQUIRED_VIEW(INVALID, "attention", q, p.rows, p.q_heads, Policy::head_dim)                          \
  RATIFY_REQUIRED_VIEW(INVALID, "attention", k_pages, pages_or_many(p.pool_pages), p.page_size, p.kv_heads,   \
                       Policy::head_dim)                                                                      \
  RATIFY_REQUIRED_VIEW(INVALID, "attention", v_pages, pages_or_many(p.pool_pages), p.page_size, p.kv_heads,   \
                       Policy::head_dim)                                                                      \
  RATIFY_REQUIRED_VIEW(INVALID, "attention", block_table, p.requests, p.max_pages)                            \
  RATIFY_REQUIRED_ARRAY(INVALID, "attention", context_len)                                                    \
  RATIFY_REQUIRED_ARRAY(INVALID, "attention", query_start)                                                    \
  RATIFY_REQUIRED_ARRAY(INVALID, "attention", k_scale)                                                        \
  RATIFY_REQUIRED_ARRAY(INVALID, "attention", v_scale)                                                        \
  RATIFY_REQUIRED_VIEW(INVALID, "attention", out, p.rows, p.q_heads, Policy::head_dim)                        \
  RATIFY_OPTIONAL_ARRAY(INVALID, "attention", lse)                                                            \
  UNSUPPORTED(alignment,                                                                                      \
              (attention_traits<Policy>::aligned(p.k_pages) && attention_traits<Policy>::aligned(p.v_pages)), \
              "ratify::attention: k_pages and v_pages must be aligned to 16 bytes, pointers and strides")

#define RATIFY_MERGE_SHAPE_RULES(INVALID, UNSUPPORTED)                                                \
  INVALID(parts, (p.parts >= 0 && p.rows >= 0), "ratify::merge: parts and rows must not be negative") \
  INVALID(heads, (p.q_heads > 0), "ratify::merge: q_heads must be at least 1")                        \
  UNSUPPORTED(most_heads, (p.q_heads <= 65535), "ratify::merge: q_heads must be at most 65535")       \
  INVALID(head_dim, (p.head_dim > 0), "ratify::merge: head_dim must be at least 1 element")           \
  UNSUPPORTED(most_dims, (p.head_dim <= 65536), "ratify::merge: head_dim must be at most 65536 elements")

#define RATIFY_MERGE_TENSOR_RULES(INVALID, UNSUPPORTED)                                                 \
  INVALID(partial_out_given, (p.parts == 0 || p.partial_out.data != nullptr),                           \
          "ratify::merge: partial_out must not be null")                                                \
  INVALID(partial_lse_given, (p.parts == 0 || p.partial_lse.data != nullptr),                           \
          "ratify::merge: partial_lse must not be null")                                                \
  RATIFY_OPTIONAL_VIEW(INVALID, "merge", partial_out, p.parts, p.rows, p.q_heads, p.head_dim)           \
  RATIFY_OPTIONAL_VIEW(INVALID, "merge", partial_lse, p.parts, int64_t{p.rows} * p.q_heads)             \
  RATIFY_REQUIRED_VIEW(INVALID, "merge", out, p.rows, p.q_heads, p.head_dim)                            \
  RATIFY_OPTIONAL_ARRAY(INVALID, "merge", lse)                                                          \
  INVALID(in_place, (detail::are_apart({p.out.data, p.lse}, {p.partial_out.data, p.partial_lse.data})), \
          "ratify::merge: out and lse must not be each other or an input")

RATIFY_BEGIN_NAMESPACE

namespace detail {

/// How a block of `BlockThreads` threads divides a tile of query entries: `Groups` of threads take `GroupEntries`
/// entries each, and every thread computes the scores of up to `Tokens` tokens together. No bit depends on it.
template <class Policy, int Groups, int GroupEntries, int Tokens, int BlockThreads>
struct attention_shape {
  static constexpr int width = Policy::partition_width;
  static constexpr int groups = Groups;
  static constexpr int group_entries = GroupEntries;
  static constexpr int entries = Groups * GroupEntries;
  static constexpr int block_threads = BlockThreads;
  /// Threads of a group.
  static constexpr int lanes = BlockThreads / Groups;
  /// Tokens whose scores a thread computes together.
  static constexpr int tokens = max_of(1, min_of(Tokens, width / lanes));
  /// Columns of V that a thread sums.
  static constexpr int columns = Policy::head_dim / lanes;
  /// Floats from one row of entries to the next in shared storage: whole vectors, and tokens spread over the banks.
  static constexpr int pitch = entries > 8 ? entries + 4 : entries;
  /// Whether q has been read before the first score is written, so that both can share one buffer.
  static constexpr bool one_pass = tokens * lanes >= width;
};

template <class Policy>
struct attention_traits {
  using tuning = attention_tuning;
  static constexpr int head_dim = Policy::head_dim;
  static constexpr int width = Policy::partition_width;
  static constexpr int block_threads = tuning::block_threads;
  static constexpr int narrow_groups = tuning::narrow_groups(head_dim);
  static constexpr int narrow_entries = min_of(tuning::narrow_entries, tuning::narrow_score_floats / width);
  /// Of a tile for few query entries.
  using narrow_shape = attention_shape<Policy, narrow_groups, narrow_entries / narrow_groups, 1, block_threads>;
  /// Of a tile for many.
  using wide_shape =
      attention_shape<Policy, tuning::wide_groups, tuning::wide_group_entries, tuning::wide_tokens, block_threads>;
  static constexpr bool has_wide = width <= tuning::widest_for_wide;
  /// Tokens whose V addresses are computed at a time.
  static constexpr int value_chunk = min_of(tuning::value_chunk, width);
  /// Lanes that share the maximum and the sum of one entry. This is arithmetic: it is the order of the sum.
  static constexpr int softmax_lanes = 16;

  template <class View>
  RATIFY_HD static bool aligned(View const& view) {
    constexpr int64_t elements = 16 / static_cast<int64_t>(sizeof(typename Policy::kv_format));
    return reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && view.page_stride % elements == 0 &&
           view.token_stride % elements == 0 && view.head_stride % elements == 0;
  }

  RATIFY_HD static int max_rows(attention_params<Policy> const& p) { return p.max_rows > 0 ? p.max_rows : p.rows; }
  RATIFY_HD static int64_t total_context(attention_params<Policy> const& p) {
    return p.total_context > 0 ? p.total_context : p.max_context * p.requests;
  }
  /// The most (partition, row) pairs of all requests together.
  RATIFY_HD static int64_t partial_rows(attention_params<Policy> const& p) {
    int64_t const by_rows = int64_t{p.rows} * ceil_div<int64_t>(p.max_context, width);
    int64_t const by_tokens = (total_context(p) / width + p.requests) * max_rows(p);
    return min_of(by_rows, by_tokens);
  }
};

template <class Policy>
RATIFY_HD status launch_rules(attention_params<Policy> const& p) {
  RATIFY_ATTENTION_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_ATTENTION_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

template <class Policy>
RATIFY_HD status launch_rules(merge_params<Policy> const& p) {
  RATIFY_MERGE_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_MERGE_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

/// Softmax partials in the workspace, one (partition, row) pair after the other.
struct attention_partials {
  float* out;      ///< [partial rows, q_heads, head_dim]
  float* maximum;  ///< [partial rows, q_heads]
  float* sum;      ///< [partial rows, q_heads]
};

}  // namespace detail

RATIFY_END_NAMESPACE
