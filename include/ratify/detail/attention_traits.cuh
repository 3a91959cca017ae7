// SPDX-License-Identifier: Apache-2.0
/// Parameters, support rules and derived sizes of the verify attention.
#pragma once

#include <ratify/attention_policy.hpp>
#include <ratify/status.hpp>
#include <ratify/views.hpp>

#define RATIFY_ATTENTION_RULES(RULE)                                                                            \
  RULE(policy, (RATIFY_STD::is_base_of_v<attention_policy, Policy>),                                            \
       "ratify::attention: the policy must derive from ratify::attention_policy")                               \
  RULE(q_format, (detail::is_one_of_v<typename Policy::q_format, float, f16, bf16>),                            \
       "ratify::attention: q_format must be float, f16 or bf16")                                                \
  RULE(kv_format, (detail::is_one_of_v<typename Policy::kv_format, e4m3, e5m2, f16, bf16>),                     \
       "ratify::attention: kv_format must be e4m3, e5m2, f16 or bf16")                                          \
  RULE(out_format, (detail::is_one_of_v<typename Policy::out_format, float, f16, bf16>),                        \
       "ratify::attention: out_format must be float, f16 or bf16")                                              \
  RULE(head_dim, (Policy::head_dim == 64 || Policy::head_dim == 128 || Policy::head_dim == 256),                \
       "ratify::attention: head_dim must be 64, 128 or 256")                                                    \
  RULE(partition_width,                                                                                         \
       (Policy::partition_width >= 64 && Policy::partition_width <= 4096 &&                                     \
        (Policy::partition_width & (Policy::partition_width - 1)) == 0),                                        \
       "ratify::attention: partition_width must be a power of two from 64 to 4096 tokens")                      \
  RULE(pv_unroll,                                                                                               \
       (Policy::pv_unroll == 1 || Policy::pv_unroll == 4 || Policy::pv_unroll == 8 || Policy::pv_unroll == 16), \
       "ratify::attention: pv_unroll must be 1, 4, 8 or 16")                                                    \
  RULE(decoder, (RATIFY_STD::is_same_v<decltype(Policy::decoder), decoder_revision const>),                     \
       "ratify::attention: decoder must be a ratify::decoder_revision")

#define RATIFY_ATTENTION_LAUNCH_RULES(RULE)                                                                            \
  RULE(rows, (p.rows >= 0 && p.requests >= 0), "ratify::attention: rows and requests must not be negative")            \
  RULE(max_rows, (p.max_rows >= 0 && p.max_rows <= 32),                                                                \
       "ratify::attention: max_rows, the most rows of one request, must be 0 (= rows) to 32")                          \
  RULE(rows_of_a_request, (p.max_rows > 0 || p.rows <= 32),                                                            \
       "ratify::attention: a request has at most 32 rows; say the most of one request in max_rows")                    \
  RULE(heads, (p.kv_heads > 0 && p.q_heads > 0 && p.q_heads % p.kv_heads == 0),                                        \
       "ratify::attention: q_heads must be a positive multiple of kv_heads")                                           \
  RULE(group, (p.kv_heads > 0 && p.q_heads / p.kv_heads <= 64),                                                        \
       "ratify::attention: at most 64 query heads may share a KV head")                                                \
  RULE(most_heads, (p.q_heads <= 65535), "ratify::attention: q_heads must be at most 65535")                           \
  RULE(page_size, (p.page_size > 0), "ratify::attention: page_size must be at least 1 token")                          \
  RULE(capacities,                                                                                                     \
       (p.max_context >= 0 && p.total_context >= 0 && p.max_context <= 0x40000000 &&                                   \
        attention_traits<Policy>::total_context(p) <= (int64_t{1} << 36)),                                             \
       "ratify::attention: max_context must be 0 to 2^30 tokens, total_context (or requests * max_context) 0 to 2^36") \
  RULE(scale_stride, (p.scale_stride == 0 || p.scale_stride == 1),                                                     \
       "ratify::attention: scale_stride must be 0 (one scale) or 1 (one per KV head)")                                 \
  RULE(alignment, (attention_traits<Policy>::aligned(p.k_pages) && attention_traits<Policy>::aligned(p.v_pages)),      \
       "ratify::attention: k_pages and v_pages must be aligned to 16 bytes, pointers and strides")                     \
  RULE(window, (p.window >= 0), "ratify::attention: window must be 0 (none) or a number of tokens")

