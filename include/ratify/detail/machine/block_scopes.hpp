// SPDX-License-Identifier: Apache-2.0
/// Where the threads of a block meet on the host: barriers of the block and of groups of its warps, and what the lanes
/// of a warp do together.
#pragma once

#include <ratify/detail/machine/fiber_pool.hpp>

#include <memory>
#include <vector>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Runs the threads of one block at a time on fibers, or of the blocks of a cluster.
///
/// A scope counts its own arrivals, and a thread waits for its scope alone: a shuffle in warp 0 need not be matched by
/// a barrier in warp 1. Who arrives last releases the others. When no thread can go on and some have not returned, they
/// wait for threads that never come, and the run ends with a text that says for what.
///
/// Under ThreadSanitizer, what orders the threads' memory accesses is what does on a card: a barrier orders the threads
/// that meet at it, a warp barrier the lanes of its mask. Shuffles, votes and matrix products move values and order
/// nothing.
class block_scopes {
 public:
  using thread_function = fiber_pool::thread_function;
  /// What lanes do together: called once, by the lane that arrives last, with the pointer that each lane of the mask
  /// brought (those of other lanes are not set).
  using lanes_function = void (*)(void* const (&lanes)[32], uint32_t mask);

  static constexpr int barriers = 16;  // as many as a block has on a card; number 0 is the block's own

  fiber_pool& fibers() { return fibers_; }

  /// Runs f(context, t) for every t below `threads`, to completion: the threads of `blocks` blocks, one after another.
  /// @return nullptr, or what went wrong; then every thread has been unwound.
  RATIFY_NOINLINE char const* run(int threads, int blocks, thread_function f, void* context) {
    thread_checker::hidden const h;
    block_threads_ = threads / blocks;
    barriers_.assign(static_cast<size_t>(blocks) * barriers, barrier_scope{});
    cluster_ = {};
    warps_.assign(static_cast<size_t>(threads + 31) / 32, warp_scope{});
    next_.resize(static_cast<size_t>(threads));
    cluster_turn_.assign(static_cast<size_t>(threads), -1);
    if (thread_checker::present) {
      places_.reset();
      places_.reset(new uint64_t[2 * (barriers_.size() + 1) + warps_.size() * 64]);
    }
    fibers_.begin(threads, f, context);
    return fibers_.go() ? nullptr : fibers_.abandon(waited_for());
  }

  /// Orders the threads of all earlier runs before the caller.
  void join() { fibers_.join(); }

  /// Barrier `id` of the block, at which `expected` threads meet. @return whether one of them passed true
  RATIFY_NOINLINE bool barrier(int id, int expected, bool vote) {
    thread_checker::hidden const h;
    size_t const number = static_cast<size_t>(fibers_.current() / block_threads_ * barriers + id);
    barrier_scope& b = barriers_[number];
    if (b.arrived == 0) b.expected = expected;
    if (b.expected != expected) fibers_.fail("threads meet at one barrier as groups of different sizes");
    // Two places and outcomes in turn: a thread that arrives at the next barrier must not be taken for one that was at
    // this, nor change what a slower thread still reads.
    size_t const turn = b.meetings & 1;
    void* const meeting = places_.get() + 2 * number + turn;
    thread_checker::release(meeting);
    b.outcome[turn] = vote || (b.arrived > 0 && b.outcome[turn]);
    if (++b.arrived < expected) {
      wait_at(b);
    } else {
      release_from(b);
      fibers_.yield();
    }
    thread_checker::acquire(meeting);
    return b.outcome[turn];
  }

  /// The calling thread has come to the barrier of its cluster, and goes on.
  RATIFY_NOINLINE void arrive_at_cluster() {
    thread_checker::hidden const h;
    int& mine = cluster_turn_[static_cast<size_t>(fibers_.current())];
    if (mine >= 0) fibers_.fail("a thread arrives again at the barrier of its cluster before it has waited there");
    mine = static_cast<int>(cluster_.meetings & 1);
    thread_checker::release(cluster_place(mine));
    if (++cluster_.arrived == fibers_.threads()) release_from(cluster_);
  }
  /// Waits for all threads of the cluster to arrive.
  RATIFY_NOINLINE void wait_at_cluster() {
    thread_checker::hidden const h;
    int& mine = cluster_turn_[static_cast<size_t>(fibers_.current())];
    if (mine < 0) fibers_.fail("a thread waits at the barrier of its cluster without having arrived there");
    int const turn = mine;
    // Nobody can complete the next meeting before this thread has arrived at it.
    if (static_cast<int>(cluster_.meetings & 1) == turn)
      wait_at(cluster_);
    else
      fibers_.yield();
    mine = -1;
    thread_checker::acquire(cluster_place(turn));
  }

