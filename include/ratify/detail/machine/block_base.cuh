// SPDX-License-Identifier: Apache-2.0
/// What the CUDA block (detail/machine/block.cuh) and the host block (detail/machine/host_block.hpp) share: the block
/// interface, spelt in the few primitives that each of them has.
#pragma once

#include <ratify/detail/machine/matrix.hpp>
#include <ratify/detail/machine/ptx.cuh>
#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Warps that meet at a barrier of their own: group i has the threads i * Threads to (i + 1) * Threads - 1.
template <int Threads>
struct group_of {
  static_assert(Threads % 32 == 0, "ratify: a group has whole warps");
  int index;
};

/// `Block` has the primitives
///   thread()
///   cluster_rank(), cluster_arrive(), cluster_wait(), cluster_map(T*, int rank)
///   count_arrival(uint32_t* counter, uint32_t arrivals)                         of one thread
///   shuffle_word(uint32_t, int lane, uint32_t mask)
///   meet(int barrier, int count), any_of(int barrier, int count, bool)   barrier 0 is the block's
///   copy_bytes<Bytes>(void* shared, void const* global, bool present)
template <class Block, int Threads>
class block_base {
 public:
  static_assert(Threads < 32 || Threads % 32 == 0, "ratify: a block has less than one warp or whole warps");
  static constexpr int threads = Threads;
  static constexpr uint32_t warp_mask = Threads < 32 ? (1u << (Threads & 31)) - 1u : 0xffffffffu;

  RATIFY_ANY_BLOCK
  RATIFY_HD int lane() const { return self().thread() & 31; }
  RATIFY_ANY_BLOCK
  RATIFY_HD int warp() const { return static_cast<int>(static_cast<uint32_t>(self().thread()) >> 5); }

  /// The value of another lane of the mask.
  RATIFY_ANY_BLOCK
  RATIFY_HD uint32_t shuffle(uint32_t value, int lane, uint32_t mask = warp_mask) const {
    return self().shuffle_word(value, lane, mask);
  }
  RATIFY_ANY_BLOCK
  RATIFY_HD float shuffle(float value, int lane, uint32_t mask = warp_mask) const {
    return from_bits(self().shuffle_word(bits(value), lane, mask));
  }
  RATIFY_ANY_BLOCK
  template <class Value>
  RATIFY_HD Value shuffle_xor(Value value, int lanes, uint32_t mask = warp_mask) const {
    return shuffle(value, lane() ^ lanes, mask);
  }

  /// All threads of the block meet, and their memory accesses are ordered.
  RATIFY_ANY_BLOCK
  RATIFY_HD void barrier() const { self().meet(0, Threads); }

  /// The group of the calling thread.
  RATIFY_ANY_BLOCK
  template <int GroupThreads>
  RATIFY_HD group_of<GroupThreads> group() const {
    static_assert(Threads % GroupThreads == 0 && Threads / GroupThreads <= 15,
                  "ratify: a block is at most 15 groups of the same size");
    return {self().thread() / GroupThreads};
  }
  /// The threads of the group meet, and their memory accesses are ordered.
  RATIFY_ANY_BLOCK
  template <int GroupThreads>
  RATIFY_HD void barrier(group_of<GroupThreads> g) const {
    self().meet(1 + g.index, GroupThreads);
  }
  /// A barrier of the group. @return whether the predicate of one of its threads holds
  RATIFY_ANY_BLOCK
  template <int GroupThreads>
  RATIFY_HD bool any(group_of<GroupThreads> g, bool predicate) const {
    return self().any_of(1 + g.index, GroupThreads, predicate);
  }

  /// Copies 4, 8 or 16 bytes from global memory to shared storage without waiting; both addresses are multiples of the
  /// size. If not `present`, zeros are written and global memory is not read. Before sm_80 the copy is made at once.
  RATIFY_ANY_BLOCK
  template <int Bytes>
  RATIFY_INLINE RATIFY_HD void copy_async(void* shared, void const* global, bool present = true) const {
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "ratify: asynchronous copies have 4, 8 or 16 bytes");
    self().template copy_bytes<Bytes>(shared, global, present);
  }

  /// Counts the block at a counter in memory of the device, which `arrivals` blocks of a launch reach and which is 0
  /// before the launch and after it. A barrier of the block. @return whether this block is the last one: then what the
  /// others wrote before they arrived may be read, with ordinary loads
  RATIFY_ANY_BLOCK
  RATIFY_HD bool arrive_last(uint32_t* counter, uint32_t arrivals) const {
    barrier();
    return self().any_of(0, Threads, self().thread() == 0 && self().count_arrival(counter, arrivals));
  }
  /// The same for clusters, each of which arrives once: true in all threads of the last cluster. Barriers of the
  /// cluster.
  /// `flag` is a word of shared storage that nothing else uses meanwhile.
  RATIFY_ANY_BLOCK
  RATIFY_HD bool cluster_arrive_last(uint32_t* counter, uint32_t arrivals, uint32_t* flag) const {
    cluster_barrier();
    if (self().cluster_rank() == 0 && self().thread() == 0) *flag = self().count_arrival(counter, arrivals) ? 1u : 0u;
    cluster_barrier();
    bool const last = *self().cluster_map(flag, 0) != 0;
    cluster_barrier();  // the first block may not end, nor write the flag again, while another one reads it
    return last;
  }
  RATIFY_ANY_BLOCK
  RATIFY_HD void cluster_barrier() const {
    self().cluster_arrive();
    self().cluster_wait();
  }
 private:
  RATIFY_HD Block const& self() const { return static_cast<Block const&>(*this); }
};

}  // namespace detail
RATIFY_END_NAMESPACE
