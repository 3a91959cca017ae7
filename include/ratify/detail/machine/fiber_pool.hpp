// SPDX-License-Identifier: Apache-2.0
/// Threads as fibers of one CPU thread: how they start, wait, go on and end. What they wait for is in
/// detail/machine/block_scopes.hpp. The only header that includes Boost.
#pragma once

#include <ratify/detail/machine/sanitizer.hpp>

#include <boost/context/fiber.hpp>
#include <boost/context/preallocated.hpp>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#if defined(RATIFY_ADDRESS_SANITIZER) || defined(RATIFY_THREAD_SANITIZER)
#include <sys/mman.h>
#endif

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Runs threads on fibers, one at a time. Fibers and their stacks persist from one run to the next.
///
/// A thread that waits goes on when another one makes it ready. When no thread can go on and some have not returned,
/// they wait for ever: `abandon` unwinds them.
///
/// Under ThreadSanitizer each fiber is a thread of its own.
class fiber_pool {
 public:
  using thread_function = void (*)(void* context, int thread);

  fiber_pool() = default;
  fiber_pool(fiber_pool const&) = delete;
  fiber_pool& operator=(fiber_pool const&) = delete;
  ~fiber_pool() { retire_fibers(); }

  /// From now on, the next of the fibers that can go on is drawn at random; 0: in order.
  void shuffle(uint64_t seed) { random_ = seed; }
  uint64_t shuffle_seed() const { return random_; }

  /// What reports of ThreadSanitizer call the block; 0-terminated, read during the next run.
  void name_block(char const* name) { name_ = name; }

  /// Prepares a run of f(context, t) for every t below `threads`; `go` runs it.
  ///
  /// For ThreadSanitizer all the caller did before comes before the threads, but what they do does not come before what
  /// the caller does next, until `join`: so that the blocks of a launch, run in turn, are not in order.
  void begin(int threads, thread_function f, void* context) {
    grow(threads);
    threads_ = threads;
    begin_checking();
    function_ = f;
    context_ = context;
    finished_ = 0;
    failure_ = nullptr;
    ready_head_ = ready_tail_ = 0;
    for (int t = 0; t < threads; ++t) make_ready(t);
  }

  /// Runs threads until none can go on. @return whether all have returned
  bool go() {
    run_next();
    return finished_ == threads_;
  }

  /// Ends a run that did not finish: unwinds the threads that wait. @return what went wrong: `reason`, unless a thread
  /// has failed
  char const* abandon(char const* reason) {
    if (failure_ == nullptr) failure_ = reason;
    abandoning_ = true;
    for (int t = 0; t < threads_; ++t)
      if (at(t).handle && running_[static_cast<size_t>(t)]) switch_to(t);
    abandoning_ = false;
    return failure_;
  }

  /// Orders the threads of all earlier runs before the caller.
  void join() { thread_checker::acquire(&end_); }

  int threads() const { return threads_; }
  /// The thread that runs.
  int current() const { return current_; }

  void make_ready(int thread) { ready_[ready_tail_++ & (ready_.size() - 1)] = thread; }

  /// Lets others run until one of them makes this thread ready.
  void wait() {
    run_next();
    if (abandoning_) throw abandoned{};
  }

  /// Lets the threads that were just made ready, and are to run in any order, run before this one too.
  void yield() {
    if (random_ == 0) return;
    make_ready(current_);
    wait();
  }

  /// Ends the run.
  [[noreturn]] void fail(char const* what) {
    failure_ = what;
    throw abandoned{};
  }

