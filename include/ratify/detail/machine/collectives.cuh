// SPDX-License-Identifier: Apache-2.0
/// What all threads of a block compute together: CUB on a card, plain loops on the host. Integers, so that every block
/// size and executor gives the same result. The only header that includes CUB.
#pragma once

#include <ratify/detail/machine/block.cuh>
#include <ratify/detail/meta.hpp>

#if defined(__CUDACC__)
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#endif

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Shared memory of one collective at a time: a barrier must stand between two uses. It has the size that the loops of
/// the host need, on every executor: the compiler that sizes the launch need not see CUB, which takes less.
template <class Block>
struct alignas(16) collective_storage {
  static constexpr int groups = ceil_div(Block::threads, 32);
  uint64_t value[Block::threads];
  uint64_t group[groups + 1];
};

struct prefix_and_total {
  uint64_t before;  ///< sum over the threads below
  uint64_t total;   ///< sum over all threads
};

/// Sums modulo 2^64. In two levels, each of at most 32 reads of shared memory: on fibers a shuffle costs as much as
/// forty of them.
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

/// Modulo 2^64.
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

#if defined(__CUDACC__)

struct larger_of_two {
  RATIFY_HD uint64_t operator()(uint64_t a, uint64_t b) const { return max_of(a, b); }
};

/// The same on a card, by overloading.
template <int Threads>
__device__ prefix_and_total block_exclusive_sum(cuda_block<Threads> const&, uint64_t value,
                                                collective_storage<cuda_block<Threads>>& storage) {
  using scan = cub::BlockScan<uint64_t, Threads, cub::BLOCK_SCAN_WARP_SCANS>;
  static_assert(sizeof(typename scan::TempStorage) <= sizeof storage.value,
                "ratify: CUB's scan needs more shared memory");
  prefix_and_total out{0, 0};
  scan(reinterpret_cast<typename scan::TempStorage&>(storage)).ExclusiveSum(value, out.before, out.total);
  return out;
}

template <int Threads>
__device__ uint64_t block_sum(cuda_block<Threads> const& block, uint64_t value,
                              collective_storage<cuda_block<Threads>>& storage) {
  return block_exclusive_sum(block, value, storage).total;
}

template <int Threads>
__device__ uint64_t block_max(cuda_block<Threads> const& block, uint64_t value,
                              collective_storage<cuda_block<Threads>>& storage) {
  using reduce = cub::BlockReduce<uint64_t, Threads, cub::BLOCK_REDUCE_WARP_REDUCTIONS>;
  // CUB gives the result to thread 0; the last word passes it on.
  constexpr int last = collective_storage<cuda_block<Threads>>::groups;
  static_assert(sizeof(typename reduce::TempStorage) <= sizeof storage.value,
                "ratify: CUB's reduction needs more shared memory");
  uint64_t const largest =
      reduce(reinterpret_cast<typename reduce::TempStorage&>(storage)).Reduce(value, larger_of_two{});
  if (block.thread() == 0) storage.group[last] = largest;
  block.barrier();
  return storage.group[last];
}

#endif

}  // namespace detail
RATIFY_END_NAMESPACE
