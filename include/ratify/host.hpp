// SPDX-License-Identifier: Apache-2.0
/// The host executor: runs the library's kernels on CPU threads. Needs Boost.Context (`ratify::host`).
#pragma once

#include <ratify/detail/floating_environment.hpp>
#include <ratify/detail/host_block.hpp>
#include <ratify/detail/meta.hpp>
#include <ratify/executor.hpp>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

RATIFY_BEGIN_NAMESPACE

/// CPU threads whose fibers stand for the threads of a block. Long-lived: make one and pass it by reference. A launch
/// returns when it is done; launches from several threads take turns.
class host_executor {
 public:
  /// @param threads CPU threads that run blocks, the calling one included; 0 = as many as the machine has.
  explicit host_executor(int threads = 0) {
    int const hardware = static_cast<int>(std::thread::hardware_concurrency());
    threads_ = threads > 0 ? threads : detail::max_of(hardware, 1);
    for (int i = 1; i < threads_; ++i) workers_.emplace_back([this] { serve(); });
  }
  host_executor(host_executor const&) = delete;
  host_executor& operator=(host_executor const&) = delete;
  ~host_executor() {
    {
      std::lock_guard<std::mutex> const lock(sleep_mutex_);
      stop_.store(true, std::memory_order_release);
    }
    wake_.notify_all();
    for (auto& w : workers_) w.join();
  }

  int threads() const { return threads_; }

  template <class Kernel, class Architectures = void>
  status can_run() const {
    return {};
  }

  template <class Kernel, class Architectures = void>
  status run(stage<Kernel> const& s) {
    int64_t const blocks = int64_t{s.grid.x} * s.grid.y * s.grid.z;
    if (blocks <= 0) return {};
    static bool const has_fma = cpu_has_fma();
    std::lock_guard<std::mutex> const turn(launch_mutex_);
    job_ = {&s, has_fma ? &run_block<Kernel, true> : &run_block<Kernel, false>, s.grid, blocks};
    next_block_.store(0, std::memory_order_relaxed);
    failed_.store(false, std::memory_order_relaxed);
    if (blocks > 1 && !workers_.empty()) {
      busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
      {
        std::lock_guard<std::mutex> const lock(sleep_mutex_);
        generation_.fetch_add(1, std::memory_order_release);
      }
      wake_.notify_all();
      work(own_);
      await_workers();
    } else {
      work(own_);
    }
    if (failed_.load(std::memory_order_acquire)) {
      divergence_ = "ratify: kernel " + std::string(Kernel::name) + ", block (" + std::to_string(failed_block_.x) +
                    ", " + std::to_string(failed_block_.y) + ", " + std::to_string(failed_block_.z) + "): " + failure_;
      return {status_code::divergent_barrier, divergence_.c_str()};
    }
    return {};
  }

  /// Blocks worth having in a persistent grid: a few for each thread, so that uneven ones even out.
  template <class Kernel>
  int concurrent_blocks() const {
    return 4 * threads_;
  }
 private:
  /// One CPU thread's fibers and the shared storage of the block it runs.
  struct worker_state {
    detail::fiber_pool fibers;
    std::vector<unsigned char> storage;
  };
  struct job {
    void const* stage = nullptr;
    char const* (*block)(worker_state&, void const* stage, grid_extent index) = nullptr;
    grid_extent grid;
    int64_t blocks = 0;
  };

  template <class Kernel>
  struct block_context {
    using block_type = detail::host_block<Kernel::block_threads>;
    using storage_type = typename Kernel::template shared_storage<block_type>;
    detail::fiber_pool& fibers;
    stage<Kernel> const& s;
    grid_extent index;
    storage_type* storage;
    void run(int thread) {
      block_type block(fibers, thread, index, s.grid);
      Kernel::run(block, s.params, *storage);
    }
  };

