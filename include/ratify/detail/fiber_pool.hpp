// SPDX-License-Identifier: Apache-2.0
/// The threads of a block as fibers of one CPU thread, with the counters of the scopes they meet in. The only header
/// that includes Boost.
#pragma once

#include <ratify/config.hpp>

#include <boost/context/fiber.hpp>
#include <boost/context/preallocated.hpp>

#include <cstdlib>
#include <memory>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RATIFY_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define RATIFY_ADDRESS_SANITIZER 1
#endif
#if defined(RATIFY_ADDRESS_SANITIZER)
#include <sanitizer/common_interface_defs.h>
#include <sys/mman.h>
#endif

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// What the lanes of a warp do together.
enum class warp_exchange : uint8_t { none, barrier, shuffle, ballot };

/// Runs the threads of one block at a time. Fibers and their stacks persist from block to block.
///
/// A scope counts its own arrivals, and a fiber waits for its scope alone: a shuffle in warp 0 need not be matched by a
/// yield of warp 1. Who arrives last releases the others. When no fiber can go on and some have not returned, they wait
/// for threads that never come.
class fiber_pool {
 public:
  using thread_function = void (*)(void* context, int thread);

  fiber_pool() = default;
  fiber_pool(fiber_pool const&) = delete;
  fiber_pool& operator=(fiber_pool const&) = delete;
  ~fiber_pool() { retire_fibers(); }

  /// Runs `f(context, 0 .. threads - 1)` to completion.
  /// @return nullptr, or what went wrong; then every fiber has been unwound.
  RATIFY_NOINLINE char const* run(int threads, thread_function f, void* context) {
    grow(threads);
    threads_ = threads;
    function_ = f;
    context_ = context;
    finished_ = 0;
    failure_ = nullptr;
    block_waiting_.clear();
    warps_.assign(static_cast<size_t>(threads + 31) / 32, warp_scope{});
    ready_head_ = ready_tail_ = 0;
    for (int t = 1; t < threads; ++t) make_ready(t);
    switch_to(0);
    if (finished_ < threads) {
      if (failure_ == nullptr)
        failure_ = block_waiting_.empty() ? "lanes of a warp wait for lanes that never join them"
                                          : "threads wait for a block barrier that the others never reach";
      abandon();
    }
    return failure_;
  }

  RATIFY_NOINLINE void block_barrier() {
    if (static_cast<int>(block_waiting_.size()) + 1 < threads_) {
      block_waiting_.push_back(current_);
      wait();
      return;
    }
    for (int t : block_waiting_) make_ready(t);
    block_waiting_.clear();
  }

  /// Meets the lanes of `mask`. shuffle: the value of lane `source` (the own one if the source is not in the mask);
  /// ballot: the lanes whose value is not zero.
  RATIFY_NOINLINE uint32_t exchange(warp_exchange what, uint32_t mask, uint32_t value, int source) {
    int const lane = current_ & 31, first = current_ - lane;
    warp_scope& w = warps_[static_cast<size_t>(current_) / 32];
    if (!(mask >> lane & 1u)) fail("a lane meets others under a mask that does not name it");
    w.lanes[lane] = {what, mask, value, source};
    w.arrived |= 1u << lane;
    if ((w.arrived & mask) != mask) {
      wait();
      return w.result[lane];
    }
    // Who arrives last works out every lane's result, so that a lane which is one exchange ahead overwrites nothing
    // that a slower lane still reads.
    uint32_t votes = 0;
    for (int l = 0; l < 32; ++l) {
      if (!(mask >> l & 1u)) continue;
      if (w.lanes[l].what != what || w.lanes[l].mask != mask)
        fail("lanes of a warp meet with different masks or operations");
      if (w.lanes[l].value != 0) votes |= 1u << l;
    }
    for (int l = 0; l < 32; ++l) {
      if (!(mask >> l & 1u)) continue;
      int const from = w.lanes[l].source & 31;
      w.result[l] = what == warp_exchange::ballot ? votes : w.lanes[mask >> from & 1u ? from : l].value;
      if (l != lane) make_ready(first + l);
    }
    w.arrived &= ~mask;
    return w.result[lane];
  }
 private:
  static constexpr size_t stack_bytes = 64 * 1024;
  static constexpr int scheduler = -1;

  struct lane_state {
    warp_exchange what = warp_exchange::none;
    uint32_t mask = 0, value = 0;
    int source = 0;
  };
  struct warp_scope {
    uint32_t arrived = 0;
    lane_state lanes[32];
    uint32_t result[32] = {};
  };
  struct slot {
    boost::context::fiber handle;
    char* stack = nullptr;
    void* fake_stack = nullptr;
  };
  /// Ends a fiber that waits for ever. Boost's own unwinding would do it with an exception that AddressSanitizer flags.
  struct abandoned {};
  struct borrowed_stack {
    boost::context::stack_context allocate() { return {}; }
    void deallocate(boost::context::stack_context&) {}
  };

  slot& at(int thread) { return slots_[static_cast<size_t>(thread + 1)]; }

  void make_ready(int thread) { ready_[ready_tail_++ & (ready_.size() - 1)] = thread; }

  void wait() {
    run_next();
    if (abandoning_) throw abandoned{};
  }

