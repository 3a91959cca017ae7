// SPDX-License-Identifier: Apache-2.0
/// What a block of the verify attention works on: the requests of a launch, the tokens that a row sees, and a tile of
/// query entries in shared storage.
///
/// A *query entry* is one (row, query head) pair. The entries of one KV head are numbered row by row, and within a row
/// by query head. A block works on a *tile* of them over one partition of the context.
#pragma once

#include <ratify/detail/attention_traits.cuh>
#include <ratify/detail/decode.cuh>
#include <ratify/device/rows.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// Tokens begin to end - 1.
struct token_range {
  int begin;
  int end;
};

/// The tokens of a request with `context` tokens that row `i` of its `rows` rows sees. An empty range is {0, 0}.
RATIFY_HD inline token_range visible_tokens(int i, int rows, int context, int window, bool causal) {
  int const position = context - rows + i;
  // Compared before they are added: a window may be as large as an int.
  int const begin = window > 0 && window <= position ? position - window + 1 : 0;
  int const end = causal ? position + 1 : (window > 0 && window < context - position ? position + window : context);
  if (end <= begin) return {0, 0};
  return {begin, end};
}

/// One request of a launch.
struct attention_request {
  int first_row;        ///< of the launch
  int rows;             ///< that the request owns; 0 if its numbers contradict
  int context;          ///< tokens
  int first_partition;  ///< the first partition of which some row sees a token
  int partitions;       ///< from that one to the last of which some row sees a token; 0 if its rows are to be zeros
  int64_t partial;      ///< number of its first (partition, row) pair in the workspace
};

/// Walks the requests of a launch in order, judging what the device tensors say of each before computing with it. A
/// request whose context contradicts the capacities has no partitions, and its rows are zeros.
template <class Policy>
class attention_requests {
 public:
  RATIFY_HD explicit attention_requests(attention_params<Policy> const& p) : p_(p), claims_(p.rows) {}

  /// The next request. @return false if there is none
  RATIFY_HD bool next(attention_request& r) {
    using traits = detail::attention_traits<Policy>;
    if (index_ == p_.requests) return false;
    int const begin = p_.query_start[index_], end = p_.query_start[index_ + 1];
    int const context = p_.context_len[index_];
    ++index_;
    r = {0, 0, 0, 0, 0, partial_};
    if (!claims_.take(begin, end)) return true;
    r.first_row = begin;
    r.rows = end - begin;
    if (r.rows == 0 || r.rows > traits::max_rows(p_) || context <= 0 || context > p_.max_context ||
        context > int64_t{p_.max_pages} * p_.page_size || tokens_ + context > traits::total_context(p_))
      return true;
    token_range const first = visible_tokens(0, r.rows, context, p_.window, p_.causal);
    token_range const last = visible_tokens(r.rows - 1, r.rows, context, p_.window, p_.causal);
    tokens_ += context;
    r.context = context;
    r.first_partition = first.begin / traits::width;
    r.partitions = detail::ceil_div(last.end, traits::width) - r.first_partition;
    partial_ += int64_t{r.partitions} * r.rows;
    return true;
  }

  /// Number of the request that `next` gave last.
  RATIFY_HD int index() const { return index_ - 1; }
 private:
  attention_params<Policy> const& p_;
  row_claims claims_;
  int index_ = 0;
  int64_t tokens_ = 0, partial_ = 0;
};

/// A block's piece of work: query entries of one KV head of a request over one partition.
struct attention_work {
  int32_t const* table;  ///< the request's row of the block table
  int first_row;         ///< of the request
  int kv_head;
  int first_entry;      ///< number of the tile's first entry among those of the KV head
  int entries;          ///< of the tile that exist
  int partition_begin;  ///< first token of the partition
  token_range seen;     ///< tokens of the partition that some entry sees
  token_range common;   ///< tokens of the partition that every entry sees
};

/// What a block shares of its tile.
template <class Policy, class Shape>
struct attention_tile {
  using traits = detail::attention_traits<Policy>;
  static constexpr int q_floats = traits::head_dim * Shape::pitch;
  static constexpr int score_floats = traits::width * Shape::pitch;

  /// Element d of q, of each entry.
  RATIFY_HD float* q(int d) { return room + d * Shape::pitch; }
  /// The scores of a token counted from the partition's first, later their weights: one of each entry.
  RATIFY_HD float* score(int t) { return room + (Shape::one_pass ? 0 : q_floats) + t * Shape::pitch; }