  // The same source twice: an FMA through libm costs seven times one inlined, and the flags of the consumer, or which
  // of two objects the linker keeps, must not decide which it is. The bits are the same.
  template <class Kernel>
  static void run_thread(void* context, int thread) {
    static_cast<block_context<Kernel>*>(context)->run(thread);
  }
#if defined(__x86_64__)
  template <class Kernel>
  __attribute__((target("fma"), flatten)) static void run_thread_fma(void* context, int thread) {
    static_cast<block_context<Kernel>*>(context)->run(thread);
  }
  static bool cpu_has_fma() { return __builtin_cpu_supports("fma"); }
#else
  template <class Kernel>
  static void run_thread_fma(void* context, int thread) {
    run_thread<Kernel>(context, thread);
  }
  static bool cpu_has_fma() { return false; }
#endif

  template <class Kernel, bool Fma>
  static char const* run_block(worker_state& w, void const* s, grid_extent index) {
    using storage_type = typename block_context<Kernel>::storage_type;
    static_assert(alignof(storage_type) <= 128, "ratify: shared storage is aligned to at most 128 bytes");
#if defined(RATIFY_ADDRESS_SANITIZER)
    // A heap object of exact size, so that an access past the end is seen.
    storage_type* const storage = new storage_type;
#else
    constexpr size_t alignment = 128;
    if (w.storage.size() < sizeof(storage_type) + alignment) w.storage.resize(sizeof(storage_type) + alignment);
    auto const at = reinterpret_cast<uintptr_t>(w.storage.data());
    storage_type* const storage = new (w.storage.data() + (alignment - at % alignment) % alignment) storage_type;
#endif
    block_context<Kernel> c{w.fibers, *static_cast<stage<Kernel> const*>(s), index, storage};
    char const* const failure =
        w.fibers.run(Kernel::block_threads, Fma ? &run_thread_fma<Kernel> : &run_thread<Kernel>, &c);
#if defined(RATIFY_ADDRESS_SANITIZER)
    delete storage;
#endif
    return failure;
  }

  void work(worker_state& w) {
    detail::ordered_environment const environment;
    for (int64_t i; (i = next_block_.fetch_add(1, std::memory_order_relaxed)) < job_.blocks;) {
      grid_extent const index{static_cast<int>(i % job_.grid.x), static_cast<int>(i / job_.grid.x % job_.grid.y),
                              static_cast<int>(i / job_.grid.x / job_.grid.y)};
      char const* const failure = job_.block(w, job_.stage, index);
      if (failure == nullptr) continue;
      next_block_.store(job_.blocks, std::memory_order_relaxed);
      if (!failed_.exchange(true)) {
        failed_block_ = index;
        failure_ = failure;
      }
    }
  }

  // Launches follow one another within microseconds, a wake-up through a condition variable takes tens of them: spin
  // for about that long, then sleep.
  static constexpr int spins = 4000;
  static void pause() {
#if defined(__SSE__)
    _mm_pause();
#endif
  }

  void serve() {
    worker_state own;
    uint64_t seen = 0;
    for (;;) {
      auto const called = [&] {
        return stop_.load(std::memory_order_acquire) || generation_.load(std::memory_order_acquire) != seen;
      };
      for (int i = 0; i < spins && !called(); ++i) pause();
      if (!called()) {
        std::unique_lock<std::mutex> lock(sleep_mutex_);
        wake_.wait(lock, called);
      }
      if (stop_.load(std::memory_order_acquire)) return;
      seen = generation_.load(std::memory_order_acquire);
      work(own);
      if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        std::lock_guard<std::mutex> const lock(sleep_mutex_);
        done_.notify_one();
      }
    }
  }

  void await_workers() {
    auto const idle = [&] { return busy_.load(std::memory_order_acquire) == 0; };
    for (int i = 0; i < spins && !idle(); ++i) pause();
    if (idle()) return;
    std::unique_lock<std::mutex> lock(sleep_mutex_);
    done_.wait(lock, idle);
  }

  int threads_ = 1;
  std::mutex launch_mutex_, sleep_mutex_;
  std::condition_variable wake_, done_;
  job job_;
  std::atomic<int64_t> next_block_{0};
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> busy_{0};
  std::atomic<bool> stop_{false}, failed_{false};
  grid_extent failed_block_;
  char const* failure_ = "";
  std::string divergence_;
  worker_state own_;
  std::vector<std::thread> workers_;
};

RATIFY_END_NAMESPACE
