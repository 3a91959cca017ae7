// SPDX-License-Identifier: Apache-2.0
/// What a launch is made of beyond a plain kernel: a part that runs before the launches before it have ended, and
/// blocks of which the last one finishes what all began.
#include <ratify/host.hpp>

#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

/// out = in * weight, where the weight is fetched before the wait.
struct scaled_kernel {
  struct constants {
    uint32_t const* weight;  ///< [threads]
  };
  struct params : constants {
    uint32_t const* in;  ///< [blocks, threads]
    uint32_t* out;       ///< [blocks, threads]
  };
  struct carried {
    uint32_t weight;
  };
  static constexpr char const* name = "scaled_kernel";
  static constexpr int block_threads = 96;
  template <class Block>
  struct shared_storage {
    uint32_t weight[block_threads];
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static carried prefetch(Block const& block, constants const& c, shared_storage<Block>& storage) {
    block.template copy_async<4>(&storage.weight[block.thread()], c.weight + block.thread());
    block.commit_copies();
    return {c.weight[(block.thread() + 1) % block_threads]};
  }
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage, carried& own) {
    int const t = block.thread(), i = block.block_x() * block_threads + t;
    block.template wait_copies<0>();
    p.out[i] = p.in[i] * storage.weight[t] + own.weight;
  }
};

/// Each block of a row writes the sum of its words; the last one adds the sums up in the order of the blocks.
struct row_sum_kernel {
  struct params {
    uint32_t const* in;  ///< [rows, parts, threads]
    uint32_t* sums;      ///< [rows, parts]
    uint32_t* counters;  ///< [rows]
    uint32_t* out;       ///< [rows]
    int parts;
  };
  static constexpr char const* name = "row_sum_kernel";
  static constexpr int block_threads = 64;
  template <class Block>
  struct shared_storage {
    uint32_t sum;
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const row = block.block_y(), part = block.block_x();
    if (block.thread() == 0) storage.sum = 0;
    block.barrier();
    block.atomic_add(&storage.sum, p.in[(row * p.parts + part) * block_threads + block.thread()]);
    block.barrier();
    if (block.thread() == 0) p.sums[row * p.parts + part] = storage.sum;
    if (!block.arrive_last(p.counters + row, static_cast<uint32_t>(p.parts))) return;
    if (block.thread() != 0) return;
    uint32_t sum = 0;
    for (int i = 0; i < p.parts; ++i) sum = sum * 31u + p.sums[row * p.parts + i];
    p.out[row] = sum;
  }
};

/// The blocks of a cluster add up their words by reading one another's shared storage; the last cluster of a row adds
/// up the sums of all clusters.
struct cluster_sum_kernel {
  struct params {
    uint32_t const* in;  ///< [rows, blocks of a row, threads]
    uint32_t* sums;      ///< [rows, clusters of a row, threads]
    uint32_t* counters;  ///< [rows]
    uint32_t* out;       ///< [rows, threads]
  };
  static constexpr char const* name = "cluster_sum_kernel";
  static constexpr int block_threads = 32;
  static constexpr ratify::kernel_needs needs{900};
  template <class Block>
  struct shared_storage {
    uint32_t word[block_threads];
    uint32_t flag;
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const t = block.thread(), row = block.block_y(), size = block.cluster_size(), rank = block.cluster_rank();
    int const clusters = block.grid_x() / size, cluster = block.block_x() / size;
    storage.word[t] = p.in[(row * block.grid_x() + block.block_x()) * block_threads + t];
    block.cluster_barrier();
    // Each block has a share of the threads' sums.
    uint32_t sum = 0;
    for (int i = 0; i < size; ++i) sum = sum * 31u + *block.cluster_map(&storage.word[t], i);
    if (t % size == rank) p.sums[(row * clusters + cluster) * block_threads + t] = sum;
    if (!block.cluster_arrive_last(p.counters + row, static_cast<uint32_t>(clusters), &storage.flag)) return;
    sum = 0;
    for (int i = 0; i < clusters; ++i) sum = sum * 37u + p.sums[(row * clusters + i) * block_threads + t];
    if (t % size == rank) p.out[row * block_threads + t] = sum;
  }
};

}  // namespace

