// SPDX-License-Identifier: Apache-2.0
/// Drawing a row's token and accepting drafts, for kernels of your own. Integers decide everything, so that any number
/// of threads gives the same token. docs/arithmetic.md states the formulas.
#pragma once

#include <ratify/detail/acceptance_traits.cuh>
#include <ratify/detail/collectives.cuh>
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

/// 2^40 * e for 0 <= e <= 1, rounded half to even. Exact from 2^-17 up.
RATIFY_HD inline uint64_t mass_of_exponential(float e) {
  uint32_t const u = detail::bits(e);
  int const shift = static_cast<int>(u >> 23) - 110;  // the product is significand * 2^shift
  uint64_t const significand = (u & 0x7fffffu) | 0x800000u;
  if (shift >= 0) return significand << shift;
  if (shift < -24) return 0;  // below 2^-41, and zero
  return (significand + (uint64_t{1} << (-shift - 1)) - 1 + (significand >> -shift & 1u)) >> -shift;
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

/// A row's own token.
struct drawn {
  int32_t token;  ///< -1 in a bad row
  bool bad;       ///< a NaN, or nothing above -inf
};

}  // namespace device

namespace detail {

/// An entry found by running weight: its word, and the running weight up to and with it.
struct selected {
  uint64_t word, inclusive;
};

inline constexpr int selection_bins = 2048;
inline constexpr int selection_places = 512;  ///< entries a list in shared memory holds
inline constexpr int selection_direct = 128;  ///< rows this short go into the list whole
inline constexpr int selection_levels = 5;    ///< digits of a word: 11, 11 and 10 bits of the key, 11 and 11 of the id

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

/// A row of logits and what gives its entries their weights.
template <class Format>
struct weighed_row {
  Format const* logits;
  int vocab;
  float maximum, temperature;
  uint64_t lowest;  ///< entries whose word is smaller are cut by top-k

