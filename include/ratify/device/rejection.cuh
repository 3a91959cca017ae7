// SPDX-License-Identifier: Apache-2.0
/// Rule rejection for one draft, for kernels of your own: accepting it with p / q, else drawing from what p has over q.
/// docs/arithmetic.md states the formulas.
#pragma once

#include <ratify/device/sampling.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// The distribution a draft was drawn from: its weights over some candidates, or over the vocabulary; all nullptr: the
/// draft was chosen, which is a distribution of one token. Weights need no particular sum. A candidate that is no token
/// counts nothing, one that is there twice counts both.
struct draft_distribution {
  int32_t const* candidates = nullptr;  ///< [count]
  float const* candidate_q = nullptr;   ///< [count]
  int count = 0;
  float const* probs = nullptr;  ///< [vocab]

  RATIFY_HD bool is_chosen() const { return candidates == nullptr && probs == nullptr; }
};

/// What a draft's distribution q has of each entry, at the scale of the target's masses p. Small weights that q's own
/// total divides: floor(Q * p's total / Q's total).
struct draft_shares {
  draft_distribution q;
  int32_t draft = 0;
  int largest = 1;       ///< exponent field of the largest weight
  int shift = 0;         ///< of `divisor`
  uint64_t divisor = 0;  ///< the weights' total, shifted left until its highest bit is set
  uint64_t p_total = 0;

  /// Tokens that the distribution names, some perhaps more than once; the most there may be if it names all.
  RATIFY_HD int tokens() const { return q.is_chosen() ? 1 : q.probs != nullptr ? 0x7fffffff : q.count; }
  RATIFY_HD int32_t token(int i) const { return q.is_chosen() ? draft : q.candidates[i]; }
  /// Whether no token before the i-th is the same.
  RATIFY_HD bool is_first(int i) const {
    for (int j = 0; j < i; ++j)
      if (q.candidates[j] == q.candidates[i]) return false;
    return true;
  }

  /// A weight's integer: the largest is below 2^40 and at least 2^39 (unless it is subnormal).
  RATIFY_HD uint64_t integer(float weight) const {
    uint32_t const u = detail::bits(weight) & 0x7fffffffu, exponent = u >> 23;
    return rounded_scale((u & 0x7fffffu) | (exponent != 0 ? 0x800000u : 0u),
                         16 + static_cast<int>(exponent != 0 ? exponent : 1u) - largest);
  }
  RATIFY_HD uint64_t of(int32_t id) const {
    if (q.is_chosen()) return id == draft ? p_total : 0;
    uint64_t own = 0;
    if (q.probs != nullptr)
      own = integer(q.probs[id]);
    else
      for (int c = 0; c < q.count; ++c)
        if (q.candidates[c] == id) own += integer(q.candidate_q[c]);
    return own != 0 ? detail::multiply_divide(own, p_total, divisor, shift) : 0;
  }
  /// Takes the pattern of the largest weight. @return false if it says that there is no distribution: a weight is
  /// negative, infinite or NaN, or all are 0
  RATIFY_HD bool set_largest(uint32_t weight) {
    largest = detail::max_of(static_cast<int>(weight >> 23), 1);
    return weight != 0 && weight < 0x7f800000u;
  }
  /// Takes the sum of the weights' integers, which is not 0.
  RATIFY_HD void set_total(uint64_t total) {
    divisor = total;
    for (shift = 0; divisor >> 63 == 0; ++shift) divisor <<= 1;
  }
};

/// Patterns of numbers that are not negative order like the numbers, and all others lie above: what the largest weight
/// of a draft's distribution is the maximum of.
RATIFY_HD inline uint32_t pattern_of_weight(float weight) {
  uint32_t const u = detail::bits(weight);
  return u != 0x80000000u ? u : 0;
}

/// The largest pattern among the weights weight_at(0) to weight_at(count - 1).
RATIFY_ANY_BLOCK
template <class Block, class WeightAt>
RATIFY_HD inline uint32_t largest_pattern(Block const& block, int count, WeightAt&& weight_at,
                                          detail::collective_storage<Block>& storage) {
  uint32_t own = 0;
  for (int i = block.thread(); i < count; i += Block::threads)
    own = detail::max_of(own, pattern_of_weight(weight_at(i)));
  auto const largest = static_cast<uint32_t>(detail::block_max(block, uint64_t{own}, storage));
  block.barrier();
  return largest;
}

