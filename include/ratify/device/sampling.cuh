// SPDX-License-Identifier: Apache-2.0
/// Drawing a row's token from logits by one block, and judging its draft, for kernels of your own. Integers decide
/// everything, so that any number of threads gives the same token. docs/arithmetic.md states the formulas.
#pragma once

#include <ratify/device/masses.cuh>
#include <ratify/device/selection.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// How a request draws its tokens.
struct sampling {
  float temperature;  ///< below 1e-5 greedy
  float top_p;        ///< 1: off
  int32_t top_k;      ///< 0, -1, or >= vocab: off
};

/// A draw from all that a row has.
RATIFY_HD constexpr sampling without_cuts(float temperature) { return {temperature, 1.0f, 0}; }

/// Temperature finite and not negative, top_p in 0..1, top_k at least -1.
RATIFY_HD inline bool is_valid(sampling const& s) {
  uint32_t const t = detail::bits(s.temperature), p = detail::bits(s.top_p), minus_zero = 0x80000000u;
  return (t < 0x7f800000u || t == minus_zero) && (p <= 0x3f800000u || p == minus_zero) && s.top_k >= -1;
}

RATIFY_HD inline bool is_greedy(sampling const& s) { return detail::less(s.temperature, 1e-5f) || s.top_k == 1; }
RATIFY_HD inline bool cuts_by_count(sampling const& s, int vocab) { return s.top_k > 0 && s.top_k < vocab; }
RATIFY_HD inline bool cuts_by_mass(sampling const& s) { return detail::bits(s.top_p) != 0x3f800000u; }

/// A row's own token.
struct drawn {
  int32_t token;  ///< -1 in a bad row
  bool bad;       ///< a NaN, or nothing above -inf
};

// Rows ----------------------------------------------------------------------------------------------------------------

/// Entries that lie one after another in memory: `count` ids from `begin` up, or words of any ids.
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

  RATIFY_HD int shards() const { return count; }
  RATIFY_HD logits_shard<Format> shard(int s) const {
    int const begin = s * shard_vocab;
    return {data + s * shard_stride, begin, detail::min_of(shard_vocab, vocab - begin)};
  }
  /// The word of a token's entry; 0: the row has none.
  RATIFY_HD uint64_t word_of(int32_t id) const {
    return order_word(to_float(data[id / shard_vocab * shard_stride + id % shard_vocab]), id);
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

  RATIFY_HD int shards() const { return count; }
  RATIFY_HD logits_shard<acceptance_word> shard(int s) const { return {data + s * shard_stride, 0, places}; }
  RATIFY_HD uint64_t word_of(int32_t id) const {
    for (int s = 0; s < count; ++s)
      for (int i = 0; i < places; ++i) {
        uint64_t const word = data[s * shard_stride + i].bits;
        if (word != 0 && id_of_word(word) == id) return word;
      }
    return 0;
  }
};

/// What stands first in a summary of a row whose top_k asks for more entries than a summary holds.
inline constexpr uint64_t no_summary = ~uint64_t{0};

/// The word of an entry of a shard; 0: none.
template <class Format>
RATIFY_HD inline uint64_t word_of_entry(Format logit, int32_t id) {
  return order_word(to_float(logit), id);
}
RATIFY_HD inline uint64_t word_of_entry(float logit, int32_t id) { return order_word(logit, id); }
RATIFY_HD inline uint64_t word_of_entry(acceptance_word word, int32_t) { return word.bits; }

/// The logit of an entry; -inf, which has no mass, where there is none.
template <class Format>
RATIFY_HD inline float logit_of_entry(Format logit) {
  return to_float(logit);
}
RATIFY_HD inline float logit_of_entry(float logit) { return logit; }
RATIFY_HD inline float logit_of_entry(acceptance_word word) {
  return value_of_key(word.bits != 0 ? key_of_word(word.bits) : minus_infinity_key);
}

