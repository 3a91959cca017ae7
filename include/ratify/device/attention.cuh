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
  int const position = context - rows + i;
  // Compared before they are added: a window may be as large as an int.
  int const begin = window > 0 && window <= position ? position - window + 1 : 0;
  int const end = causal ? position + 1 : (window > 0 && window < context - position ? position + window : context);
  if (end <= begin) return {0, 0};
  return {begin, end};
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
template <class Policy, class Shape>
struct attention_tile {
  using traits = detail::attention_traits<Policy>;
  static constexpr int q_floats = traits::head_dim * Shape::pitch;
  static constexpr int score_floats = traits::width * Shape::pitch;

  RATIFY_HD float* q(int d) { return room + d * Shape::pitch; }
  /// Scores of a token counted from the partition's begin, then its probabilities: one for each entry.
  RATIFY_HD float* score(int t) { return room + (Shape::one_pass ? 0 : q_floats) + t * Shape::pitch; }

  alignas(16) float room[Shape::one_pass ? detail::max_of(q_floats, score_floats) : q_floats + score_floats];
  int64_t v_offset[traits::chunk];  ///< elements from v_pages.data to a token's head
  token_range visible[Shape::entries];
};

/// Elements of the cache in a word.
template <class Policy>
inline constexpr int word_elements = 4 / static_cast<int>(sizeof(typename Policy::kv_format));

/// A power of two that decoding leaves out of K for q to make up: only where q times it is exact.
template <class Policy>
inline constexpr int k_left_out = RATIFY_STD::is_same_v<typename Policy::q_format, f16>
                                      ? detail::decode_scale<Policy::decoder, typename Policy::kv_format>
                                      : 1;
/// Likewise of V, for the weights: they are at most 1, so it always is.
template <class Policy>
inline constexpr int v_left_out = detail::decode_scale<Policy::decoder, typename Policy::kv_format>;

/// x times what decoding left out of the other factor.
template <int LeftOut>
RATIFY_HD inline float put_back(float x) {
  return LeftOut == 1 ? x : detail::mul_rn(x, LeftOut);
}

/// Decodes the first `N` elements of a word of the cache; with `LeftOut` other than 1, divided by it.
template <class Policy, int N, int LeftOut>
RATIFY_HD inline void decode_word(uint32_t word, float* out) {
  using format = typename Policy::kv_format;
  static_assert(N <= word_elements<Policy>, "ratify: a word holds fewer elements");
  if constexpr (sizeof(format) == 1) {
    float part[4];
    if constexpr (LeftOut == 1)
      detail::decode_x4<Policy::decoder, format>(word, part);
    else
      detail::decode_x4_scaled<Policy::decoder, format>(word, part);
    RATIFY_UNROLL
    for (int i = 0; i < N; ++i) out[i] = part[i];
  } else {
    RATIFY_UNROLL
    for (int i = 0; i < N; ++i) out[i] = to_float(format{static_cast<uint16_t>(word >> (16 * i))});
  }
}

/// Up to 16 adjacent bytes of the cache.
template <int Bytes>
struct cache_words {
  static constexpr int count = Bytes > 4 ? Bytes / 4 : 1;
  uint32_t word[count];

  RATIFY_HD static cache_words load(void const* p) {
    if constexpr (Bytes == 16) {
      auto const v = detail::load_16_bytes(p);
      return {{v.word[0], v.word[1], v.word[2], v.word[3]}};
    } else if constexpr (Bytes == 8) {
      auto const v = detail::load_8_bytes(p);
      return {{v.word[0], v.word[1]}};
    } else {
      return {{detail::load_bytes<Bytes>(p)}};
    }
  }
};

/// Element offset of token `t` of a request inside a view of pages.
template <class View>
RATIFY_HD inline int64_t token_offset(View const& pages, int32_t const* table, int page_size, int t, int head) {
  return table[t / page_size] * pages.page_stride + (t % page_size) * pages.token_stride + head * pages.head_stride;
}

