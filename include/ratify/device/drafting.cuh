// SPDX-License-Identifier: Apache-2.0
/// Drawing a draft among a slot's candidates, and one place of the drafter's convolution, for kernels of your own.
/// docs/arithmetic.md states the formulas.
#pragma once

#include <ratify/detail/drafting_traits.cuh>
#include <ratify/device/acceptance.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// What one slot of a walk chooses from.
template <class Format>
struct draft_slot {
  int32_t const* candidates;            ///< [count]; one that is no token counts nothing and nothing of it is read
  float const* unary;                   ///< [count]
  int count;                            ///< 1 to 64
  rows_view<Format const> left, right;  ///< [vocab, rank]
  float const* project;                 ///< [rank]
  int rank, vocab;
};

/// Threads that share a candidate's pair score.
inline constexpr int pair_lanes = 8;

/// Shared memory of `draft_token`.
template <class Block>
struct draft_storage {
  float partial[detail::walk_most_candidates][pair_lanes];
  uint64_t word[detail::walk_most_candidates];  ///< place in the order; 0: counts nothing
  uint64_t mass[detail::walk_most_candidates];
  int32_t token;
};

/// A NaN may stay as it is: what becomes of a score depends on no NaN's bits.
RATIFY_HD inline float pair_value(float x) { return x; }
RATIFY_HD inline float pair_value(bf16 x) { return detail::from_bits(static_cast<uint32_t>(x.bits) << 16); }

/// sum + (left * project) * right, the product rounded first.
template <class Format>
RATIFY_HD inline float pair_term(Format left, float project, Format right, float sum) {
  using detail::fma_rn;
  return fma_rn(fma_rn(pair_value(left), project, -0.0f), pair_value(right), sum);  // less for a host than mul_rn
}

/// A lane's part of dot(left * project, right): its four chains, over the elements lane, lane + 32, ..., lane + 8, lane
/// + 40, ... and so on, met 16 and 8 apart.
template <class Format>
RATIFY_HD inline float pair_partial(Format const* left, float const* project, Format const* right, int rank, int lane) {
  constexpr int chains = 4, step = chains * pair_lanes;
  float sum[chains] = {0.0f, 0.0f, 0.0f, 0.0f};
  int i = lane;
  for (; i + step - pair_lanes < rank; i += step) {
    RATIFY_UNROLL
    for (int u = 0; u < chains; ++u) {
      int const at = i + u * pair_lanes;
      sum[u] = pair_term(left[at], project[at], right[at], sum[u]);
    }
  }
  RATIFY_UNROLL
  for (int u = 0; u < chains; ++u) {
    int const at = i + u * pair_lanes;
    if (at < rank) sum[u] = pair_term(left[at], project[at], right[at], sum[u]);
  }
  using detail::add_rn;
  return add_rn(add_rn(sum[0], sum[2]), add_rn(sum[1], sum[3]));
}

/// unary + the lanes' parts, met 4, 2 and 1 apart.
RATIFY_HD inline float pair_score(float unary, float const (&p)[pair_lanes]) {
  using detail::add_rn;
  float const even = add_rn(add_rn(p[0], p[4]), add_rn(p[2], p[6])),
              odd = add_rn(add_rn(p[1], p[5]), add_rn(p[3], p[7]));
  return add_rn(unary, add_rn(even, odd));
}

/// x < 2^47 as FP32, rounded half to even.
RATIFY_HD inline float nearest_float(uint64_t x) {
  int shift = 0;
  while (x >> shift >= (1u << 24)) ++shift;
  return detail::mul_rn(detail::float_from_int(static_cast<int32_t>(rounded_scale(x, -shift))),
                        detail::from_bits(static_cast<uint32_t>(127 + shift) << 23));
}

