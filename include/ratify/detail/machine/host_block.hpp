// SPDX-License-Identifier: Apache-2.0
/// The block interface on fibers. Member for member the same as detail/machine/block.cuh.
#pragma once

#include <ratify/detail/machine/block_base.cuh>
#include <ratify/detail/machine/block_scopes.hpp>
#include <ratify/detail/machine/host_copies.hpp>
#include <ratify/detail/machine/host_lanes.hpp>
#include <ratify/executor.hpp>

#include <vector>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// What the threads of the block that a CPU thread runs share, or of the blocks of a cluster.
struct host_machine {
  block_scopes scopes;
  host_copies copies;
  matrix_model matrix = matrix_model::exact;
  int cluster = 1;               // blocks
  std::vector<void*> storage{};  // per block of the cluster
  std::vector<int> running{};    // threads per block that have not ended
};

template <int Threads>
class host_block : public block_base<host_block<Threads>, Threads> {
  using base = block_base<host_block<Threads>, Threads>;
 public:
  using base::warp_mask;

  /// `thread` counts through the cluster, `index` is the block's.
  host_block(host_machine& machine, int thread, grid_extent index, grid_extent grid)
      : machine_(machine), thread_(thread % Threads), rank_(thread / Threads), index_(index), grid_(grid) {}

  int thread() const { return thread_; }
  int block_x() const { return index_.x; }
  int block_y() const { return index_.y; }
  int block_z() const { return index_.z; }
  int grid_x() const { return grid_.x; }

  void meet(int barrier, int count) const { (void)machine_.scopes.barrier(barrier, count, false); }
  bool any_of(int barrier, int count, bool predicate) const {
    return machine_.scopes.barrier(barrier, count, predicate);
  }
  void warp_barrier(uint32_t mask = warp_mask) const { machine_.scopes.warp_barrier(mask); }
  uint32_t shuffle_word(uint32_t value, int lane, uint32_t mask) const {
    shuffle_lane mine{value, lane, 0};
    machine_.scopes.meet(&shuffle_lane::exchange, mask, &mine);
    return mine.result;
  }
  uint32_t ballot(bool predicate, uint32_t mask = warp_mask) const {
    ballot_lane mine{predicate, 0};
    machine_.scopes.meet(&ballot_lane::exchange, mask, &mine);
    return mine.result;
  }

  template <class Format, int Steps, int Tiles>
  void multiply(fragment_c (&c)[Tiles], fragment_a const (&a)[Steps], fragment_b const (&b)[Steps][Tiles]) const {
    product_lane<Format, Steps, Tiles> mine{machine_.matrix, c, a, b};
    machine_.scopes.meet(&product_lane<Format, Steps, Tiles>::multiply, warp_mask, &mine);
  }
  // Each lane itself reads or writes its row, so that a checker sees whose access it is.
  void load_matrices(uint32_t (&word)[4], void const* row) const { load<false>(word, row); }
  void load_matrices_transposed(uint32_t (&word)[4], void const* row) const { load<true>(word, row); }
  void store_matrices(void* row, uint32_t const (&word)[4]) const {
    matrices_lane mine{{}, {word[0], word[1], word[2], word[3]}};
    machine_.scopes.meet(&matrices_lane::store, warp_mask, &mine);
    std::memcpy(row, mine.row, sizeof mine.row);
  }

  template <int Bytes>
  RATIFY_INLINE void copy_bytes(void* shared, void const* global, bool present) const {
    fiber_pool& fibers = machine_.scopes.fibers();
    auto const order = machine_.copies.issue(fibers, shared, present ? global : nullptr, Bytes);
    if (!order.now) return;
    void* const made = order.made;  // not to be read out of the thread's memory in the copy's name
    void* const home = host_copies::enter(order.engine, order.asked);
    host_copies::make(shared, present ? global : nullptr, Bytes);
    host_copies::leave(home, made);
  }
  void commit_copies() const { machine_.copies.commit(machine_.scopes.fibers()); }
  template <int Pending>
  void wait_copies() const {
    machine_.copies.await(machine_.scopes.fibers(), Pending);
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

  int cluster_rank() const { return rank_; }
  int cluster_size() const { return machine_.cluster; }
  void cluster_arrive() const { machine_.scopes.arrive_at_cluster(); }
  void cluster_wait() const { machine_.scopes.wait_at_cluster(); }
  template <class Value>
  Value* cluster_map(Value* shared, int rank) const {
    auto const offset =
        reinterpret_cast<uintptr_t>(shared) - reinterpret_cast<uintptr_t>(machine_.storage[static_cast<size_t>(rank_)]);
    return reinterpret_cast<Value*>(reinterpret_cast<uintptr_t>(machine_.storage[static_cast<size_t>(rank)]) + offset);
  }

  bool count_arrival(uint32_t* counter, uint32_t arrivals) const {
    uint32_t seen = __atomic_load_n(counter, __ATOMIC_RELAXED);
    do {
      if (seen >= arrivals) machine_.scopes.fibers().fail("a counter of arrivals was not 0 before the launch");
    } while (!__atomic_compare_exchange_n(counter, &seen, seen + 1 == arrivals ? 0 : seen + 1, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
    return seen + 1 == arrivals;
  }

  /// After the kernel's code, in each thread.
  void end() const { machine_.copies.end(machine_.scopes.fibers()); }
 private:
  template <bool Transposed>
  void load(uint32_t (&word)[4], void const* row) const {
    matrices_lane mine{};
    std::memcpy(mine.row, row, sizeof mine.row);
    machine_.scopes.meet(&matrices_lane::load<Transposed>, warp_mask, &mine);
    for (int m = 0; m < 4; ++m) word[m] = mine.word[m];
  }

  host_machine& machine_;
  int thread_, rank_;
  grid_extent index_, grid_;
};

}  // namespace detail
RATIFY_END_NAMESPACE
