// SPDX-License-Identifier: Apache-2.0
/// Modes replay and read: the bits of mode snapshots for the same history.
#include <ratify/recurrence.cuh>

#include "support/bits.hpp"
#include "support/far_memory.hpp"
#include "support/random.hpp"
#include "support/recurrence.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

using small_replay = small_recurrence<recurrence_mode::replay>;
using small_read = small_recurrence<recurrence_mode::read>;

}  // namespace

TEST_CASE_TEMPLATE("replay equals its twin bit for bit", Policy, model_recurrence<recurrence_mode::replay>,
                   lanes_recurrence<recurrence_mode::replay>, thin_recurrence<recurrence_mode::replay>,
                   small_recurrence<recurrence_mode::replay>, small_thin_recurrence<recurrence_mode::replay>) {
  random_source random(101);
  for (int round = 0; round < scaled(5); ++round) {
    int const places = random.one_of({16, 32, 64});
    auto const e = random_recurrence_extent<Policy>(random, places / 2, false);
    auto const s = shape_of<Policy>(e.key_heads, e.value_heads);
    int const max_rows = e.max_rows, slots = static_cast<int>(e.counts.size()) + 1;
    auto r = make_replay_round(random, s, places, max_rows, e.counts, slots, random.one_of({0, 1, 64}));
    if (round % 4 == 1) r.ring_count.back() = places - max_rows;  // full
    CAPTURE(s.key_heads);
    CAPTURE(s.value_heads);
    CAPTURE(max_rows);
    CAPTURE(places);
    CAPTURE(slots);
    check_against_twin<Policy>(s, make_inputs<Policy>(random, s, r.query_start.back()), r, random.integer(0, 40));
    count_shape();
  }
}

TEST_CASE("G1 through replay: continuing after any accepted row equals the sequential run over accepted rows only") {
  random_source random(104);
  using policy = model_recurrence<recurrence_mode::replay>;
  using plain_policy = model_recurrence<recurrence_mode::snapshots>;
  auto const s = shape_of<policy>(1, 2);
  auto r = make_replay_round(random, s, 16, 4, {4}, 1);
  r.ring_count = {0};
  r.flush = {0};
  auto const in = make_inputs<policy>(random, s, 4), next = make_inputs<policy>(random, s, 1);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    auto const verified = run<policy>(on, s, in, r);
    CHECK(bit_difference(verified.pool, r.pool) == "");
    for (int accepted = 1; accepted <= 4; ++accepted) {
      // Row by row through snapshots in one slot: the accepted rows and then the new one.
      buffer<float, executor> pool(on, r.pool);
      std::vector<float> before_last;
      std::vector<ratify::f16> last;
      for (int t = 0; t <= accepted; ++t) {
        reference::recurrence_round const step{{0, 1}, {0}, {0}, {}, {0}, 1, {}, r.slot_stride};
        snapshot_operands<plain_policy, executor> o(on, s, t < accepted ? some_rows(s, in, t, t + 1) : next, step, 0);
        o.p.state_pool = pool.data();
        o.p.pool_slots = 1;
        before_last = pool.read();
        must_launch<recurrence_of<plain_policy>>(o.p, on);
        last = o.out.read();
      }
      for (int flush : {0, 1}) {
        auto onward = r;
        onward.pool = verified.pool;
        onward.ring_k = verified.ring_k;
        onward.ring_u = verified.ring_u;
        onward.ring_g = verified.ring_g;
        onward.query_start = {0, 1};
        onward.ring_count = {accepted};
        onward.flush = {flush};
        auto const got = run<policy>(on, s, next, onward);
        CHECK(bit_difference(got.out, last) == "");
        CHECK(bit_difference(got.pool, flush == 1 ? before_last : r.pool) == "");
        // And the state after the new row, taken to the pool by a flush in the round after it.
        auto final = onward;
        final.pool = got.pool;
        final.ring_k = got.ring_k;
        final.ring_u = got.ring_u;
        final.ring_g = got.ring_g;
        if (flush == 1) final.ring_start = {(onward.ring_start[0] + accepted) % r.places};
        final.ring_count = {flush == 1 ? 1 : accepted + 1};
        final.flush = {1};
        CHECK(bit_difference(run<policy>(on, s, next, final).pool, pool.read()) == "");
      }
    }
  });
}

