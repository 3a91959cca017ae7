// SPDX-License-Identifier: Apache-2.0
/// The host executor: number of threads, grids, launches from several threads, failures, the floating-point
/// environment.
#include <ratify/host.hpp>

#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace {

using namespace ratify_test;

/// Adds up rows by a tree in shared storage. Some blocks have far more to do than others.
struct row_sum_kernel {
  struct params {
    float const* in;
    float* out;  ///< [z][y][x]
    ratify::grid_extent grid;
  };
  static constexpr char const* name = "row_sum_kernel";
  static constexpr int block_threads = 64;
  template <class Block>
  struct shared_storage {
    float partial[64];
  };
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const at = (block.block_z() * p.grid.y + block.block_y()) * p.grid.x + block.block_x();
    float sum = 0.0f;
    for (int i = 0; i < 1 + at % 17 * 8; ++i) sum += p.in[(at + i) % 256] * p.in[block.thread()];
    storage.partial[block.thread()] = sum;
    block.barrier();
    for (int o = 32; o > 0; o /= 2) {
      if (block.thread() < o) storage.partial[block.thread()] += storage.partial[block.thread() + o];
      block.barrier();
    }
    if (block.thread() == 0) p.out[at] = storage.partial[0];
  }
};

std::vector<float> numbers() {
  std::vector<float> v;
  for (int i = 0; i < 256; ++i) v.push_back(1.0f / static_cast<float>(3 + i));
  return v;
}

std::vector<float> row_sums(ratify::host_executor& on, ratify::grid_extent grid) {
  auto const in = numbers();
  std::vector<float> out(static_cast<size_t>(grid.x) * static_cast<size_t>(grid.y) * static_cast<size_t>(grid.z), -1);
  auto const s = on.run(ratify::stage<row_sum_kernel>{grid, {in.data(), out.data(), grid}});
  REQUIRE_MESSAGE(s, s.reason());
  return out;
}

/// Thread 5 of block `bad` returns while the others wait for it at a barrier.
struct divergent_kernel {
  struct params {
    ratify::grid_extent bad;
    int* ran;
  };
  static constexpr char const* name = "divergent_kernel";
  static constexpr int block_threads = 32;
  template <class Block>
  struct shared_storage {};
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    bool const bad = block.block_x() == p.bad.x && block.block_y() == p.bad.y && block.block_z() == p.bad.z;
    if (bad && block.thread() == 5) return;
    block.barrier();
  }
};

struct vote_kernel {
  struct params {};
  static constexpr char const* name = "vote_kernel";
  static constexpr int block_threads = 32;
  template <class Block>
  struct shared_storage {};
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const&, shared_storage<Block>&) {
    (void)block.ballot(true, block.lane() == 3 ? 0xffu : 0xffffffffu);
  }
};

/// out = in * scale, one thread per element.
struct scale_kernel {
  struct params {
    float const* in;
    float scale;
    float* out;
  };
  static constexpr char const* name = "scale_kernel";
  static constexpr int block_threads = 32;
  template <class Block>
  struct shared_storage {};
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    int const i = block.block_x() * block_threads + block.thread();
    block.barrier();
    p.out[i] = p.in[i] * p.scale;
  }
};

/// Appends block * block_threads + thread to `note`: with one CPU thread the notes are the order of execution.
struct order_kernel {
  struct params {
    std::atomic<int>* next;
    int* note;
  };
  static constexpr char const* name = "order_kernel";
  static constexpr int block_threads = 64;
  template <class Block>
  struct shared_storage {};
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    for (int round = 0; round < 2; ++round) {
      p.note[p.next->fetch_add(1, std::memory_order_relaxed)] = block.block_x() * block_threads + block.thread();
      block.barrier();
    }
  }
};

/// Each thread reads what its neighbour wrote, without a barrier: correct only if the threads run in ascending order.
struct lucky_kernel {
  struct params {
    int* out;
  };
  static constexpr char const* name = "lucky_kernel";
  static constexpr int block_threads = 64;
  template <class Block>
  struct shared_storage {
    int word[65];
  };
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    if (block.thread() == 0)
      for (int& x : storage.word) x = 0;
    storage.word[block.thread() + 1] = block.thread() + 1;
    p.out[block.thread()] = storage.word[block.thread()];
  }
};