/// The integers of these weights together.
RATIFY_ANY_BLOCK
template <class Block, class WeightAt>
RATIFY_HD inline uint64_t sum_integers(Block const& block, draft_shares const& shares, int count, WeightAt&& weight_at,
                                       detail::collective_storage<Block>& storage) {
  uint64_t own = 0;
  for (int i = block.thread(); i < count; i += Block::threads) own += shares.integer(weight_at(i));
  uint64_t const sum = detail::block_sum(block, own, storage);
  block.barrier();
  return sum;
}

/// Measures the weights of a draft's distribution. @return false if there is no such distribution: a weight is
/// negative, infinite or NaN, or all are 0
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline bool measure(Block const& block, draft_shares& shares, int vocab, draw_storage<Block>& storage) {
  draft_distribution const q = shares.q;
  if (q.is_chosen()) return true;
  int const count = q.probs != nullptr ? vocab : q.count;
  auto const weight_at = [&](int i) {
    if (q.probs != nullptr) return q.probs[i];
    return q.candidates[i] >= 0 && q.candidates[i] < vocab ? q.candidate_q[i] : 0.0f;
  };
  if (!shares.set_largest(largest_pattern(block, count, weight_at, storage.collective))) return false;
  shares.set_total(sum_integers(block, shares, count, weight_at, storage.collective));
  return true;
}

/// Whether a draft whose distribution was measured is accepted; `total` is what the masses of the kept entries sum to.
template <class Row>
RATIFY_HD inline bool accepts(Row const& row, entry_weights<draft_shares>& weights, uint32_t random, uint64_t total) {
  draft_shares& shares = weights.shares;
  shares.p_total = total;
  uint64_t const word = row.word_of(shares.draft);
  weights.kind = entry_weight::mass;
  weights.within = {};
  return is_accepted(random, shares.of(shares.draft), word != 0 ? weights.of(word) : 0);
}

/// What the replacement of a rejected draft is drawn from: what the kept entries have over the draft's distribution, or
/// if that is nothing, their masses.
RATIFY_ANY_BLOCK
template <class Block, class Row>
RATIFY_HD inline draw_source draw_from_rest(Block const& block, Row const& row, entry_weights<draft_shares>& weights,
                                            uint64_t total, int listed, draw_storage<Block>& storage) {
  weights.kind = entry_weight::residual;
  uint64_t const rest = sum_weights(block, row, weights, listed, storage);
  return rest != 0 ? draw_source{false, -1, entry_weight::residual, rest}
                   : draw_source{false, -1, entry_weight::mass, total};
}

/// Says what follows a judged draft: the draft itself, or what its replacement is drawn from.
struct judge_by_one_block {
  int vocab;
  uint32_t random;  ///< of the accept test

  RATIFY_ANY_BLOCK
  template <class Block, class Row>
  RATIFY_HD draw_source operator()(Block const& block, Row const& row, entry_weights<draft_shares>& weights,
                                   uint64_t total, int listed, draw_storage<Block>& storage) const {
    int32_t const draft = weights.shares.draft;
    draw_source const from_all{false, -1, entry_weight::mass, total};
    if (draft < 0 || draft >= vocab || !measure(block, weights.shares, vocab, storage)) return from_all;
    if (accepts(row, weights, random, total)) return {true, draft, entry_weight::mass, 0};
    return draw_from_rest(block, row, weights, total, listed, storage);
  }
};

/// Rule rejection for one draft: the draft itself where it is accepted; otherwise a token drawn from what the row's
/// distribution has over the draft's (over an empty rest, from the row's). A draft that is no token is replaced by a
/// draw from the row's distribution; so is one whose distribution has a weight that is negative, infinite or NaN, or no
/// weight at all, and that draw may give the draft. Otherwise as `draw_token`; reads the row up to 8 times more, and
/// `draft_distribution::probs` as often.
RATIFY_ANY_BLOCK
template <class Block, class Row>
RATIFY_HD inline drawn judge_draft(Block const& block, Row const& logits, sampling const& how, int32_t draft,
                                   draft_distribution const& q, uint32_t accept_random, uint32_t residual_random,
                                   draw_storage<Block>& storage) {
  draft_shares shares;
  shares.q = q;
  shares.draft = draft;
  // A row in which one token has all the mass gives that token, drafted or not.
  return draw_row(block, logits, how, residual_random, shares, judge_by_one_block{logits.vocab, accept_random},
                  storage);
}

}  // namespace device
RATIFY_END_NAMESPACE