TEST_CASE("G2 replay and read: retired slots read and write nothing") {
  random_source random(105);
  auto const s = shape_of<small_replay>(1, 2);
  for (int rows : {1, 4}) {
    auto r = make_replay_round(random, s, 16, rows, {rows, rows, rows}, 8);
    r.slot = {3, -1, 5};
    r.ring_start[1] = 999;  // of a retired request nothing is looked at
    r.ring_count[1] = -7;
    r.ring_count[0] = 5;
    r.flush = {1, 9, 0};
    r.fresh = {0, 1, 0};
    auto const in = make_inputs<small_replay>(random, s, 3 * rows);
    check_against_twin<small_replay>(s, in, r);
    reference::recurrence_round read;
    read.query_start = r.query_start;
    read.initial_slot = r.slot;
    read.fresh = r.fresh;
    read.max_rows = rows;
    read.pool = r.pool;
    read.slot_stride = r.slot_stride;
    on_each_executor([&](auto& on) {
      auto const got = run<small_replay>(on, s, in, r);
      int64_t const width = int64_t{rows} * s.value_heads * s.value_dim;
      std::vector<float> const zeros(static_cast<size_t>(width));
      CHECK(bit_difference(slice(got.out, width, width), zeros) == "");
      CHECK(bit_difference(slice(run_read<small_read>(on, s, in, read), width, width), zeros) == "");
      for (int slot = 0; slot < 8; ++slot) {
        auto const same = [&](std::vector<float> const& x, std::vector<float> const& y, int64_t stride) {
          return bit_difference(slice(x, slot * stride, stride), slice(y, slot * stride, stride)) == "";
        };
        bool const named = slot == 3 || slot == 5;
        CHECK(same(got.pool, r.pool, r.slot_stride) == (slot != 3));  // the one that is flushed
        CHECK(same(got.ring_k, r.ring_k, r.k_stride) == !named);
        CHECK(same(got.ring_u, r.ring_u, r.u_stride) == !named);
        CHECK(same(got.ring_g, r.ring_g, r.g_stride) == !named);
      }
    });
  }
}

TEST_CASE("G3 replay and read: slots and rings beyond 2^31 elements give the same bits") {
  random_source random(106);
  auto const s = shape_of<small_replay>(1, 1);
  auto near = make_replay_round(random, s, 16, 2, {2}, 1);
  near.ring_count = {3};
  near.flush = {1};
  auto far = near;
  far.slot = {2};
  far.slot_stride = far.k_stride = far.u_stride = far.g_stride = (int64_t{1} << 30) + 64;
  auto const in = make_inputs<small_replay>(random, s, 2);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    auto const expected = run<small_replay>(on, s, in, near);
    size_t const at = static_cast<size_t>(2 * far.slot_stride);
    far_memory<float, executor> pool(on, at + near.pool.size()), k(on, at + near.ring_k.size()),
        u(on, at + near.ring_u.size()), g(on, at + near.ring_g.size());
    if (pool.data() == nullptr || k.data() == nullptr || u.data() == nullptr || g.data() == nullptr) {
      MESSAGE("skipped on this executor: no room for 35 GB");
      return;
    }
    pool.write(at, near.pool);
    k.write(at, near.ring_k);
    u.write(at, near.ring_u);
    g.write(at, near.ring_g);
    {
      row_operands<small_read, executor> o(on, s, in, far.query_start, {}, 2, 0);
      buffer<int32_t, executor> slot(on, far.slot);
      o.p.initial_slot = slot.data();
      o.p.state_pool = pool.data();
      o.p.slot_stride = far.slot_stride;
      o.p.pool_slots = 3;
      must_launch<recurrence_of<small_read>>(o.p, on);
      reference::recurrence_round read{near.query_start, {0}, {}, {}, {}, 2, near.pool, near.slot_stride};
      CHECK(bit_difference(o.out.read(), run_read<small_read>(on, s, in, read)) == "");
    }
    replay_operands<small_replay, executor> o(on, s, in, far);
    o.p.state_pool = pool.data();
    o.p.ring_k.data = k.data();
    o.p.ring_u.data = u.data();
    o.p.ring_g.data = g.data();
    o.p.pool_slots = 3;
    must_launch<recurrence_of<small_replay>>(o.p, on);
    CHECK(bit_difference(o.out.read(), expected.out) == "");
    CHECK(bit_difference(pool.read(at, near.pool.size()), expected.pool) == "");
    CHECK(bit_difference(k.read(at, near.ring_k.size()), expected.ring_k) == "");
    CHECK(bit_difference(u.read(at, near.ring_u.size()), expected.ring_u) == "");
    CHECK(bit_difference(g.read(at, near.ring_g.size()), expected.ring_g) == "");
  });
}

