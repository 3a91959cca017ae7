// SPDX-License-Identifier: Apache-2.0
/// The block interface means the same on every executor.
#include <ratify/host.hpp>

#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

/// A kernel whose threads each write one word: Body::run(block, storage, in, thread of the grid).
template <class Body, int Threads>
struct word_kernel {
  struct params {
    uint32_t const* in;  ///< a word a thread
    uint32_t* out;       ///< a word a thread
  };
  static constexpr char const* name = "word_kernel";
  static constexpr int block_threads = Threads;
  template <class Block>
  struct shared_storage {
    uint32_t word[Threads];
    uint64_t wide;
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const i = block.block_x() * Threads + block.thread();
    p.out[i] = Body::run(block, storage, p.in[i]);
  }
};

template <class Body, int Threads>
std::vector<uint32_t> run_words(std::vector<uint32_t> const& in) {
  std::vector<uint32_t> first;
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    buffer<uint32_t, executor> from(on, in), to(on, in.size());
    auto const s = on.run(
        ratify::stage<word_kernel<Body, Threads>>{{static_cast<int>(in.size()) / Threads}, {from.data(), to.data()}});
    REQUIRE_MESSAGE(s, s.reason());
    if (first.empty())
      first = to.read();
    else
      CHECK(bit_difference(to.read(), first) == "");
  });
  return first;
}

std::vector<uint32_t> random_words(size_t n, uint64_t stream) {
  random_source random(stream);
  std::vector<uint32_t> v(n);
  for (auto& x : v) x = static_cast<uint32_t>(random.word());
  return v;
}

/// Warp 0 alone sums its words by shuffles; all wait for it.
struct warp_zero_sum {
  RATIFY_ANY_BLOCK
  template <class Block, class Storage>
  RATIFY_HD static uint32_t run(Block const& block, Storage& storage, uint32_t x) {
    if (block.warp() == 0) {
      for (int o = 16; o > 0; o /= 2) x += block.shuffle_xor(x, o);
      if (block.lane() == 0) storage.word[0] = x;
    }
    block.barrier();
    return storage.word[0];
  }
};

/// The lower half of each warp votes, the upper half shuffles, then both meet.
struct half_warps {
  RATIFY_ANY_BLOCK
  template <class Block, class Storage>
  RATIFY_HD static uint32_t run(Block const& block, Storage&, uint32_t x) {
    uint32_t y = 0;
    if (block.lane() < 16)
      y = block.ballot((x & 1u) != 0, 0x0000ffffu);
    else
      y = block.shuffle(x, 16 + (block.lane() + 3) % 16, 0xffff0000u);
    block.warp_barrier();
    return y + block.shuffle(y, (block.lane() + 16) % 32);
  }
};

/// Four parts of a warp, each by its own mask and a number of times of its own.
struct disjoint_masks {
  RATIFY_ANY_BLOCK
  template <class Block, class Storage>
  RATIFY_HD static uint32_t run(Block const& block, Storage&, uint32_t x) {
    int const part = block.lane() / 8;
    uint32_t const mask = 0xffu << (8 * part);
    for (int i = 0; i <= part; ++i) x = x * 31u + block.shuffle(x, 8 * part + (block.lane() + i) % 8, mask);
    return x;
  }
};

struct float_shuffle {
  RATIFY_ANY_BLOCK
  template <class Block, class Storage>
  RATIFY_HD static uint32_t run(Block const& block, Storage&, uint32_t x) {
    return ratify::detail::bits(block.shuffle_xor(ratify::detail::from_bits(x), 5));
  }
};

/// Every thread rotates the block's words through shared storage.
struct rotation {
  RATIFY_ANY_BLOCK
  template <class Block, class Storage>
  RATIFY_HD static uint32_t run(Block const& block, Storage& storage, uint32_t x) {
    for (int round = 1; round < 6; ++round) {
      storage.word[block.thread()] = x;
      block.barrier();
      x = storage.word[(block.thread() + round) % Block::threads];
      block.barrier();
    }
    return x;
  }
};

struct shared_atomics {
  RATIFY_ANY_BLOCK
  template <class Block, class Storage>
  RATIFY_HD static uint32_t run(Block const& block, Storage& storage, uint32_t x) {
    if (block.thread() == 0) {
      storage.word[0] = 0;
      storage.word[1] = 0;
      storage.wide = 0;
    }
    block.barrier();
    block.atomic_add(&storage.word[0], x);
    block.atomic_max(&storage.word[1], x);
    block.atomic_add(&storage.wide, ratify::uint64_t{x} << 20);
    block.barrier();
    return storage.word[0] ^ storage.word[1] ^ static_cast<uint32_t>(storage.wide >> 24);
  }
};

/// A block of fewer than 32 threads.
struct narrow {
  RATIFY_ANY_BLOCK
  template <class Block, class Storage>
  RATIFY_HD static uint32_t run(Block const& block, Storage&, uint32_t x) {
    return block.ballot((x & 2u) != 0) + block.shuffle(x, (block.lane() + 1) % Block::threads) +
           static_cast<uint32_t>(block.thread() + block.grid_x());
  }
};