  /// Any 64 bits, drawn from the seed (splitmix64).
  uint64_t draw() {
    uint64_t z = random_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
 private:
  // The runtime of ThreadSanitizer runs on the stack of the fiber that it reports about.
  static constexpr size_t stack_bytes = (thread_checker::present ? 512 : 64) * 1024;
  static constexpr int scheduler = -1;

  struct slot {
    boost::context::fiber handle;
    char* stack = nullptr;
    void* fake_stack = nullptr;  // of AddressSanitizer
    void* checked = nullptr;     // the fiber as ThreadSanitizer knows it
  };
  /// Ends a fiber that waits for ever. Boost's own unwinding would do it with an exception that AddressSanitizer flags.
  struct abandoned {};
  struct borrowed_stack {
    boost::context::stack_context allocate() { return {}; }
    void deallocate(boost::context::stack_context&) {}
  };

  /// Fibers stand for other threads in each run where a checker tells them apart: it takes what thread 0 of one block
  /// and thread 0 of the next do for one thread's doing if one fiber does both.
  slot& at(int thread) {
    int fiber = thread;
    if (thread_checker::present && thread != scheduler) fiber = (thread + rotation_) % threads_;
    return slots_[static_cast<size_t>(fiber + 1)];
  }
  int thread_of(int fiber) const { return thread_checker::present ? (fiber - rotation_ + threads_) % threads_ : fiber; }

  void begin_checking() {
    if (!thread_checker::present) return;
    rotation_ = (rotation_ + 7) % threads_;
    at(scheduler).checked = thread_checker::current();
    thread_checker::release(&begin_);
  }

  void run_next() {
    bool const stop = failure_ != nullptr || ready_head_ == ready_tail_;
    if (!stop && random_ != 0) draw_next();
    switch_to(stop ? scheduler : ready_[ready_head_++ & (ready_.size() - 1)]);
  }

  /// Puts one of those ready in front.
  RATIFY_NOINLINE void draw_next() {
    size_t const drawn = ready_head_ + static_cast<size_t>(draw() % (ready_tail_ - ready_head_));
    std::swap(ready_[ready_head_ & (ready_.size() - 1)], ready_[drawn & (ready_.size() - 1)]);
  }

  RATIFY_CHECKED_SWITCH void switch_to(int to) {
    int const me = current_;
    if (to == me) return;
    previous_ = me;
    current_ = to;
#if defined(RATIFY_ADDRESS_SANITIZER)
    bool const for_ever = stopping_ && me != scheduler;
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &at(me).fake_stack,
                                   to == scheduler ? scheduler_bottom_ : at(to).stack,
                                   to == scheduler ? scheduler_bytes_ : stack_bytes);
#endif
    thread_checker::switch_to(at(to).checked);
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

  void thread_loop(int fiber) {
    for (;;) {
      if (stopping_) leave();
      int const thread = thread_of(fiber);
      running_[static_cast<size_t>(thread)] = 1;
      try {
        if (!abandoning_) run_thread(thread);
        if (!abandoning_) ++finished_;
      } catch (abandoned const&) {
      }
      running_[static_cast<size_t>(thread)] = 0;
      thread_checker::release(&end_);
      if (abandoning_)
        switch_to(scheduler);
      else
        run_next();
    }
  }

  /// The end of a fiber: it is not resumed again. Its stack holds nothing to destroy.
  void leave() {
    switch_to(scheduler);
    std::abort();
  }

  void run_thread(int thread) {
    if constexpr (thread_checker::present) {
      thread_checker::set_name((name_ + (", thread " + std::to_string(thread))).c_str());
      thread_checker::acquire(&begin_);
    }
    thread_checker::shown const s;
    function_(context_, thread);
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
    s.checked = thread_checker::create();
    boost::context::stack_context stack;
    stack.size = stack_bytes;
    stack.sp = s.stack + stack_bytes;
    void* const me = thread_checker::current();
    thread_checker::switch_to(s.checked);  // the constructor calls the fiber's first function, which returns much later
    s.handle = boost::context::fiber(std::allocator_arg, boost::context::preallocated(stack.sp, stack_bytes, stack),
                                     borrowed_stack{}, [this, id](boost::context::fiber&& from) {
                                       arrive(std::move(from), id);
                                       thread_loop(id);
                                       return boost::context::fiber{};  // never reached
                                     });
    thread_checker::switch_to(me);
  }

  void retire_fibers() {
    if (slots_.empty()) return;
    thread_checker::hidden const h;
    stopping_ = true;
    rotation_ = 0;
    threads_ = static_cast<int>(slots_.size()) - 1;
    at(scheduler).checked = thread_checker::current();
    for (int t = 0; t < threads_; ++t) {
      switch_to(t);
      // The handle's destructor would unwind a stack that needs no unwinding.
      alignas(boost::context::fiber) unsigned char never_destroyed[sizeof(boost::context::fiber)];
      new (never_destroyed) boost::context::fiber(std::move(at(t).handle));
      thread_checker::destroy(at(t).checked);
      release_stack(at(t).stack);
    }
  }

#if defined(RATIFY_ADDRESS_SANITIZER) || defined(RATIFY_THREAD_SANITIZER)
  // A guard page under each stack. The whole is mapped, so that the sanitizer's own allocator is not asked.
  static constexpr size_t guard_bytes = 4096;
  static char* allocate_stack() {
    void* const p =
        mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc{};
    mprotect(p, guard_bytes, PROT_NONE);
#if defined(RATIFY_ADDRESS_SANITIZER)
    // A fiber that ended here did not return from its functions, whose variables are still marked.
    __asan_unpoison_memory_region(p, guard_bytes + stack_bytes);
#endif
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

  std::vector<slot> slots_;    // the scheduler's, then one a thread
  std::vector<int> ready_;     // a ring, its size a power of two
  std::vector<char> running_;  // inside the thread function
  size_t ready_head_ = 0, ready_tail_ = 0;
  int current_ = scheduler, previous_ = scheduler, threads_ = 0, finished_ = 0;
  bool stopping_ = false, abandoning_ = false;
  thread_function function_ = nullptr;
  void* context_ = nullptr;
  char const* failure_ = nullptr;
  uint64_t random_ = 0;
  char const* name_ = "";
  int rotation_ = 0;
  uint64_t begin_ = 0, end_ = 0;
#if defined(RATIFY_ADDRESS_SANITIZER)
  void const* scheduler_bottom_ = nullptr;
  size_t scheduler_bytes_ = 0;
#endif
};

}  // namespace detail
RATIFY_END_NAMESPACE
