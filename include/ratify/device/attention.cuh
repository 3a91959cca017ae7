// SPDX-License-Identifier: Apache-2.0
/// Verify attention, piece by piece, for kernels of your own: which tokens a row sees, scores, softmax, PV, combine.
///
/// A *query entry* is one (row, query head) pair. The entries of one KV head are numbered row by row, its query heads
/// inside a row; a block works on `row_tile` of them over one partition of the context.
#pragma once

#include <ratify/detail/attention_traits.cuh>
#include <ratify/detail/decode.cuh>
#include <ratify/detail/math.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// Tokens [begin, end) that a row sees.
struct token_range {
  int begin;
  int end;
};

/// What row `i` of `rows` sees of `context` tokens. Empty ranges have end <= begin.
RATIFY_HD inline token_range visible_tokens(int i, int rows, int context, int window, bool causal) {
  using detail::max_of;
  using detail::min_of;
  int const position = context - rows + i;
  if (position < 0) return {0, 0};
  int const end = causal ? position + 1 : (window > 0 ? min_of(context, position + window) : context);
  return {window > 0 ? max_of(0, position - window + 1) : 0, end};
}

/// One request of a launch, as its device-side lengths make it.
struct attention_request {
  int first_row;
  int rows;
  int context;          ///< tokens
  int first_partition;  ///< the first that any row sees
  int partitions;       ///< those that any row sees
  int64_t partial;      ///< of its first (partition, row) pair in the workspace
};

/// Walks the requests of a launch in order. A request whose numbers contradict the capacities has no partitions; its
/// rows give zeros.
template <class Policy>
class attention_requests {
 public:
  RATIFY_HD explicit attention_requests(attention_params<Policy> const& p) : p_(p) {}