/// Calls visit(word) for every entry of a shard. Four are loaded at a time, but `visit` is compiled once.
RATIFY_ANY_BLOCK
template <class Block, class Format, class Visit>
RATIFY_HD inline void each_word(Block const& block, logits_shard<Format> const& shard, Visit&& visit) {
  RATIFY_NO_UNROLL
  for (int first = block.thread(); first < shard.count; first += 4 * Block::threads) {
    Format entries[4];
    RATIFY_UNROLL
    for (int u = 0; u < 4; ++u) {
      int const at = first + u * Block::threads;
      entries[u] = shard.data[at < shard.count ? at : first];
    }
    RATIFY_NO_UNROLL
    for (int u = 0; u < 4; ++u) {
      int const at = first + u * Block::threads;
      if (at >= shard.count) break;
      Format const entry = u < 2 ? (u == 0 ? entries[0] : entries[1]) : (u == 2 ? entries[2] : entries[3]);
      if (uint64_t const word = word_of_entry(entry, shard.begin + at); word != 0) visit(word);
    }
  }
}

/// Whether a source is made of shards.
template <class Source>
inline constexpr bool is_row = false;
template <class Format>
inline constexpr bool is_row<logits_row<Format>> = true;
template <>
inline constexpr bool is_row<summarised_row> = true;

/// Calls visit(word) for every entry of a row.
RATIFY_ANY_BLOCK
template <class Block, class Row, class Visit, RATIFY_STD::enable_if_t<is_row<Row>, int> = 0>
RATIFY_HD inline void each_word(Block const& block, Row const& row, Visit&& visit) {
  RATIFY_NO_UNROLL
  for (int s = 0; s < row.shards(); ++s) each_word(block, row.shard(s), visit);
}

// Weights -------------------------------------------------------------------------------------------------------------

/// Where nothing is compared with drafts.
struct no_shares {
  RATIFY_HD uint64_t of(int32_t) const { return 0; }
};

enum class entry_weight {
  one,
  mass,
  residual  ///< the mass less the draft's share, where that is more than 0
};

/// Bins of a row's logits, of equal width from the largest down: device/long_rows.cuh says what they are for.
struct logit_bins {
  static constexpr int count = 2048;
  float maximum = 0;  ///< of the row
  float scale = 0;    ///< 1 / width, a power of 2; 0: one bin holds all

  /// How many bins below the largest a logit lies; `count` or more: below all bins, where every mass is 0.
  RATIFY_HD float depth(float logit) const { return detail::mul_rn(detail::sub_rn(maximum, logit), scale); }
  /// Depths are not negative, so that they order like their patterns. The pattern of 2048:
  static constexpr uint32_t end_of_depths = 0x45000000u;
  RATIFY_HD static bool is_within(float depth) { return detail::bits(depth) < end_of_depths; }
  /// The bin of a depth within: the low bits of the sum are the rounded integer.
  RATIFY_HD static int bin_of(float depth) {
    uint32_t const rounded = detail::bits(detail::add_rn(depth, 8388608.0f)) & 0x7fffffu;
    return detail::min_of(static_cast<int>(rounded), count - 1);
  }
  /// The bin of a logit. Ascends as the logit falls.
  RATIFY_HD int of(float logit) const {
    float const d = depth(logit);
    return is_within(d) ? bin_of(d) : count;
  }
};

/// Bins first to last, and the weight of all entries in the bins before them.
struct bin_interval {
  int first = 0, last = logit_bins::count;
  uint64_t before = 0;

  /// An interval without bins has `last` one below `first`.
  RATIFY_HD bool holds(int bin) const {
    return static_cast<uint32_t>(bin - first) < static_cast<uint32_t>(last - first + 1);
  }
};

/// What the entries of a row weigh.
template <class Shares>
struct entry_weights {
  logit_bins bins;
  float temperature = 1;
  uint64_t lowest = 1;  ///< entries whose word is smaller are cut by top-k or top-p
  entry_weight kind = entry_weight::mass;
  bin_interval within;  ///< all other entries do not take part
  Shares shares;

  RATIFY_HD bool holds(uint64_t word) const {
    return word >= lowest && within.holds(bins.of(value_of_key(key_of_word(word))));
  }
  RATIFY_HD uint64_t of(uint64_t word) const {
    if (!holds(word)) return 0;
    if (kind == entry_weight::one) return 1;
    uint64_t const own = mass(value_of_key(key_of_word(word)), bins.maximum, temperature);
    if (kind == entry_weight::mass || own == 0) return own;
    uint64_t const share = shares.of(id_of_word(word));
    return own > share ? own - share : 0;
  }
};

// Drawing -------------------------------------------------------------------------------------------------------------

