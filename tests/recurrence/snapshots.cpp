// SPDX-License-Identifier: Apache-2.0
/// Mode snapshots: where states come from and where they go.
#include <ratify/recurrence.cuh>

#include "support/bits.hpp"
#include "support/far_memory.hpp"
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

TEST_CASE("G1 continuing from any snapshot equals the sequential run over accepted rows only") {
  random_source random(6);
  auto const s = shape_of<model>(1, 2);
  auto const r = make_round(random, s, 4, {4});
  auto const in = make_inputs<model>(random, s, 4), next = make_inputs<model>(random, s, 1);
  int64_t const elements = s.state_elements();
  on_each_executor([&](auto& on) {
    auto const verified = run<model>(on, s, in, r);
    for (int accepted = 1; accepted <= 4; ++accepted) {
      auto onward = r;
      onward.pool = verified.pool;
      onward.query_start = {0, 1};
      onward.selector = {accepted};
      auto const got = run<model>(on, s, next, onward);
      // Row by row from the first state, the accepted rows and then the new one.
      auto plain = r;
      plain.query_start = {0, 1};
      recurrence_outcome<model> last;
      for (int t = 0; t <= accepted; ++t) {
        last = run<model>(on, s, t < accepted ? some_rows(s, in, t, t + 1) : next, plain);
        plain.pool = last.pool;
        plain.selector = {1};
      }
      CHECK(bit_difference(got.out, last.out) == "");
      int64_t const at = r.snapshot_slot[0] * r.slot_stride;
      CHECK(bit_difference(slice(got.pool, at, elements), slice(last.pool, at, elements)) == "");
    }
  });
}

TEST_CASE("G2 recurrence: retired slots read and write nothing") {
  random_source random(7);
  auto const s = shape_of<small>(1, 2);
  for (int rows : {1, 4}) {
    // Eight patterned slots for the states and, past them, room for the snapshots of the rows before the last.
    auto r = make_round(random, s, rows, {rows, rows, rows});
    r.pool = random.normals<float>(16 * static_cast<size_t>(r.slot_stride));
    r.initial_slot = {3, -1, 5};
    r.selector = {0, 999, 0};  // a retired request's selector is not looked at, nor is fresh
    r.fresh = {0, 1, 0};
    for (int t = 0; t < rows; ++t) {
      bool const last = t == rows - 1;
      r.snapshot_slot[static_cast<size_t>(t)] = last ? 3 : 8 + t;
      r.snapshot_slot[static_cast<size_t>(rows + t)] = last ? 7 : -5;
      r.snapshot_slot[static_cast<size_t>(2 * rows + t)] = last ? 5 : 12 + t;
    }
    auto const in = make_inputs<small>(random, s, 3 * rows);
    check_against_twin<small>(s, in, r);
    on_each_executor([&](auto& on) {
      auto const got = run<small>(on, s, in, r);
      int64_t const width = int64_t{rows} * s.value_heads * s.value_dim;
      CHECK(bit_difference(slice(got.out, width, width), std::vector<float>(static_cast<size_t>(width))) == "");
      for (int slot : {0, 1, 2, 4, 6, 7})
        CHECK(bit_difference(slice(got.pool, slot * r.slot_stride, r.slot_stride),
                             slice(r.pool, slot * r.slot_stride, r.slot_stride)) == "");
      CHECK(bit_difference(slice(got.pool, 3 * r.slot_stride, r.slot_stride),
                           slice(r.pool, 3 * r.slot_stride, r.slot_stride)) != "");
    });
  }
}