/// Chooses a slot's token after the token `previous`, and says with which probability each candidate would have been:
/// mode argmax the first in the order (score descending, id ascending), mode sample by inverse CDF with 32 random bits.
/// A candidate that is no token, or whose score is NaN or -inf, counts nothing; +inf wins, of several the lowest id. A
/// temperature (valid) below 1e-5 is argmax.
///
/// Called by all threads of a block of whole warps; two calls with the same storage need no barrier between.
/// @param temperature, random  of mode sample
/// @param q  [count], or nullptr
/// @return the token, in every thread; -1, and q of zeros, if no candidate counts or `previous` is no token
RATIFY_ANY_BLOCK
template <draft_mode Mode, class Block, class Format>
RATIFY_HD inline int32_t draft_token(Block const& block, int32_t previous, draft_slot<Format> const& slot,
                                     float temperature, uint32_t random, float* q, draft_storage<Block>& storage) {
  using namespace detail;
  static_assert(walk_most_words == acceptance_most_words, "ratify: one order for logits and drafts");
  static_assert(Block::threads % 32 == 0, "ratify: draft_token needs whole warps");
  int const thread = block.thread(), count = slot.count;
  if (previous < 0 || previous >= slot.vocab) {
    for (int c = thread; q != nullptr && c < count; c += Block::threads) q[c] = 0.0f;
    return -1;
  }
  auto const is_token = [&](int32_t id) { return id >= 0 && id < slot.vocab; };

  int const lane = thread % pair_lanes;
  for (int c = thread / pair_lanes; c < count; c += Block::threads / pair_lanes)
    if (int32_t const id = slot.candidates[c]; is_token(id))
      storage.partial[c][lane] =
          pair_partial(slot.left.row(previous), slot.project, slot.right.row(id), slot.rank, lane);
  block.barrier();

  if (block.warp() == 0) {                                                     // the rest is little
    uint32_t const plus_infinity = 0xff800000u, minus_infinity = 0x007fffffu;  // keys; a NaN's lies above
    for (int c = block.lane(); c < count; c += 32) {
      uint64_t word = 0;
      if (int32_t const id = slot.candidates[c]; is_token(id)) {
        float const score = pair_score(slot.unary[c], storage.partial[c]);
        uint32_t const key = order_key(score);
        if (key > minus_infinity && key <= plus_infinity) word = order_word(score, id);
      }
      storage.word[c] = word;
    }
    if (block.lane() == 0) storage.token = -1;
    block.warp_barrier();

    uint64_t first = 0;
    int place_of_first = 0;
    for (int c = 0; c < count; ++c)
      if (storage.word[c] > first) first = storage.word[place_of_first = c];
    bool one = true;
    if constexpr (Mode == draft_mode::sample) one = less(temperature, 1e-5f) || key_of_word(first) == plus_infinity;
    for (int c = block.lane(); c < count; c += 32) {
      uint64_t const word = storage.word[c];
      uint64_t own = 0;
      if (word != 0 && one)
        own = c == place_of_first ? uint64_t{1} << 40 : 0;
      else if (word != 0)
        own = mass(value_of_key(key_of_word(word)), value_of_key(key_of_word(first)), temperature);
      storage.mass[c] = own;
    }
    block.warp_barrier();

    uint64_t total = 0;
    for (int c = 0; c < count; ++c) total += storage.mass[c];
    uint64_t const point = draw_point(random, total);
    for (int c = block.lane(); c < count; c += 32) {
      uint64_t const word = storage.word[c], own = storage.mass[c];
      uint64_t before = 0;
      for (int i = 0; i < count; ++i) {
        uint64_t const other = storage.word[i];
        if (other > word || (other == word && i < c)) before += storage.mass[i];
      }
      if (before <= point && point < before + own) storage.token = id_of_word(word);
      if (q != nullptr) q[c] = own == 0 ? 0.0f : div_rn(nearest_float(own), nearest_float(total));
    }
  }
  block.barrier();
  return storage.token;
}

/// One channel of a slot: the tap on the slot before, then the slot's own. `before` is not looked at in slot 0, for
/// which the first of the two is left out.
RATIFY_HD inline float draft_convolution(bool has_before, float before, float base_before, float delta_before, float x,
                                         float base, float delta) {
  using namespace detail;
  float const y = has_before ? fma_rn(add_rn(base_before, delta_before), before, 0.0f) : 0.0f;
  return fma_rn(add_rn(base, delta), x, y);
}

}  // namespace device
RATIFY_END_NAMESPACE