TEST_CASE("stages: blocks of a cluster read one another, and the last cluster finishes") {
  random_source random(46);
  constexpr int rows = 3, clusters = 3, threads = 32;
  for (int const size : {1, 2, 4, 8}) {
    std::vector<uint32_t> in(static_cast<size_t>(rows * clusters * size * threads)), expected;
    for (auto& x : in) x = static_cast<uint32_t>(random.word());
    for (int row = 0; row < rows; ++row)
      for (int t = 0; t < threads; ++t) {
        uint32_t all = 0;
        for (int c = 0; c < clusters; ++c) {
          uint32_t sum = 0;
          for (int i = 0; i < size; ++i)
            sum = sum * 31u + in[static_cast<size_t>(((row * clusters + c) * size + i) * threads + t)];
          all = all * 37u + sum;
        }
        expected.push_back(all);
      }
    CAPTURE(size);
    on_each_executor([&](auto& on) {
      using executor = std::decay_t<decltype(on)>;
      buffer<uint32_t, executor> from(on, in), sums(on, size_t{rows * clusters * threads}),
          to(on, size_t{rows * threads}), counters(on, std::vector<uint32_t>(rows, 0));
      ratify::stage<cluster_sum_kernel> s{{clusters * size, rows},
                                          {from.data(), sums.data(), counters.data(), to.data()}};
      s.cluster = size;
      if (!on.template can_run<cluster_sum_kernel>()) return;  // a card before sm_90
      for (int launch = 0; launch < 2; ++launch) {
        auto const done = on.run(s);
        REQUIRE_MESSAGE(done, done.reason());
        CHECK(bit_difference(to.read(), expected) == "");
      }
    });
  }
}

TEST_CASE("stages: a grid that is not whole clusters is refused") {
  std::vector<uint32_t> words(1000);
  ratify::host_executor on(1);
  ratify::stage<cluster_sum_kernel> s{{3}, {words.data(), words.data(), words.data(), words.data()}};
  for (int const size : {-1, 0, 2, 9}) {
    s.cluster = size;
    auto const refused = on.run(s);
    CHECK(refused.code() == ratify::status_code::unsupported);
    CHECK(std::string(refused.reason()) == "ratify: a cluster is 1 to 8 blocks, and a grid is whole clusters along x");
  }
}

TEST_CASE("stages: what is fetched before the wait is what the kernel computes with") {
  random_source random(44);
  constexpr int threads = 96, blocks = 5;
  std::vector<uint32_t> weight(threads), in(threads * blocks), expected;
  for (auto& x : weight) x = static_cast<uint32_t>(random.word());
  for (auto& x : in) x = static_cast<uint32_t>(random.word());
  for (size_t i = 0; i < in.size(); ++i) expected.push_back(in[i] * weight[i % threads] + weight[(i + 1) % threads]);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    buffer<uint32_t, executor> w(on, weight), from(on, in), to(on, in.size());
    auto const s = on.run(ratify::stage<scaled_kernel>{{blocks}, {{w.data()}, from.data(), to.data()}});
    REQUIRE_MESSAGE(s, s.reason());
    CHECK(bit_difference(to.read(), expected) == "");
  });
}

TEST_CASE("stages: the last block of a row reads what all wrote, and leaves the counter 0") {
  random_source random(45);
  constexpr int rows = 3, parts = 7, threads = 64;
  std::vector<uint32_t> in(rows * parts * threads), expected;
  for (auto& x : in) x = static_cast<uint32_t>(random.word());
  for (int row = 0; row < rows; ++row) {
    uint32_t sum = 0;
    for (int part = 0; part < parts; ++part) {
      uint32_t own = 0;
      for (int t = 0; t < threads; ++t) own += in[static_cast<size_t>((row * parts + part) * threads + t)];
      sum = sum * 31u + own;
    }
    expected.push_back(sum);
  }
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    buffer<uint32_t, executor> from(on, in), sums(on, size_t{rows * parts}), to(on, size_t{rows}),
        counters(on, std::vector<uint32_t>(rows, 0));
    for (int launch = 0; launch < 3; ++launch) {
      auto const s = on.run(
          ratify::stage<row_sum_kernel>{{parts, rows}, {from.data(), sums.data(), counters.data(), to.data(), parts}});
      REQUIRE_MESSAGE(s, s.reason());
      CHECK(bit_difference(to.read(), expected) == "");
      CHECK(bit_difference(counters.read(), std::vector<uint32_t>(rows, 0)) == "");
    }
  });
}

TEST_CASE("stages: a counter that was not 0 is reported") {
  std::vector<uint32_t> in(64), sums(1), out(1), counters{1};
  ratify::host_executor on(1);
  auto const s = on.run(ratify::stage<row_sum_kernel>{{1}, {in.data(), sums.data(), counters.data(), out.data(), 1}});
  CHECK(std::string(s.reason()) ==
        "ratify: kernel row_sum_kernel, block (0, 0, 0): a counter of arrivals was not 0 before the launch");
}