TEST_CASE("G3 recurrence: a slot beyond 2^31 elements gives the same bits, snapshots too") {
  random_source random(8);
  auto const s = shape_of<small>(1, 1);
  auto near = make_round(random, s, 2, {2});
  near.initial_slot = {0};
  near.snapshot_slot = {1, 2};
  near.pool = random.normals<float>(3 * static_cast<size_t>(near.slot_stride));
  auto far = near;
  far.initial_slot = {2};
  far.snapshot_slot = {3, 1};
  far.slot_stride = (int64_t{1} << 30) + 64;
  auto const in = make_inputs<small>(random, s, 2);
  on_each_executor([&](auto& on) {
    auto const expected = run<small>(on, s, in, near);
    far_memory<float, std::decay_t<decltype(on)>> pool(on,
                                                       static_cast<size_t>(3 * far.slot_stride + s.state_elements()));
    if (pool.data() == nullptr) {
      MESSAGE("skipped on this executor: no room for 13 GB");
      return;
    }
    pool.write(static_cast<size_t>(2 * far.slot_stride), slice(near.pool, 0, near.slot_stride));
    snapshot_operands<small, std::decay_t<decltype(on)>> o(on, s, in, far, 0);
    o.p.state_pool = pool.data();
    o.p.pool_slots = 4;
    must_launch<recurrence_of<small>>(o.p, on);
    CHECK(bit_difference(o.out.read(), expected.out) == "");
    for (int t = 0; t < 2; ++t)
      CHECK(bit_difference(pool.read(static_cast<size_t>(far.snapshot_slot[t] * far.slot_stride), s.state_elements()),
                           slice(expected.pool, near.snapshot_slot[t] * near.slot_stride, near.slot_stride)) == "");
  });
}

TEST_CASE_TEMPLATE("G6 eight rows in one call equal eight calls of one row", Policy, model, thin) {
  random_source random(11);
  auto const s = shape_of<Policy>(1, 2);
  auto const r = make_round(random, s, 8, {8});
  auto const in = make_inputs<Policy>(random, s, 8);
  on_each_executor([&](auto& on) {
    auto const whole = run<Policy>(on, s, in, r);
    auto step = r;
    step.query_start = {0, 1};
    for (int t = 0; t < 8; ++t) {
      // The one row's state goes where the long call's row t put it.
      step.snapshot_slot[0] = r.snapshot_slot[static_cast<size_t>(t)];
      auto const got = run<Policy>(on, s, some_rows(s, in, t, t + 1), step);
      int64_t const width = int64_t{s.value_heads} * s.value_dim;
      REQUIRE(bit_difference(got.out, slice(whole.out, t * width, width)) == "");
      step.pool = got.pool;
      step.initial_slot = {step.snapshot_slot[0]};
    }
    CHECK(bit_difference(step.pool, whole.pool) == "");
  });
}

TEST_CASE("G7 a slot full of NaN bytes started fresh equals a zero state, beside a request that goes on") {
  random_source random(12);
  auto const s = shape_of<small>(1, 2);
  auto r = make_round(random, s, 3, {3, 2});
  r.fresh = {1, 0};
  r.selector = {0, 2};
  auto zero = r;
  zero.fresh.clear();
  for (int64_t i = 0; i < r.slot_stride; ++i) {
    zero.pool[zero.initial_slot[0] * r.slot_stride + i] = 0.0f;
    r.pool[r.initial_slot[0] * r.slot_stride + i] = from_bits(0xffffffffu);
  }
  auto const in = make_inputs<small>(random, s, 5);
  check_against_twin<small>(s, in, r);
  on_each_executor([&](auto& on) {
    auto const got = run<small>(on, s, in, r), expected = run<small>(on, s, in, zero);
    CHECK(bit_difference(got.out, expected.out) == "");
    for (int32_t const slot : r.snapshot_slot)
      CHECK(bit_difference(slice(got.pool, slot * r.slot_stride, r.slot_stride),
                           slice(expected.pool, slot * r.slot_stride, r.slot_stride)) == "");
  });
}

