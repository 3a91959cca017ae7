// SPDX-License-Identifier: Apache-2.0
/// Drawing a token from a row of logits that several blocks share, each of which reads one piece, for kernels of your
/// own. Four steps, a kernel launch each, give the token that one block alone would draw:
///
/// 1. `extremes_of_piece`: the largest word of the row decides whether anything is drawn at all. The smallest logit,
///    with it, gives the width of the row's bins (`bins_of_row`).
/// 2. `add_masses` sums the masses of the row in 2048 bins of equal width. They are exact integers: the order of the
///    additions does not matter.
/// 3. `plan_draw` finds the bins that hold the last entry of top-k, the last one of top-p, and the drawn one.
///    `gather_words` lists the words that lie in these bins.
/// 4. One block searches these words: `choose_token` over a `gathered_row`. If they do not fit into the list, it reads
///    the row itself.
///
/// The sums by bin do not tell exactly how much mass top-k leaves, only the least and the most that it may be. The mass
/// that top-p must reach rises with it, and so does the draw point. So the search is done for both ends, and the entry
/// lies in one of the bins between them.
#pragma once

#include <ratify/detail/acceptance_tuning.hpp>
#include <ratify/device/sampling.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// What a piece of a row, or all pieces together, say of the row.
struct row_extremes {
  uint64_t first = 0;  ///< the largest word
  /// The smallest key above that of -inf, as its distance from the first key above it. All bits set: there is none.
  uint32_t least = ~uint32_t{0};
  uint32_t draft_weight = 0;  ///< the largest `pattern_of_weight` of a draft distribution over the vocabulary

  RATIFY_HD float least_logit() const { return value_of_key(least + minus_infinity_key + 1u); }
};

/// Words that the list of a long row has room for.
inline constexpr int gathered_places = 2048;

/// A draft that was rejected, between the launches that draw its replacement.
struct rejected_draft {
  uint32_t pending;    ///< 1: there is one
  uint32_t is_binned;  ///< 1: the row's bins hold what the row has over the draft's distribution; 0: still the masses
  uint64_t rest;       ///< the sum of that over all kept entries, if is_binned
  int largest, shift;  ///< of `draft_shares`
  uint64_t divisor, p_total;
  uint64_t lowest;  ///< of `entry_weights`
};

/// Scratch memory of one long row, which its blocks share. The first step makes it ready (`clear_bins`).
struct alignas(16) long_row {
  uint64_t mass[logit_bins::count];
  uint32_t count[logit_bins::count];  ///< of entries, if top-k is on
  acceptance_word word[gathered_places];
  row_extremes extremes;
  logit_bins bins;
  uint32_t gathered;  ///< words that belong in the list; if they are more than it has places, it is not complete
  draw_plan plan;
  uint64_t draft_total;  ///< the sum of the integers of a draft distribution over the vocabulary
  rejected_draft rejected;
};

/// Calls visit(entry, index) for every entry of a piece. Each thread loads `AtOnce` entries together and without a test
/// as long as the piece has so many left; `visit` is compiled once for each of them.
RATIFY_ANY_BLOCK
template <int AtOnce, class Block, class Format, class Visit>
RATIFY_HD inline void each_entry(Block const& block, logits_shard<Format> const& piece, Visit&& visit) {
  int first = block.thread();
  RATIFY_NO_UNROLL
  for (; first + (AtOnce - 1) * Block::threads < piece.count; first += AtOnce * Block::threads) {
    Format const* const from = piece.data + first;
    Format entries[AtOnce];
    RATIFY_UNROLL
    for (int u = 0; u < AtOnce; ++u) entries[u] = from[u * Block::threads];
    RATIFY_UNROLL
    for (int u = 0; u < AtOnce; ++u) visit(entries[u], first + u * Block::threads);
  }
  RATIFY_NO_UNROLL
  for (; first < piece.count; first += Block::threads) visit(piece.data[first], first);
}

// Step 1 --------------------------------------------------------------------------------------------------------------