/// Checks the alignment of its shared storage.
struct aligned_kernel {
  struct params {
    int* misaligned;
  };
  static constexpr char const* name = "aligned_kernel";
  static constexpr int block_threads = 1;
  template <class Block>
  struct shared_storage {
    alignas(128) unsigned char bytes[100];
  };
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const&, params const& p, shared_storage<Block>& storage) {
    storage.bytes[99] = 1;
    if (reinterpret_cast<uintptr_t>(&storage) % 128 != 0) ++*p.misaligned;
  }
};

}  // namespace

TEST_CASE("the number of CPU threads changes no bit") {
  ratify::grid_extent const grid{37, 3, 2};
  ratify::host_executor one(1), two(2), four(4);
  CHECK(one.threads() == 1);
  CHECK(four.threads() == 4);
  CHECK(ratify::host_executor().threads() >= 1);
  auto const expected = row_sums(one, grid);
  for (int round = 0; round < scaled(20); ++round) {
    CHECK(bit_difference(row_sums(two, grid), expected) == "");
    CHECK(bit_difference(row_sums(four, grid), expected) == "");
  }
}

TEST_CASE("small grids and large ones in turn, blocks of 1 to many") {
  ratify::host_executor on(3);
  auto const expected = row_sums(on, {500});
  for (int n : {1, 2, 3, 500, 1, 17, 400}) {
    auto const got = row_sums(on, {n});
    CHECK(bit_difference(got, std::vector<float>(expected.begin(), expected.begin() + n)) == "");
  }
}

TEST_CASE("an empty grid runs nothing") {
  ratify::host_executor on(2);
  for (ratify::grid_extent grid :
       {ratify::grid_extent{0, 1, 1}, ratify::grid_extent{4, 0, 1}, ratify::grid_extent{4, 4, 0}})
    CHECK(on.run(ratify::stage<row_sum_kernel>{grid, {nullptr, nullptr, grid}}));
}

TEST_CASE("launches from two threads take turns") {
  ratify::host_executor on(2);
  auto const first = row_sums(on, {50}), second = row_sums(on, {10, 2, 3});
  std::atomic<int> wrong{0};
  auto const in = numbers();
  auto const repeat = [&](ratify::grid_extent grid, std::vector<float> const& expected) {
    for (int i = 0; i < scaled(200); ++i) {
      std::vector<float> out(expected.size());
      if (!on.run(ratify::stage<row_sum_kernel>{grid, {in.data(), out.data(), grid}}) ||
          bit_difference(out, expected) != "")
        ++wrong;
    }
  };
  std::thread other([&] { repeat({50}, first); });
  repeat({10, 2, 3}, second);
  other.join();
  CHECK(wrong.load() == 0);
}

TEST_CASE("a pause longer than the workers' spinning") {
  ratify::host_executor on(2);
  auto const expected = row_sums(on, {50});
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    CHECK(bit_difference(row_sums(on, {50}), expected) == "");
  }
}

TEST_CASE("executors that run nothing end") {
  for (int i = 0; i < 20; ++i) ratify::host_executor on(1 + i % 4);
}

TEST_CASE("a divergent barrier is a status that names kernel and block, and the executor works afterwards") {
  for (int threads : {1, 2}) {
    ratify::host_executor on(threads);
    auto const expected = row_sums(on, {50});
    for (int round = 0; round < 5; ++round) {
      auto const s = on.run(ratify::stage<divergent_kernel>{{7, 3, 2}, {{4, 2, 1}, nullptr}});
      CHECK(s.code() == ratify::status_code::divergent_barrier);
      CHECK(std::string(s.reason()) ==
            "ratify: kernel divergent_kernel, block (4, 2, 1): threads wait for a block barrier that the others never "
            "reach");
      CHECK(on.run(ratify::stage<divergent_kernel>{{7, 3, 2}, {{-1, 0, 0}, nullptr}}));
      CHECK(bit_difference(row_sums(on, {50}), expected) == "");
    }
    auto const s = on.run(ratify::stage<vote_kernel>{{1}, {}});
    CHECK(s.code() == ratify::status_code::divergent_barrier);
    CHECK(std::string(s.reason()) ==
          "ratify: kernel vote_kernel, block (0, 0, 0): lanes of a warp meet with different masks or operations");
    CHECK(bit_difference(row_sums(on, {50}), expected) == "");
  }
}

TEST_CASE("shared storage stands at its alignment") {
  ratify::host_executor on(1);
  int misaligned = 0;
  for (int i = 0; i < 8; ++i) CHECK(on.run(ratify::stage<aligned_kernel>{{4}, {&misaligned}}));
  CHECK(misaligned == 0);
}

