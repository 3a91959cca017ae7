// SPDX-License-Identifier: Apache-2.0
#include <ratify/attention.cuh>

#include "support/attention.hpp"

#include <doctest/doctest.h>

#include <numeric>

using namespace ratify_test;

// With partitions of 256 tokens the batches take tiles of 48 query entries, because there is one for every block, and a
// request alone takes the small ones.
TEST_CASE_TEMPLATE("A9 a batch never changes a request's bits", Policy, shift_policy<64, 256, ratify::pv_unroll<4>>,
                   shift_policy<256, 256>, verify_policy) {
  random_source random(25);
  bool const many = Policy::head_dim == 64;  // enough for the blocks of a card
  int const kv_heads = many ? 3 : 2, group = many ? 8 : 6, watched = 17;
  int const requests = scale() < 1.0 ? 26 : 64, long_context = scale() < 1.0 ? 400 : 900;  // less for checkers
  std::vector<int> rows, context;
  for (int r = 0; r < requests; ++r) {
    rows.push_back(random.one_of({0, 1, 5, 8, 8, many ? 16 : 3}));
    context.push_back(random.integer(1, many ? long_context : 70));
  }
  rows[watched] = 4;
  context[watched] = many ? 300 : 270;
  if (many)
    for (int r = watched + 1; r < watched + 8; ++r) rows[r] = 8, context[r] = long_context - 100;
  auto const batch = attention_case_with<Policy>(random, kv_heads * group, kv_heads, rows, context, 16);
  size_t const row = static_cast<size_t>(batch.q_heads) * batch.head_dim;
  auto const part = [&](reference::attention_result const& all, int first, int n) {
    reference::attention_result r;
    r.out.assign(all.out.begin() + static_cast<long>(first * row),
                 all.out.begin() + static_cast<long>((first + n) * row));
    r.lse.assign(all.lse.begin() + first * batch.q_heads, all.lse.begin() + (first + n) * batch.q_heads);
    return r;
  };
  // The kernel's choice: tiles of 48 entries for partitions of at most 256 tokens and requests of at least 17 entries,
  // if there is such a tile for every block.
  auto const wide_tiles = [&](auto& on, auto const& c) {
    int const width = Policy::partition_width;
    int64_t tiles = 0;
    for (int r = 0; r < c.requests(); ++r) {
      int const entries = (c.query_start[r + 1] - c.query_start[r]) * group;
      if (width <= 256 && entries >= 17)
        tiles += int64_t{(c.context_len[r] + width - 1) / width} * kv_heads * ((entries + 47) / 48);
    }
    return tiles >= on.template concurrent_blocks<ratify::attention_partial_kernel<Policy>>();
  };
  std::vector<int> some(8);
  std::iota(some.begin(), some.end(), watched);
  std::swap(some[0], some[5]);  // the watched request among the others
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    auto const one = only_request(batch, watched);
    auto const alone = run_attention<Policy>(on, one);
    check_equal(alone, reference::attention(one, Policy::partition_width));
    auto const all = run_attention<Policy>(on, batch);
    check_equal(part(all, batch.query_start[watched], 4), alone);
    auto const eight = some_requests(batch, some);
    check_equal(part(run_attention<Policy>(on, eight), eight.query_start[5], 4), alone);
    if (many) {
      // On one CPU thread the host has fewer blocks, for which a request alone is enough.
      if (host_threads > 1) CHECK(!wide_tiles(on, one));
      WARN_MESSAGE(wide_tiles(on, batch), "this card runs more blocks than 64 requests have wide tiles");
      if (std::is_same_v<executor, ratify::host_executor>) CHECK((wide_tiles(on, batch) && wide_tiles(on, eight)));
    }
    for (int const other : {0, 16, requests / 2, requests - 1}) {
      if (rows[other] == 0) continue;
      check_equal(part(all, batch.query_start[other], rows[other]),
                  run_attention<Policy>(on, only_request(batch, other)));
    }
    // Row 0 of 4 rows, alone.
    auto first = one;
    first.query_start = {0, 1};
    first.context_len = {context[watched] - 3};
    first.q.resize(row);
    check_equal(run_attention<Policy>(on, first), part(alone, 0, 1));
  });
}
