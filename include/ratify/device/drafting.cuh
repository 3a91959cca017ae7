// SPDX-License-Identifier: Apache-2.0
/// Drawing a draft among the candidates of a slot, and one element of the drafter's convolution, for kernels of your
/// own. docs/arithmetic.md states the formulas.
#pragma once

#include <ratify/detail/drafting_traits.cuh>
#include <ratify/device/masses.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// What one slot of a walk chooses from.
template <class Format>
struct draft_slot {
  int32_t const* candidates;            ///< [count]: one that is no token counts nothing, and nothing of it is read
  float const* unary;                   ///< [count]
  int count;                            ///< 1 to 64
  rows_view<Format const> left, right;  ///< [vocab, rank]
  float const* project;                 ///< [rank]
  int rank, vocab;
};

/// Threads that share the pair score of one candidate. Arithmetic: it is the order of the sum.
inline constexpr int pair_lanes = 8;

/// Shared memory of `draft_token`.
template <class Block>
struct draft_storage {
  float partial[detail::draft_walk_most_candidates][pair_lanes];
  uint64_t word[detail::draft_walk_most_candidates];  ///< from `draft_word`; 0 counts nothing
  uint64_t mass[detail::draft_walk_most_candidates];
  int32_t token;
};

/// The FP32 of an element of left or right. A NaN keeps its bits, on which no result depends.
RATIFY_HD inline float pair_value(float x) { return x; }
RATIFY_HD inline float pair_value(bf16 x) { return detail::from_bits(static_cast<uint32_t>(x.bits) << 16); }

/// sum + (left * project) * right, the product rounded first.
template <class Format>
RATIFY_HD inline float pair_term(Format left, float project, Format right, float sum) {
  using detail::fma_rn;
  // The inner fma is a product: a CPU runs it faster than mul_rn, which it may not contract.
  return fma_rn(fma_rn(pair_value(left), project, -0.0f), pair_value(right), sum);
}

/// The part of dot(left * project, right) that one of the 8 lanes sums, in four chains: over the elements lane, lane +
/// 32, ...; lane + 8, lane + 40, ...; and so on. The chains are added 16 apart, then 8 apart.
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

/// unary + the parts of the 8 lanes, which are added in pairs 4, 2 and 1 apart.
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

/// The entry that a candidate has in the order (score descending, id ascending): larger words stand earlier. 0 if its
/// score is NaN or -inf, so that it counts nothing.
RATIFY_HD inline uint64_t draft_word(float score, int32_t id) {
  uint32_t const key = order_key(score);
  return key > minus_infinity_key && key <= plus_infinity_key ? order_word(score, id) : 0;  // that of a NaN lies above
}

/// Weighs the candidates of a slot by their words in `storage`, draws one of them into `storage.token`, and writes q.
/// Called by the 32 threads of one warp, each after its own words; others read the token after a barrier.
RATIFY_ANY_BLOCK
template <draft_mode Mode, class Block>
RATIFY_HD inline void draw_candidate(Block const& block, int count, float temperature, uint32_t random, float* q,
                                     draft_storage<Block>& storage) {
  using namespace detail;
  if (block.lane() == 0) storage.token = -1;
  block.warp_barrier();

  uint64_t first = 0;
  int place_of_first = 0;
  for (int c = 0; c < count; ++c)
    if (storage.word[c] > first) first = storage.word[place_of_first = c];
  bool one = true;  // has all the mass
  if constexpr (Mode == draft_mode::sample) one = less(temperature, 1e-5f) || key_of_word(first) == plus_infinity_key;
  for (int c = block.lane(); c < count; c += 32) {
    uint64_t const word = storage.word[c];
    uint64_t own = 0;
    if (word != 0 && one)
      own = c == place_of_first ? largest_mass : 0;
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

/// Chooses the token of a slot after the token `previous`, and says with which probability each candidate would have
/// been chosen: mode argmax takes the first one in the order (score descending, id ascending), mode sample draws by
/// inverse CDF with 32 random bits. A candidate that is no token, or whose score is NaN or -inf, counts nothing; +inf
/// wins, of several the lowest id. Below a temperature of 1e-5 mode sample is argmax.
///
/// Called by all threads of a block of whole warps. Two calls with the same storage need no barrier between them.
/// @param temperature  finite and not negative; not used by mode argmax
/// @param random       not used by mode argmax
/// @param q            [count], or nullptr
/// @return the token, in every thread; -1, with a q of zeros, if no candidate counts or `previous` is no token
RATIFY_ANY_BLOCK
template <draft_mode Mode, class Block, class Format>
RATIFY_HD inline int32_t draft_token(Block const& block, int32_t previous, draft_slot<Format> const& slot,
                                     float temperature, uint32_t random, float* q, draft_storage<Block>& storage) {
  static_assert(detail::draft_walk_most_words == detail::acceptance_most_words,
                "ratify: one order for logits and drafts");
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

  if (block.warp() == 0) {  // what is left is little work
    for (int c = block.lane(); c < count; c += 32) {
      int32_t const id = slot.candidates[c];
      storage.word[c] = is_token(id) ? draft_word(pair_score(slot.unary[c], storage.partial[c]), id) : 0;
    }
    draw_candidate<Mode>(block, count, temperature, random, q, storage);
  }
  block.barrier();
  return storage.token;
}

/// One channel of a slot: first the tap on the slot before, which the first slot leaves out, then the slot's own.
/// @param has_before  false for the first slot: the three parameters after it have no effect
RATIFY_HD inline float draft_convolution(bool has_before, float before, float base_before, float delta_before, float x,
                                         float base, float delta) {
  using namespace detail;
  float const y = has_before ? fma_rn(add_rn(base_before, delta_before), before, 0.0f) : 0.0f;
  return fma_rn(add_rn(base, delta), x, y);
}

}  // namespace device
RATIFY_END_NAMESPACE
