// SPDX-License-Identifier: Apache-2.0
/// The block interface on CUDA. Member for member the same as detail/machine/host_block.hpp.
///
/// Scopes: warp (lanes named by a mask) and block. Clusters, groups of warps and asynchronous copies get members
/// here, and in the host block, with the first kernel that needs them.
#pragma once

#include <ratify/detail/machine/ptx.cuh>
#include <ratify/detail/machine/synchronisation.cuh>

#if defined(__CUDACC__)
RATIFY_BEGIN_NAMESPACE
namespace detail {

template <int Threads>
class cuda_block {
 public:
  static_assert(Threads < 32 || Threads % 32 == 0, "ratify: a block has less than one warp or whole warps");
  static constexpr int threads = Threads;
  static constexpr uint32_t warp_mask = Threads < 32 ? (1u << (Threads & 31)) - 1u : 0xffffffffu;

  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ int lane() const { return static_cast<int>(threadIdx.x & 31); }
  __device__ int warp() const { return static_cast<int>(threadIdx.x >> 5); }
  __device__ int block_x() const { return static_cast<int>(blockIdx.x); }
  __device__ int block_y() const { return static_cast<int>(blockIdx.y); }
  __device__ int block_z() const { return static_cast<int>(blockIdx.z); }
  __device__ int grid_x() const { return static_cast<int>(gridDim.x); }

  __device__ void barrier() const { block_barrier_all(); }
  __device__ void warp_barrier(uint32_t mask = warp_mask) const { warp_barrier_mask(mask); }
  __device__ uint32_t shuffle(uint32_t value, int lane, uint32_t mask = warp_mask) const {
    return shuffle_bits(mask, value, lane);
  }
  __device__ float shuffle(float value, int lane, uint32_t mask = warp_mask) const {
    return from_bits(shuffle(bits(value), lane, mask));
  }
  template <class Value>
  __device__ Value shuffle_xor(Value value, int lanes, uint32_t mask = warp_mask) const {
    return shuffle(value, lane() ^ lanes, mask);
  }
  __device__ uint32_t ballot(bool predicate, uint32_t mask = warp_mask) const { return ballot_bits(mask, predicate); }

  /// To shared storage or memory of the device; integers only, so that the order of arrivals cannot show.
  __device__ uint32_t atomic_add(uint32_t* p, uint32_t value) const { return atomicAdd(p, value); }
  __device__ uint64_t atomic_add(uint64_t* p, uint64_t value) const {
    return atomicAdd(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(value));
  }
  __device__ uint32_t atomic_max(uint32_t* p, uint32_t value) const { return atomicMax(p, value); }
};

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
