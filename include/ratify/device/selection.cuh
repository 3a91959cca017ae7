// SPDX-License-Identifier: Apache-2.0
/// Finding the entry at a running weight without sorting, for kernels of your own: a radix selection over words whose
/// weights are integers, so that any number of threads finds the same one.
///
/// A *source* of words is anything for which `each_word(block, source, visit)` calls visit(word) for every word other
/// than 0 once, on some thread of the block. *Weights* are a function object with two members: `holds(word)`, whether
/// the word takes part, and `of(word)`, its weight, which is 0 if it does not. Entries come in the order of descending
/// words.
#pragma once

#include <ratify/detail/machine/collectives.cuh>
#include <ratify/detail/meta.hpp>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// A sum of 64 bits in shared memory, as two words: cards add 32 bits there with one instruction, but 64 with a loop of
/// compare-and-swap.
struct shared_sum {
  uint32_t low, high;

  RATIFY_HD uint64_t value() const { return static_cast<uint64_t>(high) << 32 | low; }

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD void add(Block const& block, uint64_t x) {
    auto const part = static_cast<uint32_t>(x);
    uint32_t const before = block.atomic_add(&low, part);
    uint32_t const carry = before + part < before ? 1u : 0u;
    if (auto const rest = static_cast<uint32_t>(x >> 32) + carry; rest != 0) (void)block.atomic_add(&high, rest);
  }
};

/// An entry found by running weight: its word, and the running weight up to and including it.
struct selected {
  uint64_t word, running;
};

/// Bins of one step of the search, and words that are few enough to be compared each with each.
inline constexpr int selection_bins = 2048, selection_places = 128;

template <class Block>
struct selection_storage {
  shared_sum bin[selection_bins];
  uint64_t word[selection_places];
  uint64_t weight[selection_places];
  detail::collective_storage<Block> collective;
  selected found;
  uint32_t listed;
};

/// Counts one more, in shared memory. @return the count before, which is the next free place of a list that the threads
/// of a block fill together
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline uint32_t take_place(Block const& block, uint32_t& count) {
  return block.atomic_add(&count, 1u);
}

/// Words that take part in a step of the search.
struct word_span {
  int count;           ///< as many as are listed; 0: more than there is room for
  uint64_t low, high;  ///< the smallest and the largest, if they are not listed
};

/// Lists the words from `low` to `high` that take part, in no order.
RATIFY_ANY_BLOCK
template <class Block, class Source, class Weights>
RATIFY_HD inline word_span list_words(Block const& block, Source const& source, Weights const& weights, uint64_t low,
                                      uint64_t high, selection_storage<Block>& storage) {
  if (block.thread() == 0) storage.listed = 0;
  block.barrier();
  uint64_t least = ~uint64_t{0}, most = 0;
  bool is_full = false;
  each_word(block, source, [&](uint64_t word) {
    if (word < low || word > high || !weights.holds(word)) return;
    least = detail::min_of(least, word);
    most = detail::max_of(most, word);
    if (is_full) return;
    uint32_t const place = take_place(block, storage.listed);
    is_full = place >= selection_places;
    if (!is_full) storage.word[place] = word;
  });
  block.barrier();
  auto const count = static_cast<int>(storage.listed);
  if (count <= selection_places) return {count, 0, 0};
  // Both ends as a maximum; a loop, so that the code is there once.
  word_span span{0, ~least, most};
  RATIFY_NO_UNROLL
  for (int end = 0; end < 2; ++end) {
    uint64_t const largest = detail::block_max(block, end == 0 ? span.low : span.high, storage.collective);
    block.barrier();
    (end == 0 ? span.low : span.high) = largest;
  }
  return {0, ~span.low, span.high};
}

}  // namespace device

namespace detail {

/// The first of the `count` listed words, in order, at which the running weight (`before`, then theirs) reaches
/// `target`. An entry's running weight is what stands above it, so that nothing is sorted.
RATIFY_ANY_BLOCK
template <class Block, class Weights>
RATIFY_HD inline device::selected select_listed(Block const& block, Weights const& weights, int count, uint64_t before,
                                                uint64_t target, device::selection_storage<Block>& storage) {
  // Filled up with nothing to whole groups of words that are compared together.
  constexpr int group = 8;
  int const filled = ceil_div(count, group) * group;
  static_assert(device::selection_places % group == 0, "ratify: the list holds whole groups");
  RATIFY_NO_UNROLL
  for (int i = block.thread(); i < filled; i += Block::threads) {
    if (i >= count) storage.word[i] = 0;
    storage.weight[i] = i < count ? weights.of(storage.word[i]) : 0;
  }
  block.barrier();
  RATIFY_NO_UNROLL
  for (int i = block.thread(); i < count; i += Block::threads) {
    uint64_t const word = storage.word[i];
    uint64_t running = before;
    RATIFY_NO_UNROLL
    for (int j = 0; j < filled; j += group) {
      RATIFY_UNROLL
      for (int u = 0; u < group; ++u) running += storage.word[j + u] > word ? storage.weight[j + u] : 0;
    }
    if (running < target && target <= running + storage.weight[i]) storage.found = {word, running + storage.weight[i]};
  }
  block.barrier();
  return storage.found;  // before it is written again, all threads meet at another barrier
}

/// The bin at which the running weight, `before` and then the bins from the highest down, reaches `target`.
/// @return {the bin, the running weight before it}
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline device::selected find_bin(Block const& block, uint64_t before, uint64_t target,
                                           device::selection_storage<Block>& storage) {
  constexpr int share = device::selection_bins / Block::threads;
  static_assert(share * Block::threads == device::selection_bins, "ratify: the block's threads must divide the bins");
  int const top = device::selection_bins - 1 - block.thread() * share;
  uint64_t own = 0;
  RATIFY_NO_UNROLL
  for (int i = 0; i < share; ++i) own += storage.bin[top - i].value();
  uint64_t running = before + block_exclusive_sum(block, own, storage.collective).before;
  if (running < target && target <= running + own) {
    int i = 0;
    RATIFY_NO_UNROLL
    for (; running + storage.bin[top - i].value() < target; ++i) running += storage.bin[top - i].value();
    storage.found = {static_cast<uint64_t>(top - i), running};
  }
  block.barrier();
  return storage.found;
}

}  // namespace detail