/// Makes a row's scratch ready for `add_masses`: share number `share` of `shares`.
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline void clear_bins(Block const& block, long_row& row, int share, int shares) {
  RATIFY_NO_UNROLL
  for (int i = share * Block::threads + block.thread(); i < logit_bins::count; i += shares * Block::threads) {
    row.mass[i] = 0;
    row.count[i] = 0;
  }
  if (share == 0 && block.thread() == 0) row.gathered = 0;
}

/// The extremes of the block's threads together. `draft_weight` is left out.
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline row_extremes merge_extremes(Block const& block, row_extremes const& own,
                                             detail::collective_storage<Block>& storage) {
  row_extremes all;
  all.first = detail::block_max(block, own.first, storage);
  block.barrier();
  all.least = ~static_cast<uint32_t>(detail::block_max(block, uint64_t{~own.least}, storage));
  block.barrier();
  return all;
}

/// The extremes of a piece, but for `draft_weight`.
RATIFY_ANY_BLOCK
template <class Block, class Format>
RATIFY_HD inline row_extremes extremes_of_piece(Block const& block, logits_shard<Format> const& piece,
                                                detail::collective_storage<Block>& storage) {
  constexpr int scanned = detail::acceptance_tuning::scanned_at_once;
  row_extremes own;
  if constexpr (RATIFY_STD::is_same_v<Format, acceptance_word>) {
    each_entry<scanned>(block, piece, [&](acceptance_word entry, int) {
      own.first = detail::max_of(own.first, entry.bits);
      if (entry.bits != 0) own.least = detail::min_of(own.least, key_of_word(entry.bits) - minus_infinity_key - 1u);
    });
  } else {
    // A thread meets its ids in ascending order, so the first of equal keys is the first in order.
    uint32_t largest = 0;
    int at = 0;
    each_entry<scanned>(block, piece, [&](Format entry, int i) {
      uint32_t const key = order_key(logit_of_entry(entry));
      if (key > largest) {
        largest = key;
        at = i;
      }
      own.least = detail::min_of(own.least, key - minus_infinity_key - 1u);
    });
    if (largest != 0) own.first = order_word(value_of_key(largest), piece.begin + at);
  }
  return merge_extremes(block, own, storage);
}

/// The extremes of a row from those of its pieces, but for `draft_weight`.
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline row_extremes extremes_of_row(Block const& block, row_extremes const* pieces, int count,
                                              detail::collective_storage<Block>& storage) {
  row_extremes own;
  RATIFY_NO_UNROLL
  for (int i = block.thread(); i < count; i += Block::threads) {
    own.first = detail::max_of(own.first, pieces[i].first);
    own.least = detail::min_of(own.least, pieces[i].least);
  }
  return merge_extremes(block, own, storage);
}

/// Bins for a row that is drawn from. Their width is the power of 2 of which 1024 to 2048 reach from the largest logit
/// down to the smallest one, or to 28.5 temperatures below the largest, where all masses are 0: whichever is nearer.
RATIFY_HD inline logit_bins bins_of_row(row_extremes const& extremes, float temperature) {
  float const maximum = value_of_key(key_of_word(extremes.first));
  float const spread = detail::sub_rn(maximum, extremes.least_logit());
  float const reach = detail::mul_rn(28.5f, temperature);
  // reach < 2^(exponent - 126), so reach * 2^(137 - exponent) < 2048.
  uint32_t const exponent = detail::bits(detail::less(spread, reach) ? spread : reach) >> 23;
  return {maximum, detail::from_bits(detail::min_of(264u - exponent, 254u) << 23)};
}

// Step 2 --------------------------------------------------------------------------------------------------------------

template <class Block>
struct masses_storage {
  shared_sum bin[logit_bins::count];
  uint32_t count[logit_bins::count];
  uint64_t first[128], bound;
  detail::collective_storage<Block> collective;
};

RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline void zero_bins(Block const& block, masses_storage<Block>& storage) {
  for (int i = block.thread(); i < logit_bins::count; i += Block::threads) {
    storage.bin[i] = {0, 0};
    storage.count[i] = 0;
  }
  block.barrier();
}

