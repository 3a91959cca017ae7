// SPDX-License-Identifier: Apache-2.0
/// Mode snapshots against its twin, bit for bit, and no bit that a schedule moves.
#include <ratify/recurrence.cuh>

#include "support/random.hpp"
#include "support/recurrence.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

using model = model_recurrence<>;
using lanes = lanes_recurrence<>;
using thin = thin_recurrence<>;
using small = small_recurrence<>;
using plain_small = small_recurrence_with<recurrence_mode::snapshots, ratify::l2norm<false>>;

}  // namespace

TEST_CASE_TEMPLATE("recurrence equals its twin bit for bit", Policy, model, lanes, thin, small, plain_small) {
  random_source random(1);
  for (int round = 0; round < scaled(5); ++round) {
    auto const e = random_recurrence_extent<Policy>(random, 32, true);
    auto const& counts = e.counts;
    auto const s = shape_of<Policy>(e.key_heads, e.value_heads);
    int const max_rows = e.max_rows;
    int const sets = random.one_of({1, 2}), named = sets * max_rows;
    auto r = make_round(random, s, max_rows, counts, random.one_of({0, 1, 64}), sets);
    for (size_t i = 0; i < counts.size(); ++i) {
      r.selector[i] = random.integer(0, named);
      if (r.selector[i] == 0 && random.integer(0, 1))  // the slot it starts from is overwritten in the launch
        r.initial_slot[i] = r.snapshot_slot[i * static_cast<size_t>(named)];
      else if (random.integer(0, 1) && named > 1)  // not the one it starts from
        r.snapshot_slot[i * static_cast<size_t>(named) + static_cast<size_t>(r.selector[i] % named)] = -1;
    }
    auto const in = make_inputs<Policy>(random, s, r.query_start.back());
    CAPTURE(s.key_heads);
    CAPTURE(s.value_heads);
    CAPTURE(max_rows);
    CAPTURE(sets);
    CAPTURE(counts.size());
    check_against_twin<Policy>(s, in, r, random.integer(0, 40));
    count_shape();
  }
}

TEST_CASE("recurrence of the demo's and each TP's head counts") {
  random_source random(2);
  struct {
    int key_heads, value_heads, rows;
  } const cases[] = {{1, 2, 8}, {16, 48, 1}, {8, 24, 2}, {4, 12, 3}, {2, 6, 8}};
  for (auto const& c : cases) {
    auto const s = shape_of<model>(c.key_heads, c.value_heads);
    auto const r = make_round(random, s, c.rows, {c.rows});
    check_against_twin<model>(s, make_inputs<model>(random, s, c.rows), r);
  }
}

TEST_CASE("recurrence: 32 rows a request, more than shared storage holds at once") {
  random_source random(3);
  auto const s = shape_of<small>(1, 2);
  auto const r = make_round(random, s, 32, {32, 9});
  auto const in = make_inputs<small>(random, s, 41);
  check_against_twin<small>(s, in, r);
  check_against_twin<small_recurrence_on<8, 8>>(s, in, r);
}

TEST_CASE_TEMPLATE("recurrence: no bit depends on the schedule", Policy, small_recurrence_on<2, 8>,
                   small_recurrence_on<4, 8>, small_recurrence_on<32, 8>, small_recurrence_on<16, 1>) {
  random_source random(4);
  auto const s = shape_of<Policy>(1, 3);
  auto r = make_round(random, s, 5, {5, 2}, 3);
  r.selector = {3, 0};
  check_against_twin<Policy>(s, make_inputs<Policy>(random, s, 7), r, 5);
}