/// Where each block stands in its grid.
struct index_kernel {
  struct params {
    int* out;  ///< [z][y][x]
    ratify::grid_extent grid;
  };
  static constexpr char const* name = "index_kernel";
  static constexpr int block_threads = 32;
  template <class Block>
  struct shared_storage {};
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    if (block.thread() > 0) return;
    int const at = (block.block_z() * p.grid.y + block.block_y()) * p.grid.x + block.block_x();
    p.out[at] = block.block_x() + 100 * block.block_y() + 10000 * block.block_z() + 1000000 * block.grid_x();
  }
};

}  // namespace

TEST_CASE("a shuffle in warp 0 alone before a block barrier") {
  auto const in = random_words(96 * 50, 1);
  auto const out = run_words<warp_zero_sum, 96>(in);
  for (size_t b = 0; b < 50; ++b) {
    uint32_t sum = 0;
    for (size_t t = 0; t < 32; ++t) sum += in[b * 96 + t];
    for (size_t t = 0; t < 96; ++t) REQUIRE(out[b * 96 + t] == sum);
  }
}

TEST_CASE("a ballot in half a warp, a shuffle in the other") {
  auto const in = random_words(64 * 20, 2);
  auto const out = run_words<half_warps, 64>(in);
  for (size_t warp = 0; warp < 40; ++warp) {
    uint32_t const* const x = in.data() + warp * 32;
    uint32_t y[32], votes = 0;
    for (uint32_t l = 0; l < 16; ++l) votes |= (x[l] & 1u) << l;
    for (uint32_t l = 0; l < 32; ++l) y[l] = l < 16 ? votes : x[16 + (l + 3) % 16];
    for (uint32_t l = 0; l < 32; ++l) REQUIRE(out[warp * 32 + l] == y[l] + y[(l + 16) % 32]);
  }
}

TEST_CASE("disjoint masks in one warp") {
  auto const in = random_words(32 * 40, 3);
  auto const out = run_words<disjoint_masks, 32>(in);
  for (size_t warp = 0; warp < 40; ++warp)
    for (uint32_t part = 0; part < 4; ++part) {
      uint32_t x[8];
      for (uint32_t l = 0; l < 8; ++l) x[l] = in[warp * 32 + 8 * part + l];
      for (uint32_t i = 0; i <= part; ++i) {
        uint32_t next[8];
        for (uint32_t l = 0; l < 8; ++l) next[l] = x[l] * 31u + x[(l + i) % 8];
        std::memcpy(x, next, sizeof x);
      }
      for (uint32_t l = 0; l < 8; ++l) REQUIRE(out[warp * 32 + 8 * part + l] == x[l]);
    }
}

TEST_CASE("a shuffle of FP32 keeps every bit, NaN payloads too") {
  std::vector<uint32_t> in = random_words(32 * 8, 4);
  for (size_t i = 0; i < 32; ++i) in[i] = 0x7f800001u + static_cast<uint32_t>(i) * 0x10001u;
  auto const out = run_words<float_shuffle, 32>(in);
  for (size_t i = 0; i < in.size(); ++i) REQUIRE(out[i] == in[i ^ 5]);
}

TEST_CASE("1024 threads at block barriers") {
  auto const in = random_words(1024 * 4, 5);
  auto const out = run_words<rotation, 1024>(in);
  for (size_t i = 0; i < in.size(); ++i) REQUIRE(out[i] == in[i / 1024 * 1024 + (i + 1 + 2 + 3 + 4 + 5) % 1024]);
}

TEST_CASE("shared atomics") {
  auto const in = random_words(128 * 10, 6);
  auto const out = run_words<shared_atomics, 128>(in);
  for (size_t b = 0; b < 10; ++b) {
    uint32_t sum = 0, most = 0;
    uint64_t wide = 0;
    for (size_t t = 0; t < 128; ++t) {
      uint32_t const x = in[b * 128 + t];
      sum += x;
      most = std::max(most, x);
      wide += uint64_t{x} << 20;
    }
    for (size_t t = 0; t < 128; ++t) REQUIRE(out[b * 128 + t] == (sum ^ most ^ static_cast<uint32_t>(wide >> 24)));
  }
}

TEST_CASE("a block of fewer threads than a warp") {
  auto const in = random_words(20 * 7, 7);
  auto const out = run_words<narrow, 20>(in);
  for (size_t b = 0; b < 7; ++b) {
    uint32_t votes = 0;
    for (uint32_t l = 0; l < 20; ++l) votes |= (in[b * 20 + l] >> 1 & 1u) << l;
    for (uint32_t l = 0; l < 20; ++l) REQUIRE(out[b * 20 + l] == votes + in[b * 20 + (l + 1) % 20] + l + 7);
  }
}

TEST_CASE("block indices of a three-dimensional grid") {
  ratify::grid_extent const grid{5, 4, 3};
  on_each_executor([&](auto& on) {
    buffer<int, std::decay_t<decltype(on)>> out(on, 60);
    auto const s = on.run(ratify::stage<index_kernel>{grid, {out.data(), grid}});
    REQUIRE_MESSAGE(s, s.reason());
    auto const got = out.read();
    for (int i = 0; i < 60; ++i)
      CHECK(got[static_cast<size_t>(i)] == i % 5 + 100 * (i / 5 % 4) + 10000 * (i / 20) + 5000000);
  });
}
