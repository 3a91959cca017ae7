// SPDX-License-Identifier: Apache-2.0
/// The scopes of a block, by their counters: who meets whom, and what is reported when they do not.
#include <ratify/detail/machine/block_scopes.hpp>
#include <ratify/detail/machine/host_lanes.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace {

using ratify::detail::ballot_lane;
using ratify::detail::block_scopes;
using ratify::detail::shuffle_lane;

/// Runs a function of the thread's number on a pool; "" or what went wrong. What several threads count is atomic, for
/// they may be in no order.
std::string run(block_scopes& pool, int threads, std::function<void(int)> body) {
  char const* const failure = pool.run(
      threads, 1, [](void* context, int thread) { (*static_cast<std::function<void(int)>*>(context))(thread); }, &body);
  pool.join();
  return failure == nullptr ? "" : failure;
}

uint32_t shuffle(block_scopes& pool, uint32_t mask, uint32_t value, int source) {
  shuffle_lane mine{value, source, 0};
  pool.meet(&shuffle_lane::exchange, mask, &mine);
  return mine.result;
}
uint32_t ballot(block_scopes& pool, uint32_t mask, bool predicate) {
  ballot_lane mine{predicate, 0};
  pool.meet(&ballot_lane::exchange, mask, &mine);
  return mine.result;
}

void block_barrier(block_scopes& pool) { (void)pool.barrier(0, pool.fibers().threads(), false); }

constexpr char const* barrier_failure = "threads wait for a block barrier that the others never reach";
constexpr char const* warp_failure = "lanes of a warp wait for lanes that never join them";

/// What a failure must leave behind: a pool that works.
void check_works(block_scopes& pool) {
  std::vector<int> seen(96, 0);
  CHECK(run(pool, 96, [&](int t) {
          seen[static_cast<size_t>(t)] = 1;
          block_barrier(pool);
          int sum = 0;
          for (int x : seen) sum += x;
          CHECK(sum == 96);
          CHECK(shuffle(pool, 0xffffffffu, static_cast<uint32_t>(t), 5) == static_cast<uint32_t>(t / 32 * 32 + 5));
        }) == "");
}

}  // namespace

TEST_CASE("threads run once each, for any count") {
  block_scopes pool;
  for (int threads : {1, 2, 31, 32, 33, 64, 1024, 3, 128}) {
    std::vector<int> runs(static_cast<size_t>(threads), 0);
    CHECK(run(pool, threads, [&](int t) { ++runs[static_cast<size_t>(t)]; }) == "");
    CHECK(runs == std::vector<int>(static_cast<size_t>(threads), 1));
  }
}

TEST_CASE("a barrier separates what stands before it from what stands after") {
  block_scopes pool;
  std::atomic<int> arrived{0}, wrong{0};
  CHECK(run(pool, 128, [&](int) {
          for (int round = 1; round <= 20; ++round) {
            ++arrived;
            block_barrier(pool);
            if (arrived != 128 * round) ++wrong;
            block_barrier(pool);
          }
        }) == "");
  CHECK(wrong == 0);
}

TEST_CASE("a shuffle in warp 0 alone before a block barrier") {
  block_scopes pool;
  int sum = 0;
  CHECK(run(pool, 96, [&](int t) {
          if (t < 32) {
            uint32_t v = static_cast<uint32_t>(t);
            for (int o = 16; o > 0; o /= 2) v += shuffle(pool, 0xffffffffu, v, t ^ o);
            if (t == 0) sum = static_cast<int>(v);
          }
          block_barrier(pool);
          CHECK(sum == 31 * 32 / 2);
        }) == "");
}

TEST_CASE("masks: half a warp, disjoint parts at different speeds, one lane alone") {
  block_scopes pool;
  CHECK(run(pool, 32, [&](int t) {
          if (t < 16) CHECK(ballot(pool, 0xffffu, t % 3 == 0) == 0x9249u);
          block_barrier(pool);
          // Lanes by residue mod 4, each part meeting a different number of times.
          uint32_t const mask = 0x11111111u << (t % 4);
          for (int i = 0; i <= t % 4; ++i)
            CHECK(shuffle(pool, mask, static_cast<uint32_t>(100 * i + t), t % 4 + 4 * i) ==
                  static_cast<uint32_t>(100 * i + t % 4 + 4 * i));
          if (t == 7) CHECK(ballot(pool, 1u << 7, true) == 1u << 7);
          // From a lane outside the mask comes the own value.
          CHECK(shuffle(pool, mask, static_cast<uint32_t>(t), t + 1) == static_cast<uint32_t>(t));
        }) == "");
}

TEST_CASE("a lane that is ahead overwrites nothing that a slower lane still reads") {
  block_scopes pool;
  CHECK(run(pool, 32, [&](int t) {
          for (uint32_t i = 0; i < 50; ++i)
            CHECK(shuffle(pool, 0xffffffffu, i * 32 + static_cast<uint32_t>(t), static_cast<int>(t + i)) ==
                  i * 32 + (static_cast<uint32_t>(t) + i) % 32);
        }) == "");
}

