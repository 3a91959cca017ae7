// SPDX-License-Identifier: Apache-2.0
/// The host executor: runs the library's kernels on CPU threads. Needs Boost.Context (`ratify::host`).
#pragma once

#include <ratify/detail/contents.hpp>
#include <ratify/detail/machine/floating_environment.hpp>
#include <ratify/detail/machine/host_block.hpp>
#include <ratify/detail/meta.hpp>
#include <ratify/executor.hpp>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

RATIFY_BEGIN_NAMESPACE

/// The threads of a block on the host: what a kernel's `run` is given there. Its members: `stage`, ratify/executor.hpp.
template <int Threads>
using host_block = detail::host_block<Threads>;

/// Memory of a tensor.
struct memory_range {
  void const* begin = nullptr;
  size_t bytes = 0;
};

/// How a host executor runs. No bit of an ordered policy's result depends on it.
struct host_options {
  int threads = 0;            ///< CPU threads that run blocks, the calling one included; 0 = as many as the machine has
  uint64_t shuffle_seed = 0;  ///< other than 0: blocks, and the threads of a block, run in an order drawn from it
  /// How products of matrix units are rounded: `hopper` for the bits of such a card. Policies whose arithmetic is
  /// ordered have none.
  matrix_model matrix = matrix_model::exact;
  /// Memory that the launch before each one may write: what a kernel reads of it in its `prefetch` AddressSanitizer
  /// reports, because on a card it may not be there yet. Takes one thread and a program built with that sanitizer.
  std::vector<memory_range> unsettled = {};
  /// Other than nullptr: before each launch the contents of its tensors are held against the capacities, and a
  /// contradiction is refused with its text here.
  contents_report* check_contents = nullptr;
};

/// CPU threads whose fibers stand for the threads of a block. Long-lived: make one and pass it by reference. A launch
/// returns when it is done; launches from several threads take turns.
class host_executor {
 public:
  /// @param threads see host_options
  explicit host_executor(int threads = 0) : host_executor(options_of(threads)) {}
  explicit host_executor(host_options const& o)
      : shuffle_seed_(o.shuffle_seed), matrix_(o.matrix), unsettled_(o.unsettled), contents_(o.check_contents) {
    int const hardware = static_cast<int>(std::thread::hardware_concurrency());
    threads_ = o.threads > 0 ? o.threads : detail::max_of(hardware, 1);
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

  /// Where contradictions in the contents of tensors are reported; nullptr if they are not looked for.
  contents_report* contents() const { return contents_; }
  /// Copies memory that kernels can reach to the host.
  status read(void* to, void const* from, size_t bytes) const {
    std::memcpy(to, from, bytes);
    return {};
  }

  template <class Kernel, class Architectures = void>
  status can_run() const {
    return {};
  }

  template <class Kernel, class Architectures = void>
  status run(stage<Kernel> const& s) {
    if (status const fits = detail::check_grid(s.grid, s.cluster); !fits) return fits;
    int64_t const blocks = int64_t{s.grid.x / s.cluster} * s.grid.y * s.grid.z;  // or clusters
    if (blocks <= 0) return {};
    static bool const has_fma = detail::cpu_has_fma();
    std::lock_guard<std::mutex> const turn(launch_mutex_);
    job_ = {&s,
            has_fma ? &run_block<Kernel, twice> : &run_block<Kernel, false>,
            {s.grid.x / s.cluster, s.grid.y, s.grid.z},
            s.cluster,
            blocks};
    ++launches_;
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
      divergence_ = "ratify: kernel " + block_name(Kernel::name, failed_block_) + ": " + failure_;
      return {status_code::divergent_barrier, divergence_.c_str()};
    }
    return {};
  }

  /// What runs blocks beside one another: the threads.
  int multiprocessors() const { return threads_; }

  /// Blocks worth having in a persistent grid: a few for each thread, so that uneven ones even out.
  template <class Kernel>
  int concurrent_blocks() const {
    return 4 * threads_;
  }
 private:
  static host_options options_of(int threads) {
    host_options o;
    o.threads = threads;
    return o;
  }