/// Scores of the tile: scale * q . k, the dot product one FMA chain over ascending d. An infinite score becomes NaN, so
/// that -inf is left to mean "not seen". Needs `tile.visible`; ends without a barrier.
///
/// @param entries entries of this tile that exist; @param begin, end tokens of this partition that some entry sees
RATIFY_ANY_BLOCK
template <class Policy, class Shape, class Block>
RATIFY_HD void attention_scores(Block const& block, attention_params<Policy> const& p, attention_request const& r,
                                int32_t const* table, int kv_head, int first_entry, int entries, token_range seen,
                                int partition_begin, attention_tile<Policy, Shape>& tile) {
  using traits = detail::attention_traits<Policy>;
  // Several tokens: fewer bytes of each, so that the next ones can be on their way in registers.
  constexpr int bytes = Shape::tokens > 1 ? 8 : 16,
                vector = bytes / static_cast<int>(sizeof(typename Policy::kv_format));
  using words = cache_words<bytes>;
  constexpr int tokens = Shape::tokens, group_entries = Shape::group_entries;
  int const heads = p.q_heads / p.kv_heads;
  // A warp an entry, and the loads of several entries in flight together: each item waits for them.
  constexpr int warp = 32, row_loads = traits::head_dim / warp, warps = Shape::block_threads / warp;
  constexpr int at_once = Shape::entries % (4 * warps) == 0 ? 4 : 1;
  for (int first = block.thread() / warp; first < Shape::entries; first += at_once * warps) {
    typename Policy::q_format raw[at_once][row_loads];
    RATIFY_UNROLL
    for (int b = 0; b < at_once; ++b) {  // past the last entry: that one again, to no effect
      int const entry = first_entry + detail::min_of(first + b * warps, entries - 1);
      auto const* const q = p.q.at(r.first_row + entry / heads, kv_head * heads + entry % heads) + block.lane();
      RATIFY_UNROLL
      for (int a = 0; a < row_loads; ++a) raw[b][a] = q[a * warp];
    }
    RATIFY_UNROLL
    for (int b = 0; b < at_once; ++b) {
      RATIFY_UNROLL
      for (int a = 0; a < row_loads; ++a)
        tile.q(a * warp + block.lane())[first + b * warps] = put_back<k_left_out<Policy>>(to_float(raw[b][a]));
    }
  }
  block.barrier();
  float const scale = detail::mul_rn(p.softmax_scale, p.k_scale[kv_head * p.scale_stride]);
  int const lane = block.thread() % Shape::lanes, group = block.thread() / Shape::lanes;
  bool const works = group * group_entries < entries;
  for (int first = seen.begin; first < seen.end; first += tokens * Shape::lanes) {
    float dot[tokens][group_entries];
    RATIFY_UNROLL
    for (int i = 0; i < tokens; ++i) {
      RATIFY_UNROLL
      for (int e = 0; e < group_entries; ++e) dot[i][e] = 0.0f;
    }
    if (works && first + lane < seen.end) {
      typename Policy::kv_format const* k[tokens];
      RATIFY_UNROLL
      for (int i = 0; i < tokens; ++i)  // past the last token: that one again, for its page is one
        k[i] = p.k_pages.data + token_offset(p.k_pages, table, p.page_size,
                                             detail::min_of(first + lane + i * Shape::lanes, seen.end - 1), kv_head);
      words next[tokens];
      RATIFY_UNROLL
      for (int i = 0; i < tokens; ++i) next[i] = words::load(k[i]);
      for (int d0 = 0; d0 < traits::head_dim; d0 += vector) {
        words raw[tokens];
        RATIFY_UNROLL
        for (int i = 0; i < tokens; ++i) raw[i] = next[i];
        RATIFY_UNROLL
        for (int i = 0; i < tokens; ++i)
          next[i] = words::load(k[i] + detail::min_of(d0 + vector, traits::head_dim - vector));
        RATIFY_UNROLL
        for (int w = 0; w < words::count; ++w) {
          constexpr int n = word_elements<Policy>;
          float value[tokens][n];
          RATIFY_UNROLL
          for (int i = 0; i < tokens; ++i) decode_word<Policy, n, k_left_out<Policy>>(raw[i].word[w], value[i]);
          RATIFY_UNROLL
          for (int c = 0; c < n; ++c) {
            float registers[group_entries];
            float const* const q =
                detail::staged_floats<group_entries>(tile.q(d0 + w * n + c) + group * group_entries, registers);
            RATIFY_UNROLL
            for (int i = 0; i < tokens; ++i) {
              RATIFY_UNROLL
              for (int e = 0; e < group_entries; ++e) dot[i][e] = detail::fma_rn(value[i][c], q[e], dot[i][e]);
            }
          }
        }
      }
    }
    if constexpr (Shape::one_pass) block.barrier();  // q has been read: its room is for scores now
    if (!works) continue;
    RATIFY_UNROLL
    for (int i = 0; i < tokens; ++i) {
      int const t = first + lane + i * Shape::lanes;
      if (t >= seen.end) continue;
      float* const to = tile.score(t - partition_begin) + group * group_entries;
      constexpr int at_once = group_entries % 4 == 0 ? 4 : 1;
      RATIFY_UNROLL
      for (int e = 0; e < group_entries; e += at_once) {
        float score[at_once];
        RATIFY_UNROLL
        for (int a = 0; a < at_once; ++a) {
          float const s = detail::mul_rn(scale, dot[i][e + a]);
          score[a] = detail::is_finite(s) ? s : detail::from_bits(detail::canonical_nan_bits);
        }
        detail::store_floats(to + e, score);
      }
    }
  }
}