  alignas(16) float room[Shape::one_pass ? detail::max_of(q_floats, score_floats) : q_floats + score_floats];
  int64_t v_offset[traits::value_chunk];  ///< elements from v_pages.data to a token's head
  token_range visible[Shape::entries];    ///< what each entry sees, of the whole context
};

/// The work on tile number `tile` of a KV head, of `tile_entries` entries, over a partition counted from the first of
/// which the request sees a token.
template <class Policy>
RATIFY_HD inline attention_work attention_work_of(attention_params<Policy> const& p, attention_request const& r,
                                                  int32_t const* table, int partition, int kv_head, int tile,
                                                  int tile_entries) {
  using detail::max_of;
  using detail::min_of;
  constexpr int width = detail::attention_traits<Policy>::width;
  int const heads = p.q_heads / p.kv_heads, first_entry = tile * tile_entries;
  int const entries = min_of(tile_entries, r.rows * heads - first_entry);
  int const partition_begin = (r.first_partition + partition) * width, partition_end = partition_begin + width;
  token_range seen{partition_end, partition_begin}, common{partition_begin, partition_end};
  for (int i = first_entry / heads; i <= (first_entry + entries - 1) / heads; ++i) {
    token_range const row = visible_tokens(i, r.rows, r.context, p.window, p.causal);
    int const begin = max_of(row.begin, partition_begin), end = min_of(row.end, partition_end);
    common = {max_of(common.begin, begin), min_of(common.end, end)};
    if (begin < end) seen = {min_of(seen.begin, begin), max_of(seen.end, end)};
  }
  return {table, r.first_row, kv_head, first_entry, entries, partition_begin, seen, common};
}

/// Fills `tile.visible`. Ends without a barrier.
RATIFY_ANY_BLOCK
template <class Policy, class Shape, class Block>
RATIFY_HD void stage_visible(Block const& block, attention_params<Policy> const& p, attention_request const& r,
                             attention_work const& work, attention_tile<Policy, Shape>& tile) {
  int const heads = p.q_heads / p.kv_heads;
  for (int e = block.thread(); e < Shape::entries; e += Block::threads)
    tile.visible[e] = e < work.entries
                          ? visible_tokens((work.first_entry + e) / heads, r.rows, r.context, p.window, p.causal)
                          : token_range{0, 0};
}

/// Cache elements in one word.
template <class Policy>
inline constexpr int word_elements = 4 / static_cast<int>(sizeof(typename Policy::kv_format));

/// A power of two by which decoding of K may fall short, because q is multiplied by it instead: only where that product
/// is exact.
template <class Policy>
inline constexpr int k_left_out = RATIFY_STD::is_same_v<typename Policy::q_format, f16>
                                      ? detail::decode_scale<Policy::decoder, typename Policy::kv_format>
                                      : 1;
/// The same of V, for the weights: they are at most 1, so it is always exact.
template <class Policy>
inline constexpr int v_left_out = detail::decode_scale<Policy::decoder, typename Policy::kv_format>;

/// x times what decoding left out of the other factor.
template <int LeftOut>
RATIFY_HD inline float put_back(float x) {
  return LeftOut == 1 ? x : detail::mul_rn(x, LeftOut);
}

/// Decodes the first `Count` elements of a word of the cache; divided by `LeftOut`, if that is not 1.
template <class Policy, int Count, int LeftOut>
RATIFY_HD inline void decode_word(uint32_t word, float* out) {
  using format = typename Policy::kv_format;
  static_assert(Count <= word_elements<Policy>, "ratify: a word holds fewer elements");
  if constexpr (sizeof(format) == 1) {
    float part[4];
    if constexpr (LeftOut == 1)
      detail::decode_x4<Policy::decoder, format>(word, part);
    else
      detail::decode_x4_scaled<Policy::decoder, format>(word, part);
    RATIFY_UNROLL
    for (int i = 0; i < Count; ++i) out[i] = part[i];
  } else {
    RATIFY_UNROLL
    for (int i = 0; i < Count; ++i) out[i] = to_float(format{static_cast<uint16_t>(word >> (16 * i))});
  }
}

}  // namespace device
RATIFY_END_NAMESPACE
