// SPDX-License-Identifier: Apache-2.0
/// The scores of the verify attention: softmax_scale * k_scale * dot(q, k), of a tile, and one at a time.
#pragma once

#include <ratify/detail/math.cuh>
#include <ratify/device/attention_tile.cuh>
#include <ratify/device/pages.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// Whether a dot product of finite q and k may overflow FP32.
template <class Policy>
inline constexpr bool dot_may_overflow =
    !RATIFY_STD::is_same_v<typename Policy::q_format, f16> || RATIFY_STD::is_same_v<typename Policy::kv_format, bf16>;

/// softmax_scale * k_scale * dot(q, k) where the plain one overflows: the dot product of q and k times 2^-70 each, and
/// the three factors multiplied with their exponents apart. NaN if a factor or the score itself is not finite.
template <class Policy>
RATIFY_HD float rescaled_score(typename Policy::q_format const* q, typename Policy::kv_format const* k,
                               float softmax_scale, float k_scale) {
  using namespace detail;
  constexpr float down = 0x1p-70f;
  float dot = 0.0f;
  bool finite = is_finite(k_scale);
  RATIFY_NO_UNROLL
  for (int d = 0; finite && d < Policy::head_dim; ++d) {
    float const q_element = to_float(q[d]), k_element = to_float(k[d]);
    finite = is_finite(q_element) && is_finite(k_element);
    dot = fma_rn(mul_rn(k_element, down), mul_rn(q_element, down), dot);
  }
  if (!finite) return from_bits(canonical_nan_bits);
  scaled_float const factors[] = {split(softmax_scale), split(k_scale), split(dot)};
  float const score = joined_float(mul_rn(mul_rn(factors[0].value, factors[1].value), factors[2].value),
                                   factors[0].exponent + factors[1].exponent + factors[2].exponent + 140);
  return is_finite(score) ? score : from_bits(canonical_nan_bits);
}

/// The score of one row of q and one of K, with the bits that attention_scores gives it: NaN if it is not finite.
template <class Policy>
RATIFY_HD float attention_score(typename Policy::q_format const* q, typename Policy::kv_format const* k,
                                float softmax_scale, float k_scale) {
  using namespace detail;
  float dot = 0.0f;
  for (int d = 0; d < Policy::head_dim; ++d) dot = fma_rn(to_float(k[d]), to_float(q[d]), dot);
  float const score = mul_rn(mul_rn(softmax_scale, k_scale), dot);
  if (is_finite(score)) return score;
  if (dot_may_overflow<Policy> && !is_finite(dot)) return rescaled_score<Policy>(q, k, softmax_scale, k_scale);
  return from_bits(canonical_nan_bits);
}