TEST_CASE("G6 eight rows in one call equal eight calls of one row, through replay") {
  random_source random(107);
  using policy = model_recurrence<recurrence_mode::replay>;
  auto const s = shape_of<policy>(1, 2);
  auto r = make_replay_round(random, s, 16, 8, {8}, 1);
  r.ring_count = {2};
  r.flush = {0};
  auto const in = make_inputs<policy>(random, s, 8);
  on_each_executor([&](auto& on) {
    auto const whole = run<policy>(on, s, in, r);
    auto step = r;
    step.query_start = {0, 1};
    for (int t = 0; t < 8; ++t) {
      auto const got = run<policy>(on, s, some_rows(s, in, t, t + 1), step);
      int64_t const width = int64_t{s.value_heads} * s.value_dim;
      REQUIRE(bit_difference(got.out, slice(whole.out, t * width, width)) == "");
      step.pool = got.pool;
      step.ring_k = got.ring_k;
      step.ring_u = got.ring_u;
      step.ring_g = got.ring_g;
      ++step.ring_count[0];
    }
    CHECK(bit_difference(step.ring_k, whole.ring_k) == "");
    CHECK(bit_difference(step.ring_u, whole.ring_u) == "");
    CHECK(bit_difference(step.ring_g, whole.ring_g) == "");
  });
}

TEST_CASE("G7 replay and read: a slot full of NaN bytes started fresh equals a zero state, which replay writes") {
  random_source random(108);
  auto const s = shape_of<small_replay>(1, 2);
  for (int flush : {0, 1}) {
    auto r = make_replay_round(random, s, 16, 3, {3, 2}, 2);
    r.fresh = {1, 0};
    r.ring_count = {0, 5};
    r.flush = {flush, 0};
    auto zero = r;
    zero.fresh.clear();
    float const nan = from_bits(0xffffffffu);
    for (int64_t i = 0; i < r.slot_stride; ++i) zero.pool[r.slot[0] * r.slot_stride + i] = 0.0f;
    for (int64_t i = 0; i < r.slot_stride; ++i) r.pool[r.slot[0] * r.slot_stride + i] = nan;
    for (auto* ring : {&r.ring_k, &zero.ring_k})
      for (int64_t i = 0; i < r.k_stride; ++i) (*ring)[r.slot[0] * r.k_stride + i] = nan;
    auto const in = make_inputs<small_replay>(random, s, 5);
    check_against_twin<small_replay>(s, in, r);
    reference::recurrence_round read{r.query_start, r.slot, {}, r.fresh, {}, 3, r.pool, r.slot_stride};
    on_each_executor([&](auto& on) {
      auto const got = run<small_replay>(on, s, in, r), expected = run<small_replay>(on, s, in, zero);
      CHECK(bit_difference(got.out, expected.out) == "");
      CHECK(bit_difference(got.pool, expected.pool) == "");
      CHECK(bit_difference(got.ring_k, expected.ring_k) == "");
      CHECK(bit_difference(got.ring_u, expected.ring_u) == "");
      CHECK(bit_difference(got.ring_g, expected.ring_g) == "");
      int64_t const rows = 3 * s.value_heads * s.value_dim;
      CHECK(bit_difference(slice(run_read<small_read>(on, s, in, read), 0, rows), slice(expected.out, 0, rows)) == "");
    });
  }
}