#define RATIFY_MERGE_RULES(RULE)                                                         \
  RULE(policy, (RATIFY_STD::is_base_of_v<merge_policy, Policy>),                         \
       "ratify::merge: the policy must derive from ratify::merge_policy")                \
  RULE(out_format, (detail::is_one_of_v<typename Policy::out_format, float, f16, bf16>), \
       "ratify::merge: out_format must be float, f16 or bf16")

#define RATIFY_MERGE_LAUNCH_RULES(RULE)                                                            \
  RULE(parts, (p.parts >= 0 && p.rows >= 0), "ratify::merge: parts and rows must not be negative") \
  RULE(heads, (p.q_heads > 0 && p.q_heads <= 65535), "ratify::merge: q_heads must be 1 to 65535")  \
  RULE(head_dim, (p.head_dim > 0 && p.head_dim <= 65536), "ratify::merge: head_dim must be 1 to 65536 elements")

RATIFY_BEGIN_NAMESPACE

/// One launch of `attention`. Every pointer is the caller's; lengths, tables and scales are read on the device.
template <class Policy>
struct attention_params {
  heads_view<typename Policy::q_format const> q;         ///< [rows, q_heads, head_dim]
  pages_view<typename Policy::kv_format const> k_pages;  ///< [pages, page_size, kv_heads, head_dim]
  pages_view<typename Policy::kv_format const> v_pages;  ///< likewise; may interleave with k_pages in one buffer
  rows_view<int32_t const> block_table;                  ///< [requests, max_pages]: page of each page_size tokens
  int32_t const* context_len = nullptr;                  ///< [requests] tokens in the cache, the round's own included
  int32_t const* query_start = nullptr;                  ///< [requests + 1] first row of each request
  float const* k_scale = nullptr;                        ///< [1] or [kv_heads]
  float const* v_scale = nullptr;                        ///< [1] or [kv_heads]
  heads_view<typename Policy::out_format> out;           ///< [rows, q_heads, head_dim]
  float* lse = nullptr;                                  ///< [rows, q_heads] log of the sum of exp(score); optional
  int rows = 0;
  int requests = 0;
  int max_rows = 0;  ///< most rows of one request, 0 = rows
  int q_heads = 0;
  int kv_heads = 0;
  int scale_stride = 0;       ///< 0: one scale for all KV heads; 1: one per KV head
  int page_size = 0;          ///< tokens
  int max_pages = 0;          ///< entries in a row of block_table
  int64_t max_context = 0;    ///< capacity: most tokens of one request
  int64_t total_context = 0;  ///< capacity: most tokens of all requests; 0 = requests * max_context
  float softmax_scale = 0;    ///< usually head_dim^-0.5
  int window = 0;             ///< tokens a row looks back over, itself included; 0 = all
  bool causal = true;         ///< false: a block whose rows see one another
};

/// One launch of `merge`.
template <class Policy>
struct merge_params {
  pages_view<float const> partial_out;          ///< [parts, rows, q_heads, head_dim]; a stride each
  rows_view<float const> partial_lse;           ///< [parts, rows * q_heads] log of the sum of exp(score); -inf: empty
  heads_view<typename Policy::out_format> out;  ///< [rows, q_heads, head_dim]
  float* lse = nullptr;                         ///< [rows, q_heads]; optional
  int parts = 0;
  int rows = 0;
  int q_heads = 0;
  int head_dim = 0;  ///< elements
};

