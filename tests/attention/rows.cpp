// SPDX-License-Identifier: Apache-2.0
// Whose a row is, and the rows that are zeros: unowned ones, those of contradicting requests, those that see a token on
// a page outside the pool.
#include <ratify/attention.cuh>

#include "support/attention.hpp"
#include "support/bits.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace ratify_test;

namespace {

/// Whether a row of the result is zeros and its lse -inf.
bool is_zero_row(reference::attention_result const& r, int row, int rows) {
  size_t const elements = r.out.size() / static_cast<size_t>(rows), heads = r.lse.size() / static_cast<size_t>(rows);
  bool zero = true;
  for (size_t i = 0; i < elements; ++i) zero = zero && bits(r.out[row * elements + i]) == 0u;
  for (size_t i = 0; i < heads; ++i) zero = zero && r.lse[row * heads + i] == -INFINITY;
  return zero;
}

}  // namespace

TEST_CASE("attention: a request whose lengths contradict the capacities gives zero rows and touches nothing") {
  random_source random(29);
  auto c = attention_case_with<verify_policy>(random, 2, 1, {2, 3}, {20, 30}, 16);
  auto const expected = attention_twin<verify_policy>(c);
  for (int length : {-1, 31, 1 << 30, INT32_MAX, INT32_MIN}) {
    auto bad = c;
    bad.context_len[1] = length;
    on_each_executor([&](auto& on) {
      auto const r = run_attention<verify_policy>(on, bad, attention_layout::dense, 30);
      size_t const first = 2 * 2 * 256;
      for (size_t i = 0; i < r.out.size(); ++i) CHECK(bits(r.out[i]) == (i < first ? bits(expected.out[i]) : 0u));
      for (size_t i = 0; i < r.lse.size(); ++i) CHECK(bits(r.lse[i]) == bits(i < 4 ? expected.lse[i] : -INFINITY));
    });
  }
}

TEST_CASE("attention: requests whose contexts exceed total_context together give zero rows from the first that does") {
  random_source random(33);
  auto const c = attention_case_with<verify_policy>(random, 2, 1, {2, 3, 1}, {20, 30, 5}, 16);
  auto const expected = attention_twin<verify_policy>(c);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    loaded_attention<verify_policy, executor> launch(on, c);
    launch.p.total_context = 49;
    auto const r = launch.run();
    for (int row = 2; row < 5; ++row) CHECK(is_zero_row(r, row, 6));
    for (size_t i = 0; i < r.out.size(); ++i)
      if (i / 512 < 2 || i / 512 == 5) CHECK(bits(r.out[i]) == bits(expected.out[i]));
  });
}

TEST_CASE("attention: requests whose rows overlap write nothing outside the workspace") {
  random_source random(30);
  auto c = attention_case_with<verify_policy>(random, 1, 1, {2, 0, 2}, {64, 64, 64}, 16);
  auto const alone = attention_twin<verify_policy>(only_request(c, 0));
  c.query_start = {0, 2, 0, 2};
  c.q.resize(2 * 256);
  on_each_executor([&](auto& on) {
    auto const r = run_attention<verify_policy>(on, c);
    CHECK(bit_difference(r.out, alone.out) == "");
  });
}

TEST_CASE("attention: rows that no request owns are zeros, and a row that two name belongs to the first") {
  constexpr int rows = 9;
  for (std::vector<int32_t> const& starts :
       {std::vector<int32_t>{0, 2, 5, 7},  // rows 7 and 8 are capacity
        {3, 4, 6, 9},                      // rows 0 to 2 are named by nobody
        {0, 4, 2, 9},                      // the second falls, the third begins in the first one's rows
        {0, 3, 3, 3},                      // nobody names rows 3 to 8
        {0, 10, 12, 9},                    // past the launch
        {-1, 3, 6, 9},                     // before it
        {INT32_MIN, 3, 6, 9},
        {INT32_MIN, INT32_MAX, INT32_MIN, 9},
        {0, INT32_MAX, 4, 9},
        {5, INT32_MIN, INT32_MAX, 0},
        {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX}}) {
    CAPTURE(starts[0]);
    CAPTURE(starts[1]);
    CAPTURE(starts[2]);
    random_source random(34);
    auto c = attention_case_with<verify_policy>(random, 2, 1, {rows, 0, 0}, {70, 33, 20}, 16);
    c.query_start = starts;
    auto const owners = c.owners();
    check_equal_to_twin<verify_policy>(c);
    on_each_executor([&](auto& on) {
      auto const r = run_attention<verify_policy>(on, c);
      for (int row = 0; row < rows; ++row) CHECK(is_zero_row(r, row, rows) == (owners[row] < 0));
    });
  }
}