TEST_CASE("G8 value heads pair with key heads in runs, in the rings too") {
  random_source random(109);
  for (int ratio : {2, 3}) {
    auto const s = shape_of<small_replay>(2, 2 * ratio), one = shape_of<small_replay>(1, 1);
    auto const r = make_replay_round(random, s, 16, 3, {3}, 1);
    auto const in = make_inputs<small_replay>(random, s, 3);
    int const K = s.key_dim, V = s.value_dim, HV = s.value_heads;
    auto const part = [](std::vector<float> const& from, int blocks, int stride, int at, int n) {
      std::vector<float> v;
      for (int i = 0; i < blocks; ++i) v.insert(v.end(), &from[i * stride + at], &from[i * stride + at] + n);
      return v;
    };
    on_each_executor([&](auto& on) {
      auto const all = run<small_replay>(on, s, in, r);
      // Each value head alone with the key head it should have.
      for (int head = 0; head < HV; ++head) {
        int const key = head / ratio;
        reference::recurrence_inputs const alone{part(in.q, 3, 2 * K, key * K, K), part(in.k, 3, 2 * K, key * K, K),
                                                 part(in.v, 3, HV * V, head * V, V), part(in.g, 3, HV, head, 1),
                                                 part(in.beta, 3, HV, head, 1)};
        auto single = r;
        single.pool = slice(r.pool, head * K * V, K * V);
        single.ring_k = part(r.ring_k, 16, 2 * K, key * K, K);
        single.ring_u = part(r.ring_u, 16, HV * V, head * V, V);
        single.ring_g = part(r.ring_g, 16, HV, head, 1);
        single.slot_stride = K * V;
        single.k_stride = 16 * K;
        single.u_stride = 16 * V;
        single.g_stride = 16;
        auto const got = run<small_replay>(on, one, alone, single);
        CHECK(bit_difference(got.out, part(all.out, 3, HV * V, head * V, V)) == "");
        CHECK(bit_difference(got.pool, slice(all.pool, head * K * V, K * V)) == "");
        CHECK(bit_difference(got.ring_k, part(all.ring_k, 16, 2 * K, key * K, K)) == "");
        CHECK(bit_difference(got.ring_u, part(all.ring_u, 16, HV * V, head * V, V)) == "");
        CHECK(bit_difference(got.ring_g, part(all.ring_g, 16, HV, head, 1)) == "");
      }
    });
  }
}

TEST_CASE("G9 replay: a mixed row's padding full of NaN is never read") {
  random_source random(110);
  using policy = model_recurrence<recurrence_mode::replay>;
  auto const s = shape_of<policy>(1, 2);
  auto const r = make_replay_round(random, s, 16, 2, {2}, 1);
  auto const in = make_inputs<policy>(random, s, 2);
  on_each_executor([&](auto& on) {
    auto const dense = run<policy>(on, s, in, r), padded = run<policy>(on, s, in, r, 3136);
    CHECK(bit_difference(padded.out, dense.out) == "");
    CHECK(bit_difference(padded.pool, dense.pool) == "");
    CHECK(bit_difference(padded.ring_k, dense.ring_k) == "");
    CHECK(bit_difference(padded.ring_u, dense.ring_u) == "");
  });
}

TEST_CASE("replay: NaN and infinities are data, and stay in their column") {
  random_source random(111);
  auto const s = shape_of<small_replay>(1, 1);
  auto r = make_replay_round(random, s, 16, 2, {2}, 1);
  r.ring_count = {3};
  r.flush = {1};
  auto in = make_inputs<small_replay>(random, s, 2);
  in.v[5] = NAN;
  in.v[6] = INFINITY;
  in.g[1] = -INFINITY;
  check_against_twin<small_replay>(s, in, r);
  // A round after it finds the canonical NaN in the rings.
  reference::recurrence_replay(s, in, r);
  r.ring_count = {5};
  check_against_twin<small_replay>(s, make_inputs<small_replay>(random, s, 2), r);
}