/// The weights of `N` tokens of a softmax lane from token `t` on, several exponentials under way together; adds them to
/// `sum` in ascending order.
template <int N, class Policy, class Shape>
RATIFY_HD inline void weigh_scores(attention_tile<Policy, Shape>& tile, int t, int e, float maximum, float& sum) {
  constexpr int lanes = detail::attention_traits<Policy>::softmax_lanes;
  float weight[N];
  RATIFY_UNROLL
  for (int i = 0; i < N; ++i) weight[i] = detail::exp_ordered(detail::sub_rn(tile.score(t + i * lanes)[e], maximum));
  RATIFY_UNROLL
  for (int i = 0; i < N; ++i) {
    tile.score(t + i * lanes)[e] = put_back<v_left_out<Policy>>(weight[i]);
    sum = detail::add_rn(sum, weight[i]);
  }
}

/// Turns the scores into weights exp(score - maximum), times `v_left_out` as they are stored, and gives the maximum and
/// sum of each entry to `write(e, maximum, sum)`. The sum: lane l of 16 adds its tokens l, l + 16, ... in ascending
/// order, then lanes 8, 4, 2 and 1 apart meet.
RATIFY_ANY_BLOCK
template <class Policy, class Shape, class Block, class Write>
RATIFY_HD void attention_softmax(Block const& block, int entries, int partition_begin,
                                 attention_tile<Policy, Shape>& tile, Write&& write) {
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
    for (int t = first; t < end; t += lanes) maximum = detail::max_rn(maximum, tile.score(t)[e]);
    RATIFY_UNROLL
    for (int o = lanes / 2; o > 0; o /= 2) maximum = detail::max_rn(maximum, block.shuffle_xor(maximum, o, mask));
    float sum = 0.0f;
    int t = first;
    for (; t + 3 * lanes < end; t += 4 * lanes) weigh_scores<4>(tile, t, e, maximum, sum);
    for (; t < end; t += lanes) weigh_scores<1>(tile, t, e, maximum, sum);
    RATIFY_UNROLL
    for (int o = lanes / 2; o > 0; o /= 2) sum = detail::add_rn(sum, block.shuffle_xor(sum, o, mask));
    if (lane == 0 && begin < end) write(e, maximum, sum);
  }
}

/// Adds weight * V of the tokens [begin, end) to the thread's sums: for each element one FMA chain over ascending
/// tokens, whatever the unroll. `Masked`: an entry skips tokens it does not see, whatever V holds there.
///
/// @param v the thread's columns of a token at offset 0; @param group the thread's group of entries
template <class Policy, bool Masked, class Shape>
RATIFY_HD void accumulate_values(typename Policy::kv_format const* v, attention_tile<Policy, Shape>& tile, int group,
                                 int chunk_begin, int partition_begin, token_range tokens,
                                 float (&sum)[Shape::columns][Shape::group_entries]) {
  constexpr int columns = Shape::columns, entries = Shape::group_entries;
  using words = cache_words<columns* static_cast<int>(sizeof(typename Policy::kv_format))>;
  int const first_entry = group * entries;
  auto const add = [&](words const& raw, int t) {
    constexpr int n = columns / words::count;
    float value[columns];
    RATIFY_UNROLL
    for (int w = 0; w < words::count; ++w) decode_word<Policy, n, v_left_out<Policy>>(raw.word[w], value + w * n);
    float registers[entries];
    float const* const weight =
        detail::staged_floats<entries>(tile.score(t - partition_begin) + first_entry, registers);
    RATIFY_UNROLL
    for (int c = 0; c < columns; ++c) {
      RATIFY_UNROLL
      for (int e = 0; e < entries; ++e) {
        float const next = detail::fma_rn(weight[e], value[c], sum[c][e]);
        if constexpr (Masked) {
          if (t < tile.visible[first_entry + e].begin || t >= tile.visible[first_entry + e].end) continue;
        }
        sum[c][e] = next;
      }
    }
  };
  auto const load = [&](int t) { return words::load(v + tile.v_offset[t - chunk_begin]); };
  int t = tokens.begin;
  if constexpr (!Masked) {
    constexpr int unroll = Policy::pv_unroll;
    if (t + unroll <= tokens.end) {
      words next[unroll];  // is on its way while the tokens before it are added
      RATIFY_UNROLL
      for (int i = 0; i < unroll; ++i) next[i] = load(t + i);
      for (; t + unroll <= tokens.end; t += unroll) {
        words raw[unroll];
        RATIFY_UNROLL
        for (int i = 0; i < unroll; ++i) raw[i] = next[i];
        RATIFY_UNROLL
        for (int i = 0; i < unroll; ++i) next[i] = load(detail::min_of(t + unroll + i, tokens.end - 1));
        RATIFY_UNROLL
        for (int i = 0; i < unroll; ++i) add(raw[i], t + i);
      }
    }
  }
  RATIFY_NO_UNROLL
  for (; t < tokens.end; ++t) add(load(t), t);
}

