// SPDX-License-Identifier: Apache-2.0
/// What all threads of a block work out together: integers, so that every block size and executor gives the same.
///
/// Written against the block interface, once for both executors: two levels of at most 32 shared reads each. On a card
/// all lanes read one address at a time (a broadcast), which takes as long as the five shuffles of 64 bits it
/// replaces; on fibers a shuffle costs as much as forty reads.
#pragma once

#include <ratify/detail/meta.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Shared memory of one collective at a time: a barrier must stand between two uses.
template <class Block>
struct collective_storage {
  static constexpr int groups = ceil_div(Block::threads, 32);
  uint64_t value[Block::threads];  ///< after a call: what each thread brought
  uint64_t group[groups];
};

struct prefix_and_total {
  uint64_t before;  ///< sum over the threads below
  uint64_t total;   ///< sum over all threads
};

/// Sums modulo 2^64.
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline prefix_and_total block_exclusive_sum(Block const& block, uint64_t value,
                                                      collective_storage<Block>& storage) {
  constexpr int groups = collective_storage<Block>::groups, width = min_of(Block::threads, 32);
  int const t = block.thread();
  storage.value[t] = value;
  block.barrier();
  if (t < groups) {
    uint64_t sum = 0;
    for (int i = 0; i < width; ++i) sum += storage.value[t * width + i];
    storage.group[t] = sum;
  }
  block.barrier();
  prefix_and_total out{0, 0};
  for (int g = 0; g < groups; ++g) {
    if (g == t / width) out.before += out.total;
    out.total += storage.group[g];
  }
  for (int i = 0; i < t % width; ++i) out.before += storage.value[t / width * width + i];
  return out;
}

RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline uint64_t block_sum(Block const& block, uint64_t value, collective_storage<Block>& storage) {
  return block_exclusive_sum(block, value, storage).total;
}

RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline uint64_t block_max(Block const& block, uint64_t value, collective_storage<Block>& storage) {
  constexpr int groups = collective_storage<Block>::groups, width = min_of(Block::threads, 32);
  int const t = block.thread();
  storage.value[t] = value;
  block.barrier();
  if (t < groups) {
    uint64_t largest = 0;
    for (int i = 0; i < width; ++i) largest = max_of(largest, storage.value[t * width + i]);
    storage.group[t] = largest;
  }
  block.barrier();
  uint64_t largest = 0;
  for (int g = 0; g < groups; ++g) largest = max_of(largest, storage.group[g]);
  return largest;
}

}  // namespace detail
RATIFY_END_NAMESPACE