  [[noreturn]] void fail(char const* what) {
    failure_ = what;
    throw abandoned{};
  }

  void run_next() {
    bool const stop = failure_ != nullptr || ready_head_ == ready_tail_;
    switch_to(stop ? scheduler : ready_[ready_head_++ & (ready_.size() - 1)]);
  }

  void abandon() {
    abandoning_ = true;
    for (int t = 0; t < threads_; ++t)
      if (at(t).handle && running_[static_cast<size_t>(t)]) switch_to(t);
    abandoning_ = false;
  }

  void switch_to(int to) {
    int const me = current_;
    if (to == me) return;
    previous_ = me;
    current_ = to;
#if defined(RATIFY_ADDRESS_SANITIZER)
    __sanitizer_start_switch_fiber(&at(me).fake_stack, to == scheduler ? scheduler_bottom_ : at(to).stack,
                                   to == scheduler ? scheduler_bytes_ : stack_bytes);
#endif
    arrive(std::move(at(to).handle).resume(), me);
  }

  /// First thing after a switch: `from` is the fiber that was left, suspended.
  void arrive(boost::context::fiber&& from, [[maybe_unused]] int me) {
#if defined(RATIFY_ADDRESS_SANITIZER)
    void const* bottom = nullptr;
    size_t bytes = 0;
    __sanitizer_finish_switch_fiber(at(me).fake_stack, &bottom, &bytes);
    if (previous_ == scheduler) {
      scheduler_bottom_ = bottom;
      scheduler_bytes_ = bytes;
    }
#endif
    at(previous_).handle = std::move(from);
  }

  void thread_loop(int id) {
    while (!stopping_) {
      running_[static_cast<size_t>(id)] = 1;
      try {
        if (!abandoning_) function_(context_, id);
        if (!abandoning_) ++finished_;
      } catch (abandoned const&) {
      }
      running_[static_cast<size_t>(id)] = 0;
      if (abandoning_)
        switch_to(scheduler);
      else
        run_next();
    }
  }

  void grow(int threads) {
    if (slots_.empty()) slots_.resize(1);
    size_t places = 64;
    while (places < static_cast<size_t>(threads)) places *= 2;
    if (ready_.size() < places) ready_.resize(places);
    if (running_.size() < static_cast<size_t>(threads)) running_.resize(static_cast<size_t>(threads));
    while (slots_.size() < static_cast<size_t>(threads) + 1) add_fiber();
  }

  void add_fiber() {
    slots_.emplace_back();
    slot& s = slots_.back();
    int const id = static_cast<int>(slots_.size()) - 2;
    s.stack = allocate_stack();
    boost::context::stack_context stack;
    stack.size = stack_bytes;
    stack.sp = s.stack + stack_bytes;
    s.handle = boost::context::fiber(std::allocator_arg, boost::context::preallocated(stack.sp, stack_bytes, stack),
                                     borrowed_stack{}, [this, id](boost::context::fiber&& from) {
                                       arrive(std::move(from), id);
                                       thread_loop(id);
                                       previous_ = id;
                                       current_ = scheduler;
#if defined(RATIFY_ADDRESS_SANITIZER)
                                       __sanitizer_start_switch_fiber(nullptr, scheduler_bottom_, scheduler_bytes_);
#endif
                                       return std::move(at(scheduler).handle);
                                     });
  }

  void retire_fibers() {
    stopping_ = true;
    for (int t = 0; t + 1 < static_cast<int>(slots_.size()); ++t) {
      if (at(t).handle) switch_to(t);
      release_stack(at(t).stack);
    }
  }

#if defined(RATIFY_ADDRESS_SANITIZER)
  // A guard page under each stack. The whole is mapped, so that the sanitizer's own allocator is not asked.
  static constexpr size_t guard_bytes = 4096;
  static char* allocate_stack() {
    void* const p =
        mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc{};
    mprotect(p, guard_bytes, PROT_NONE);
    return static_cast<char*>(p) + guard_bytes;
  }
  static void release_stack(char* stack) { munmap(stack - guard_bytes, guard_bytes + stack_bytes); }
#else
  static char* allocate_stack() {
    void* const p = std::aligned_alloc(4096, stack_bytes);
    if (p == nullptr) throw std::bad_alloc{};
    return static_cast<char*>(p);
  }
  static void release_stack(char* stack) { std::free(stack); }
#endif

  std::vector<slot> slots_;  // the scheduler's, then one a thread
  std::vector<warp_scope> warps_;
  std::vector<int> ready_;  // a ring, its size a power of two
  std::vector<int> block_waiting_;
  std::vector<char> running_;  // inside the thread function
  size_t ready_head_ = 0, ready_tail_ = 0;
  int current_ = scheduler, previous_ = scheduler, threads_ = 0, finished_ = 0;
  bool stopping_ = false, abandoning_ = false;
  thread_function function_ = nullptr;
  void* context_ = nullptr;
  char const* failure_ = nullptr;
#if defined(RATIFY_ADDRESS_SANITIZER)
  void const* scheduler_bottom_ = nullptr;
  size_t scheduler_bytes_ = 0;
#endif
};

}  // namespace detail
RATIFY_END_NAMESPACE
