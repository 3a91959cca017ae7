// SPDX-License-Identifier: Apache-2.0
/// Requests whose numbers contradict themselves or one another, and rows that no request names.
#include <ratify/recurrence.cuh>

#include "support/random.hpp"
#include "support/ranges.hpp"
#include "support/recurrence.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

using small = small_recurrence<>;
using small_replay = small_recurrence<recurrence_mode::replay>;
using small_read = small_recurrence<recurrence_mode::read>;

int32_t pool_end(reference::recurrence_round const& r) {
  return static_cast<int32_t>(static_cast<int64_t>(r.pool.size()) / r.slot_stride);
}

}  // namespace

TEST_CASE("recurrence: ill-formed requests give zeros and write nothing, those without rows are not touched") {
  random_source random(15);
  auto const s = shape_of<small>(1, 1);
  auto const good = make_round(random, s, 4, {2, 4, 3});
  auto const in = make_inputs<small>(random, s, 9);
  struct fault {
    char const* what;
    void (*apply)(reference::recurrence_round&);
  };
  fault const faults[] = {
      {"initial_slot below -1", [](auto& r) { r.initial_slot[1] = -2; }},
      {"initial_slot past the pool", [](auto& r) { r.initial_slot[1] = 1 << 20; }},
      {"selector below 0", [](auto& r) { r.selector[1] = -1; }},
      {"selector above T", [](auto& r) { r.selector[1] = 5; }},
      {"selector of a snapshot that is none", [](auto& r) { r.selector[1] = 2, r.snapshot_slot[5] = -1; }},
      {"snapshot_slot below -1", [](auto& r) { r.snapshot_slot[7] = -2; }},
      {"snapshot_slot past the pool", [](auto& r) { r.snapshot_slot[6] = 1 << 20; }},
      {"initial_slot at the end of the pool", [](auto& r) { r.initial_slot[1] = pool_end(r); }},
      {"initial_slot at the end of an int", [](auto& r) { r.initial_slot[1] = INT32_MAX; }},
      {"snapshot_slot at the end of the pool", [](auto& r) { r.snapshot_slot[7] = pool_end(r); }},
      {"selector of a snapshot past the pool", [](auto& r) { r.selector[1] = 4, r.snapshot_slot[7] = pool_end(r); }},
      {"fresh with a selector",
       [](auto& r) {
         r.fresh = {0, 1, 0}, r.selector[1] = 1;
       }},
      {"fresh neither 0 nor 1",
       [](auto& r) {
         r.fresh = {0, -1, 0};
       }},
  };
  auto expected = good;
  expected.initial_slot[1] = -1;
  auto const expected_out = reference::recurrence(s, in, expected);
  for (auto const& f : faults) {
    CAPTURE(f.what);
    auto r = good;
    f.apply(r);
    on_each_executor([&](auto& on) {
      auto const got = run<small>(on, s, in, r);
      CHECK(bit_difference(got.out, expected_out) == "");
      CHECK(bit_difference(got.pool, expected.pool) == "");
    });
  }
  for (auto const& range : ill_formed_ranges()) {
    CAPTURE(range.given[1]);
    auto r = good, meant = good;
    r.query_start = range.given;
    meant.query_start = range.meant;
    for (int request : range.retired) meant.initial_slot[static_cast<size_t>(request)] = -1;
    auto const out = reference::recurrence(s, in, meant);
    on_each_executor([&](auto& on) {
      auto const got = run<small>(on, s, in, r);
      CHECK(bit_difference(got.out, out) == "");
      CHECK(bit_difference(got.pool, meant.pool) == "");
    });
  }
  auto idle = good;
  idle.query_start = {0, 4, 4, 8};
  idle.initial_slot[1] = -9;  // carried over, not looked at
  idle.selector[1] = 77;
  check_against_twin<small>(s, some_rows(s, in, 0, 8), idle);
}