  /// One CPU thread's fibers and the shared storage of the block it runs.
  class worker_state {
   public:
    /// What the next block runs on. Where a checker tells them apart, blocks that follow one another have others:
    /// what two blocks of a launch do is in no order, which fibers that did both could not show.
    detail::host_machine& next_machine(int threads) {
      if (!detail::thread_checker::present) return machines_[0];
      int const used = detail::min_of(detail::max_of(256 / threads, 2), machine_count);
      return machines_[++blocks_ % static_cast<unsigned>(used)];
    }
    /// At the end of a launch.
    void join() {
      for (auto& machine : machines_) machine.scopes.join();
    }
    std::vector<unsigned char> storage;
    std::string name;  ///< of the block that runs, where a checker reports it
   private:
    static constexpr int machine_count = detail::thread_checker::present ? 8 : 1;
    detail::host_machine machines_[machine_count];
    unsigned blocks_ = 0;
  };
  struct job {
    void const* stage = nullptr;
    char const* (*block)(worker_state&, void const* stage, grid_extent index, uint64_t order,
                         host_executor const&) = nullptr;
    grid_extent grid;    // of clusters
    int cluster = 1;     // blocks along x
    int64_t blocks = 0;  // or clusters
  };

  // Hidden, as its members are where nvcc makes hidden types of an anonymous namespace's.
  template <class Kernel>
  struct RATIFY_HIDDEN block_context {
    using block_type = detail::host_block<Kernel::block_threads>;
    using storage_type = typename Kernel::template shared_storage<block_type>;
    detail::host_machine& machine;
    stage<Kernel> const& s;
    grid_extent index;  // of the first block of the cluster
    std::vector<memory_range> const& unsettled;
    void run(int thread) {
      int const rank = thread / Kernel::block_threads;
      block_type block(machine, thread, {index.x + rank, index.y, index.z}, s.grid);
      auto& storage = *static_cast<storage_type*>(machine.storage[static_cast<size_t>(rank)]);
      detail::run_kernel<Kernel>(block, s.params, storage, [&] {
        if constexpr (detail::has_prefetch<Kernel>) settle(block);
      });
      block.end();
      // As on a card: once all its threads have ended, a block's storage is not there for the others of its cluster.
      if (detail::address_checker::present && --machine.running[static_cast<size_t>(rank)] == 0)
        end_storage<storage_type>(machine, rank);
    }
    /// What the launch before this one writes is there once all threads of the block wait for it.
    void settle(block_type const& block) const {
      if (!detail::address_checker::present || unsettled.empty()) return;
      block.barrier();
      for (memory_range const& m : unsettled) detail::address_checker::allow(m.begin, m.bytes);
    }
  };

  static std::string block_name(char const* kernel, grid_extent index) {
    return std::string(kernel) + ", block (" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
           std::to_string(index.z) + ")";
  }

  // The same source twice: an FMA through libm costs seven times one inlined, and the flags of the consumer, or which
  // of two objects the linker keeps, must not decide which it is. The bits are the same; under a sanitizer, where speed
  // matters less than how long it compiles, one is enough.
  template <class Kernel>
  static void run_thread(void* context, int thread) {
    static_cast<block_context<Kernel>*>(context)->run(thread);
  }
#if defined(__x86_64__)
  template <class Kernel>
  __attribute__((target("fma"), flatten)) static void run_thread_fma(void* context, int thread) {
    static_cast<block_context<Kernel>*>(context)->run(thread);
  }
#if defined(RATIFY_ADDRESS_SANITIZER) || defined(RATIFY_THREAD_SANITIZER)
  static constexpr bool twice = false;
#else
  static constexpr bool twice = true;
#endif
#else
  template <class Kernel>
  static void run_thread_fma(void* context, int thread) {
    run_thread<Kernel>(context, thread);
  }
  static constexpr bool twice = false;
#endif