/// Whether a row's first word, the largest, says all: the row is bad, or one entry has all the mass.
struct row_decision {
  bool decided;
  drawn token;
};
RATIFY_HD inline row_decision decide(uint64_t first_word, sampling const& how) {
  uint32_t const key = key_of_word(first_word);
  if (key > plus_infinity_key || key <= minus_infinity_key) return {true, {-1, true}};
  if (key == plus_infinity_key || is_greedy(how)) return {true, {id_of_word(first_word), false}};
  return {false, {-1, false}};
}

/// Where the searches of a row's draw are confined to, and what is known beforehand. By default nothing is: every
/// search looks at the whole row.
struct draw_plan {
  bool cuts_by_count = false;
  bool is_whole = false;           ///< the three intervals are one, which holds all entries that are kept
  bin_interval by_count;           ///< holds the last entry that top-k keeps; `before` counts entries
  uint64_t mass_before_count = 0;  ///< masses in the bins before `by_count`
  bin_interval by_mass;            ///< holds the last entry that top-p keeps
  bin_interval draw;               ///< holds the drawn entry
  uint64_t total = 0;              ///< of the masses of all entries; 0: not known
};

/// What is drawn from once the kept entries are known.
struct draw_source {
  bool decided = false;
  int32_t token = -1;                      ///< if decided
  entry_weight kind = entry_weight::mass;  ///< otherwise
  uint64_t total = 0;                      ///< of these weights
};

/// Draws from the kept entries' masses.
struct draw_from_masses {
  RATIFY_ANY_BLOCK
  template <class Block, class Row, class Weights>
  RATIFY_HD draw_source operator()(Block const&, Row const&, Weights&, uint64_t total, int,
                                   selection_storage<Block>&) const {
    return {false, -1, entry_weight::mass, total};
  }
};

/// Top-k, then top-p of what top-k keeps, then the draw, each a search for an entry. Between the last two
/// `source(block, row, weights, total, listed, storage)` says what is drawn from.
/// `listed` is as in `select_entry`.
RATIFY_ANY_BLOCK
template <class Block, class Row, class Shares, class Source>
RATIFY_HD inline int32_t choose_token(Block const& block, Row const& row, entry_weights<Shares>& weights,
                                      sampling const& how, uint32_t random, draw_plan const& plan, Source&& source,
                                      int listed, selection_storage<Block>& storage) {
  enum : int { by_count, by_mass, draw };
  uint64_t total = plan.total, target = 0;
  RATIFY_NO_UNROLL
  for (int step = plan.cuts_by_count ? by_count : by_mass;; ++step) {
    if (step == by_count) {
      weights.kind = entry_weight::one;
      weights.within = plan.by_count;
      target = static_cast<uint64_t>(how.top_k);
    } else if (step == by_mass) {
      weights.kind = entry_weight::mass;
      if (plan.cuts_by_count || total == 0)
        total = plan.mass_before_count + sum_weights(block, row, weights, listed, storage);
      if (!cuts_by_mass(how)) continue;
      weights.within = plan.by_mass;
      target = top_p_target(how.top_p, total);
    } else {
      draw_source const from = source(block, row, weights, total, listed, storage);
      if (from.decided) return from.token;
      weights.kind = from.kind;
      weights.within = plan.draw;
      target = draw_point(random, from.total) + 1;
    }
    selected const found = select_entry(block, row, weights, weights.within.before, target, listed, storage);
    if (step == draw) return id_of_word(found.word);
    weights.lowest = found.word;
    if (step == by_mass) total = found.running;
  }
}

/// Shared memory of `draw_token`, `judge_draft` and `summarise_row`.
template <class Block>
using draw_storage = selection_storage<Block>;

/// The row's first word, and the largest word among this thread's own entries.
struct first_words {
  uint64_t row, own;
};
RATIFY_ANY_BLOCK
template <class Block, class Row>
RATIFY_HD inline first_words find_first(Block const& block, Row const& row, draw_storage<Block>& storage) {
  uint64_t own = 0;
  each_word(block, row, [&](uint64_t word) { own = detail::max_of(own, word); });
  uint64_t const first = detail::block_max(block, own, storage.collective);
  block.barrier();
  return {first, own};
}

/// Puts a row of few entries into the list as it stands. @return how many places of the list it takes; 0: too many
RATIFY_ANY_BLOCK
template <class Block, class Row>
RATIFY_HD inline int list_row(Block const& block, Row const& row, draw_storage<Block>& storage) {
  int listed = 0;
  RATIFY_NO_UNROLL
  for (int s = 0; s < row.shards(); ++s) {
    auto const shard = row.shard(s);
    if (shard.count > selection_places - listed) return 0;
    RATIFY_NO_UNROLL
    for (int i = block.thread(); i < shard.count; i += Block::threads)
      storage.word[listed + i] = word_of_entry(shard.data[i], shard.begin + i);
    listed += shard.count;
  }
  return listed;
}