TEST_CASE("many blocks in sequence, of changing size") {
  block_scopes pool;
  std::atomic<int64_t> total{0};
  for (int block = 0; block < 2000; ++block)
    REQUIRE(run(pool, 1 + block % 64, [&](int) {
              block_barrier(pool);
              ++total;
            }) == "");
  int64_t expected = 0;
  for (int block = 0; block < 2000; ++block) expected += 1 + block % 64;
  CHECK(total == expected);
}

TEST_CASE("threads that wait for ever are reported, and the pool works afterwards") {
  block_scopes pool;
  SUBCASE("a barrier that one thread never reaches") {
    CHECK(run(pool, 64, [&](int t) {
            if (t != 40) block_barrier(pool);
          }) == barrier_failure);
  }
  SUBCASE("a barrier after all others have returned") {
    CHECK(run(pool, 64, [&](int t) {
            if (t == 0) block_barrier(pool);
          }) == barrier_failure);
  }
  SUBCASE("the last thread alone skips it") {
    CHECK(run(pool, 33, [&](int t) {
            if (t < 32) block_barrier(pool);
          }) == barrier_failure);
  }
  SUBCASE("a lane that has returned") {
    CHECK(run(pool, 32, [&](int t) {
            if (t > 0) shuffle(pool, 0xffffffffu, 1, 0);
          }) == warp_failure);
  }
  SUBCASE("lanes that the block does not have") {
    CHECK(run(pool, 16, [&](int) { ballot(pool, 0xffffffffu, true); }) == warp_failure);
  }
  SUBCASE("half a warp at the barrier, half in a vote") {
    CHECK(run(pool, 32, [&](int t) {
            if (t < 16)
              block_barrier(pool);
            else
              ballot(pool, 0xffffffffu, true);
          }) == barrier_failure);
  }
  check_works(pool);
}

TEST_CASE("lanes that disagree are reported, and the pool works afterwards") {
  block_scopes pool;
  std::string const disagree = "lanes of a warp meet with different masks or operations";
  SUBCASE("masks that differ") {
    CHECK(run(pool, 32, [&](int t) { ballot(pool, t == 3 ? 0xffu : 0xffffffffu, true); }) == disagree);
  }
  SUBCASE("operations that differ") {
    CHECK(run(pool, 32, [&](int t) {
            if (t == 3)
              ballot(pool, 0xffffffffu, true);
            else
              shuffle(pool, 0xffffffffu, 1, 0);
          }) == disagree);
  }
  SUBCASE("a mask without the lane itself") {
    CHECK(run(pool, 32, [&](int t) {
            if (t == 9) ballot(pool, 0xffu, true);
          }) == "a lane meets others under a mask that does not name it");
  }
  check_works(pool);
}

TEST_CASE("groups of warps meet at barriers of their own, and vote there") {
  block_scopes pool;
  std::vector<int> rounds(3, 0), seen(96, 0);
  CHECK(run(pool, 96, [&](int t) {
          int const group = t / 32;
          for (int i = 0; i <= 3 * group; ++i) {  // each group as often as it likes
            seen[static_cast<size_t>(t)] = i;
            bool const any = pool.barrier(1 + group, 32, t % 32 == i && i % 2 == 0);
            CHECK(any == (i % 2 == 0));
            for (int l = 0; l < 32; ++l) CHECK(seen[static_cast<size_t>(32 * group + l)] == i);
            CHECK(!pool.barrier(1 + group, 32, false));
            if (t % 32 == 0) ++rounds[static_cast<size_t>(group)];
          }
          block_barrier(pool);
          CHECK(rounds == std::vector<int>{1, 4, 7});
        }) == "");
}

TEST_CASE("groups that disagree are reported, and the pool works afterwards") {
  block_scopes pool;
  SUBCASE("a warp that never comes") {
    CHECK(run(pool, 128, [&](int t) {
            if (t < 96) (void)pool.barrier(1 + t / 64, 64, false);
          }) == "threads wait for a barrier of their group that the others never reach");
  }
  SUBCASE("groups of different sizes at one barrier") {
    CHECK(run(pool, 128, [&](int t) { (void)pool.barrier(1, t < 32 ? 64 : 128, false); }) ==
          "threads meet at one barrier as groups of different sizes");
  }
  check_works(pool);
}

TEST_CASE("a failure unwinds every thread that had begun") {
  block_scopes pool;
  struct counted {
    std::atomic<int>& alive;
    explicit counted(std::atomic<int>& n) : alive(n) { ++alive; }
    ~counted() { --alive; }
  };
  std::atomic<int> alive{0}, begun{0};
  for (int round = 0; round < 3; ++round) {
    CHECK(run(pool, 64, [&](int t) {
            counted const here(alive);
            ++begun;
            if (t < 32) block_barrier(pool);
            if (t == 50) ballot(pool, 0x3u << 18, true);
          }) != "");
    CHECK(alive == 0);
  }
  CHECK(begun == 3 * 64);
  check_works(pool);
}

TEST_CASE("a pool that never ran, and one that only failed, end cleanly") {
  { block_scopes const pool; }
  {
    block_scopes pool;
    CHECK(run(pool, 2, [&](int t) {
            if (t == 0) block_barrier(pool);
          }) == barrier_failure);
  }
}