TEST_CASE("G8 value heads pair with key heads in runs") {
  random_source random(13);
  for (int ratio : {2, 3}) {
    auto const s = shape_of<small>(2, 2 * ratio);
    auto const r = make_round(random, s, 3, {3});
    auto const in = make_inputs<small>(random, s, 3);
    on_each_executor([&](auto& on) {
      auto const all = run<small>(on, s, in, r);
      // Each value head alone with the key head it should have.
      for (int head = 0; head < s.value_heads; ++head) {
        auto const one = shape_of<small>(1, 1);
        int const K = s.key_dim, V = s.value_dim;
        reference::recurrence_inputs alone;
        auto const append = [](std::vector<float>& to, std::vector<float> const& from, int at, int n) {
          to.insert(to.end(), from.begin() + at, from.begin() + at + n);
        };
        for (int t = 0; t < 3; ++t) {
          append(alone.q, in.q, (t * 2 + head / ratio) * K, K);
          append(alone.k, in.k, (t * 2 + head / ratio) * K, K);
          append(alone.v, in.v, (t * s.value_heads + head) * V, V);
          alone.g.push_back(in.g[static_cast<size_t>(t * s.value_heads + head)]);
          alone.beta.push_back(in.beta[static_cast<size_t>(t * s.value_heads + head)]);
        }
        auto single = r;
        single.slot_stride = K * V;
        single.pool.clear();
        for (size_t slot = 0; slot < r.pool.size() / r.slot_stride; ++slot)
          append(single.pool, r.pool, static_cast<int>(slot * r.slot_stride) + head * K * V, K * V);
        auto const got = run<small>(on, one, alone, single);
        for (int t = 0; t < 3; ++t)
          CHECK(bit_difference(slice(got.out, t * V, V), slice(all.out, (t * s.value_heads + head) * V, V)) == "");
      }
    });
  }
}

TEST_CASE("G9 a mixed row's padding full of NaN is never read") {
  random_source random(14);
  auto const s = shape_of<model>(1, 2);
  auto const r = make_round(random, s, 2, {2});
  auto const in = make_inputs<model>(random, s, 2);
  on_each_executor([&](auto& on) {
    auto const dense = run<model>(on, s, in, r), padded = run<model>(on, s, in, r, 3136);
    CHECK(bit_difference(padded.out, dense.out) == "");
    CHECK(bit_difference(padded.pool, dense.pool) == "");
  });
}

TEST_CASE("recurrence: with two sets of snapshot slots a state outlives rounds of which nothing is kept") {
  random_source random(19);
  auto const s = shape_of<small>(1, 2);
  int const max_rows = 3;
  // From a fresh start, and from a state that is in the pool.
  for (bool const fresh : {true, false})
    on_each_executor([&](auto& on) {
      auto r = make_round(random, s, max_rows, {max_rows}, 0, 2);
      auto plain = make_round(random, s, 1, {1});  // the kept rows alone, one after the other
      plain.query_start = {0, 1};
      plain.snapshot_slot = plain.initial_slot;
      for (int64_t i = 0; i < s.state_elements(); ++i)
        plain.pool[plain.initial_slot[0] * plain.slot_stride + i] =
            fresh ? 0.0f : r.pool[r.initial_slot[0] * r.slot_stride + i];
      r.fresh = {fresh ? 1 : 0};
      for (int const kept : {0, 0, 2, 0, 0, 3, 1, 0, 2}) {
        CAPTURE(kept);
        auto const in = make_inputs<small>(random, s, max_rows);
        check_against_twin<small>(s, in, r);
        auto const got = run<small>(on, s, in, r);
        r.pool = got.pool;
        int64_t const width = int64_t{s.value_heads} * s.value_dim;
        for (int t = 0; t < kept; ++t) {
          auto const step = run<small>(on, s, some_rows(s, in, t, t + 1), plain);
          REQUIRE(bit_difference(slice(got.out, t * width, width), step.out) == "");
          plain.pool = step.pool;
        }
        r.selector[0] = ratify::device::next_selector(r.selector[0], kept, max_rows, r.sets);
        if (kept > 0) r.fresh = {0};
      }
    });
}

TEST_CASE("recurrence: the selector after a round") {
  using ratify::device::next_selector;
  for (int kept = 0; kept <= 4; ++kept) CHECK(next_selector(3, kept, 4, 1) == kept);
  CHECK(next_selector(0, 2, 4, 2) == 2);  // a round that starts from initial_slot writes the first set
  CHECK(next_selector(2, 4, 4, 2) == 8);
  CHECK(next_selector(4, 1, 4, 2) == 5);
  CHECK(next_selector(5, 1, 4, 2) == 1);
  CHECK(next_selector(8, 3, 4, 2) == 3);
  for (int selector = 0; selector <= 8; ++selector) CHECK(next_selector(selector, 0, 4, 2) == selector);
}