/// Loads the rows of q of a tile into shared storage. Ends without a barrier.
RATIFY_ANY_BLOCK
template <class Policy, class Shape, class Block>
RATIFY_HD void stage_queries(Block const& block, attention_params<Policy> const& p, attention_work const& work,
                             attention_tile<Policy, Shape>& tile) {
  // One warp per entry, and the loads of several entries under way together: each of them waits for memory.
  constexpr int warp = 32, row_loads = Policy::head_dim / warp, warps = Shape::block_threads / warp;
  constexpr int rows = detail::attention_tuning::query_rows;
  constexpr int at_once = Shape::entries % (rows * warps) == 0 ? rows : 1;
  int const heads = p.q_heads / p.kv_heads;
  for (int first = block.thread() / warp; first < Shape::entries; first += at_once * warps) {
    typename Policy::q_format raw[at_once][row_loads];
    RATIFY_UNROLL
    for (int b = 0; b < at_once; ++b) {  // past the last entry: that one again, whose scores nobody reads
      int const entry = work.first_entry + detail::min_of(first + b * warps, work.entries - 1);
      auto const* const q = p.q.at(work.first_row + entry / heads, work.kv_head * heads + entry % heads) + block.lane();
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
}

/// Dot products of the entries of a thread's group with its tokens: each one FMA chain over ascending elements.
template <class Policy, class Shape>
RATIFY_HD void accumulate_dots(typename Policy::kv_format const* const (&k)[Shape::tokens], int first_of_group,
                               attention_tile<Policy, Shape>& tile, float (&dot)[Shape::tokens][Shape::group_entries]) {
  constexpr int tokens = Shape::tokens, group_entries = Shape::group_entries;
  constexpr int bytes = detail::attention_tuning::key_bytes(tokens), in_word = word_elements<Policy>;
  constexpr int elements = bytes / static_cast<int>(sizeof(typename Policy::kv_format));
  using words = cache_words<bytes>;
  words next[tokens];
  RATIFY_UNROLL
  for (int i = 0; i < tokens; ++i) next[i] = words::load(k[i]);
  for (int d0 = 0; d0 < Policy::head_dim; d0 += elements) {
    words raw[tokens];
    RATIFY_UNROLL
    for (int i = 0; i < tokens; ++i) raw[i] = next[i];
    RATIFY_UNROLL
    for (int i = 0; i < tokens; ++i)
      next[i] = words::load(k[i] + detail::min_of(d0 + elements, Policy::head_dim - elements));
    RATIFY_UNROLL
    for (int w = 0; w < words::count; ++w) {
      float value[tokens][in_word];
      RATIFY_UNROLL
      for (int i = 0; i < tokens; ++i) decode_word<Policy, in_word, k_left_out<Policy>>(raw[i].word[w], value[i]);
      RATIFY_UNROLL
      for (int c = 0; c < in_word; ++c) {
        float registers[group_entries];
        float const* const q =
            detail::staged_floats<group_entries>(tile.q(d0 + w * in_word + c) + first_of_group, registers);
        RATIFY_UNROLL
        for (int i = 0; i < tokens; ++i) {
          RATIFY_UNROLL
          for (int e = 0; e < group_entries; ++e) dot[i][e] = detail::fma_rn(value[i][c], q[e], dot[i][e]);
        }
      }
    }
  }
}

/// Stores the scores of one token: the dot products times the scale, NaN where that is not finite.
/// @return whether all are finite
template <int Count>
RATIFY_HD inline bool store_scores(float const (&dot)[Count], float scale, float* to) {
  constexpr int at_once = Count % 4 == 0 ? 4 : 1;
  bool finite = true;
  RATIFY_UNROLL
  for (int e = 0; e < Count; e += at_once) {
    float score[at_once];
    RATIFY_UNROLL
    for (int a = 0; a < at_once; ++a) {
      float const s = detail::mul_rn(scale, dot[e + a]);
      finite = finite && detail::is_finite(s);
      score[a] = detail::is_finite(s) ? s : detail::from_bits(detail::canonical_nan_bits);
    }
    detail::store_floats(to + e, score);
  }
  return finite;
}

/// Replaces the scores of one token, of the entries of one group that see it: by +inf, which no score is, if the token
/// lies on a page outside the pool; otherwise those that are not finite by rescaled ones.
template <class Policy, class Shape>
RATIFY_HD void repair_scores(attention_params<Policy> const& p, attention_work const& work, int token,
                             int first_of_group, attention_tile<Policy, Shape>& tile) {
  page_pool const pool(p.pool_pages);
  bool const inside = pool.holds(work.table[token / p.page_size]);
  int const heads = p.q_heads / p.kv_heads;
  int const end = detail::min_of(first_of_group + Shape::group_entries, work.entries);
  RATIFY_NO_UNROLL
  for (int e = first_of_group; e < end; ++e) {
    if (token < tile.visible[e].begin || token >= tile.visible[e].end) continue;
    float& score = tile.score(token - work.partition_begin)[e];
    if (!inside) {
      score = detail::from_bits(0x7f800000u);
    } else if constexpr (dot_may_overflow<Policy>) {
      int const entry = work.first_entry + e;
      if (!detail::is_finite(score))
        score = attention_score<Policy>(
            p.q.at(work.first_row + entry / heads, work.kv_head * heads + entry % heads),
            p.k_pages.data + token_offset(p.k_pages, pool, work.table, p.page_size, token, work.kv_head),
            p.softmax_scale, p.k_scale[work.kv_head * p.scale_stride]);
    }
  }
}

/// The scores of a tile: scale * q . k. NaN stands for a score that is infinite, so that -inf is left to mean "not
/// seen" and +inf "on a page outside the pool". Needs `tile.visible`; begins with `stage_queries`; ends without a
/// barrier.
RATIFY_ANY_BLOCK
template <class Policy, class Shape, class Block>
RATIFY_HD void attention_scores(Block const& block, attention_params<Policy> const& p, attention_work const& work,
                                attention_tile<Policy, Shape>& tile) {
  constexpr int tokens = Shape::tokens, group_entries = Shape::group_entries;
  stage_queries(block, p, work, tile);
  block.barrier();
  page_pool const pool(p.pool_pages);
  float const scale = detail::mul_rn(p.softmax_scale, p.k_scale[work.kv_head * p.scale_stride]);
  int const lane = block.thread() % Shape::lanes, first_of_group = block.thread() / Shape::lanes * group_entries;
  bool const works = first_of_group < work.entries;
  for (int first = work.seen.begin; first < work.seen.end; first += tokens * Shape::lanes) {
    float dot[tokens][group_entries];
    RATIFY_UNROLL
    for (int i = 0; i < tokens; ++i) {
      RATIFY_UNROLL
      for (int e = 0; e < group_entries; ++e) dot[i][e] = 0.0f;
    }
    bool sound = true;
    if (works && first + lane < work.seen.end) {
      typename Policy::kv_format const* k[tokens];
      RATIFY_UNROLL
      for (int i = 0; i < tokens; ++i) {  // past the last token: that one again
        int const token = detail::min_of(first + lane + i * Shape::lanes, work.seen.end - 1);
        k[i] = p.k_pages.data + token_offset(p.k_pages, pool, work.table, p.page_size, token, work.kv_head);
        sound = sound && pool.holds(work.table[token / p.page_size]);
      }
      accumulate_dots(k, first_of_group, tile, dot);
    }
    if constexpr (Shape::one_pass) block.barrier();  // q has been read, and its room is for scores now
    if (!works) continue;
    RATIFY_UNROLL
    for (int i = 0; i < tokens; ++i) {
      int const token = first + lane + i * Shape::lanes;
      if (token >= work.seen.end) continue;
      bool const finite = store_scores(dot[i], scale, tile.score(token - work.partition_begin) + first_of_group);
      if constexpr (dot_may_overflow<Policy>) sound = sound && finite;
    }
    if (sound) continue;
    RATIFY_NO_UNROLL
    for (int i = 0; i < tokens; ++i)
      if (int const token = first + lane + i * Shape::lanes; token < work.seen.end)
        repair_scores(p, work, token, first_of_group, tile);
  }
}

}  // namespace device
RATIFY_END_NAMESPACE
