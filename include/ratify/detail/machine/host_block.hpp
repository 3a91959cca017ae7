// SPDX-License-Identifier: Apache-2.0
/// The block interface on fibers. Member for member the same as detail/machine/block.cuh.
#pragma once

#include <ratify/detail/machine/fiber_pool.hpp>
#include <ratify/detail/machine/ptx.cuh>
#include <ratify/executor.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <int Threads>
class host_block {
 public:
  static_assert(Threads < 32 || Threads % 32 == 0, "ratify: a block has less than one warp or whole warps");
  static constexpr int threads = Threads;
  static constexpr uint32_t warp_mask = Threads < 32 ? (1u << (Threads & 31)) - 1u : 0xffffffffu;

  host_block(fiber_pool& pool, int thread, grid_extent index, grid_extent grid)
      : pool_(pool), thread_(thread), index_(index), grid_(grid) {}

  int thread() const { return thread_; }
  int lane() const { return thread_ & 31; }
  int warp() const { return thread_ >> 5; }
  int block_x() const { return index_.x; }
  int block_y() const { return index_.y; }
  int block_z() const { return index_.z; }
  int grid_x() const { return grid_.x; }

  void barrier() const { pool_.block_barrier(); }
  void warp_barrier(uint32_t mask = warp_mask) const { pool_.exchange(warp_exchange::barrier, mask, 0, 0); }
  uint32_t shuffle(uint32_t value, int lane, uint32_t mask = warp_mask) const {
    return pool_.exchange(warp_exchange::shuffle, mask, value, lane);
  }
  float shuffle(float value, int lane, uint32_t mask = warp_mask) const {
    return from_bits(shuffle(bits(value), lane, mask));
  }
  template <class Value>
  Value shuffle_xor(Value value, int lanes, uint32_t mask = warp_mask) const {
    return shuffle(value, lane() ^ lanes, mask);
  }
  uint32_t ballot(bool predicate, uint32_t mask = warp_mask) const {
    return pool_.exchange(warp_exchange::ballot, mask, predicate, 0);
  }

  /// To shared storage or memory of the device; integers only, so that the order of arrivals cannot show.
  template <class Value>
  Value atomic_add(Value* p, Value value) const {
    return __atomic_fetch_add(p, value, __ATOMIC_RELAXED);
  }
  template <class Value>
  Value atomic_max(Value* p, Value value) const {
    Value seen = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (seen < value && !__atomic_compare_exchange_n(p, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return seen;
  }
 private:
  fiber_pool& pool_;
  int thread_;
  grid_extent index_, grid_;
};

}  // namespace detail
RATIFY_END_NAMESPACE