  RATIFY_HD uint64_t mass(uint64_t word) const {
    return device::mass(device::value_of_key(device::key_of_word(word)), maximum, temperature);
  }
};

enum class entry_weight { one, mass };

inline constexpr int words_at_once = 4;

/// Words of entries first, first + threads, ...; 0 past the end. Loads first, so that they are under way together.
template <int Threads, class Format>
RATIFY_HD inline void load_words(Format const* logits, int vocab, int first, uint64_t (&words)[words_at_once]) {
  Format x[words_at_once];
  RATIFY_UNROLL
  for (int u = 0; u < words_at_once; ++u) {
    int const id = first + u * Threads;
    x[u] = logits[id < vocab ? id : first];
  }
  RATIFY_UNROLL
  for (int u = 0; u < words_at_once; ++u) {
    int const id = first + u * Threads;
    words[u] = id < vocab ? device::order_word(to_float(x[u]), id) : 0;
  }
}

RATIFY_HD constexpr int digit_shift(int level) { return level < 2 ? 43 - 11 * level : 22 - 11 * (level - 2); }
RATIFY_HD constexpr int digit_bits(int level) { return level == 2 ? 10 : 11; }

/// Puts the row's words that are at least `lowest` (>= 1) into the list, in no order.
/// @return how many there are; they are in the list if it holds so many
RATIFY_ANY_BLOCK
template <class Block, class Format>
RATIFY_HD inline int gather_words(Block const& block, weighed_row<Format> const& row, uint64_t lowest,
                                  selection_storage<Block>& storage) {
  if (block.thread() == 0) storage.count = 0;
  block.barrier();
  for (int first = block.thread(); first < row.vocab; first += words_at_once * Block::threads) {
    uint64_t words[words_at_once];
    load_words<Block::threads>(row.logits, row.vocab, first, words);
    RATIFY_UNROLL
    for (int u = 0; u < words_at_once; ++u) {
      if (words[u] < lowest) continue;
      uint32_t const place = block.atomic_add(&storage.count, 1u);
      if (place < selection_places) storage.word[place] = words[u];
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
template <class Block, class Format>
RATIFY_HD inline void sum_by_digit(Block const& block, weighed_row<Format> const& row, entry_weight kind, int level,
                                   uint64_t prefix, bool gather, uint64_t (&bins)[selection_bins],
                                   selection_storage<Block>& storage) {
  for (int i = block.thread(); i < selection_bins; i += Block::threads) bins[i] = 0;
  if (block.thread() == 0) storage.count = 0;
  block.barrier();
  int const shift = digit_shift(level), bits = digit_bits(level);
  for (int first = block.thread(); first < row.vocab; first += words_at_once * Block::threads) {
    uint64_t words[words_at_once];
    load_words<Block::threads>(row.logits, row.vocab, first, words);
    RATIFY_UNROLL
    for (int u = 0; u < words_at_once; ++u) {
      uint64_t const word = words[u];
      if (word < row.lowest || word >> (shift + bits) != prefix) continue;
      uint64_t const weight = kind == entry_weight::one ? 1u : row.mass(word);
      if (weight == 0) continue;
      block.atomic_add(&bins[word >> shift & ((1u << bits) - 1)], weight);
      if (!gather) continue;
      uint32_t const place = block.atomic_add(&storage.count, 1u);
      if (place >= selection_places) continue;
      storage.word[place] = word;
      storage.weight[place] = weight;
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
template <class Block, class Format>
RATIFY_HD inline selected select_in_row(Block const& block, weighed_row<Format> const& row, entry_weight kind,
                                        uint64_t target, selection_storage<Block>& storage) {
  selected at = find_digit(block, storage.coarse, 0, target, storage);
  uint64_t prefix = at.word;
  for (int level = 1; level < selection_levels; ++level) {
    // In a long row many entries share one digit; two digits leave few, unless there are ties.
    bool const gather = level > 1 || row.vocab <= 8 * selection_places;
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

}  // namespace detail

namespace device {

/// Shared memory of `draw_token`.
template <class Block>
using draw_storage = detail::selection_storage<Block>;

/// The token a row of logits gives under `how` (valid) with 32 random bits: top-k, then top-p of what top-k kept, then
/// the inverse CDF. Called by all threads of a block, which must divide 2048; a barrier must stand between two calls
/// with the same storage. Reads the row twice where top-k is at most the block's threads and few entries tie, 4 to 13
/// times otherwise; once for greedy.
RATIFY_ANY_BLOCK
template <class Block, class Format>
RATIFY_HD inline drawn draw_token(Block const& block, Format const* logits, int vocab, sampling const& how,
                                  uint32_t random, draw_storage<Block>& storage) {
  using namespace detail;
  uint64_t own = 0;
  for (int first = block.thread(); first < vocab; first += words_at_once * Block::threads) {
    uint64_t words[words_at_once];
    load_words<Block::threads>(logits, vocab, first, words);
    RATIFY_UNROLL
    for (int u = 0; u < words_at_once; ++u) own = max_of(own, words[u]);
  }
  if (block.thread() == 0) storage.bound = 1;
  uint64_t const top = block_max(block, own, storage.collective);
  uint32_t const key = key_of_word(top), plus_infinity = 0xff800000u, minus_infinity = 0x007fffffu;
  if (key > plus_infinity || key <= minus_infinity) return {-1, true};
  if (key == plus_infinity || less(how.temperature, 1e-5f) || how.top_k == 1) return {id_of_word(top), false};

  weighed_row<Format> row{logits, vocab, value_of_key(key), how.temperature, 1};
  bool const cut = how.top_k > 0 && how.top_k < vocab;
  uint64_t const most = cut ? static_cast<uint64_t>(how.top_k) : 0;
  int listed = 0;  // entries in the list, 0 while the row itself must be read
  if (cut && how.top_k <= Block::threads) {
    // The k-th largest of the threads' own maxima is a bound from below of the k-th largest entry.
    int above = 0;
    for (int i = 0; i < Block::threads; ++i) above += storage.collective.value[i] > own ? 1 : 0;
    if (above == how.top_k - 1 && own != 0) storage.bound = own;
    block.barrier();
    int const n = gather_words(block, row, storage.bound, storage);
    if (n <= selection_places) listed = n;
  }
  if (cut && listed == 0) {
    sum_by_digit(block, row, entry_weight::one, 0, 0, false, storage.coarse, storage);
    row.lowest = select_in_row(block, row, entry_weight::one, most, storage).word;
    if (how.top_k <= selection_places) listed = gather_words(block, row, row.lowest, storage);
  }
  if (!cut && vocab <= selection_direct) listed = gather_words(block, row, 1, storage);

  uint64_t total = 0;
  if (listed > 0) {
    if (cut && listed > how.top_k) {
      for (int i = block.thread(); i < listed; i += Block::threads) storage.weight[i] = 1;
      block.barrier();
      row.lowest = select_in_list(block, listed, 0, most, storage).word;
    }
    uint64_t sum = 0;
    for (int i = block.thread(); i < listed; i += Block::threads) {
      uint64_t const word = storage.word[i], weight = word < row.lowest ? 0 : row.mass(word);
      storage.weight[i] = weight;
      sum += weight;
    }
    total = block_sum(block, sum, storage.collective);
  } else {
    sum_by_digit(block, row, entry_weight::mass, 0, 0, false, storage.coarse, storage);
    total = sum_of_bins(block, storage.coarse, storage);
  }
  // Twice the same search: where the kept prefix ends, then the drawn entry inside it.
  if (bits(how.top_p) != 0x3f800000u) {
    uint64_t const target = top_p_target(how.top_p, total);
    total = (listed > 0 ? select_in_list(block, listed, 0, target, storage)
                        : select_in_row(block, row, entry_weight::mass, target, storage))
                .inclusive;
  }
  uint64_t const target = draw_point(random, total) + 1;
  uint64_t const word = (listed > 0 ? select_in_list(block, listed, 0, target, storage)
                                    : select_in_row(block, row, entry_weight::mass, target, storage))
                            .word;
  return {id_of_word(word), false};
}

/// What a request's round came to.
struct outcome {
  int32_t emitted, accepted;
  acceptance_finish finish;
};

/// The coupled rule for one request of `drafts` drafts: emits the target's own tokens up to and with the first that
/// differs from its draft.
/// @param token, bad   [drafts + 1] what `draw_token` gave for each row (bad: not 0)
/// @param draft        [drafts]; one that is no token of the vocabulary equals none
/// @param tokens       [capacity], capacity > drafts: emitted tokens, then -1
RATIFY_HD inline outcome accept_coupled(int32_t const* token, int32_t const* bad, int32_t const* draft, int drafts,
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

}  // namespace device
RATIFY_END_NAMESPACE