namespace device {

/// The first entry, in order, at which the running weight (`before`, then the entries') reaches `target`, which is more
/// than `before` and at most what all entries make of it. Called by all threads of a block, which must divide 2048; a
/// barrier must stand between two calls with the same storage.
///
/// Few words are compared each with each. Of more, the weights are summed in 2048 bins of equal width that lie between
/// the smallest and the largest word, and the search goes on in the bin that the target falls into: each such step
/// reads the source twice, and five steps end the search whatever the words are.
///
/// `listed` is how many words of `storage.word` are all that takes part; 0: the source is read.
RATIFY_ANY_BLOCK
template <class Block, class Source, class Weights>
RATIFY_HD inline selected select_entry(Block const& block, Source const& source, Weights const& weights,
                                       uint64_t before, uint64_t target, int listed,
                                       selection_storage<Block>& storage) {
  uint64_t low = 1, high = ~uint64_t{0};
  for (int count = listed;; count = 0) {
    if (count == 0) {
      word_span const span = list_words(block, source, weights, low, high, storage);
      count = span.count;
      low = span.low;
      high = span.high;
    }
    if (count > 0) return detail::select_listed(block, weights, count, before, target, storage);
    int shift = 0;
    RATIFY_NO_UNROLL
    while ((high - low) >> shift >= selection_bins) ++shift;
    for (int i = block.thread(); i < selection_bins; i += Block::threads) storage.bin[i] = {0, 0};
    block.barrier();
    each_word(block, source, [&](uint64_t word) {
      if (word < low || word > high) return;
      if (uint64_t const weight = weights.of(word); weight != 0) storage.bin[(word - low) >> shift].add(block, weight);
    });
    block.barrier();
    selected const bin = detail::find_bin(block, before, target, storage);
    before = bin.running;
    low += bin.word << shift;
    if (shift == 0) return {low, before + storage.bin[bin.word].value()};
    high = detail::min_of(high, low + (uint64_t{1} << shift) - 1);
  }
}

/// A lower bound of the k-th largest word, which few words exceed unless the source is arranged so: the k-th largest
/// among the largest words of up to 128 groups of threads. 1 if it says nothing. `own` is the largest word that this
/// thread has seen, 0 if none; k is the same on all threads.
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline uint64_t bound_of_largest(Block const& block, uint64_t own, int k, selection_storage<Block>& storage) {
  constexpr int groups = detail::min_of(Block::threads, selection_places);
  if (2 * k > groups) return 1;
  int const t = block.thread();
  storage.collective.value[t] = own;
  block.barrier();
  if (t == 0) storage.found.word = 1;
  uint64_t best = 0;
  if (t < groups) {
    for (int i = t; i < Block::threads; i += groups) best = detail::max_of(best, storage.collective.value[i]);
    storage.weight[t] = best;
  }
  block.barrier();
  if (t < groups && best != 0) {
    int above = 0;
    for (int i = 0; i < groups; ++i) above += storage.weight[i] > best ? 1 : 0;
    if (above == k - 1) storage.found.word = best;
  }
  block.barrier();
  return storage.found.word;
}

/// The weights of all entries together. `listed` is as in `select_entry`.
RATIFY_ANY_BLOCK
template <class Block, class Source, class Weights>
RATIFY_HD inline uint64_t sum_weights(Block const& block, Source const& source, Weights const& weights, int listed,
                                      selection_storage<Block>& storage) {
  uint64_t own = 0;
  if (listed > 0) {
    RATIFY_NO_UNROLL
    for (int i = block.thread(); i < listed; i += Block::threads) own += weights.of(storage.word[i]);
  } else {
    each_word(block, source, [&](uint64_t word) { own += weights.of(word); });
  }
  uint64_t const sum = detail::block_sum(block, own, storage.collective);
  block.barrier();
  return sum;
}

}  // namespace device
RATIFY_END_NAMESPACE
