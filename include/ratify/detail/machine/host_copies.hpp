// SPDX-License-Identifier: Apache-2.0
/// Asynchronous copies on the host: when each is made, and what a checker learns of it.
#pragma once

#include <ratify/detail/machine/fiber_pool.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// The copies that the threads of a block have asked for, in groups, as each thread commits them.
///
/// A copy is made at once, unless the order of threads is drawn: then it is drawn too whether it is made at once or
/// when its group is awaited, and until then its destination holds 0xFF bytes, so that a kernel which reads too early
/// gets other bits.
///
/// For ThreadSanitizer a copy is made by a fiber of its own, one per warp, which comes after what the thread did before
/// it asked for the copy. What the thread does next is not ordered after the copy until it awaits the copy's group. A
/// report names the line that asks for the copy, because the copy is inlined there.
class host_copies {
 public:
  ~host_copies() {
    void* const me = thread_checker::current();
    for (void* engine : engines_) {
      thread_checker::switch_to(engine);
      thread_checker::hide();  // as it was made
      thread_checker::switch_to(me);
      thread_checker::destroy(engine);
    }
  }
  host_copies() = default;
  host_copies(host_copies const&) = delete;
  host_copies& operator=(host_copies const&) = delete;

  /// Before the threads of a block run.
  void begin(int threads) {
    threads_ = threads;
    used_ = false;
  }

  /// What a thread that has asked for a copy does with it.
  struct copy_order {
    bool now;      ///< make it, between `enter` and `leave`
    void* engine;  ///< as ThreadSanitizer knows who makes it
    void* asked;   ///< where that one is ordered after the thread
    void* made;    ///< where the thread will be ordered after that one
  };

  /// A thread asks for a copy of `bytes` from `from`, or of zeros if that is nullptr.
  RATIFY_NOINLINE copy_order issue(fiber_pool& fibers, void* to, void const* from, size_t bytes) {
    thread_checker::hidden const h;
    if (reinterpret_cast<uintptr_t>(to) % bytes != 0 || reinterpret_cast<uintptr_t>(from) % bytes != 0)
      fibers.fail("an asynchronous copy has an address that is not a multiple of its size");
    thread_copies& mine = of(fibers);
    mine.is_open = true;
    if (thread_checker::present) {
      int const thread = fibers.current();
      return {true, engines_[static_cast<size_t>(thread) / 32], place(thread, groups),
              place(thread, mine.committed % groups)};
    }
    if (fibers.shuffle_seed() == 0 || fibers.draw() % 2 == 0) return {true, nullptr, nullptr, nullptr};
    std::memset(to, 0xff, bytes);
    mine.deferred.push_back({to, from, bytes, mine.committed});
    return {false, nullptr, nullptr, nullptr};
  }

  /// From here to `leave`, a checker takes what the calling thread does for the copy's doing: it may touch nothing but
  /// the copy's memory. @return what `leave` needs
  RATIFY_INLINE static void* enter(void* engine, void* asked) {
    void* const home = thread_checker::current();
    thread_checker::release(asked);
    thread_checker::switch_to(engine);
    thread_checker::acquire(asked);
    return home;
  }
  RATIFY_INLINE static void leave(void* home, void* made) {
    thread_checker::release(made);
    thread_checker::switch_to(home);
  }

  /// The copy itself; zeros if `from` is nullptr.
  RATIFY_INLINE static void make(void* to, void const* from, size_t bytes) {
    if (from != nullptr)
      std::memcpy(to, from, bytes);
    else
      std::memset(to, 0, bytes);
  }

  /// Ends the calling thread's group of copies.
  RATIFY_NOINLINE void commit(fiber_pool const& fibers) {
    thread_checker::hidden const h;
    thread_copies& mine = of(fibers);
    ++mine.committed;
    mine.is_open = false;
  }

  /// Waits for the calling thread's groups except the newest `pending` ones.
  RATIFY_NOINLINE void await(fiber_pool const& fibers, unsigned pending) {
    thread_checker::hidden const h;
    thread_copies& mine = of(fibers);
    if (mine.committed < pending + mine.awaited) return;
    unsigned const done = mine.committed - pending;
    for (deferred_copy const& c : mine.deferred)
      if (c.group < done) make(c.to, c.from, c.bytes);
    mine.deferred.erase(std::remove_if(mine.deferred.begin(), mine.deferred.end(),
                                       [done](deferred_copy const& c) { return c.group < done; }),
                        mine.deferred.end());
    for (unsigned g = mine.awaited; thread_checker::present && g < done; ++g)
      thread_checker::acquire(place(fibers.current(), g % groups));
    mine.awaited = done;
  }

  /// At the end of a thread: copies that nobody awaits would be made into what the next block has there.
  RATIFY_NOINLINE void end(fiber_pool& fibers) {
    thread_checker::hidden const h;
    if (!used_) return;
    thread_copies const& mine = of(fibers);
    if (mine.is_open || mine.awaited != mine.committed) fibers.fail("a thread ends with asynchronous copies under way");
  }
 private:
  static constexpr unsigned groups = 64;  // that a thread may have under way; more would share a place
  struct deferred_copy {
    void* to;
    void const* from;
    size_t bytes;
    unsigned group;
  };
  struct thread_copies {
    bool is_open = false;
    unsigned committed = 0, awaited = 0;  // groups
    std::vector<deferred_copy> deferred;
  };

  /// The calling thread's copies; those of all threads are made ready at the first use in a block.
  thread_copies& of(fiber_pool const& fibers) {
    if (!used_) {
      copies_.assign(static_cast<size_t>(threads_), thread_copies{});
      if (thread_checker::present) {
        places_.reset();
        places_.reset(new uint64_t[static_cast<size_t>(threads_) * (groups + 1)]);
        while (engines_.size() * 32 < static_cast<size_t>(threads_)) add_engine();
      }
      used_ = true;
    }
    return copies_[static_cast<size_t>(fibers.current())];
  }

  void add_engine() {
    void* const engine = thread_checker::create();
    void* const me = thread_checker::current();
    thread_checker::switch_to(engine);
    thread_checker::show();
    thread_checker::set_name("asynchronous copies of a warp");
    thread_checker::switch_to(me);
    engines_.push_back(engine);
  }

  /// Where ThreadSanitizer orders a group of a thread's copies; number `groups`: where it orders asking for them.
  RATIFY_INLINE void* place(int thread, unsigned i) {
    return places_.get() + static_cast<size_t>(thread) * (groups + 1) + i;
  }

  int threads_ = 0;
  bool used_ = false;
  std::vector<thread_copies> copies_;
  std::vector<void*> engines_;
  std::unique_ptr<uint64_t[]> places_;
};

}  // namespace detail
RATIFY_END_NAMESPACE
