// SPDX-License-Identifier: Apache-2.0
// L4: kernels with large, small and large shared storage in turn, from two host threads with an executor each, on two
// cards where there are two. CUDA grants shared memory beyond 48 KB for each kernel and device separately, and keeps
// the last error for each host thread.
#include <ratify/cuda.cuh>

#include "support/executors.hpp"

#include <doctest/doctest.h>

#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace ratify_test;

namespace threads_test {

struct sums_params {
  uint32_t* out;  ///< [blocks, 64]
  uint32_t seed;
};

/// Fills its shared storage and reads all of it back in another order.
template <int Words>
struct sums_kernel {
  using params = sums_params;
  static constexpr char const* name = "sums_kernel";
  static constexpr int block_threads = 64;
  template <class Block>
  struct shared_storage {
    uint32_t word[Words];
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    for (int i = block.thread(); i < Words; i += block_threads)
      storage.word[i] = word(p.seed, static_cast<uint32_t>(block.block_x()), static_cast<uint32_t>(i));
    block.barrier();
    uint32_t sum = 0;
    for (int i = Words - 1 - block.thread(); i >= 0; i -= block_threads) sum = sum * 31 + storage.word[i];
    p.out[int64_t{block.block_x()} * block_threads + block.thread()] = sum;
  }
  RATIFY_HD static uint32_t word(uint32_t seed, uint32_t block, uint32_t i) {
    return (seed + block * 7919u + i) * 2654435761u;
  }
  static std::vector<uint32_t> expected(uint32_t seed, int blocks) {
    std::vector<uint32_t> out;
    for (int b = 0; b < blocks; ++b)
      for (int t = 0; t < block_threads; ++t) {
        uint32_t sum = 0;
        for (int i = Words - 1 - t; i >= 0; i -= block_threads)
          sum = sum * 31 + word(seed, static_cast<uint32_t>(b), static_cast<uint32_t>(i));
        out.push_back(sum);
      }
    return out;
  }
};

}  // namespace threads_test

namespace {

using threads_test::sums_kernel;

constexpr int launch_blocks = 40;

/// One launch. @return "" if the results are right, what is wrong otherwise
template <int Words, class Executor>
std::string trial(Executor& on, uint32_t seed) {
  using kernel = sums_kernel<Words>;
  std::string const what = std::to_string(Words * 4) + " bytes of shared storage: ";
  if (auto const s = on.template can_run<kernel>(); !s) return what + s.reason();
  buffer<uint32_t, Executor> out(on, launch_blocks * kernel::block_threads);
  if (auto const s = on.run(ratify::stage<kernel>{{launch_blocks}, {out.data(), seed}}); !s) return what + s.reason();
  return out.read() == kernel::expected(seed, launch_blocks) ? "" : what + "wrong results";
}

/// Launches a large, a small, a large, another large and a middle-sized kernel, `rounds` times.
template <class Executor>
std::string turns(Executor& on, uint32_t seed, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    uint32_t const s = seed + static_cast<uint32_t>(i);
    for (auto const& wrong : {trial<15 * 1024>(on, s), trial<256>(on, s), trial<15 * 1024>(on, s + 1000),
                              trial<14 * 1024>(on, s), trial<0x2000>(on, s)})
      if (!wrong.empty()) return wrong + ", round " + std::to_string(i);
  }
  return "";
}

/// Calls `run(0)` and `run(1)` on a thread each and returns what they say: the assertions are left to the calling
/// thread.
template <class Run>
std::vector<std::string> on_two_threads(Run&& run) {
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      try {
        said[static_cast<size_t>(t)] = run(t);
      } catch (std::exception const& e) {
        said[static_cast<size_t>(t)] = e.what();
      }
    });
  for (auto& t : threads) t.join();
  return said;
}

}  // namespace

TEST_CASE("L4 large, small, large shared storage from two host threads, each with its host executor") {
  auto const said = on_two_threads([](int t) {
    ratify::host_executor on(ratify::host_options{host_threads, shuffle_seed()});
    return turns(on, 100u * static_cast<uint32_t>(t), 6);
  });
  CHECK(said[0] == "");
  CHECK(said[1] == "");
}

TEST_CASE("L4 large, small, large shared storage from two host threads that share a host executor") {
  auto const said = on_two_threads([](int t) { return turns(host(), 100u * static_cast<uint32_t>(t), 3); });
  CHECK(said[0] == "");
  CHECK(said[1] == "");
}

#if defined(__CUDACC__)

TEST_CASE("L4 large, small, large shared memory from two host threads with streams of their own, on two cards") {
  int cards = 0;
  if (!card_present() || cudaGetDeviceCount(&cards) != cudaSuccess) {
    MESSAGE("not run: no card is here");
    return;
  }
  if (cards < 2) MESSAGE("saw one card: both threads use it");
  int here = 0;
  require_success(cudaGetDevice(&here));
  REQUIRE(cudaGetLastError() == cudaSuccess);
  // Twice, with the cards exchanged, so that each thread and each kernel uses both.
  for (int turn = 0; turn < 2; ++turn) {
    auto const said = on_two_threads([&](int t) {
      require_success(cudaSetDevice((t + turn) % (cards < 2 ? 1 : 2)));
      cudaStream_t stream = nullptr;
      require_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      std::string wrong;
      {
        ratify::cuda_executor on(stream);
        wrong = turns(on, 100u * static_cast<uint32_t>(t), 50);
      }
      require_success(cudaStreamDestroy(stream));
      if (auto const e = cudaGetLastError(); wrong.empty() && e != cudaSuccess)
        wrong = std::string("left behind: ") + cudaGetErrorString(e);
      return wrong;
    });
    CHECK(said[0] == "");
    CHECK(said[1] == "");
  }
  require_success(cudaSetDevice(here));
  CHECK(cudaGetLastError() == cudaSuccess);
  require_success(cudaDeviceSynchronize());
}

TEST_CASE("L4 more shared memory than the card has is unsupported, and nothing sticks") {
  if (!card_present()) {
    MESSAGE("not run: no card is here");
    return;
  }
  ratify::cuda_executor on(nullptr);
  auto const s = on.can_run<sums_kernel<128 * 1024>>();
  CHECK(s.code() == ratify::status_code::unsupported);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(trial<15 * 1024>(on, 1) == "");
}

#endif