/// Adds a block's sums by bin to those of its row.
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline void flush_bins(Block const& block, bool counts, long_row& row, masses_storage<Block>& storage) {
  block.barrier();
  for (int i = block.thread(); i < logit_bins::count; i += Block::threads) {
    if (uint64_t const mass = storage.bin[i].value(); mass != 0) (void)block.atomic_add(&row.mass[i], mass);
    if (counts && storage.count[i] != 0) (void)block.atomic_add(&row.count[i], storage.count[i]);
  }
}

/// A logit that at least `k` entries of a row reach: the k-th largest among the largest of up to 128 pieces. -inf if
/// fewer than k pieces have entries.
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline float bound_of_row(Block const& block, row_extremes const* pieces, int count, int k,
                                    masses_storage<Block>& storage) {
  int const compared = detail::min_of(count, 128);
  if (k > compared) return value_of_key(minus_infinity_key);
  if (block.thread() == 0) storage.bound = 0;
  for (int i = block.thread(); i < compared; i += Block::threads) storage.first[i] = pieces[i].first;
  block.barrier();
  for (int i = block.thread(); i < compared; i += Block::threads) {
    int above = 0;
    for (int j = 0; j < compared; ++j) above += storage.first[j] > storage.first[i] ? 1 : 0;
    if (above == k - 1 && storage.first[i] != 0) storage.bound = storage.first[i];
  }
  block.barrier();
  return value_of_key(storage.bound != 0 ? key_of_word(storage.bound) : minus_infinity_key);
}

/// Adds the masses of a piece, and with `counts` its entries, to the bins of its row.
/// Logits below `lowest` are left out.
RATIFY_ANY_BLOCK
template <class Block, class Format>
RATIFY_HD inline void add_masses(Block const& block, logits_shard<Format> const& piece, logit_bins const& bins,
                                 float temperature, bool counts, float lowest, long_row& row,
                                 masses_storage<Block>& storage) {
  zero_bins(block, storage);
  // The depth of the lowest logit, or the end of the bins.
  uint32_t const deepest = detail::min_of(detail::bits(bins.depth(lowest)), logit_bins::end_of_depths - 1u);
  each_entry<detail::acceptance_tuning::weighed_at_once>(block, piece, [&](Format entry, int) {
    float const logit = logit_of_entry(entry), depth = bins.depth(logit);
    if (detail::bits(depth) > deepest) return;
    int const bin = logit_bins::bin_of(depth);
    if (counts) (void)take_place(block, storage.count[bin]);
    // Within the bins a logit lies less than 57 temperatures below the largest.
    uint64_t const own = mass_of_difference(scaled_difference(logit, bins.maximum, temperature));
    if (own != 0) storage.bin[bin].add(block, own);
  });
  flush_bins(block, counts, row, storage);
}

/// Adds the weights of a piece, of any kind, to the bins of its row.
RATIFY_ANY_BLOCK
template <class Block, class Format, class Shares>
RATIFY_HD inline void add_weights(Block const& block, logits_shard<Format> const& piece,
                                  entry_weights<Shares> const& weights, long_row& row, masses_storage<Block>& storage) {
  zero_bins(block, storage);
  each_word(block, piece, [&](uint64_t word) {
    if (uint64_t const own = weights.of(word); own != 0)
      storage.bin[weights.bins.of(value_of_key(key_of_word(word)))].add(block, own);
  });
  flush_bins(block, false, row, storage);
}

// Step 3 --------------------------------------------------------------------------------------------------------------

/// Words of a piece that a block gathers before it adds them to its row's list.
inline constexpr int piece_places = 512;

/// A bin that a search ended at, and what lies in the bins before it.
struct found_bin {
  int bin;
  uint64_t count_before, mass_before;
};

template <class Block>
struct gather_storage {
  uint64_t word[piece_places];
  detail::collective_storage<Block> collective;
  found_bin found[5];
  uint32_t listed, place;
};

