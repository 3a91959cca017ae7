// SPDX-License-Identifier: Apache-2.0
/// Which request owns a row: what a kernel is told, against a walk over all requests in plain loops.
#include <ratify/device/rows.cuh>
#include <ratify/host.hpp>

#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"
#include "support/ranges.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <climits>

namespace {

using namespace ratify_test;

/// Asks for the owner of each row, the rows of each request and the unowned rows: one block per row and per request.
template <int Threads>
struct rows_kernel {
  struct params {
    ratify::device::row_bounds bounds;
    int32_t* owner;      ///< [rows, 3]: request, begin and end
    int32_t* rows_of;    ///< [requests, 2]
    int32_t* visits;     ///< [rows]: how often a row was given as unowned
    int32_t* shared_by;  ///< [rows]: the share that it was given in
  };
  static constexpr char const* name = "rows_kernel";
  static constexpr int block_threads = Threads;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    auto const owners = ratify::device::judge_rows(block, p.bounds);
    if (block.thread() != Threads - 1) return;  // every thread knows
    int const i = block.block_x();
    if (i < p.bounds.rows) {
      auto const owner = owners.owner_of(i);
      p.owner[3 * i] = owner.request;
      p.owner[3 * i + 1] = owner.rows.begin;
      p.owner[3 * i + 2] = owner.rows.end;
    }
    if (i >= p.bounds.requests) return;
    auto const rows = owners.rows_of(i);
    p.rows_of[2 * i] = rows.begin;
    p.rows_of[2 * i + 1] = rows.end;
    owners.each_unowned(i, p.bounds.requests, [&](int row) {
      ++p.visits[row];
      p.shared_by[row] = i;
    });
  }
};

struct answer {
  std::vector<int32_t> owner, rows_of, visits;
};

/// Requests claim rows one after the other; each row remembers who was first.
answer expected_of(std::vector<int32_t> const& query_start, int rows) {
  int const requests = static_cast<int>(query_start.size()) - 1;
  answer a{{}, {}, std::vector<int32_t>(static_cast<size_t>(rows), 1)};
  std::vector<int> first(static_cast<size_t>(rows), -1);
  for (int r = 0; r < requests; ++r) {
    int64_t const begin = query_start[static_cast<size_t>(r)], end = query_start[static_cast<size_t>(r) + 1];
    bool claims = begin >= 0 && begin <= end && end <= rows;
    // Nobody may have this row or one after it: claims are made from the first row on.
    for (int64_t row = begin; claims && begin < end && row < rows; ++row)
      claims = first[static_cast<size_t>(row)] == -1;
    for (int64_t row = begin; claims && row < end; ++row) first[static_cast<size_t>(row)] = r;
    a.rows_of.push_back(claims ? static_cast<int32_t>(begin) : 0);
    a.rows_of.push_back(claims ? static_cast<int32_t>(end) : 0);
  }
  for (size_t row = 0; row < first.size(); ++row) {
    int const r = first[row];
    a.owner.push_back(r);
    a.owner.push_back(r < 0 ? 0 : query_start[static_cast<size_t>(r)]);
    a.owner.push_back(r < 0 ? 0 : query_start[static_cast<size_t>(r) + 1]);
    if (r >= 0) a.visits[row] = 0;
  }
  return a;
}

template <int Threads>
void check_rows(std::vector<int32_t> const& query_start, int rows) {
  answer const expected = expected_of(query_start, rows);
  int const requests = static_cast<int>(query_start.size()) - 1;
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    std::vector<int32_t> const none(static_cast<size_t>(rows), 0);
    buffer<int32_t, executor> starts(on, query_start), owner(on, expected.owner.size()),
        rows_of(on, expected.rows_of.size()), visits(on, none), shared_by(on, none);
    auto const s = on.run(ratify::stage<rows_kernel<Threads>>{
        {std::max({rows, requests, 1})},
        {{starts.data(), requests, rows}, owner.data(), rows_of.data(), visits.data(), shared_by.data()}});
    REQUIRE_MESSAGE(s, s.reason());
    CHECK(bit_difference(owner.read(), expected.owner) == "");
    CHECK(bit_difference(rows_of.read(), expected.rows_of) == "");
    CHECK(bit_difference(visits.read(), expected.visits) == "");
    // Unowned rows are shared out evenly.
    std::vector<int> given(static_cast<size_t>(requests), 0);
    auto const by = shared_by.read();
    for (size_t row = 0; row < by.size(); ++row)
      if (expected.visits[row] == 1) ++given[static_cast<size_t>(by[row])];
    int const all = static_cast<int>(std::count(expected.visits.begin(), expected.visits.end(), 1));
    bool const in_order = std::is_sorted(query_start.begin(), query_start.end()) && query_start.front() >= 0 &&
                          query_start.back() <= rows;
    if (in_order && !given.empty()) CHECK(*std::max_element(given.begin(), given.end()) <= all / requests + 2);
  });
}

}  // namespace

TEST_CASE_TEMPLATE("rows: who owns a row, over random bounds", Threads, std::integral_constant<int, 8>,
                   std::integral_constant<int, 32>, std::integral_constant<int, 64>) {
  random_source random(201);
  for (int round = 0; round < scaled(60); ++round) {
    int const requests = random.one_of({1, 2, 3, 4, 5, 8, 33, random.integer(1, 70)});
    int const rows = random.one_of({1, 2, 9, random.integer(1, 100)});
    std::vector<int32_t> starts(static_cast<size_t>(requests) + 1);
    for (auto& start : starts) start = random.integer(0, rows);
    std::sort(starts.begin(), starts.end());
    if (random.integer(0, 1)) starts.front() = 0, starts.back() = rows;
    // Some of them as no caller should give them.
    for (int wrong = random.one_of({0, 0, 1, 2, requests}); wrong > 0; --wrong)
      starts[static_cast<size_t>(random.integer(0, requests))] =
          random.one_of({-1, random.integer(0, rows), rows + 1, INT_MIN, INT_MAX, random.integer(0, rows)});
    CAPTURE(requests);
    CAPTURE(rows);
    check_rows<Threads::value>(starts, rows);
    count_shape();
  }
}

TEST_CASE("rows: bounds as no caller should give them") {
  for (auto const& range : ill_formed_ranges()) {
    CAPTURE(range.given[1]);
    check_rows<32>(range.given, 9);
    // And among so many others that the lanes of a warp look at them together.
    auto many = range.given;
    many.resize(many.size() + 40, many.back());
    check_rows<64>(many, 9);
  }
  // A request without rows claims nothing, so it stands in nobody's way.
  check_rows<32>({7, 7, 2, 9}, 9);
}

TEST_CASE("rows: capacity that no request names is unowned") {
  check_rows<32>({0, 0}, 5);
  check_rows<32>({2, 4, 4, 7}, 40);
  check_rows<32>({0, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}, 128);
  check_rows<32>({5, 5, 5, 5, 5, 5}, 9);
}

TEST_CASE("rows: ten thousand requests") {
  std::vector<int32_t> starts;
  for (int r = 0; r <= 10000; ++r) starts.push_back(2 + r / 40);
  check_rows<32>(starts, 260);
}