  /// Meets the lanes of `mask`, each with a pointer to what it brings and gets: `what` works on all of them.
  RATIFY_NOINLINE void meet(lanes_function what, uint32_t mask, void* mine) {
    thread_checker::hidden const h;
    if (arrive(what, mask, mine)) fibers_.yield();
  }

  /// Meets the lanes of `mask` and orders their memory accesses.
  RATIFY_NOINLINE void warp_barrier(uint32_t mask) {
    thread_checker::hidden const h;
    int const lane = fibers_.current() & 31;
    thread_checker::release(lane_place(lane, 0));
    if (!arrive(&order_lanes, mask, nullptr)) {
      thread_checker::acquire(lane_place(lane, 1));
      return;
    }
    // Through the last lane, for it is one of those that meet; others may meet under other masks meanwhile.
    for (int l = 0; thread_checker::present && l < 32; ++l)
      if (mask >> l & 1u) thread_checker::acquire(lane_place(l, 0));
    for (int l = 0; thread_checker::present && l < 32; ++l)
      if ((mask >> l & 1u) && l != lane) thread_checker::release(lane_place(l, 1));
    fibers_.yield();
  }
 private:
  struct barrier_scope {
    int expected = 0, arrived = 0;
    int first = -1, last = -1;  // who waits, in the order of arrival
    size_t meetings = 0;
    bool outcome[2] = {};
  };
  struct warp_scope {
    uint32_t arrived = 0;
    lanes_function what[32] = {};
    uint32_t mask[32] = {};
    void* lanes[32] = {};
  };

  void wait_at(barrier_scope& b) {
    (b.last < 0 ? b.first : next_[static_cast<size_t>(b.last)]) = fibers_.current();
    b.last = fibers_.current();
    next_[static_cast<size_t>(b.last)] = -1;
    fibers_.wait();
  }
  void release_from(barrier_scope& b) {
    for (int t = b.first; t >= 0; t = next_[static_cast<size_t>(t)]) fibers_.make_ready(t);
    b.first = b.last = -1;
    b.arrived = 0;
    ++b.meetings;
  }

  /// A warp barrier, as what lanes do together.
  static void order_lanes(void* const (&)[32], uint32_t) {}

  /// Waits until all lanes of `mask` are there. The last one works for all and makes them ready. @return whether this
  /// is that lane
  bool arrive(lanes_function what, uint32_t mask, void* mine) {
    int const lane = fibers_.current() & 31, first = fibers_.current() - lane;
    warp_scope& w = warps_[static_cast<size_t>(first) / 32];
    if (!(mask >> lane & 1u)) fibers_.fail("a lane meets others under a mask that does not name it");
    w.what[lane] = what;
    w.mask[lane] = mask;
    w.lanes[lane] = mine;
    w.arrived |= 1u << lane;
    if ((w.arrived & mask) != mask) {
      fibers_.wait();
      return false;
    }
    for (int l = 0; l < 32; ++l)
      if ((mask >> l & 1u) && (w.what[l] != what || w.mask[l] != mask))
        fibers_.fail("lanes of a warp meet with different masks or operations");
    what(w.lanes, mask);
    for (int l = 0; l < 32; ++l)
      if ((mask >> l & 1u) && l != lane) fibers_.make_ready(first + l);
    w.arrived &= ~mask;
    return true;
  }

  /// What threads wait for that never comes.
  char const* waited_for() const {
    for (size_t i = 0; i < barriers_.size(); i += barriers)
      if (barriers_[i].arrived > 0) return "threads wait for a block barrier that the others never reach";
    for (barrier_scope const& b : barriers_)
      if (b.arrived > 0) return "threads wait for a barrier of their group that the others never reach";
    if (cluster_.arrived > 0) return "threads wait for a barrier of their cluster that the others never reach";
    return "lanes of a warp wait for lanes that never join them";
  }

  // Places where threads meet, as ThreadSanitizer knows them: two per barrier, two of the cluster, then two per lane,
  // for arriving and for leaving. New memory for each run, because a place remembers all who met there.
  void* lane_place(int lane, size_t leaving) {
    size_t const thread = static_cast<size_t>((fibers_.current() & ~31) + lane);
    return places_.get() + 2 * (barriers_.size() + 1) + thread * 2 + leaving;
  }
  void* cluster_place(int turn) { return places_.get() + 2 * barriers_.size() + turn; }

  fiber_pool fibers_;
  std::vector<barrier_scope> barriers_;  // those of the first block, then those of the next
  barrier_scope cluster_;
  std::vector<int> cluster_turn_;  // per thread, which of two meetings it has arrived at and not left; -1: none
  int block_threads_ = 1;
  std::vector<warp_scope> warps_;
  std::vector<int> next_;  // per waiting thread, the one behind it at its barrier; -1: none
  std::unique_ptr<uint64_t[]> places_;
};

}  // namespace detail
RATIFY_END_NAMESPACE