/// One block's whole search. @return the token of a row
RATIFY_ANY_BLOCK
template <class Block, class Row, class Shares, class Source>
RATIFY_HD inline drawn draw_row(Block const& block, Row const& row, sampling const& how, uint32_t random,
                                Shares const& shares, Source&& source, draw_storage<Block>& storage) {
  int listed = list_row(block, row, storage);
  first_words const first = find_first(block, row, storage);
  if (row_decision const d = decide(first.row, how); d.decided) return d.token;
  entry_weights<Shares> weights;
  weights.bins.maximum = value_of_key(key_of_word(first.row));
  weights.temperature = how.temperature;
  weights.shares = shares;
  draw_plan plan;
  plan.cuts_by_count = cuts_by_count(how, row.vocab);
  if (plan.cuts_by_count && listed == 0) {
    weights.lowest = bound_of_largest(block, first.own, how.top_k, storage);
    listed = list_words(block, row, weights, 1, ~uint64_t{0}, storage).count;
  }
  return {choose_token(block, row, weights, how, random, plan, source, listed, storage), false};
}

/// The token a row of logits gives under `how` (valid) with 32 random bits: top-k, then top-p of what top-k kept, then
/// the inverse CDF. Called by all threads of a block, which must divide 2048 and be whole warps; a barrier must stand
/// between two calls with the same storage. Reads the row once if greedy, about 3 times if top_k is at most 64 and few
/// entries tie, and about 15 times otherwise.
RATIFY_ANY_BLOCK
template <class Block, class Row>
RATIFY_HD inline drawn draw_token(Block const& block, Row const& logits, sampling const& how, uint32_t random,
                                  draw_storage<Block>& storage) {
  return draw_row(block, logits, how, random, no_shares{}, draw_from_masses{}, storage);
}
RATIFY_ANY_BLOCK
template <class Block, class Format>
RATIFY_HD inline drawn draw_token(Block const& block, Format const* logits, int vocab, sampling const& how,
                                  uint32_t random, draw_storage<Block>& storage) {
  return draw_token(block, whole_row(logits, vocab), how, random, storage);
}

/// The first entries of a shard's row, in order, as `acceptance` reads them: as many as `how` can keep of it, 0 behind
/// them; `no_summary` first if that is more than `places` (1 to 512). `first_id` is the id of the shard's first entry.
/// Called like `draw_token`.
RATIFY_ANY_BLOCK
template <class Block, class Format>
RATIFY_HD inline void summarise_row(Block const& block, Format const* logits, int vocab, int32_t first_id,
                                    sampling const& how, acceptance_word* words, int places,
                                    draw_storage<Block>& storage) {
  bool const greedy = is_greedy(how) || !is_valid(how);
  int const most = greedy ? 1 : (how.top_k > 0 && how.top_k < vocab ? how.top_k : vocab);
  for (int i = block.thread(); i < places; i += Block::threads)
    words[i].bits = i == 0 && most > places ? no_summary : 0;
  if (most > places) return;
  auto const row = whole_row(logits, vocab);
  entry_weights<no_shares> weights;
  weights.kind = entry_weight::one;
  if (most < vocab) {
    weights.lowest = bound_of_largest(block, find_first(block, row, storage).own, most, storage);
    weights.lowest = select_entry(block, row, weights, 0, static_cast<uint64_t>(most), 0, storage).word;
  }
  // The kept words, one in each bin.
  if (block.thread() == 0) storage.listed = 0;
  block.barrier();
  each_word(block, row, [&](uint64_t word) {
    if (word < weights.lowest) return;
    storage.bin[take_place(block, storage.listed)] = {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32)};
  });
  block.barrier();
  for (int i = block.thread(); i < most; i += Block::threads) {
    uint64_t const word = storage.bin[i].value();
    int place = 0;
    for (int j = 0; j < most; ++j) place += storage.bin[j].value() > word ? 1 : 0;
    words[place].bits = word - static_cast<uint64_t>(first_id);  // a higher id stands later
  }
}

}  // namespace device
RATIFY_END_NAMESPACE
