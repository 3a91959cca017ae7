// SPDX-License-Identifier: Apache-2.0
/// Drawing a row's token and accepting drafts, for kernels of your own. Integers decide everything, so that any number
/// of threads gives the same token. docs/arithmetic.md states the formulas.
#pragma once

#include <ratify/detail/acceptance_traits.cuh>
#include <ratify/detail/machine/collectives.cuh>
#include <ratify/detail/math.cuh>
#include <ratify/detail/philox.cuh>

RATIFY_BEGIN_NAMESPACE

/// Why a request's emission stopped.
enum class acceptance_finish : int32_t {
  none = 0,    ///< a draft was rejected, or all were accepted and the token after them emitted
  end = 1,     ///< an end token was emitted
  limit = 2,   ///< as many tokens as `limit` allows were emitted
  bad_row = 3  ///< the next row holds a NaN or nothing above -inf, or the request's sampling parameters are invalid
};

namespace device {

/// How a request draws its tokens.
struct sampling {
  float temperature;  ///< below 1e-5 greedy
  float top_p;        ///< 1: off
  int32_t top_k;      ///< 0, -1, or >= vocab: off
};

/// Temperature finite and not negative, top_p in 0..1, top_k at least -1.
RATIFY_HD inline bool is_valid(sampling const& s) {
  uint32_t const t = detail::bits(s.temperature), p = detail::bits(s.top_p), minus_zero = 0x80000000u;
  return (t < 0x7f800000u || t == minus_zero) && (p <= 0x3f800000u || p == minus_zero) && s.top_k >= -1;
}

/// 32 bits that order like the numbers: -0 = +0, -inf is 0x007fffff, +inf 0xff800000, NaN 0xffffffff.
RATIFY_HD inline uint32_t order_key(float x) {
  uint32_t const u = detail::bits(detail::canonical(x));
  if (u == 0x80000000u) return u;
  return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/// The number of a key.
RATIFY_HD inline float value_of_key(uint32_t key) {
  return detail::from_bits(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

/// A word that is larger the earlier an entry stands in the order (stored logit descending, id ascending). Never 0.
RATIFY_HD inline uint64_t order_word(float logit, int32_t id) {
  return static_cast<uint64_t>(order_key(logit)) << detail::acceptance_id_bits |
         static_cast<uint64_t>(detail::acceptance_most_words - 1 - id);
}
RATIFY_HD inline uint32_t key_of_word(uint64_t word) {
  return static_cast<uint32_t>(word >> detail::acceptance_id_bits);
}
RATIFY_HD inline int32_t id_of_word(uint64_t word) {
  return detail::acceptance_most_words - 1 - static_cast<int32_t>(word & (detail::acceptance_most_words - 1));
}

/// significand * 2^shift, rounded half to even.
RATIFY_HD inline uint64_t rounded_scale(uint64_t significand, int shift) {
  if (shift >= 0) return significand << shift;
  if (shift < -24) return 0;
  return (significand + (uint64_t{1} << (-shift - 1)) - 1 + (significand >> -shift & 1u)) >> -shift;
}

/// 2^40 * e for 0 <= e <= 1, rounded half to even. Exact from 2^-17 up.
RATIFY_HD inline uint64_t mass_of_exponential(float e) {
  uint32_t const u = detail::bits(e);
  return rounded_scale((u & 0x7fffffu) | 0x800000u, static_cast<int>(u >> 23) - 110);
}

/// An entry's share of its row, in units of 2^-40 of the largest entry's.
RATIFY_HD inline uint64_t mass(float logit, float maximum, float temperature) {
  return mass_of_exponential(detail::exp_ordered(detail::div_rn(detail::sub_rn(logit, maximum), temperature)));
}

/// The smallest integer >= top_p * total (the exact FP32 value), at least 1: what the kept prefix must reach.
/// 0 <= top_p <= 1, total < 2^63.
RATIFY_HD inline uint64_t top_p_target(float top_p, uint64_t total) {
  uint32_t const u = detail::bits(top_p) & 0x7fffffffu, exponent = u >> 23;
  uint64_t const significand = (u & 0x7fffffu) | (exponent != 0 ? 0x800000u : 0u);
  int const shift = 150 - static_cast<int>(exponent != 0 ? exponent : 1u);  // top_p = significand / 2^shift; >= 23
  uint64_t const high = detail::multiply_high(significand, total), low = significand * total;
  uint64_t quotient = 0;
  bool rest = false;
  if (shift < 64) {
    quotient = high << (64 - shift) | low >> shift;
    rest = low << (64 - shift) != 0;
  } else if (shift < 128) {
    quotient = high >> (shift - 64);
    rest = low != 0 || (high & ((uint64_t{1} << (shift - 64)) - 1)) != 0;
  } else {
    rest = (high | low) != 0;
  }
  quotient += rest ? 1u : 0u;
  return quotient != 0 ? quotient : 1u;
}

/// floor(random * total / 2^32): the drawn entry is the first whose running mass exceeds it. total < 2^63.
RATIFY_HD inline uint64_t draw_point(uint32_t random, uint64_t total) {
  return detail::multiply_high(static_cast<uint64_t>(random) << 32, total);
}

/// random * q < 2^32 * p, exactly: a draft of these two masses is accepted. p < 2^63.
RATIFY_HD inline bool is_accepted(uint32_t random, uint64_t q, uint64_t p) {
  uint64_t const high = detail::multiply_high(random, q), low = random * q;
  return high < p >> 32 || (high == p >> 32 && low < p << 32);
}

/// A row's own token.
struct drawn {
  int32_t token;  ///< -1 in a bad row
  bool bad;       ///< a NaN, or nothing above -inf
};

/// What a shard holds of a row: `count` ids from `begin` up.
template <class Format>
struct logits_shard {
  Format const* data;
  int begin, count;
};

/// One row of logits, whole or in shards: shard s holds ids s * shard_vocab up, the last one what is left.
template <class Format>
struct logits_row {
  Format const* data;
  int vocab;
  int count;             ///< of shards
  int shard_vocab;       ///< vocab: whole
  int64_t shard_stride;  ///< elements from the row in a shard to the row in the next one

  /// The word of a token's entry.
  RATIFY_HD uint64_t word_of(int32_t id) const {
    return order_word(to_float(data[id / shard_vocab * shard_stride + id % shard_vocab]), id);
  }
  RATIFY_HD int shards() const { return count; }
  RATIFY_HD logits_shard<Format> shard(int s) const {
    int const begin = s * shard_vocab;
    return {data + s * shard_stride, begin, detail::min_of(shard_vocab, vocab - begin)};
  }
};
template <class Format>
RATIFY_HD inline logits_row<Format> whole_row(Format const* logits, int vocab) {
  return {logits, vocab, 1, vocab, 0};
}

/// The first entries of a row, in summaries of `places` words, one for each shard of the vocabulary.
struct summarised_row {
  acceptance_word const* data;
  int vocab;  ///< of the row that was summarised
  int count;  ///< of summaries
  int places;
  int64_t shard_stride;  ///< elements from a summary to that of the next shard

  RATIFY_HD uint64_t word_of(int32_t id) const {
    for (int s = 0; s < count; ++s)
      for (int i = 0; i < places; ++i) {
        uint64_t const word = data[s * shard_stride + i].bits;
        if (word != 0 && id_of_word(word) == id) return word;
      }
    return 0;
  }
  RATIFY_HD int shards() const { return count; }
  RATIFY_HD logits_shard<acceptance_word> shard(int s) const { return {data + s * shard_stride, 0, places}; }
};

/// A row whose pieces were summarised one by one: their words, dense, hold all entries that can be kept, and the row
/// itself is at hand.
template <class Format>
struct pieced_row {
  logits_row<Format> logits;
  acceptance_word const* words;
  int count;  ///< of words
  int vocab;

  RATIFY_HD uint64_t word_of(int32_t id) const { return logits.word_of(id); }
  RATIFY_HD int shards() const { return 1; }
  RATIFY_HD logits_shard<acceptance_word> shard(int) const { return {words, 0, count}; }
};

/// What stands in a summary of a row whose top_k asks for more entries than a summary holds.
inline constexpr uint64_t no_summary = ~uint64_t{0};

/// The distribution a draft was drawn from: its weights over some candidates, or over the vocabulary; all nullptr: the
/// draft was chosen, which is a distribution of one token. Weights need no particular sum. A candidate that is no token
/// counts nothing, one that is there twice counts both.
struct draft_distribution {
  int32_t const* candidates;  ///< [count]
  float const* candidate_q;   ///< [count]
  int count;
  float const* probs;  ///< [vocab]
};

}  // namespace device

namespace detail {

/// An entry found by running weight: its word, and the running weight up to and with it.
struct selected {
  uint64_t word, inclusive;
};

inline constexpr int selection_bins = 2048;
inline constexpr int selection_places = acceptance_most_places;  ///< entries a list in shared memory holds
inline constexpr int selection_direct = 128;                     ///< rows this short go into the list whole
inline constexpr int selection_levels = 5;  ///< digits of a word: 11, 11 and 10 bits of the key, 11 and 11 of the id

template <class Block>
struct selection_storage {
  uint64_t coarse[selection_bins];  ///< weight by first digit; kept, because top-p and the draw both start from it
  uint64_t fine[selection_bins];    ///< weight by a later digit, of the entries that share the digits before
  uint64_t word[selection_places];
  uint64_t weight[selection_places];
  collective_storage<Block> collective;
  selected chosen;
  uint64_t bound;
  uint32_t count;  ///< entries that belong in the list, which may be more than it holds
};

/// floor(a * b / c) for a <= c. `divisor` is c shifted left by `shift`, so that its highest bit is set. Two digits of
/// 32 bits by long division (Knuth, The Art of Computer Programming 2, 4.3.1, algorithm D).
RATIFY_HD inline uint64_t multiply_divide(uint64_t a, uint64_t b, uint64_t divisor, int shift) {
  uint64_t high = multiply_high(a, b), low = a * b;
  if (shift > 0) {
    high = high << shift | low >> (64 - shift);
    low <<= shift;
  }
  uint64_t const d1 = divisor >> 32, d0 = divisor & 0xffffffffu;
  uint64_t quotient = 0;
  RATIFY_UNROLL
  for (int digit = 0; digit < 2; ++digit) {
    uint64_t const next = digit == 0 ? low >> 32 : low & 0xffffffffu;
    uint64_t guess = high / d1, rest = high - guess * d1;
    while (guess >> 32 != 0 || guess * d0 > (rest << 32 | next)) {
      --guess;
      rest += d1;
      if (rest >> 32 != 0) break;
    }
    high = (high << 32 | next) - guess * divisor;
    quotient = quotient << 32 | guess;
  }
  return quotient;
}

/// What a draft's distribution q has of each entry, at the scale of the target's masses p. Small weights that q's own
/// total divides: floor(Q * p's total / Q's total).
struct draft_shares {
  device::draft_distribution q;
  int32_t draft;
  int largest;       ///< exponent field of the largest weight
  int shift;         ///< of `divisor`
  uint64_t divisor;  ///< the weights' total, shifted left until its highest bit is set
  uint64_t p_total;

  RATIFY_HD bool is_chosen() const { return q.candidates == nullptr && q.probs == nullptr; }

  /// A weight's integer: the largest is below 2^40 and at least 2^39 (unless it is subnormal).
  RATIFY_HD uint64_t integer(float weight) const {
    uint32_t const u = bits(weight) & 0x7fffffffu, exponent = u >> 23;
    return device::rounded_scale((u & 0x7fffffu) | (exponent != 0 ? 0x800000u : 0u),
                                 16 + static_cast<int>(exponent != 0 ? exponent : 1u) - largest);
  }
  RATIFY_HD uint64_t of(int32_t id) const {
    if (is_chosen()) return id == draft ? p_total : 0;
    uint64_t own = 0;
    if (q.probs != nullptr)
      own = integer(q.probs[id]);
    else
      for (int c = 0; c < q.count; ++c)
        if (q.candidates[c] == id) own += integer(q.candidate_q[c]);
    return own != 0 ? multiply_divide(own, p_total, divisor, shift) : 0;
  }
};

/// Where nothing is compared with the drafts.
struct no_shares {
  RATIFY_HD uint64_t of(int32_t) const { return 0; }
};

enum class entry_weight {
  one,
  mass,
  residual  ///< the mass less the draft's share, where that is more than 0
};

/// A row of logits and what gives its entries their weights.
template <class Row, class Shares>
struct weighed_row {
  Row logits;
  float maximum, temperature;
  uint64_t lowest;  ///< entries whose word is smaller are cut by top-k or top-p
  Shares shares;

  RATIFY_HD uint64_t weight(entry_weight kind, uint64_t word) const {
    if (kind == entry_weight::one) return 1;
    uint64_t const mass = device::mass(device::value_of_key(device::key_of_word(word)), maximum, temperature);
    if (kind == entry_weight::mass || mass == 0) return mass;
    uint64_t const share = shares.of(device::id_of_word(word));
    return mass > share ? mass - share : 0;
  }
};

inline constexpr int words_at_once = 4;

template <class Format>
RATIFY_HD inline uint64_t word_of_entry(Format logit, int32_t id) {
  return device::order_word(to_float(logit), id);
}
RATIFY_HD inline uint64_t word_of_entry(acceptance_word word, int32_t) { return word.bits; }

/// Words of a shard's entries first, first + threads, ...; 0 past its end. Loads first, so that they are under way
/// together.
template <int Threads, class Format>
RATIFY_HD inline void load_words(device::logits_shard<Format> const& shard, int first,
                                 uint64_t (&words)[words_at_once]) {
  Format x[words_at_once];
  RATIFY_UNROLL
  for (int u = 0; u < words_at_once; ++u) {
    int const at = first + u * Threads;
    x[u] = shard.data[at < shard.count ? at : first];
  }
  RATIFY_UNROLL
  for (int u = 0; u < words_at_once; ++u) {
    int const at = first + u * Threads;
    words[u] = at < shard.count ? word_of_entry(x[u], shard.begin + at) : 0;
  }
}

RATIFY_HD constexpr int digit_shift(int level) { return level < 2 ? 43 - 11 * level : 22 - 11 * (level - 2); }
RATIFY_HD constexpr int digit_bits(int level) { return level == 2 ? 10 : 11; }

/// Puts the row's words that are at least `lowest` (>= 1) into the list, in no order.
/// @return how many there are; they are in the list if it holds so many
RATIFY_ANY_BLOCK
template <class Block, class Row, class Shares>
RATIFY_HD inline int gather_words(Block const& block, weighed_row<Row, Shares> const& row, uint64_t lowest,
                                  selection_storage<Block>& storage) {
  if (block.thread() == 0) storage.count = 0;
  block.barrier();
  for (int s = 0; s < row.logits.shards(); ++s) {
    auto const shard = row.logits.shard(s);
    for (int first = block.thread(); first < shard.count; first += words_at_once * Block::threads) {
      uint64_t words[words_at_once];
      load_words<Block::threads>(shard, first, words);
      RATIFY_UNROLL
      for (int u = 0; u < words_at_once; ++u) {
        if (words[u] < lowest) continue;
        uint32_t const place = block.atomic_add(&storage.count, 1u);
        if (place < selection_places) storage.word[place] = words[u];
      }
    }
  }
  block.barrier();
  int const count = static_cast<int>(storage.count);
  block.barrier();
  return count;
}

/// Sums the weights of the row's entries whose earlier digits are `prefix` by the digit of this level. With `gather`
/// these entries also go into the list.
RATIFY_ANY_BLOCK
template <class Block, class Row, class Shares>
RATIFY_HD inline void sum_by_digit(Block const& block, weighed_row<Row, Shares> const& row, entry_weight kind,
                                   int level, uint64_t prefix, bool gather, uint64_t (&bins)[selection_bins],
                                   selection_storage<Block>& storage) {
  for (int i = block.thread(); i < selection_bins; i += Block::threads) bins[i] = 0;
  if (block.thread() == 0) storage.count = 0;
  block.barrier();
  int const shift = digit_shift(level), bits = digit_bits(level);
  for (int s = 0; s < row.logits.shards(); ++s) {
    auto const shard = row.logits.shard(s);
    for (int first = block.thread(); first < shard.count; first += words_at_once * Block::threads) {
      uint64_t words[words_at_once];
      load_words<Block::threads>(shard, first, words);
      RATIFY_UNROLL
      for (int u = 0; u < words_at_once; ++u) {
        uint64_t const word = words[u];
        if (word < row.lowest || word >> (shift + bits) != prefix) continue;
        uint64_t const weight = row.weight(kind, word);
        if (weight == 0) continue;
        block.atomic_add(&bins[word >> shift & ((1u << bits) - 1)], weight);
        if (!gather) continue;
        uint32_t const place = block.atomic_add(&storage.count, 1u);
        if (place >= selection_places) continue;
        storage.word[place] = word;
        storage.weight[place] = weight;
      }
    }
  }
  block.barrier();
}

/// The weight in all bins.
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline uint64_t sum_of_bins(Block const& block, uint64_t const (&bins)[selection_bins],
                                      selection_storage<Block>& storage) {
  uint64_t own = 0;
  for (int i = block.thread(); i < selection_bins; i += Block::threads) own += bins[i];
  uint64_t const total = block_sum(block, own, storage.collective);
  block.barrier();
  return total;
}

/// The highest digit at which the running weight, `before` and then the bins from the top, reaches `target`.
/// @return {the digit, the running weight before it}
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline selected find_digit(Block const& block, uint64_t const (&bins)[selection_bins], uint64_t before,
                                     uint64_t target, selection_storage<Block>& storage) {
  constexpr int share = selection_bins / Block::threads;
  static_assert(share * Block::threads == selection_bins, "ratify: the block's threads must divide the bins");
  int const top = selection_bins - 1 - block.thread() * share;
  uint64_t own = 0;
  for (int i = 0; i < share; ++i) own += bins[top - i];
  uint64_t running = before + block_exclusive_sum(block, own, storage.collective).before;
  if (running < target && target <= running + own) {
    int i = 0;
    while (running + bins[top - i] < target) running += bins[top - i++];
    storage.chosen = {static_cast<uint64_t>(top - i), running};
  }
  block.barrier();
  return storage.chosen;
}

/// The first of the list's `n` entries, in order, at which the running weight (`before`, then theirs) reaches `target`.
/// Quadratic, without a sort: an entry's running weight is what stands above it.
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline selected select_in_list(Block const& block, int n, uint64_t before, uint64_t target,
                                         selection_storage<Block>& storage) {
  for (int i = block.thread(); i < n; i += Block::threads) {
    uint64_t const own = storage.weight[i], word = storage.word[i];
    uint64_t running = before;
    for (int j = 0; j < n; ++j) running += storage.word[j] > word ? storage.weight[j] : 0;
    if (running < target && target <= running + own) storage.chosen = {word, running + own};
  }
  block.barrier();
  selected const found = storage.chosen;
  block.barrier();
  return found;
}

/// The same over the whole row; `coarse` holds its weights by first digit, and target is 1 to their sum.
RATIFY_ANY_BLOCK
template <class Block, class Row, class Shares>
RATIFY_HD inline selected select_in_row(Block const& block, weighed_row<Row, Shares> const& row, entry_weight kind,
                                        uint64_t target, selection_storage<Block>& storage) {
  selected at = find_digit(block, storage.coarse, 0, target, storage);
  uint64_t prefix = at.word;
  for (int level = 1; level < selection_levels; ++level) {
    // In a long row many entries share one digit; two digits leave few, unless there are ties.
    bool const gather = level > 1 || row.logits.vocab <= 8 * selection_places;
    sum_by_digit(block, row, kind, level, prefix, gather, storage.fine, storage);
    if (gather && storage.count <= selection_places)
      return select_in_list(block, static_cast<int>(storage.count), at.inclusive, target, storage);
    at = find_digit(block, storage.fine, at.inclusive, target, storage);
    prefix = prefix << digit_bits(level) | at.word;
  }
  selected const found{prefix, at.inclusive + storage.fine[at.word]};
  block.barrier();
  return found;
}

/// What top-k and top-p leave of a row.
struct kept_entries {
  bool decided;  ///< the row is bad or has one entry, and `only` is all there is to know
  device::drawn only;
  int listed;      ///< entries in the list, which holds all kept ones; 0: the row itself must be read
  uint64_t total;  ///< of their masses
};

/// Gives the entries their weights, in the list or by first digit. @return the sum
RATIFY_ANY_BLOCK
template <class Block, class Row, class Shares>
RATIFY_HD inline uint64_t weigh(Block const& block, weighed_row<Row, Shares> const& row, entry_weight kind, int listed,
                                selection_storage<Block>& storage) {
  if (listed == 0) {
    sum_by_digit(block, row, kind, 0, 0, false, storage.coarse, storage);
    return sum_of_bins(block, storage.coarse, storage);
  }
  uint64_t sum = 0;
  for (int i = block.thread(); i < listed; i += Block::threads) {
    uint64_t const word = storage.word[i], weight = word < row.lowest ? 0 : row.weight(kind, word);
    storage.weight[i] = weight;
    sum += weight;
  }
  return block_sum(block, sum, storage.collective);
}

/// The first entry, in order, at which the running weight reaches `target`, of entries that were weighed.
RATIFY_ANY_BLOCK
template <class Block, class Row, class Shares>
RATIFY_HD inline selected select(Block const& block, weighed_row<Row, Shares> const& row, entry_weight kind, int listed,
                                 uint64_t target, selection_storage<Block>& storage) {
  return listed > 0 ? select_in_list(block, listed, 0, target, storage)
                    : select_in_row(block, row, kind, target, storage);
}

/// The first entry's word. Leaves the first word of each thread's own entries in `collective.value`.
RATIFY_ANY_BLOCK
template <class Block, class Row>
RATIFY_HD inline uint64_t first_word(Block const& block, Row const& row, selection_storage<Block>& storage) {
  uint64_t own = 0;
  for (int s = 0; s < row.shards(); ++s) {
    auto const shard = row.shard(s);
    for (int first = block.thread(); first < shard.count; first += words_at_once * Block::threads) {
      uint64_t words[words_at_once];
      load_words<Block::threads>(shard, first, words);
      RATIFY_UNROLL
      for (int u = 0; u < words_at_once; ++u) own = max_of(own, words[u]);
    }
  }
  if (block.thread() == 0) storage.bound = 1;
  return block_max(block, own, storage.collective);
}

/// After `first_word`: a bound from below of the word that is `top_k`-th in order, which few words exceed by much
/// unless the row is arranged so: the k-th largest of the first words of groups of threads. 1 if there are too few.
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline uint64_t bound_of_first(Block const& block, int top_k, selection_storage<Block>& storage) {
  // Everyone is compared with everyone: fewer groups where they are twice what is asked for.
  static_assert(Block::threads <= selection_places, "ratify: the list holds the first word of every thread");
  constexpr int few = min_of(Block::threads, 128);
  int const groups = 2 * top_k <= few ? few : Block::threads, t = block.thread();
  uint64_t best = 0;
  if (t < groups) {
    for (int i = t; i < Block::threads; i += groups) best = max_of(best, storage.collective.value[i]);
    storage.weight[t] = best;
  }
  block.barrier();
  if (t < groups) {
    int above = 0;
    for (int i = 0; i < groups; ++i) above += storage.weight[i] > best ? 1 : 0;
    if (above == top_k - 1 && best != 0) storage.bound = best;
  }
  block.barrier();
  return storage.bound;
}

/// After `first_word`: puts the first `top_k` entries (all if it is off) into the list, if that is worth it, with
/// `row.lowest` the word of the last one; others in the list lie below. @return entries in the list; 0: it is not used
RATIFY_ANY_BLOCK
template <class Block, class Row, class Shares>
RATIFY_HD inline int list_first(Block const& block, weighed_row<Row, Shares>& row, int top_k,
                                selection_storage<Block>& storage) {
  int const vocab = row.logits.vocab;
  row.lowest = 1;
  bool const cut = top_k > 0 && top_k < vocab;
  if (!cut) return vocab <= selection_direct ? gather_words(block, row, 1, storage) : 0;
  uint64_t const most = static_cast<uint64_t>(top_k);
  int listed = 0;
  if (top_k <= Block::threads) {
    uint64_t const bound = bound_of_first(block, top_k, storage);
    int const n = gather_words(block, row, bound, storage);
    if (n <= selection_places) listed = n;
    if (listed > 0) row.lowest = bound;
  }
  if (listed == 0) {
    sum_by_digit(block, row, entry_weight::one, 0, 0, false, storage.coarse, storage);
    row.lowest = select_in_row(block, row, entry_weight::one, most, storage).word;
    if (top_k <= selection_places) listed = gather_words(block, row, row.lowest, storage);
  }
  if (listed > top_k) {
    for (int i = block.thread(); i < listed; i += Block::threads) storage.weight[i] = 1;
    block.barrier();
    row.lowest = select_in_list(block, listed, 0, most, storage).word;
  }
  return listed;
}

/// Reads the row: its maximum, then top-k, then top-p of what top-k kept. Fills the row's `maximum` and `lowest`, and
/// weighs the entries by mass; those past the top-p cut have weights too, and stand after all kept ones.
RATIFY_ANY_BLOCK
template <class Block, class Row, class Shares>
RATIFY_HD inline kept_entries find_kept(Block const& block, weighed_row<Row, Shares>& row, device::sampling const& how,
                                        selection_storage<Block>& storage) {
  uint64_t const top = first_word(block, row.logits, storage);
  uint32_t const key = device::key_of_word(top), plus_infinity = 0xff800000u, minus_infinity = 0x007fffffu;
  if (key > plus_infinity || key <= minus_infinity) return {true, {-1, true}, 0, 0};
  if (key == plus_infinity || less(how.temperature, 1e-5f) || how.top_k == 1)
    return {true, {device::id_of_word(top), false}, 0, 0};

  row.maximum = device::value_of_key(key);
  row.temperature = how.temperature;
  int const listed = list_first(block, row, how.top_k, storage);
  uint64_t total = weigh(block, row, entry_weight::mass, listed, storage);
  if (bits(how.top_p) != 0x3f800000u) {
    selected const last =
        select(block, row, entry_weight::mass, listed, device::top_p_target(how.top_p, total), storage);
    row.lowest = last.word;
    total = last.inclusive;
  }
  return {false, {-1, false}, listed, total};
}

/// Measures the weights of a draft's distribution. @return false if there is no such distribution: a weight is
/// negative, infinite or NaN, or all are 0.
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline bool measure(Block const& block, draft_shares& shares, int vocab, selection_storage<Block>& storage) {
  if (shares.is_chosen()) return true;
  bool const dense = shares.q.probs != nullptr;
  float const* const weights = dense ? shares.q.probs : shares.q.candidate_q;
  int const n = dense ? vocab : shares.q.count;
  auto const counts = [&](int i) { return dense || (shares.q.candidates[i] >= 0 && shares.q.candidates[i] < vocab); };
  uint32_t own = 0;  // patterns of numbers that are not negative order like the numbers; all others lie above
  for (int i = block.thread(); i < n; i += Block::threads)
    if (uint32_t const u = bits(weights[i]); u != 0x80000000u && counts(i)) own = max_of(own, u);
  uint64_t const largest = block_max(block, own, storage.collective);
  block.barrier();
  if (largest == 0 || largest >= 0x7f800000u) return false;
  shares.largest = max_of(static_cast<int>(largest >> 23), 1);
  uint64_t sum = 0;
  for (int i = block.thread(); i < n; i += Block::threads)
    if (counts(i)) sum += shares.integer(weights[i]);
  shares.divisor = block_sum(block, sum, storage.collective);
  block.barrier();
  for (shares.shift = 0; shares.divisor >> 63 == 0; ++shares.shift) shares.divisor <<= 1;
  return true;
}

}  // namespace detail

namespace device {

/// Shared memory of `draw_token` and `judge_draft`.
template <class Block>
using draw_storage = detail::selection_storage<Block>;

/// The token a row of logits gives under `how` (valid) with 32 random bits: top-k, then top-p of what top-k kept, then
/// the inverse CDF. Called by all threads of a block, which must divide 2048; a barrier must stand between two calls
/// with the same storage. Reads the row twice where top-k is at most the block's threads and few entries tie, 4 to 13
/// times otherwise; once for greedy.
RATIFY_ANY_BLOCK
template <class Block, class Row>
RATIFY_HD inline drawn draw_token(Block const& block, Row const& logits, sampling const& how, uint32_t random,
                                  draw_storage<Block>& storage) {
  using namespace detail;
  weighed_row<Row, no_shares> row{logits, 0, 0, 1, {}};
  kept_entries const kept = find_kept(block, row, how, storage);
  if (kept.decided) return kept.only;
  uint64_t const target = draw_point(random, kept.total) + 1;
  return {id_of_word(select(block, row, entry_weight::mass, kept.listed, target, storage).word), false};
}
RATIFY_ANY_BLOCK
template <class Block, class Format>
RATIFY_HD inline drawn draw_token(Block const& block, Format const* logits, int vocab, sampling const& how,
                                  uint32_t random, draw_storage<Block>& storage) {
  return draw_token(block, whole_row(logits, vocab), how, random, storage);
}

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
  using namespace detail;
  weighed_row<Row, draft_shares> row{logits, 0, 0, 1, {q, draft, 0, 0, 0, 0}};
  kept_entries const kept = find_kept(block, row, how, storage);
  if (kept.decided) return kept.only;  // where one token has all the mass, it follows, drafted or not
  block.barrier();
  uint64_t total = kept.total;
  entry_weight kind = entry_weight::mass;
  row.shares.p_total = total;
  if (draft >= 0 && draft < logits.vocab && measure(block, row.shares, logits.vocab, storage)) {
    uint64_t const word = logits.word_of(draft);
    uint64_t const p = word < row.lowest ? 0 : row.weight(entry_weight::mass, word);
    if (is_accepted(accept_random, row.shares.of(draft), p)) return {draft, false};
    kind = entry_weight::residual;
    uint64_t const rest = weigh(block, row, kind, kept.listed, storage);
    block.barrier();
    if (rest != 0) {
      total = rest;
    } else {
      kind = entry_weight::mass;
      (void)weigh(block, row, kind, kept.listed, storage);
    }
  }
  uint64_t const target = draw_point(residual_random, total) + 1;
  return {id_of_word(select(block, row, kind, kept.listed, target, storage).word), false};
}

/// The first entries of a shard's row, in order, as `acceptance` reads them: as many as `how` can keep of it, 0 behind
/// them; `no_summary` first where that is more than `places` (1 to 512). Called like `draw_token`.
/// @param first_id  id of the shard's first entry
RATIFY_ANY_BLOCK
template <class Block, class Format>
RATIFY_HD inline void summarise_row(Block const& block, Format const* logits, int vocab, int32_t first_id,
                                    sampling const& how, acceptance_word* words, int places,
                                    draw_storage<Block>& storage) {
  using namespace detail;
  bool const greedy = less(how.temperature, 1e-5f) || !is_valid(how);
  int const most = greedy ? 1 : (how.top_k > 0 && how.top_k < vocab ? how.top_k : vocab);
  for (int i = block.thread(); i < places; i += Block::threads)
    words[i].bits = i == 0 && most > places ? no_summary : 0;
  if (most > places) return;
  weighed_row<logits_row<Format>, no_shares> row{whole_row(logits, vocab), 0, 0, 1, {}};
  (void)first_word(block, row.logits, storage);
  block.barrier();  // the words above are written
  int listed = list_first(block, row, most, storage);
  if (listed == 0) listed = gather_words(block, row, 1, storage);
  for (int i = block.thread(); i < listed; i += Block::threads) {
    uint64_t const word = storage.word[i];
    if (word < row.lowest) continue;
    int place = 0;
    for (int j = 0; j < listed; ++j) place += storage.word[j] > word ? 1 : 0;
    words[place].bits = word - static_cast<uint64_t>(first_id);  // a higher id stands later
  }
}

/// What a request's round came to.
struct outcome {
  int32_t emitted, accepted;
  acceptance_finish finish;
};

/// Emits the tokens that the rows of one request of `drafts` drafts give, up to and with the first that differs from
/// its draft.
/// @param token, bad   [drafts + 1] what `draw_token` or `judge_draft` gave for each row (bad: not 0)
/// @param draft        [drafts]; one that is no token of the vocabulary equals none
/// @param tokens       [capacity], capacity > drafts: emitted tokens, then -1
RATIFY_HD inline outcome accept_rows(int32_t const* token, int32_t const* bad, int32_t const* draft, int drafts,
                                     int32_t const* end_tokens, int end_count, int32_t limit, int32_t* tokens,
                                     int capacity) {
  outcome out{0, 0, acceptance_finish::none};
  bool agrees = true;
  for (int t = 0; t <= drafts && agrees; ++t) {
    if (out.emitted >= limit) break;
    if (bad[t] != 0) {
      out.finish = acceptance_finish::bad_row;
      break;
    }
    tokens[out.emitted++] = token[t];
    agrees = t < drafts && draft[t] == token[t];
    if (agrees) ++out.accepted;
    for (int e = 0; e < end_count; ++e)
      if (end_tokens[e] == token[t]) out.finish = acceptance_finish::end;
    if (out.finish == acceptance_finish::end) break;
  }
  if (out.finish == acceptance_finish::none && out.emitted >= limit) out.finish = acceptance_finish::limit;
  for (int i = out.emitted; i < capacity; ++i) tokens[i] = -1;
  return out;
}

/// A request's part of a ring of `places` rows: `count` of them from place `start` on.
struct ring_part {
  int32_t start, count;
};

/// After a round of which `kept` rows stay; a flush before it folded in all that the ring held.
RATIFY_HD inline ring_part advance_ring(ring_part ring, bool flushed, int32_t kept, int32_t places) {
  if (!flushed) return {ring.start, ring.count + kept};
  return {(ring.start + ring.count) % places, kept};
}

/// Whether the next round, of up to `round_rows` rows, must flush so that the one after it finds room.
RATIFY_HD inline bool must_flush(ring_part ring, int32_t places, int32_t round_rows) {
  return ring.count > places - 2 * round_rows;
}

/// Moves one request's cursors past a round that emitted `emitted` tokens. A ring part that is none (start outside
/// 0..ring_places - 1, count outside 0..ring_places before or after) stays as it is.
RATIFY_HD inline void advance_cursors(acceptance_cursors const& c, int64_t request, int32_t emitted) {
  if (c.slot != nullptr && c.slot[request] < 0) return;
  if (c.selector != nullptr) c.selector[request] = emitted;
  if (c.kept != nullptr) c.kept[request] = emitted;
  if (c.fresh != nullptr && emitted > 0) c.fresh[request] = 0;
  if (c.ring_count == nullptr) return;
  ring_part ring{c.ring_start[request], c.ring_count[request]};
  if (ring.start < 0 || ring.start >= c.ring_places || ring.count < 0 || ring.count > c.ring_places) return;
  ring = advance_ring(ring, c.flush != nullptr && c.flush[request] == 1, emitted, c.ring_places);
  if (ring.count > c.ring_places) return;
  c.ring_start[request] = ring.start;
  c.ring_count[request] = ring.count;
  if (c.next_flush != nullptr) c.next_flush[request] = must_flush(ring, c.ring_places, c.round_rows) ? 1 : 0;
}

}  // namespace device
RATIFY_END_NAMESPACE