  RATIFY_HD bool next(attention_request& r) {
    using traits = detail::attention_traits<Policy>;
    if (index_ == p_.requests) return false;
    int const begin = p_.query_start[index_], end = p_.query_start[index_ + 1];
    int const context = p_.context_len[index_];
    ++index_;
    r = {begin, 0, 0, 0, 0, partial_};
    if (begin < next_row_ || end < begin || end > p_.rows) return true;
    next_row_ = end;
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

  /// Of the request that `next` gave last.
  RATIFY_HD int index() const { return index_ - 1; }
 private:
  attention_params<Policy> const& p_;
  int index_ = 0, next_row_ = 0;
  int64_t tokens_ = 0, partial_ = 0;
};

/// A tile of query entries over one partition, and what its block shares.
template <class Policy>
struct attention_tile {
  using traits = detail::attention_traits<Policy>;
  float score[traits::width][traits::row_tile];  ///< scores, then probabilities
  float q[traits::head_dim][traits::row_tile];
  int64_t v_offset[traits::chunk];  ///< elements from v_pages.data to a token's head
  token_range visible[traits::row_tile];
};

/// Decodes 16 bytes of K or V; the array has 16 / sizeof(format) elements.
template <class Policy>
RATIFY_HD inline void decode_vector(detail::vector16 v, float (&out)[16 / sizeof(typename Policy::kv_format)]) {
  using format = typename Policy::kv_format;
  RATIFY_UNROLL
  for (int w = 0; w < 4; ++w) {
    if constexpr (sizeof(format) == 1) {
      float part[4];
      detail::decode_x4<Policy::decoder, format>(v.word[w], part);
      RATIFY_UNROLL
      for (int i = 0; i < 4; ++i) out[4 * w + i] = part[i];
    } else {
      out[2 * w] = to_float(format{static_cast<uint16_t>(v.word[w] & 0xffffu)});
      out[2 * w + 1] = to_float(format{static_cast<uint16_t>(v.word[w] >> 16)});
    }
  }
}

/// Decodes the `Columns` adjacent elements of V that `load_bytes` read.
template <class Policy, int Columns>
RATIFY_HD inline void decode_columns(uint32_t word, float (&out)[Columns]) {
  using format = typename Policy::kv_format;
  if constexpr (sizeof(format) == 1) {
    float part[4];
    detail::decode_x4<Policy::decoder, format>(word, part);
    RATIFY_UNROLL
    for (int i = 0; i < Columns; ++i) out[i] = part[i];
  } else {
    RATIFY_UNROLL
    for (int i = 0; i < Columns; ++i) out[i] = to_float(format{static_cast<uint16_t>(word >> (16 * i))});
  }
}

/// Element offset of token `t` of a request inside a view of pages.
template <class View>
RATIFY_HD inline int64_t token_offset(View const& pages, int32_t const* table, int page_size, int t, int head) {
  return table[t / page_size] * pages.page_stride + (t % page_size) * pages.token_stride + head * pages.head_stride;
}

/// Scores of the tile: scale * q . k, the dot product one FMA chain over ascending d. An infinite score becomes NaN, so
/// that -inf is left to mean "not seen". Leaves `tile.q` and `tile.visible` set; ends without a barrier.
///
/// @param entries entries of this tile that exist; @param begin, end tokens of this partition that some entry sees
RATIFY_ANY_BLOCK
template <class Policy, class Block>
RATIFY_HD void attention_scores(Block const& block, attention_params<Policy> const& p, attention_request const& r,
                                int32_t const* table, int kv_head, int first_entry, int entries, token_range seen,
                                int partition_begin, attention_tile<Policy>& tile) {
  using traits = detail::attention_traits<Policy>;
  constexpr int vector = 16 / static_cast<int>(sizeof(typename Policy::kv_format));
  int const group = p.q_heads / p.kv_heads;
  for (int i = block.thread(); i < traits::head_dim * traits::row_tile; i += Block::threads) {
    int const e = i / traits::head_dim, d = i % traits::head_dim, entry = first_entry + e;
    tile.q[d][e] =
        e < entries ? to_float(p.q.at(r.first_row + entry / group, kv_head * group + entry % group)[d]) : 0.0f;
  }
  block.barrier();
  float const scale = detail::mul_rn(p.softmax_scale, p.k_scale[kv_head * p.scale_stride]);
  for (int t = seen.begin + block.thread(); t < seen.end; t += Block::threads) {
    auto const* const k = p.k_pages.data + token_offset(p.k_pages, table, p.page_size, t, kv_head);
    float dot[traits::row_tile];
    RATIFY_UNROLL
    for (int e = 0; e < traits::row_tile; ++e) dot[e] = 0.0f;
    for (int d0 = 0; d0 < traits::head_dim; d0 += vector) {
      float value[vector];
      decode_vector<Policy>(detail::load_16_bytes(k + d0), value);
      RATIFY_UNROLL
      for (int i = 0; i < vector; ++i) {
        RATIFY_UNROLL
        for (int e = 0; e < traits::row_tile; ++e) dot[e] = detail::fma_rn(value[i], tile.q[d0 + i][e], dot[e]);
      }
    }
    RATIFY_UNROLL
    for (int e = 0; e < traits::row_tile; ++e) {
      float const s = detail::mul_rn(scale, dot[e]);
      tile.score[t - partition_begin][e] = detail::is_finite(s) ? s : detail::from_bits(detail::canonical_nan_bits);
    }
  }
}

/// Turns the scores into exp(score - maximum) and gives the maximum and sum of each entry to `write(e, maximum, sum)`.
/// The sum: lane l of 16 adds its tokens l, l + 16, ... in ascending order, then lanes 8, 4, 2 and 1 apart meet.
RATIFY_ANY_BLOCK
template <class Policy, class Block, class Write>
RATIFY_HD void attention_softmax(Block const& block, int entries, int partition_begin, attention_tile<Policy>& tile,
                                 Write&& write) {
  using traits = detail::attention_traits<Policy>;
  constexpr int lanes = traits::softmax_lanes;
  int const lane = block.thread() % lanes;
  uint32_t const mask = 0xffffu << (block.lane() / lanes * lanes);
  for (int e = block.thread() / lanes; e < entries; e += Block::threads / lanes) {
    // Lanes stand on tokens counted from the partition's begin, whatever part of it the entry sees.
    int const begin = detail::max_of(tile.visible[e].begin - partition_begin, 0);
    int const end = detail::min_of(tile.visible[e].end - partition_begin, traits::width);
    int const first = begin + (lane - begin % lanes + lanes) % lanes;
    float maximum = detail::from_bits(0xff800000u);
    for (int t = first; t < end; t += lanes) maximum = detail::max_rn(maximum, tile.score[t][e]);
    RATIFY_UNROLL
    for (int o = lanes / 2; o > 0; o /= 2) maximum = detail::max_rn(maximum, block.shuffle_xor(maximum, o, mask));
    float sum = 0.0f;
    for (int t = first; t < end; t += lanes) {
      float const weight = detail::exp_ordered(detail::sub_rn(tile.score[t][e], maximum));
      tile.score[t][e] = weight;
      sum = detail::add_rn(sum, weight);
    }
    RATIFY_UNROLL
    for (int o = lanes / 2; o > 0; o /= 2) sum = detail::add_rn(sum, block.shuffle_xor(sum, o, mask));
    if (lane == 0 && begin < end) write(e, maximum, sum);
  }
}

/// Adds weight * V of the tokens [begin, end), counted from the chunk's begin, to `sum`: for each element one FMA chain
/// over ascending tokens, whatever the unroll. `Masked`: an entry skips tokens it does not see, whatever V holds there.
template <class Policy, bool Masked, int Columns>
RATIFY_HD void accumulate_values(typename Policy::kv_format const* v, attention_tile<Policy> const& tile,
                                 int chunk_begin, int partition_begin, token_range tokens,
                                 float (&sum)[Columns][detail::attention_traits<Policy>::row_tile]) {
  using traits = detail::attention_traits<Policy>;
  constexpr int bytes = Columns * static_cast<int>(sizeof(typename Policy::kv_format));
  auto const add = [&](uint32_t word, int t) {
    float value[Columns];
    decode_columns<Policy, Columns>(word, value);
    float const* const weight = tile.score[t - partition_begin];
    RATIFY_UNROLL
    for (int c = 0; c < Columns; ++c) {
      RATIFY_UNROLL
      for (int e = 0; e < traits::row_tile; ++e) {
        float const next = detail::fma_rn(weight[e], value[c], sum[c][e]);
        if constexpr (Masked) {
          if (t < tile.visible[e].begin || t >= tile.visible[e].end) continue;
        }
        sum[c][e] = next;
      }
    }
  };
  constexpr int unroll = Masked ? 1 : Policy::pv_unroll;
  int t = tokens.begin;
  for (; t + unroll <= tokens.end; t += unroll) {
    uint32_t word[unroll];
    RATIFY_UNROLL
    for (int i = 0; i < unroll; ++i) word[i] = detail::load_bytes<bytes>(v + tile.v_offset[t + i - chunk_begin]);
    RATIFY_UNROLL
    for (int i = 0; i < unroll; ++i) add(word[i], t + i);
  }
  for (; t < tokens.end; ++t) add(detail::load_bytes<bytes>(v + tile.v_offset[t - chunk_begin]), t);
}

/// The PV product of a tile over the tokens `seen` of a partition; `common` are those that all its entries see. Every
/// thread gets `columns` adjacent columns from `block.thread() * columns` on.
RATIFY_ANY_BLOCK
template <class Policy, class Block>
RATIFY_HD void attention_values(
    Block const& block, attention_params<Policy> const& p, int32_t const* table, int kv_head, token_range seen,
    token_range common, int partition_begin, attention_tile<Policy>& tile,
    float (&sum)[detail::attention_traits<Policy>::columns][detail::attention_traits<Policy>::row_tile]) {
  using traits = detail::attention_traits<Policy>;
  using detail::max_of;
  using detail::min_of;
  RATIFY_UNROLL
  for (int c = 0; c < traits::columns; ++c) {
    RATIFY_UNROLL
    for (int e = 0; e < traits::row_tile; ++e) sum[c][e] = 0.0f;
  }
  auto const* const v = p.v_pages.data + block.thread() * traits::columns;
  for (int chunk = seen.begin; chunk < seen.end; chunk += traits::chunk) {
    int const end = min_of(chunk + traits::chunk, seen.end);
    block.barrier();
    for (int t = chunk + block.thread(); t < end; t += Block::threads)
      tile.v_offset[t - chunk] = token_offset(p.v_pages, table, p.page_size, t, kv_head);
    block.barrier();
    int const middle = min_of(max_of(common.begin, chunk), end), last = min_of(max_of(common.end, middle), end);
    accumulate_values<Policy, true>(v, tile, chunk, partition_begin, {chunk, middle}, sum);
    accumulate_values<Policy, false>(v, tile, chunk, partition_begin, {middle, last}, sum);
    accumulate_values<Policy, true>(v, tile, chunk, partition_begin, {last, end}, sum);
  }
}

/// Combines softmax partials in ascending order: `maximum(j)`, `sum(j)` and `value(j)` of part j in [begin, end). Gives
/// the unscaled output element; `total` and `top` come back for the lse.
template <class Maximum, class Sum, class Value>
RATIFY_HD inline float combine_partials(int begin, int end, Maximum&& maximum, Sum&& sum, Value&& value, float& top,
                                        float& total) {
  using namespace detail;
  top = from_bits(0xff800000u);
  for (int j = begin; j < end; ++j) top = max_rn(top, maximum(j));
  total = 0.0f;
  float out = 0.0f;
  for (int j = begin; j < end; ++j) {
    float const weight = exp_ordered(sub_rn(maximum(j), top));
    total = fma_rn(sum(j), weight, total);
    out = fma_rn(value(j), weight, out);
  }
  return div_rn(out, total);
}

}  // namespace device
RATIFY_END_NAMESPACE
