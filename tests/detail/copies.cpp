// SPDX-License-Identifier: Apache-2.0
/// Asynchronous copies: a ring of stages, absent pieces, groups, and what is reported.
#include <ratify/host.hpp>

#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

/// Each thread sums its column of `steps` rows that a ring of stages brings, and the last row is absent.
template <int Bytes, int Stages>
struct ring_kernel {
  static constexpr int words = Bytes / 4;
  struct params {
    uint32_t const* in;  ///< [blocks, steps, threads, words]
    uint32_t* out;       ///< [blocks, threads]
    int steps;
  };
  static constexpr char const* name = "ring_kernel";
  static constexpr int block_threads = 64;
  template <class Block>
  struct shared_storage {
    alignas(16) uint32_t stage[Stages][block_threads][words];
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const t = block.thread();
    uint32_t const* const in = p.in + int64_t{block.block_x()} * p.steps * block_threads * words;
    auto const ask = [&](int step) {
      if (step < p.steps)
        block.template copy_async<Bytes>(storage.stage[step % Stages][t], in + (step * block_threads + t) * words,
                                         step < p.steps - 1);
      block.commit_copies();
    };
    for (int step = 0; step < Stages - 1; ++step) ask(step);
    uint32_t sum = 0;
    for (int step = 0; step < p.steps; ++step) {
      block.template wait_copies<Stages - 2>();
      block.barrier();
      ask(step + Stages - 1);  // into the stage that all have read before the barrier
      uint32_t const* const neighbour = storage.stage[step % Stages][(t + 1) % block_threads];
      for (int w = 0; w < words; ++w) sum = sum * 31u + neighbour[w];
    }
    block.template wait_copies<0>();
    p.out[block.block_x() * block_threads + t] = sum;
  }
};

template <int Bytes, int Stages>
void check_ring() {
  random_source random(43);
  constexpr int threads = 64, words = Bytes / 4, blocks = 3;
  for (int steps : {1, 2, 5, 17}) {
    std::vector<uint32_t> in(static_cast<size_t>(blocks * steps * threads * words));
    for (auto& x : in) x = static_cast<uint32_t>(random.word());
    std::vector<uint32_t> expected;
    for (int b = 0; b < blocks; ++b)
      for (int t = 0; t < threads; ++t) {
        uint32_t sum = 0;
        for (int step = 0; step < steps; ++step)
          for (int w = 0; w < words; ++w)
            sum = sum * 31u +
                  (step < steps - 1
                       ? in[static_cast<size_t>(((b * steps + step) * threads + (t + 1) % threads) * words + w)]
                       : 0u);
        expected.push_back(sum);
      }
    CAPTURE(steps);
    on_each_executor([&](auto& on) {
      using executor = std::decay_t<decltype(on)>;
      buffer<uint32_t, executor> from(on, in), to(on, expected.size());
      auto const s = on.run(ratify::stage<ring_kernel<Bytes, Stages>>{{blocks}, {from.data(), to.data(), steps}});
      REQUIRE_MESSAGE(s, s.reason());
      CHECK(bit_difference(to.read(), expected) == "");
    });
  }
}

enum class fault { left_open, not_awaited, misaligned, none };

template <fault Fault>
struct faulty_kernel {
  struct params {
    uint32_t const* in;
  };
  static constexpr char const* name = "faulty_kernel";
  static constexpr int block_threads = 32;
  template <class Block>
  struct shared_storage {
    alignas(16) uint32_t word[block_threads][4];
  };
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const t = block.thread();
    block.template copy_async<16>(storage.word[t] + (Fault == fault::misaligned ? 1 : 0), p.in);
    if (Fault == fault::left_open) return;
    block.commit_copies();
    block.template wait_copies<(Fault == fault::not_awaited ? 1 : 0)>();
  }
};

template <fault Fault>
std::string reason_of() {
  alignas(16) static uint32_t const in[4] = {1, 2, 3, 4};
  ratify::host_executor on(1);
  return on.run(ratify::stage<faulty_kernel<Fault>>{{1}, {in}}).reason();
}

}  // namespace

TEST_CASE("copies: a ring of stages brings every word, and zeros for what is absent") {
  check_ring<16, 2>();
  check_ring<16, 4>();
  check_ring<8, 3>();
  check_ring<4, 3>();
}

TEST_CASE("copies: what a thread leaves undone is reported") {
  std::string const where = "ratify: kernel faulty_kernel, block (0, 0, 0): ";
  CHECK(reason_of<fault::none>() == "");
  CHECK(reason_of<fault::left_open>() == where + "a thread ends with asynchronous copies under way");
  CHECK(reason_of<fault::not_awaited>() == where + "a thread ends with asynchronous copies under way");
  CHECK(reason_of<fault::misaligned>() ==
        where + "an asynchronous copy has an address that is not a multiple of its size");
}