  /// Shared storage of the blocks of a cluster. For checkers: heap objects of exact size, so that an access past the
  /// end is seen, and new ones for each block, because blocks that follow one another do not share them.
  template <class Storage>
  static void begin_storage(worker_state& w, detail::host_machine& machine) {
    static_assert(alignof(Storage) <= 128, "ratify: shared storage is aligned to at most 128 bytes");
    machine.storage.clear();
    if constexpr (detail::address_checker::present || detail::thread_checker::present) {
      for (int rank = 0; rank < machine.cluster; ++rank) machine.storage.push_back(new Storage);
    } else {
      constexpr size_t alignment = 128, bytes = (sizeof(Storage) + alignment - 1) / alignment * alignment;
      size_t const all = bytes * static_cast<size_t>(machine.cluster) + alignment;
      if (w.storage.size() < all) w.storage.resize(all);
      auto const at = reinterpret_cast<uintptr_t>(w.storage.data());
      unsigned char* first = w.storage.data() + (alignment - at % alignment) % alignment;
      for (int rank = 0; rank < machine.cluster; ++rank, first += bytes) machine.storage.push_back(new (first) Storage);
    }
  }
  template <class Storage>
  static void end_storage(detail::host_machine& machine, int rank) {
    if constexpr (detail::address_checker::present || detail::thread_checker::present)
      delete static_cast<Storage*>(machine.storage[static_cast<size_t>(rank)]);
    machine.storage[static_cast<size_t>(rank)] = nullptr;
  }

  /// Runs a block, or the blocks of a cluster.
  template <class Kernel, bool Fma>
  static char const* run_block(worker_state& w, void const* launch, grid_extent index, uint64_t order,
                               host_executor const& on) {
    using storage_type = typename block_context<Kernel>::storage_type;
    auto const& s = *static_cast<stage<Kernel> const*>(launch);
    int const threads = Kernel::block_threads * s.cluster;
    detail::host_machine& machine = w.next_machine(threads);
    machine.cluster = s.cluster;
    machine.matrix = on.matrix_;
    machine.running.assign(static_cast<size_t>(s.cluster), Kernel::block_threads);
    machine.scopes.fibers().shuffle(order);
    machine.copies.begin(threads);
    begin_storage<storage_type>(w, machine);
    if constexpr (detail::thread_checker::present) w.name = block_name(Kernel::name, index);
    machine.scopes.fibers().name_block(w.name.c_str());
    block_context<Kernel> c{machine, s, index, on.unsettled_};
    if constexpr (detail::has_prefetch<Kernel>)
      for (memory_range const& m : on.unsettled_) detail::address_checker::forbid(m.begin, m.bytes);
    char const* const failure =
        machine.scopes.run(threads, s.cluster, Fma ? &run_thread_fma<Kernel> : &run_thread<Kernel>, &c);
    for (int rank = 0; rank < s.cluster; ++rank) end_storage<storage_type>(machine, rank);
    return failure;
  }

  void work(worker_state& w) {
    detail::ordered_environment const environment;
    detail::thread_checker::hidden const h;
    for (int64_t n; (n = next_block_.fetch_add(1, std::memory_order_relaxed)) < job_.blocks;) {
      int64_t const i = shuffle_seed_ == 0 ? n : shuffled(n);
      grid_extent const index{static_cast<int>(i % job_.grid.x) * job_.cluster,
                              static_cast<int>(i / job_.grid.x % job_.grid.y),
                              static_cast<int>(i / job_.grid.x / job_.grid.y)};
      char const* const failure = job_.block(w, job_.stage, index, shuffle_seed_ == 0 ? 0 : drawn(i) | 1u, *this);
      if (failure == nullptr) continue;
      next_block_.store(job_.blocks, std::memory_order_relaxed);
      if (!failed_.exchange(true)) {
        failed_block_ = index;
        failure_ = failure;
      }
    }
    w.join();
  }

  /// A number drawn for a block of this launch, the same whichever thread runs it.
  uint64_t drawn(int64_t i) const {
    uint64_t z = shuffle_seed_ * 0x9e3779b97f4a7c15ull + launches_ * 0xd1342543de82ef95ull + static_cast<uint64_t>(i);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  /// Which block is the n-th to run: turned around by a drawn amount, forwards or backwards.
  int64_t shuffled(int64_t n) const {
    uint64_t const z = drawn(-1);
    int64_t const i = (n + static_cast<int64_t>(z % static_cast<uint64_t>(job_.blocks))) % job_.blocks;
    return z >> 63 != 0 ? job_.blocks - 1 - i : i;
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
  uint64_t shuffle_seed_ = 0, launches_ = 0;
  matrix_model matrix_ = matrix_model::exact;
  std::vector<memory_range> unsettled_;
  contents_report* contents_ = nullptr;
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