TEST_CASE("a shuffled order changes no bit, and every seed is another order") {
  ratify::grid_extent const grid{7, 3, 2};
  ratify::host_executor in_order(1);
  auto const expected = row_sums(in_order, grid);
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(scaled(5)); ++seed)
    for (int threads : {1, 2}) {
      ratify::host_executor on(ratify::host_options{threads, seed});
      for (int round = 0; round < 3; ++round) CHECK(bit_difference(row_sums(on, grid), expected) == "");
      auto const s = on.run(ratify::stage<divergent_kernel>{{7, 3, 2}, {{4, 2, 1}, nullptr}});
      CHECK(s.code() == ratify::status_code::divergent_barrier);
      CHECK(bit_difference(row_sums(on, grid), expected) == "");
    }

  auto const order = [](ratify::host_executor& on) {
    std::atomic<int> next{0};
    std::vector<int> note(3 * 64 * 2, -1);
    CHECK(on.run(ratify::stage<order_kernel>{{3}, {&next, note.data()}}));
    return note;
  };
  auto const unshuffled = order(in_order);
  for (int i = 0; i < 3 * 64 * 2; ++i) CHECK(unshuffled[static_cast<size_t>(i)] / 64 == i / 128);
  std::vector<std::vector<int>> orders;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    ratify::host_executor on(ratify::host_options{1, seed}), again(ratify::host_options{1, seed});
    orders.push_back(order(on));
    CHECK(order(again) == orders.back());
    if (seed > 0) CHECK(order(on) != orders.back());  // the next launch has another order
    // Blocks do not mix, and each half of a block is a permutation of its threads.
    for (int half = 0; half < 6; ++half) {
      std::vector<int> part(orders.back().begin() + 64 * half, orders.back().begin() + 64 * (half + 1));
      std::sort(part.begin(), part.end());
      bool whole = part[0] % 64 == 0;
      for (int i = 0; i < 64; ++i) whole = whole && part[static_cast<size_t>(i)] == part[0] + i;
      CHECK(whole);
    }
  }
  for (size_t a = 0; a < orders.size(); ++a)
    for (size_t b = 0; b < a; ++b) CHECK(orders[a] != orders[b]);
}

#if !defined(RATIFY_THREAD_SANITIZER)
TEST_CASE("a shuffled order shows what is right by luck") {
  auto const wrong = [](uint64_t seed) {
    ratify::host_executor on(ratify::host_options{1, seed});
    std::vector<int> out(64, -1);
    CHECK(on.run(ratify::stage<lucky_kernel>{{1}, {out.data()}}));
    int n = 0;
    for (int i = 0; i < 64; ++i) n += out[static_cast<size_t>(i)] != i;
    return n;
  };
  CHECK(wrong(0) == 0);
  for (uint64_t seed = 1; seed <= 5; ++seed) CHECK(wrong(seed) > 10);
}
#endif

#if defined(__SSE__)
TEST_CASE("the caller's floating-point mode changes no bit and is given back") {
  std::vector<float> in, expected;
  for (int i = 0; i < 32 * 16; ++i) {
    in.push_back(std::ldexp(1.0f + static_cast<float>(i) / 512.0f, -120));
    expected.push_back(static_cast<float>(std::ldexp(1.0 + i / 512.0, -130)));  // subnormal
  }
  auto const run = [&](ratify::host_executor& on) {
    std::vector<float> out(in.size());
    auto const s = on.run(ratify::stage<scale_kernel>{{16}, {in.data(), 0x1p-10f, out.data()}});
    REQUIRE_MESSAGE(s, s.reason());
    return out;
  };
  unsigned const mine = _mm_getcsr();
  // Flush to zero, denormals are zero, and rounding towards zero, set before and after the fibers exist.
  for (unsigned mode : {0x8040u, 0x8000u, 0x6000u, 0x0u}) {
    ratify::host_executor one(1), two(2);
    _mm_setcsr((mine & ~0xe040u) | mode);
    unsigned const set = _mm_getcsr();
    auto const first = run(one), second = run(two), again = run(one);
    unsigned const after = _mm_getcsr();
    _mm_setcsr(mine);
    CHECK((after & 0xffc0u) == (set & 0xffc0u));  // all but the sticky flags
    CHECK(bit_difference(first, expected) == "");
    CHECK(bit_difference(second, expected) == "");
    CHECK(bit_difference(again, expected) == "");
  }
}
#endif
