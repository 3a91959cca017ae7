// SPDX-License-Identifier: Apache-2.0
/// The verify attention piece by piece, for kernels of your own: after the scores of a tile (attention_scores.cuh)
/// their softmax, the product with V, and the mean of an output element where plain sums overflow.
#pragma once

#include <ratify/device/attention_scores.cuh>
#include <ratify/device/softmax.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// The weights of `Count` tokens of a softmax lane from token `t` on, several exponentials under way together; adds
/// them to `sum` in ascending order.
template <int Count, class Policy, class Shape>
RATIFY_HD inline void weigh_scores(attention_tile<Policy, Shape>& tile, int t, int e, float maximum, float& sum) {
  constexpr int lanes = detail::attention_traits<Policy>::softmax_lanes;
  float weight[Count];
  RATIFY_UNROLL
  for (int i = 0; i < Count; ++i)
    weight[i] = detail::exp_ordered(detail::sub_rn(tile.score(t + i * lanes)[e], maximum));
  RATIFY_UNROLL
  for (int i = 0; i < Count; ++i) {
    tile.score(t + i * lanes)[e] = put_back<v_left_out<Policy>>(weight[i]);
    sum = detail::add_rn(sum, weight[i]);
  }
}

/// Turns the scores into weights exp(score - maximum), stored times `v_left_out`, and gives the maximum and sum of each
/// entry to `write(e, maximum, sum)`. The sum: lane l of 16 adds its tokens l, l + 16, ... in ascending order, then the
/// lanes 8, 4, 2 and 1 apart are added.
RATIFY_ANY_BLOCK
template <class Policy, class Shape, class Block, class Write>
RATIFY_HD void attention_softmax(Block const& block, attention_work const& work, attention_tile<Policy, Shape>& tile,
                                 Write&& write) {
  using traits = detail::attention_traits<Policy>;
  constexpr int lanes = traits::softmax_lanes;
  int const lane = block.thread() % lanes;
  uint32_t const mask = 0xffffu << (block.lane() / lanes * lanes);
  for (int e = block.thread() / lanes; e < work.entries; e += Block::threads / lanes) {
    // Lanes stand on tokens counted from the partition's begin, whatever part of it the entry sees.
    int const begin = detail::max_of(tile.visible[e].begin - work.partition_begin, 0);
    int const end = detail::min_of(tile.visible[e].end - work.partition_begin, traits::width);
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
/// tokens, whatever the unroll.
///
/// @tparam Masked an entry skips tokens that it does not see, whatever V holds there
/// @param v the thread's columns of a token at offset 0; @param group the thread's group of entries
template <class Policy, bool Masked, class Shape>
RATIFY_HD void accumulate_values(typename Policy::kv_format const* v, attention_tile<Policy, Shape>& tile, int group,
                                 int chunk_begin, int partition_begin, token_range tokens,
                                 float (&sum)[Shape::columns][Shape::group_entries]) {
  constexpr int columns = Shape::columns, entries = Shape::group_entries;
  using words = cache_words<columns* static_cast<int>(sizeof(typename Policy::kv_format))>;
  int const first_entry = group * entries;
  auto const add = [&](words const& raw, int t) {
    constexpr int in_word = columns / words::count;
    float value[columns];
    RATIFY_UNROLL
    for (int w = 0; w < words::count; ++w)
      decode_word<Policy, in_word, v_left_out<Policy>>(raw.word[w], value + w * in_word);
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

/// The product of a tile's weights with V. Every thread gets the sums of the entries of its group, of `Shape::columns`
/// adjacent columns.
RATIFY_ANY_BLOCK
template <class Policy, class Shape, class Block>
RATIFY_HD void attention_values(Block const& block, attention_params<Policy> const& p, attention_work const& work,
                                attention_tile<Policy, Shape>& tile,
                                float (&sum)[Shape::columns][Shape::group_entries]) {
  constexpr int chunk_tokens = detail::attention_traits<Policy>::value_chunk;
  using detail::max_of;
  using detail::min_of;
  RATIFY_UNROLL
  for (int c = 0; c < Shape::columns; ++c) {
    RATIFY_UNROLL
    for (int e = 0; e < Shape::group_entries; ++e) sum[c][e] = 0.0f;
  }
  page_pool const pool(p.pool_pages);
  int const group = block.thread() / Shape::lanes;
  auto const* const v = p.v_pages.data + block.thread() % Shape::lanes * Shape::columns;
  for (int chunk = work.seen.begin; chunk < work.seen.end; chunk += chunk_tokens) {
    int const end = min_of(chunk + chunk_tokens, work.seen.end);
    block.barrier();
    for (int t = chunk + block.thread(); t < end; t += Block::threads)
      tile.v_offset[t - chunk] = token_offset(p.v_pages, pool, work.table, p.page_size, t, work.kv_head);
    block.barrier();
    if (group * Shape::group_entries >= work.entries) continue;
    int const middle = min_of(max_of(work.common.begin, chunk), end);
    int const last = min_of(max_of(work.common.end, middle), end);
    RATIFY_NO_UNROLL
    for (int part = 0; part < 3; ++part) {  // one copy of the masked loop: it is long
      if (part == 1)
        accumulate_values<Policy, false>(v, tile, group, chunk, work.partition_begin, {middle, last}, sum);
      else
        accumulate_values<Policy, true>(v, tile, group, chunk, work.partition_begin,
                                        part == 0 ? token_range{chunk, middle} : token_range{last, end}, sum);
    }
  }
}

/// The mean of one column of V over the tokens that a row sees, computed again from the tokens where the plain chains
/// overflowed or met a value of V that is not finite. The threads of a warp call it together, for a column each of the
/// same row and head.
///
/// @param i the row among its request's; @param kv_head that of the query head
/// @param maximum, value of a partition, counted from the request's first, as they were given to `combine_partials`
/// @param combined what that returned, of finite `total`
RATIFY_ANY_BLOCK
template <class Policy, class Block, class Maximum, class Value>
RATIFY_HD float guarded_attention_mean(Block const& block, attention_params<Policy> const& p,
                                       attention_request const& r, int32_t const* table, int i, int head, int column,
                                       combined_softmax const& combined, Maximum&& maximum, Value&& value) {
  using namespace detail;
  constexpr int width = attention_traits<Policy>::width, lanes = 32;
  page_pool const pool(p.pool_pages);
  int const kv_head = head / (p.q_heads / p.kv_heads);
  float const k_scale = p.k_scale[kv_head * p.scale_stride];
  auto const* const q = p.q.at(r.first_row + i, head);
  token_range const seen = visible_tokens(i, r.rows, r.context, p.window, p.causal);
  guarded_sum sum;
  for (int partition = seen.begin / width; partition * width < seen.end; ++partition) {
    int const number = partition - r.first_partition;
    float const top = maximum(number), own = value(number), weight = exp_ordered(sub_rn(top, combined.maximum));
    if (block.ballot(!is_finite(own)) == 0) {
      sum.add(own, weight, false);
      continue;
    }
    guarded_sum part;
    int const end = min_of(seen.end, (partition + 1) * width);
    for (int first = max_of(seen.begin, partition * width); first < end; first += lanes) {
      // One token per lane, then one column per lane.
      int const token = min_of(first + block.lane(), end - 1);
      float const score =
          attention_score<Policy>(q, p.k_pages.data + token_offset(p.k_pages, pool, table, p.page_size, token, kv_head),
                                  p.softmax_scale, k_scale);
      float const token_weight = exp_ordered(sub_rn(score, top));
      uint32_t const counts = block.ballot(bits(exp_ordered(sub_rn(score, combined.maximum))) != 0);
      for (int lane = 0; lane < min_of(lanes, end - first); ++lane) {
        int64_t const at = token_offset(p.v_pages, pool, table, p.page_size, first + lane, kv_head);
        part.add(to_float(p.v_pages.data[at + column]), block.shuffle(token_weight, lane), (counts >> lane & 1) != 0);
      }
    }
    if (is_finite(own))
      sum.add(own, weight, false);
    else
      sum.add(part, weight);
  }
  return sum.mean(combined.total);
}

}  // namespace device
RATIFY_END_NAMESPACE