/// The consecutive bins of a row that one thread looks after.
template <int Share>
struct share_of_bins {
  int begin;  ///< its first bin
  uint64_t mass[Share];
  uint32_t count[Share];
  uint64_t mass_before, count_before;  ///< in all bins before
  uint64_t mass_total, count_total;    ///< in all bins

  /// Writes the bin at which the running mass, or with `by_count` the running count, reaches `target`, if this thread
  /// looks after it.
  RATIFY_HD void find(bool by_count, uint64_t target, found_bin& to) const {
    found_bin at{begin, count_before, mass_before};
    RATIFY_UNROLL
    for (int i = 0; i < Share; ++i) {
      uint64_t const running = by_count ? at.count_before : at.mass_before;
      uint64_t const own = by_count ? uint64_t{count[i]} : mass[i];
      at.bin = begin + i;
      if (running < target && target <= running + own) to = at;
      at.count_before += count[i];
      at.mass_before += mass[i];
    }
  }
};

RATIFY_ANY_BLOCK
template <class Block, int Share>
RATIFY_HD inline void load_bins(Block const& block, long_row const& row, bool counts, share_of_bins<Share>& own,
                                gather_storage<Block>& storage) {
  own.begin = block.thread() * Share;
  uint64_t mass = 0, count = 0;
  RATIFY_UNROLL
  for (int i = 0; i < Share; ++i) {
    own.mass[i] = row.mass[own.begin + i];
    own.count[i] = counts ? row.count[own.begin + i] : 0;
  }
  RATIFY_UNROLL
  for (int i = 0; i < Share; ++i) {
    mass += own.mass[i];
    count += own.count[i];
  }
  detail::prefix_and_total const masses = detail::block_exclusive_sum(block, mass, storage.collective);
  own.mass_before = masses.before;
  own.mass_total = masses.total;
  own.count_before = own.count_total = 0;
  if (!counts) return;
  block.barrier();
  detail::prefix_and_total const entries = detail::block_exclusive_sum(block, count, storage.collective);
  own.count_before = entries.before;
  own.count_total = entries.total;
}

/// Where a row's draw with 32 random bits ends, as far as the sums by bin tell. All threads of a block call it.
///
/// `total` is the mass that is drawn from, if entries after it have been cut already; 0: all that the bins hold. The
/// plan is to list all entries that top-k keeps if its bins count at most `whole` of them.
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline draw_plan plan_draw(Block const& block, long_row const& row, sampling const& how, int vocab,
                                     uint32_t random, uint64_t total, int whole, gather_storage<Block>& storage) {
  constexpr int share = logit_bins::count / Block::threads;
  static_assert(share * Block::threads == logit_bins::count, "ratify: the block's threads must divide the bins");
  share_of_bins<share> own;
  load_bins(block, row, cuts_by_count(how, vocab), own, storage);
  draw_plan plan;
  plan.by_count = plan.by_mass = plan.draw = {0, -1, 0};
  plan.total = total != 0 ? total : own.mass_total;
  if (plan.total == 0) return plan;
  uint64_t least = plan.total, most = plan.total;  // that may be left by what has cut so far
  // If top-k cuts below all bins, it cuts off no mass.
  if (auto const k = static_cast<uint64_t>(how.top_k); cuts_by_count(how, vocab) && k <= own.count_total) {
    own.find(true, k, storage.found[0]);
    block.barrier();
    found_bin const at = storage.found[0];
    plan.cuts_by_count = true;
    plan.is_whole = at.count_before + row.count[at.bin] <= static_cast<uint64_t>(whole);
    if (plan.is_whole) {
      plan.by_count = plan.by_mass = plan.draw = {0, at.bin, 0};
      return plan;
    }
    plan.by_count = {at.bin, at.bin, at.count_before};
    plan.mass_before_count = at.mass_before;
    // The first entry of the row is kept, and it has the largest mass.
    least = detail::max_of(at.mass_before, largest_mass);
    most = at.mass_before + row.mass[at.bin];
  }
  if (cuts_by_mass(how)) {
    uint64_t const target = top_p_target(how.top_p, least);
    own.find(false, target, storage.found[1]);
    own.find(false, top_p_target(how.top_p, most), storage.found[2]);
    block.barrier();
    found_bin const first = storage.found[1], last = storage.found[2];
    plan.by_mass = {first.bin, last.bin, first.mass_before};
    least = target;
    most = detail::min_of(most, last.mass_before + row.mass[last.bin]);
  }
  own.find(false, draw_point(random, least) + 1, storage.found[3]);
  own.find(false, draw_point(random, most) + 1, storage.found[4]);
  block.barrier();
  plan.draw = {storage.found[3].bin, storage.found[4].bin, storage.found[3].mass_before};
  return plan;
}