// Pages 0 to pool - 1 are there and not a byte more, so that an access outside them is found by a memory checker.
TEST_CASE("attention: a row that sees a token on a page outside the pool is zeros, and no other row is") {
  constexpr int page = 16, rows = 6, context = 60;
  for (bool const known : {true, false})
    for (int const window : {0, 9}) {
      CAPTURE(known);
      CAPTURE(window);
      random_source random(35);
      auto c = attention_case_with<verify_policy>(random, 2, 1, {rows}, {context}, page);
      auto const pool = static_cast<int32_t>(c.v.size() / (page * 256));
      c.pool_pages = known ? pool : 0;
      c.window = window;
      auto const clean = attention_twin<verify_policy>(c);
      auto const ids =
          known ? std::vector<int32_t>{-1, pool, INT32_MIN, INT32_MAX} : std::vector<int32_t>{-1, INT32_MIN};
      for (int32_t const id : ids)
        for (int entry = 0; entry < 4; ++entry) {
          CAPTURE(id);
          CAPTURE(entry);
          auto bad = c;
          bad.block_table[static_cast<size_t>(entry)] = id;
          check_equal_to_twin<verify_policy>(bad);
          on_each_executor([&](auto& on) {
            auto const r = run_attention<verify_policy>(on, bad);
            for (int row = 0; row < rows; ++row) {
              int const position = context - rows + row, first = window > 0 ? position - window + 1 : 0;
              bool const sees = first < (entry + 1) * page && position >= entry * page;
              CHECK(is_zero_row(r, row, rows) == sees);
              for (size_t i = 0; !sees && i < 512; ++i)
                CHECK(bits(r.out[row * 512 + i]) == bits(clean.out[row * 512 + i]));
            }
          });
        }
    }
}

TEST_CASE_TEMPLATE("attention: pages outside the pool equal the twin", Policy, shift_policy<64, 64>, verify_policy,
                   shift_policy<128, 256, ratify::kv_format<ratify::bf16>, ratify::q_format<ratify::bf16>>) {
  random_source random(36);
  for (int round = 0; round < scaled(20); ++round) {
    auto c = random_attention_case<Policy>(random);
    CAPTURE(describe(c));
    auto const pool = static_cast<int32_t>(c.v.size() / static_cast<size_t>(c.page_size * c.kv_heads * c.head_dim));
    c.pool_pages = pool;
    for (auto& page : c.block_table)
      if (random.integer(0, 5) == 0) page = random.one_of({-1, -7, pool, pool + 1, INT32_MIN, INT32_MAX});
    check_equal_to_twin<Policy>(c);
    count_shape();
  }
}

// Tiles of 48 query entries, in groups of threads that share their tokens.
TEST_CASE("attention: pages outside the pool under wide tiles equal the twin") {
  using policy = shift_policy<64, 64>;
  random_source random(37);
  auto c = attention_case_with<policy>(random, 24, 4, {8, 1}, {64 * scaled(102) - 28, 70}, 64);
  c.pool_pages = static_cast<int64_t>(c.v.size()) / (64 * 4 * 64);
  c.window = 300;
  for (int const entry : {1, 50, 97, 99}) {
    auto bad = c;
    if (entry < c.max_pages) bad.block_table[static_cast<size_t>(entry)] = -1;
    check_equal_to_twin<policy>(bad);
  }
}
