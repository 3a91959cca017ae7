// SPDX-License-Identifier: Apache-2.0
/// How the threads of a block meet on a card. The host block has its own meaning for each of these
/// (detail/machine/host_block.hpp).
#pragma once

#include <ratify/config.hpp>

#if defined(__CUDACC__)
RATIFY_BEGIN_NAMESPACE
namespace detail {

__device__ inline uint32_t shuffle_bits(uint32_t mask, uint32_t value, int source_lane) {
  uint32_t r = value;
#if defined(__CUDA_ARCH__)
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, %3;" : "=r"(r) : "r"(value), "r"(source_lane), "r"(mask));
#endif
  return r;
}

__device__ inline uint32_t ballot_bits(uint32_t mask, bool predicate) {
  uint32_t r = predicate;
#if defined(__CUDA_ARCH__)
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, %2; }"
               : "=r"(r)
               : "r"(static_cast<uint32_t>(predicate)), "r"(mask));
#endif
  return r;
}

__device__ inline void warp_barrier_mask(uint32_t mask) {
#if defined(__CUDA_ARCH__)
  asm volatile("bar.warp.sync %0;" ::"r"(mask) : "memory");
#endif
}

/// Barrier `id`, at which `threads` threads of the block meet; barrier 0 is the block's own.
__device__ inline void barrier_of(int id, int threads) {
#if defined(__CUDA_ARCH__)
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}
__device__ inline void block_barrier_all() {
#if defined(__CUDA_ARCH__)
  asm volatile("barrier.sync 0;" ::: "memory");
#endif
}

/// A barrier too. @return whether the predicate of one of the threads holds
__device__ inline bool barrier_any(int id, int threads, bool predicate) {
  uint32_t r = predicate;
#if defined(__CUDA_ARCH__)
  asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0; barrier.red.or.pred q, %2, %3, p; selp.u32 %0, 1, 0, q; }"
               : "=r"(r)
               : "r"(static_cast<uint32_t>(predicate)), "r"(id), "r"(threads)
               : "memory");
#endif
  return r != 0;
}

// A cluster, on cards before sm_90, is one block.
__device__ inline uint32_t rank_in_cluster() {
  uint32_t r = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
#endif
  return r;
}
__device__ inline uint32_t blocks_of_cluster() {
  uint32_t r = 1;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r));
#endif
  return r;
}
__device__ inline void arrive_at_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
__device__ inline void wait_at_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
  block_barrier_all();
#endif
}
__device__ inline void* address_in_cluster(void* shared, int rank) {
  void* r = shared;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("mapa.u64 %0, %1, %2;" : "=l"(r) : "l"(shared), "r"(rank));
#endif
  return r;
}

/// One more arrival at a counter, which the last of `arrivals` leaves 0. What the calling thread has seen written comes
/// before, and what it reads afterwards comes after the arrivals counted before it. @return whether it is the last one
__device__ inline bool count_arrival(uint32_t* counter, uint32_t arrivals) {
  uint32_t seen = 0;
#if defined(__CUDA_ARCH__)
  asm volatile("{ fence.acq_rel.gpu; atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2; fence.acq_rel.gpu; }"
               : "=r"(seen)
               : "l"(counter), "r"(arrivals - 1)
               : "memory");
#else
  (void)counter;
#endif
  return seen + 1 == arrivals;
}

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