/// Adds the words of a piece that lie in a plan's bins to the list of its row.
RATIFY_ANY_BLOCK
template <class Block, class Format>
RATIFY_HD inline void gather_words(Block const& block, logits_shard<Format> const& piece, logit_bins const& bins,
                                   draw_plan const& plan, long_row& row, gather_storage<Block>& storage) {
  if (block.thread() == 0) storage.listed = 0;
  block.barrier();
  bool is_full = false;
  each_entry<detail::acceptance_tuning::scanned_at_once>(block, piece, [&](Format entry, int i) {
    float const depth = bins.depth(logit_of_entry(entry));
    int const bin = logit_bins::bin_of(depth);
    bool const is_wanted = plan.by_count.holds(bin) || plan.by_mass.holds(bin) || plan.draw.holds(bin);
    if (!is_wanted || !logit_bins::is_within(depth) || is_full) return;
    uint32_t const place = take_place(block, storage.listed);
    is_full = place >= piece_places;
    if (!is_full) storage.word[place] = word_of_entry(entry, piece.begin + i);
  });
  block.barrier();
  uint32_t const listed = storage.listed;
  if (listed == 0) return;
  bool const fits = listed <= piece_places;
  if (block.thread() == 0) storage.place = block.atomic_add(&row.gathered, fits ? listed : gathered_places + 1u);
  block.barrier();
  RATIFY_NO_UNROLL
  for (uint32_t i = static_cast<uint32_t>(block.thread()); fits && i < listed; i += Block::threads)
    if (storage.place + i < gathered_places) row.word[storage.place + i].bits = storage.word[i];
}

// Step 4 --------------------------------------------------------------------------------------------------------------

/// A long row of which the words that matter are listed: all searches of its plan end there.
template <class Row>
struct gathered_row {
  Row row;
  acceptance_word const* words;  ///< null: they did not fit into the list, and the row itself is read
  int count, vocab;

  RATIFY_HD uint64_t word_of(int32_t id) const { return row.word_of(id); }
};
template <class Row>
RATIFY_HD inline gathered_row<Row> gathered(Row const& row, long_row const& scratch) {
  bool const fits = scratch.gathered <= gathered_places;
  return {row, fits ? scratch.word : nullptr, fits ? static_cast<int>(scratch.gathered) : 0, row.vocab};
}

RATIFY_ANY_BLOCK
template <class Block, class Row, class Visit>
RATIFY_HD inline void each_word(Block const& block, gathered_row<Row> const& row, Visit&& visit) {
  if (row.words == nullptr) return each_word(block, row.row, visit);
  RATIFY_NO_UNROLL
  for (int i = block.thread(); i < row.count; i += Block::threads) visit(row.words[i].bits);
}

/// Brings the gathered words into the list of `choose_token` if they fit. @return how many they are then, else 0
RATIFY_ANY_BLOCK
template <class Block, class Row>
RATIFY_HD inline int list_gathered(Block const& block, gathered_row<Row> const& row, draw_storage<Block>& storage) {
  if (row.words == nullptr || row.count > selection_places) return 0;
  RATIFY_NO_UNROLL
  for (int i = block.thread(); i < row.count; i += Block::threads) storage.word[i] = row.words[i].bits;
  block.barrier();
  return row.count;
}

}  // namespace device
RATIFY_END_NAMESPACE