/// The PV product of a tile over the tokens `seen` of a partition; `common` are those that all its entries see. Every
/// thread gets the entries of its group and `Shape::columns` adjacent columns from those of its lane on.
RATIFY_ANY_BLOCK
template <class Policy, class Shape, class Block>
RATIFY_HD void attention_values(Block const& block, attention_params<Policy> const& p, int32_t const* table,
                                int kv_head, int entries, token_range seen, token_range common, int partition_begin,
                                attention_tile<Policy, Shape>& tile,
                                float (&sum)[Shape::columns][Shape::group_entries]) {
  using traits = detail::attention_traits<Policy>;
  using detail::max_of;
  using detail::min_of;
  RATIFY_UNROLL
  for (int c = 0; c < Shape::columns; ++c) {
    RATIFY_UNROLL
    for (int e = 0; e < Shape::group_entries; ++e) sum[c][e] = 0.0f;
  }
  int const group = block.thread() / Shape::lanes;
  auto const* const v = p.v_pages.data + block.thread() % Shape::lanes * Shape::columns;
  for (int chunk = seen.begin; chunk < seen.end; chunk += traits::chunk) {
    int const end = min_of(chunk + traits::chunk, seen.end);
    block.barrier();
    for (int t = chunk + block.thread(); t < end; t += Block::threads)
      tile.v_offset[t - chunk] = token_offset(p.v_pages, table, p.page_size, t, kv_head);
    block.barrier();
    if (group * Shape::group_entries >= entries) continue;
    int const middle = min_of(max_of(common.begin, chunk), end), last = min_of(max_of(common.end, middle), end);
    RATIFY_NO_UNROLL
    for (int part = 0; part < 3; ++part) {  // one copy of the masked loop: it is long
      if (part == 1)
        accumulate_values<Policy, false>(v, tile, group, chunk, partition_begin, {middle, last}, sum);
      else
        accumulate_values<Policy, true>(v, tile, group, chunk, partition_begin,
                                        part == 0 ? token_range{chunk, middle} : token_range{last, end}, sum);
    }
  }
}

/// A run of softmax partials, as a block shares it.
struct combine_run {
  static constexpr int capacity = 256;  ///< partials
  float weight[capacity];               ///< exp(maximum - the largest maximum); first of all, the threads' maxima
  float sum[capacity];
};

/// Combines softmax partials in ascending order: `maximum(j)`, `sum(j)` and `value(j)` of part j in [begin, end), the
/// same maxima and sums for every thread of the block. A part whose sum is 0 is empty: its value does not matter.
/// @return the thread's unscaled output element, 0 if all parts are empty; `lse` comes back with it
RATIFY_ANY_BLOCK
template <class Block, class Maximum, class Sum, class Value>
RATIFY_HD float combine_partials(Block const& block, int begin, int end, Maximum&& maximum, Sum&& sum, Value&& value,
                                 combine_run& run, float& lse) {
  using namespace detail;
  static_assert(Block::threads <= combine_run::capacity, "ratify: a block has more threads than a run has places");
  float top = from_bits(0xff800000u);
  for (int j = begin + block.thread(); j < end; j += Block::threads) top = max_rn(top, maximum(j));
  run.weight[block.thread()] = top;
  block.barrier();
  for (int i = 0; i < Block::threads; ++i) top = max_rn(top, run.weight[i]);
  float total = 0.0f, out = 0.0f;
  for (int first = begin; first < end; first += combine_run::capacity) {
    int const count = min_of(combine_run::capacity, end - first);
    block.barrier();
    for (int i = block.thread(); i < count; i += Block::threads) {
      run.weight[i] = exp_ordered(sub_rn(maximum(first + i), top));
      run.sum[i] = sum(first + i);
    }
    block.barrier();
    auto const add = [&](float v, int i) {
      if (bits(run.sum[i]) == 0) return;
      total = fma_rn(run.sum[i], run.weight[i], total);
      out = fma_rn(v, run.weight[i], out);
    };
    constexpr int ahead = 32;
    int i = 0;
    for (; i + ahead <= count; i += ahead) {
      float v[ahead];
      RATIFY_UNROLL
      for (int a = 0; a < ahead; ++a) v[a] = value(first + i + a);
      RATIFY_UNROLL
      for (int a = 0; a < ahead; ++a) add(v[a], i + a);
    }
    for (; i < count; ++i) add(value(first + i), i);
  }
  lse = canonical(add_rn(top, log_ordered(total)));
  return bits(total) == 0 ? 0.0f : div_rn(out, total);
}

}  // namespace device
RATIFY_END_NAMESPACE