namespace detail {

/// How a block of `BlockThreads` threads shares out a tile of query entries: `Groups` of threads take `GroupEntries`
/// entries each, and every thread up to `Tokens` tokens of a score at a time. No bit depends on it.
template <class Policy, int Groups, int GroupEntries, int Tokens, int BlockThreads>
struct attention_shape {
  static constexpr int width = Policy::partition_width;
  static constexpr int groups = Groups;
  static constexpr int group_entries = GroupEntries;
  static constexpr int entries = Groups * GroupEntries;
  static constexpr int block_threads = BlockThreads;
  /// Threads of a group.
  static constexpr int lanes = BlockThreads / Groups;
  /// Tokens whose scores a thread works out together.
  static constexpr int tokens = max_of(1, min_of(Tokens, width / lanes));
  /// Columns of V that a thread sums.
  static constexpr int columns = Policy::head_dim / lanes;
  /// Floats from one row of entries to the next in shared storage: whole vectors, and tokens spread over the banks.
  static constexpr int pitch = entries > 8 ? entries + 4 : entries;
  /// Whether q is done with before the first score is stored: both then share their room.
  static constexpr bool one_pass = tokens * lanes >= width;
};

template <class Policy>
struct attention_traits {
  static constexpr int head_dim = Policy::head_dim;
  static constexpr int width = Policy::partition_width;
  static constexpr int block_threads = 128;
  /// For few query entries: as many as keep the scores of a partition in 32 KB.
  static constexpr int narrow_groups = head_dim < 128 ? 2 : 1;
  using narrow_shape =
      attention_shape<Policy, narrow_groups, min_of(8, 8192 / width) / narrow_groups, 1, block_threads>;
  /// For many: 96 sums a thread, so that a decoded element of K or V and a shared one of q or a weight feed enough
  /// multiply-adds. The scores of a wider partition would leave room for too few blocks.
  using wide_shape = attention_shape<Policy, 2, 24, 4, block_threads>;
  static constexpr bool has_wide = width <= 256;
  /// The fewest query entries of a request that the wide shape is for: docs/performance.md has the measurement.
  static constexpr int wide_entries = 17;
  /// Tokens whose V offsets are worked out at a time.
  static constexpr int chunk = min_of(256, width);
  /// Lanes that share the maximum and the sum of one entry. Arithmetic: it is the order of the sum.
  static constexpr int softmax_lanes = 16;

  template <class View>
  RATIFY_HD static bool aligned(View const& v) {
    constexpr int64_t elements = 16 / static_cast<int64_t>(sizeof(typename Policy::kv_format));
    return reinterpret_cast<uintptr_t>(v.data) % 16 == 0 && v.page_stride % elements == 0 &&
           v.token_stride % elements == 0 && v.head_stride % elements == 0;
  }

  RATIFY_HD static int max_rows(attention_params<Policy> const& p) { return p.max_rows > 0 ? p.max_rows : p.rows; }
  RATIFY_HD static int64_t total_context(attention_params<Policy> const& p) {
    return p.total_context > 0 ? p.total_context : p.max_context * p.requests;
  }
  /// Most (partition, row) pairs of all requests.
  RATIFY_HD static int64_t partial_rows(attention_params<Policy> const& p) {
    int64_t const by_rows = int64_t{p.rows} * ceil_div<int64_t>(p.max_context, width);
    int64_t const by_tokens = (total_context(p) / width + p.requests) * max_rows(p);
    return min_of(by_rows, by_tokens);
  }
};

template <class Policy>
struct attention_support {
  static constexpr bool value = true RATIFY_ATTENTION_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static char const* reason(attention_params<Policy> const& p) {
    RATIFY_ATTENTION_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

template <class Policy>
struct merge_support {
  static constexpr bool value = true RATIFY_MERGE_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static char const* reason(merge_params<Policy> const& p) {
    RATIFY_MERGE_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

/// Softmax partials in the workspace, one (partition, row) pair after the other.
struct attention_partials {
  float* out;      ///< [partial rows, q_heads, head_dim]
  float* maximum;  ///< [partial rows, q_heads]
  float* sum;      ///< [partial rows, q_heads]
};

}  // namespace detail

RATIFY_END_NAMESPACE