TEST_CASE("replay and read: ill-formed requests give zeros and write nothing, those without rows are not touched") {
  random_source random(112);
  auto const s = shape_of<small_replay>(1, 1);
  auto const good = make_replay_round(random, s, 16, 4, {2, 4, 3}, 3);
  auto const in = make_inputs<small_replay>(random, s, 9);
  struct fault {
    char const* what;
    void (*apply)(reference::replay_round&);
  };
  fault const faults[] = {
      {"slot below -1", [](auto& r) { r.slot[1] = -2; }},
      {"slot past the pool", [](auto& r) { r.slot[1] = 3; }},
      {"ring_start below 0", [](auto& r) { r.ring_start[1] = -1; }},
      {"ring_start of R", [](auto& r) { r.ring_start[1] = 16; }},
      {"ring_count below 0", [](auto& r) { r.ring_count[1] = -1; }},
      {"ring_count without room for the rows", [](auto& r) { r.ring_count[1] = 13; }},
      {"ring_count far too large", [](auto& r) { r.ring_count[1] = 0x7fffffff; }},
      {"flush 2", [](auto& r) { r.flush[1] = 2; }},
      {"flush -1", [](auto& r) { r.flush[1] = -1; }},
      {"fresh 2",
       [](auto& r) {
         r.fresh = {0, 2, 0}, r.ring_count[1] = 0;
       }},
      {"fresh with kept rows",
       [](auto& r) {
         r.fresh = {0, 1, 0}, r.ring_count[1] = 1;
       }},
      {"more rows than max_rows", [](auto& r) { r.max_rows = 3; }},
  };
  auto expected = good;
  expected.slot[1] = -1;
  auto const out = reference::recurrence_replay(s, in, expected);
  for (auto const& f : faults) {
    CAPTURE(f.what);
    auto r = good;
    f.apply(r);
    on_each_executor([&](auto& on) { check_outcome<small_replay>(on, s, in, r, out, expected); });
  }
  for (int32_t const bad : {-2, 3, 0x7fffffff}) {
    reference::recurrence_round r{good.query_start, good.slot, {}, {}, {}, 4, good.pool, good.slot_stride};
    auto retired = r;
    r.initial_slot[1] = bad;
    retired.initial_slot[1] = -1;
    on_each_executor([&](auto& on) {
      CHECK(bit_difference(run_read<small_read>(on, s, in, r), run_read<small_read>(on, s, in, retired)) == "");
    });
  }
  for (auto const& range : ill_formed_ranges()) {
    CAPTURE(range.given[1]);
    auto r = good, meant = good;
    r.query_start = range.given;
    meant.query_start = range.meant;
    for (int request : range.retired) meant.slot[static_cast<size_t>(request)] = -1;
    auto const meant_out = reference::recurrence_replay(s, in, meant);
    on_each_executor([&](auto& on) { check_outcome<small_replay>(on, s, in, r, meant_out, meant); });
  }
  auto idle = good;
  idle.query_start = {0, 2, 2, 5};
  idle.slot[1] = -9;  // carried over, not looked at
  idle.ring_start[1] = idle.ring_count[1] = idle.flush[1] = 77;
  check_against_twin<small_replay>(s, some_rows(s, in, 0, 5), idle);
}

TEST_CASE("recurrence: rows that no request names are zeros, in every mode") {
  random_source random(113);
  auto const s = shape_of<small>(1, 2);
  std::vector<int32_t> many(40, 7);  // so many requests that the lanes of a warp look at the bounds together
  many[0] = 2;
  many[1] = many[2] = 5;
  for (auto const& starts : {std::vector<int32_t>{0, 3, 3, 7}, std::vector<int32_t>{2, 5, 5, 7}, many}) {
    CAPTURE(starts.size());
    auto const requests = static_cast<int>(starts.size()) - 1;
    std::vector<int> counts;
    for (int i = 0; i < requests; ++i)
      counts.push_back(starts[static_cast<size_t>(i) + 1] - starts[static_cast<size_t>(i)]);
    auto const in = make_inputs<small>(random, s, 21);  // the capacity of a graph
    auto r = make_round(random, s, 4, counts);
    r.query_start = starts;
    check_against_twin<small>(s, in, r);
    check_against_twin<small_recurrence_with<recurrence_mode::snapshots, ratify::column_threads<8>>>(s, in, r);
    auto replayed = make_replay_round(random, s, 16, 4, counts, requests);
    replayed.query_start = starts;
    check_against_twin<small_replay>(s, in, replayed);
    on_each_executor([&](auto& on) {
      auto const got = run_read<small_read>(on, s, in, r);
      int64_t const width = int64_t{s.value_heads} * s.value_dim;
      for (int row = 0; row < 21; ++row)
        if (row < starts.front() || row >= starts.back())
          CHECK(bit_difference(slice(got, row * width, width), std::vector<float>(static_cast<size_t>(width))) == "");
    });
  }
}

TEST_CASE("recurrence: two requests that name a row, among many") {
  random_source random(114);
  auto const s = shape_of<small>(1, 1);
  for (auto const& range : ill_formed_ranges()) {
    CAPTURE(range.given[1]);
    std::vector<int> counts{2, 4, 3};
    counts.resize(23, 0);
    auto r = make_round(random, s, 4, counts), meant = r;
    r.query_start = range.given;
    meant.query_start = range.meant;
    for (auto* const round : {&r, &meant}) round->query_start.resize(24, round->query_start.back());
    for (int request : range.retired) meant.initial_slot[static_cast<size_t>(request)] = -1;
    auto const in = make_inputs<small>(random, s, 9);
    auto const out = reference::recurrence(s, in, meant);
    on_each_executor([&](auto& on) {
      check_outcome<small_recurrence_with<recurrence_mode::snapshots, ratify::column_threads<8>>>(on, s, in, r, out,
                                                                                                  meant);
    });
  }
}
