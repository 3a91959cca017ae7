// SPDX-License-Identifier: Apache-2.0
/// The block interface on CUDA. Member for member the same as detail/machine/host_block.hpp; what both spell alike is
/// in detail/machine/block_base.cuh.
#pragma once

#include <ratify/detail/machine/block_base.cuh>
#include <ratify/detail/machine/copies.cuh>
#include <ratify/detail/machine/matrix_instructions.cuh>
#include <ratify/detail/machine/synchronisation.cuh>

#if defined(__CUDACC__)
RATIFY_BEGIN_NAMESPACE
namespace detail {

template <int Threads>
class cuda_block : public block_base<cuda_block<Threads>, Threads> {
  using base = block_base<cuda_block<Threads>, Threads>;
 public:
  using base::lane, base::warp_mask;

  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ int block_x() const { return static_cast<int>(blockIdx.x); }
  __device__ int block_y() const { return static_cast<int>(blockIdx.y); }
  __device__ int block_z() const { return static_cast<int>(blockIdx.z); }
  __device__ int grid_x() const { return static_cast<int>(gridDim.x); }

  __device__ void meet(int barrier, int count) const {
    if (barrier == 0)
      block_barrier_all();
    else
      barrier_of(barrier, count);
  }
  __device__ bool any_of(int barrier, int count, bool predicate) const {
    return barrier_any(barrier, count, predicate);
  }
  __device__ void warp_barrier(uint32_t mask = warp_mask) const { warp_barrier_mask(mask); }
  __device__ uint32_t shuffle_word(uint32_t value, int lane, uint32_t mask) const {
    return shuffle_bits(mask, value, lane);
  }
  __device__ uint32_t ballot(bool predicate, uint32_t mask = warp_mask) const { return ballot_bits(mask, predicate); }

  /// c[n] += sum over k of a[k] b[k][n], in ascending order of k. All lanes of the warp.
  template <class Format, int Steps, int Tiles>
  __device__ void multiply(fragment_c (&c)[Tiles], fragment_a const (&a)[Steps],
                           fragment_b const (&b)[Steps][Tiles]) const {
    RATIFY_UNROLL
    for (int k = 0; k < Steps; ++k) {
      RATIFY_UNROLL
      for (int n = 0; n < Tiles; ++n) multiply_fragments<Format>(c[n], a[k], b[k][n]);
    }
  }
  /// Four matrices of 8 x 8 elements of 16 bits in shared storage: lane l passes the address of row l % 8 of matrix l /
  /// 8, and gets of matrix m in word m the pair (row l / 4, columns 2 (l % 4) and the next). All lanes of the warp.
  __device__ void load_matrices(uint32_t (&word)[4], void const* row) const {
    load_matrices_from<false>(word, shared_address(row));
  }
  /// The pairs (rows 2 (l % 4) and the next, column l / 4).
  __device__ void load_matrices_transposed(uint32_t (&word)[4], void const* row) const {
    load_matrices_from<true>(word, shared_address(row));
  }
  /// The reverse of `load_matrices`.
  __device__ void store_matrices(void* row, uint32_t const (&word)[4]) const {
    store_matrices_to(shared_address(row), word, lane());
  }

  template <int Bytes>
  __device__ void copy_bytes(void* shared, void const* global, bool present) const {
    copy_to_shared<Bytes>(shared, global, present);
  }
  /// Makes a group of the copies that the thread has asked for since the last group.
  __device__ void commit_copies() const { commit_copy_group(); }
  /// Waits for the groups of the calling thread except the newest `Pending`. What other threads have copied may be read
  /// after a barrier that follows their wait.
  template <int Pending>
  __device__ void wait_copies() const {
    wait_copy_groups<Pending>();
  }

  __device__ int cluster_rank() const { return static_cast<int>(rank_in_cluster()); }
  __device__ int cluster_size() const { return static_cast<int>(blocks_of_cluster()); }
  /// The barrier of the cluster in two parts: what a thread has written before it arrives is seen by all that have
  /// waited.
  __device__ void cluster_arrive() const { arrive_at_cluster(); }
  __device__ void cluster_wait() const { wait_at_cluster(); }
  /// The same object in the shared storage of another block of the cluster. Its block must not end before the last
  /// access: a barrier of the cluster stands between.
  template <class Value>
  __device__ Value* cluster_map(Value* shared, int rank) const {
    return static_cast<Value*>(address_in_cluster(shared, rank));
  }
  __device__ bool count_arrival(uint32_t* counter, uint32_t arrivals) const {
    return detail::count_arrival(counter, arrivals);
  }

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
