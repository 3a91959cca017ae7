// SPDX-License-Identifier: Apache-2.0
/// The gated delta rule in modes replay and read: the bits of mode snapshots for the same history.
#include <ratify/recurrence.cuh>

#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/far_memory.hpp"
#include "support/random.hpp"
#include "support/ranges.hpp"
#include "support/recurrence.hpp"
#include "support/refusal.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;
using ratify::recurrence_layout;
using ratify::recurrence_mode;

/// One arithmetic and schedule in each mode.
template <recurrence_mode Mode>
struct model_policy : ratify::recurrence_policy {
  static constexpr auto mode = Mode;
};
template <recurrence_mode Mode>
struct vk_policy : model_policy<Mode> {
  using input_format = ratify::bf16;
  using output_format = float;
  static constexpr auto state_layout = recurrence_layout::vk;
};
/// The schedules of cards, on fibers too.
template <recurrence_mode Mode>
struct lanes_policy : model_policy<Mode> {
  static constexpr int column_threads = 4;
};
template <recurrence_mode Mode>
struct thin_policy : vk_policy<Mode> {
  static constexpr int value_block = 2, column_threads = 8;
};
template <recurrence_mode Mode>
struct small_policy : model_policy<Mode> {
  using input_format = ratify::bf16;
  using output_format = float;
  static constexpr int key_dim = 64, value_dim = 64;
};
/// Ring rows in several pieces: 8 threads a block.
template <recurrence_mode Mode>
struct small_thin_policy : small_policy<Mode> {
  static constexpr bool l2norm = false;
  static constexpr int value_block = 2, column_threads = 4;
};

using small_replay = small_policy<recurrence_mode::replay>;
using small_read = small_policy<recurrence_mode::read>;

/// And what mode replay takes.
template <class Policy, class Executor>
struct replay_operands : row_operands<Policy, Executor> {
  replay_operands(Executor& on, reference::recurrence_shape const& s, reference::recurrence_inputs const& in,
                  reference::replay_round const& r, int padding = 0)
      : row_operands<Policy, Executor>(on, s, in, r.query_start, r.fresh, r.max_rows, padding),
        slot(on, r.slot),
        ring_start(on, r.ring_start),
        ring_count(on, r.ring_count),
        flush(on, r.flush) {
    this->p.slot_stride = r.slot_stride;
    this->p.slot = slot.data();
    this->p.ring_start = ring_start.data();
    this->p.ring_count = ring_count.data();
    this->p.flush = flush.data();
    this->p.ring_places = r.places;
    this->p.ring_k.stride = r.k_stride;
    this->p.ring_u.stride = r.u_stride;
    this->p.ring_g.stride = r.g_stride;
  }
  buffer<int32_t, Executor> slot, ring_start, ring_count, flush;
};

template <class Policy>
struct outcome {
  std::vector<typename Policy::output_format> out;
  std::vector<float> pool, ring_k, ring_u, ring_g;
};

template <class Policy, class Executor>
outcome<Policy> run(Executor& on, reference::recurrence_shape const& s, reference::recurrence_inputs const& in,
                    reference::replay_round const& r, int padding = 0) {
  replay_operands<Policy, Executor> o(on, s, in, r, padding);
  buffer<float, Executor> pool(on, r.pool), k(on, r.ring_k), u(on, r.ring_u), g(on, r.ring_g);
  o.p.state_pool = pool.data();
  o.p.ring_k.data = k.data();
  o.p.ring_u.data = u.data();
  o.p.ring_g.data = g.data();
  o.p.slots = static_cast<int64_t>(r.pool.size()) / r.slot_stride;
  auto const status = launch<ratify::recurrence<Policy>>(o.p, on);
  REQUIRE_MESSAGE(status, status.reason());
  return {o.out.read(), pool.read(), k.read(), u.read(), g.read()};
}

/// Mode read, from the slots that the round names.
template <class Policy, class Executor>
std::vector<typename Policy::output_format> run_read(Executor& on, reference::recurrence_shape const& s,
                                                     reference::recurrence_inputs const& in,
                                                     reference::recurrence_round const& r) {
  row_operands<Policy, Executor> o(on, s, in, r.query_start, r.fresh, r.max_rows, 0);
  buffer<int32_t, Executor> slot(on, r.initial_slot);
  buffer<float, Executor> pool(on, r.pool);
  o.p.initial_slot = slot.data();
  o.p.state_pool = pool.data();
  o.p.slot_stride = r.slot_stride;
  o.p.slots = static_cast<int64_t>(r.pool.size()) / r.slot_stride;
  auto const status = launch<ratify::recurrence<Policy>>(o.p, on);
  REQUIRE_MESSAGE(status, status.reason());
  CHECK(bit_difference(pool.read(), r.pool) == "");
  return o.out.read();
}

/// Requests of the given row counts over `slots` slots, each with a slot of its own and kept rows in its ring.
reference::replay_round make_round(random_source& random, reference::recurrence_shape const& s, int places,
                                   int max_rows, std::vector<int> const& counts, int slots, int slot_padding = 0) {
  reference::replay_round r;
  r.places = places;
  r.max_rows = max_rows;
  r.slot_stride = s.state_elements() + slot_padding;
  r.k_stride = int64_t{places} * s.key_heads * s.key_dim + slot_padding;
  r.u_stride = int64_t{places} * s.value_heads * s.value_dim + slot_padding;
  r.g_stride = int64_t{places} * s.value_heads + slot_padding;
  r.pool = random.normals<float>(static_cast<size_t>(slots * r.slot_stride), 0.3f);
  r.ring_k = random.normals<float>(static_cast<size_t>(slots * r.k_stride), 0.1f);
  r.ring_u = random.normals<float>(static_cast<size_t>(slots * r.u_stride), 0.5f);
  r.ring_g = random.uniforms<float>(static_cast<size_t>(slots * r.g_stride), -0.5f, 0.0f);
  std::vector<int32_t> order(static_cast<size_t>(slots));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.integer(0, static_cast<int>(i))]);
  r.query_start.push_back(0);
  for (size_t i = 0; i < counts.size(); ++i) {
    r.query_start.push_back(r.query_start.back() + counts[i]);
    r.slot.push_back(order[i]);
    r.ring_start.push_back(random.integer(0, places - 1));
    r.ring_count.push_back(random.integer(0, places - counts[i]));
    r.flush.push_back(random.integer(0, 1));
  }
  return r;
}

template <class Policy, class Executor>
void check_outcome(Executor& on, reference::recurrence_shape const& s, reference::recurrence_inputs const& in,
                   reference::replay_round const& r, std::vector<float> const& out,
                   reference::replay_round const& expected, int padding = 0) {
  auto const got = run<Policy>(on, s, in, r, padding);
  CHECK(bit_difference(got.out, rounded<typename Policy::output_format>(out)) == "");
  CHECK(bit_difference(got.pool, expected.pool) == "");
  CHECK(bit_difference(got.ring_k, expected.ring_k) == "");
  CHECK(bit_difference(got.ring_u, expected.ring_u) == "");
  CHECK(bit_difference(got.ring_g, expected.ring_g) == "");
}

template <class Policy>
void check_against_twin(reference::recurrence_shape const& s, reference::recurrence_inputs const& in,
                        reference::replay_round const& r, int padding = 0) {
  auto expected = r;
  auto const out = reference::recurrence_replay(s, in, expected);
  on_each_executor([&](auto& on) { check_outcome<Policy>(on, s, in, r, out, expected, padding); });
}

struct history_shape {
  int key_heads, value_heads, max_rows, places, requests, rounds;
};

/// Plays rounds of random row counts, accepted counts, flushes, fresh and retired requests through all modes.
template <template <recurrence_mode> class Policy, class Executor>
void play(Executor& on, random_source& random, history_shape const& h) {
  using snapshots_policy = Policy<recurrence_mode::snapshots>;
  using replay_policy = Policy<recurrence_mode::replay>;
  using read_policy = Policy<recurrence_mode::read>;
  auto const s = shape_of<replay_policy>(h.key_heads, h.value_heads);
  auto const B = static_cast<size_t>(h.requests), T = static_cast<size_t>(h.max_rows);
  int64_t const state = s.state_elements();

  reference::recurrence_round a;
  a.max_rows = h.max_rows;
  a.slot_stride = state + 32;
  auto b = make_round(random, s, h.places, h.max_rows, std::vector<int>(B, 0), h.requests + 1, 8);
  int64_t const snapshot_slots = h.requests * (h.max_rows + 1);
  using memory = far_memory<float, Executor>;
  memory states(on, static_cast<size_t>(snapshot_slots * a.slot_stride)),
      checkpoints(on, static_cast<size_t>((h.requests + 1) * b.slot_stride));
  // Nothing has been written yet: NaN wherever a launch may not look.
  states.write(0, std::vector<float>(static_cast<size_t>(snapshot_slots * a.slot_stride), NAN));
  checkpoints.write(0, std::vector<float>(static_cast<size_t>((h.requests + 1) * b.slot_stride), NAN));
  auto const not_a_number = [](std::vector<float> const& v) { return std::vector<float>(v.size(), NAN); };
  buffer<float, Executor> ring_k(on, not_a_number(b.ring_k)), ring_u(on, not_a_number(b.ring_u)),
      ring_g(on, not_a_number(b.ring_g));
  for (size_t i = 0; i < B; ++i) {
    a.initial_slot.push_back(static_cast<int32_t>(i * (T + 1)));
    for (size_t t = 0; t < T; ++t) a.snapshot_slot.push_back(static_cast<int32_t>(i * (T + 1) + t + 1));
  }
  a.selector.assign(B, 0);
  a.fresh.assign(B, 0);
  b.fresh.assign(B, 0);
  b.ring_count.assign(B, 0);
  b.flush.assign(B, 0);
  std::vector<bool> begun(B, false);

  for (int round = 0; round < h.rounds; ++round) {
    CAPTURE(round);
    auto now_a = a;
    auto now_b = b;
    now_a.query_start = {0};
    std::vector<int> counts(B);
    for (size_t i = 0; i < B; ++i) {
      int& n = counts[i];
      n = random.integer(0, 3) == 0 ? 0 : random.integer(1, h.max_rows);
      if (round == 0 && i == 0) n = h.max_rows;
      now_a.query_start.push_back(now_a.query_start.back() + n);
      bool const retired = n > 0 && random.integer(0, 9) == 0;
      if (retired) now_a.initial_slot[i] = now_b.slot[i] = -1;
      bool const fresh = n > 0 && !retired && (!begun[i] || random.integer(0, 14) == 0);
      if (fresh) {
        begun[i] = true;
        now_a.fresh[i] = now_b.fresh[i] = 1;
        now_a.selector[i] = now_b.ring_count[i] = 0;
        now_b.ring_start[i] = random.integer(0, h.places - 1);
      }
      // The next round must find room too.
      now_b.flush[i] = now_b.ring_count[i] + n > h.places - h.max_rows || random.integer(0, 3) == 0;
    }
    now_b.query_start = now_a.query_start;
    int const rows = now_a.query_start.back();
    if (rows == 0) continue;
    auto const in = make_inputs<replay_policy>(random, s, rows);

    snapshot_operands<snapshots_policy, Executor> with_snapshots(on, s, in, now_a, 8);
    with_snapshots.p.state_pool = states.data();
    with_snapshots.p.slots = snapshot_slots;
    replay_operands<replay_policy, Executor> with_rings(on, s, in, now_b, 8);
    with_rings.p.state_pool = checkpoints.data();
    with_rings.p.ring_k.data = ring_k.data();
    with_rings.p.ring_u.data = ring_u.data();
    with_rings.p.ring_g.data = ring_g.data();
    with_rings.p.slots = h.requests + 1;

    auto const current = [&](size_t i) {
      return now_a.selector[i] == 0 ? now_a.initial_slot[i] : now_a.snapshot_slot[i * T + now_a.selector[i] - 1];
    };
    // The states before the snapshots of this round take their places.
    std::vector<std::vector<float>> before(B);
    for (size_t i = 0; i < B; ++i) {
      bool const in_round = counts[i] > 0 && now_a.initial_slot[i] != -1;
      if (in_round && now_a.fresh[i] == 1)
        before[i].assign(static_cast<size_t>(state), 0.0f);
      else if (in_round && now_b.flush[i] == 1)
        before[i] = states.read(static_cast<size_t>(current(i) * a.slot_stride), static_cast<size_t>(state));
    }
    std::vector<typename read_policy::output_format> only_read;
    if (round % 10 == 3) {
      row_operands<read_policy, Executor> o(on, s, in, now_a.query_start, now_a.fresh, h.max_rows, 0);
      std::vector<int32_t> from;
      for (size_t i = 0; i < B; ++i) from.push_back(now_a.initial_slot[i] == -1 ? -1 : current(i));
      buffer<int32_t, Executor> slot(on, from);
      o.p.initial_slot = slot.data();
      o.p.state_pool = states.data();
      o.p.slot_stride = a.slot_stride;
      o.p.slots = snapshot_slots;
      auto const status = launch<ratify::recurrence<read_policy>>(o.p, on);
      REQUIRE_MESSAGE(status, status.reason());
      only_read = o.out.read();
    }
    auto const first = launch<ratify::recurrence<snapshots_policy>>(with_snapshots.p, on);
    REQUIRE_MESSAGE(first, first.reason());
    auto const second = launch<ratify::recurrence<replay_policy>>(with_rings.p, on);
    REQUIRE_MESSAGE(second, second.reason());
    auto const out = with_snapshots.out.read();
    REQUIRE(bit_difference(with_rings.out.read(), out) == "");
    if (!only_read.empty()) REQUIRE(bit_difference(only_read, out) == "");

    for (size_t i = 0; i < B; ++i) {
      int const n = counts[i];
      if (n == 0 || now_a.initial_slot[i] == -1) continue;
      bool const written = now_b.flush[i] == 1 || now_b.fresh[i] == 1;
      if (written)
        REQUIRE(
            bit_difference(checkpoints.read(static_cast<size_t>(b.slot[i] * b.slot_stride), static_cast<size_t>(state)),
                           before[i]) == "");
      int const accepted = random.integer(1, n);
      a.selector[i] = accepted;
      b.ring_start[i] = now_b.ring_start[i];
      b.ring_count[i] = now_b.ring_count[i];
      if (written) {
        b.ring_start[i] = (b.ring_start[i] + b.ring_count[i]) % h.places;
        b.ring_count[i] = 0;
      }
      b.ring_count[i] += accepted;
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("replay equals its twin bit for bit", Policy, model_policy<recurrence_mode::replay>,
                   lanes_policy<recurrence_mode::replay>, thin_policy<recurrence_mode::replay>,
                   small_policy<recurrence_mode::replay>, small_thin_policy<recurrence_mode::replay>) {
  random_source random(101);
  for (int round = 0; round < scaled(5); ++round) {
    int const places = random.one_of({16, 32, 64});
    auto const e = random_recurrence_extent<Policy>(random, places / 2, false);
    auto const s = shape_of<Policy>(e.key_heads, e.value_heads);
    int const max_rows = e.max_rows, slots = static_cast<int>(e.counts.size()) + 1;
    auto r = make_round(random, s, places, max_rows, e.counts, slots, random.one_of({0, 1, 64}));
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

TEST_CASE("replay and read equal snapshots over histories of 50 rounds, at each TP") {
  random_source random(102);
  on_each_executor([&](auto& on) {
    play<model_policy>(on, random, {2, 6, 8, random.one_of({16, 32, 64}), 3, 50});
    play<vk_policy>(on, random, {4, 12, 4, random.one_of({16, 32}), 2, scaled(50)});
    play<model_policy>(on, random, {8, 24, 2, 16, 2, scaled(50)});
    play<vk_policy>(on, random, {16, 48, 1, 16, 2, scaled(50)});
  });
}

TEST_CASE("replay and read equal snapshots over histories of rows 1 to 32") {
  random_source random(103);
  on_each_executor([&](auto& on) {
    play<small_policy>(on, random, {1, 3, 32, 64, 3, 50});
    for (int rows = 1; rows < 32; ++rows)
      play<small_policy>(on, random, {1, random.integer(1, 2), rows, rows <= 8 ? 16 : rows <= 16 ? 32 : 64, 2, 4});
    play<small_thin_policy>(on, random, {1, 2, 5, 16, 2, scaled(10)});
  });
}

TEST_CASE("G1 through replay: continuing after any accepted row equals the sequential run over accepted rows only") {
  random_source random(104);
  using policy = model_policy<recurrence_mode::replay>;
  using plain_policy = model_policy<recurrence_mode::snapshots>;
  auto const s = shape_of<policy>(1, 2);
  auto r = make_round(random, s, 16, 4, {4}, 1);
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
        o.p.slots = 1;
        before_last = pool.read();
        auto const status = launch<ratify::recurrence<plain_policy>>(o.p, on);
        REQUIRE_MESSAGE(status, status.reason());
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
    auto r = make_round(random, s, 16, rows, {rows, rows, rows}, 8);
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
  auto near = make_round(random, s, 16, 2, {2}, 1);
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
      auto const status = launch<ratify::recurrence<small_read>>(o.p, on);
      REQUIRE_MESSAGE(status, status.reason());
      reference::recurrence_round read{near.query_start, {0}, {}, {}, {}, 2, near.pool, near.slot_stride};
      CHECK(bit_difference(o.out.read(), run_read<small_read>(on, s, in, read)) == "");
    }
    replay_operands<small_replay, executor> o(on, s, in, far);
    o.p.state_pool = pool.data();
    o.p.ring_k.data = k.data();
    o.p.ring_u.data = u.data();
    o.p.ring_g.data = g.data();
    auto const status = launch<ratify::recurrence<small_replay>>(o.p, on);
    REQUIRE_MESSAGE(status, status.reason());
    CHECK(bit_difference(o.out.read(), expected.out) == "");
    CHECK(bit_difference(pool.read(at, near.pool.size()), expected.pool) == "");
    CHECK(bit_difference(k.read(at, near.ring_k.size()), expected.ring_k) == "");
    CHECK(bit_difference(u.read(at, near.ring_u.size()), expected.ring_u) == "");
    CHECK(bit_difference(g.read(at, near.ring_g.size()), expected.ring_g) == "");
  });
}

TEST_CASE("G6 eight rows in one call equal eight calls of one row, through replay") {
  random_source random(107);
  using policy = model_policy<recurrence_mode::replay>;
  auto const s = shape_of<policy>(1, 2);
  auto r = make_round(random, s, 16, 8, {8}, 1);
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
    auto r = make_round(random, s, 16, 3, {3, 2}, 2);
    r.fresh = {1, 0};
    r.ring_count = {0, 5};
    r.flush = {flush, 0};
    auto zero = r;
    zero.fresh.clear();
    float const nan = ratify::detail::from_bits(0xffffffffu);
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
    auto const r = make_round(random, s, 16, 3, {3}, 1);
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
  using policy = model_policy<recurrence_mode::replay>;
  auto const s = shape_of<policy>(1, 2);
  auto const r = make_round(random, s, 16, 2, {2}, 1);
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
  auto r = make_round(random, s, 16, 2, {2}, 1);
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

TEST_CASE("replay and read: ill-formed requests give zeros and write nothing, those without rows are not touched") {
  random_source random(112);
  auto const s = shape_of<small_replay>(1, 1);
  auto const good = make_round(random, s, 16, 4, {2, 4, 3}, 3);
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

TEST_CASE("replay and read: a refused launch says why") {
  using operation = ratify::recurrence<model_policy<recurrence_mode::replay>>;
  operation::params good;
  int32_t const index = 0;
  float number = 0.0f;
  good.rows = 8;
  good.requests = 1;
  good.key_heads = 8;
  good.value_heads = 24;
  good.max_rows = 8;
  good.slot_stride = 24 * 128 * 128;
  good.g = good.beta = &number;
  good.slot = good.ring_start = good.ring_count = good.flush = &index;
  good.ring_places = 16;
  good.ring_k = {&number, 16 * 8 * 128};
  good.ring_u = {&number, 16 * 24 * 128};
  good.ring_g = {&number, 16 * 24};
  auto const reason = [&](auto change) { return refusal<operation>(good, change); };
  CHECK(reason([](auto&) {}) == "");
  std::string const selectors =
      "ratify::recurrence: a selector is missing; mode snapshots takes initial_slot, selector and snapshot_slot, mode "
      "replay slot, ring_start, ring_count and flush, mode read initial_slot";
  CHECK(reason([](auto& p) { p.slot = nullptr; }) == selectors);
  CHECK(reason([](auto& p) { p.ring_start = nullptr; }) == selectors);
  CHECK(reason([](auto& p) { p.ring_count = nullptr; }) == selectors);
  CHECK(reason([](auto& p) { p.flush = nullptr; }) == selectors);
  std::string const rings = "ratify::recurrence: mode replay needs ring_k, ring_u and ring_g";
  CHECK(reason([](auto& p) { p.ring_k.data = nullptr; }) == rings);
  CHECK(reason([](auto& p) { p.ring_u.data = nullptr; }) == rings);
  CHECK(reason([](auto& p) { p.ring_g.data = nullptr; }) == rings);
  for (int places : {0, 8, 15, 48, 128, -16})
    CHECK(reason([&](auto& p) { p.ring_places = places; }) == "ratify::recurrence: ring_places must be 16, 32 or 64");
  CHECK(reason([](auto& p) { p.max_rows = 9; }) ==
        "ratify::recurrence: ring_places must be at least 2 * max_rows; take a longer ring or fewer rows");
  std::string const strides =
      "ratify::recurrence: ring strides must be at least ring_places * key_heads * key_dim (ring_k), "
      "ring_places * value_heads * value_dim (ring_u) and ring_places * value_heads (ring_g) elements";
  CHECK(reason([](auto& p) { --p.ring_k.stride; }) == strides);
  CHECK(reason([](auto& p) { --p.ring_u.stride; }) == strides);
  CHECK(reason([](auto& p) { --p.ring_g.stride; }) == strides);

  using read = ratify::recurrence<model_policy<recurrence_mode::read>>;
  read::params p;
  p.rows = p.requests = p.key_heads = p.value_heads = p.max_rows = 1;
  p.slot_stride = 128 * 128;
  p.g = p.beta = &number;
  CHECK(read::can_launch(p, host()).reason() == selectors);
  p.initial_slot = &index;
  CHECK(read::can_launch(p, host()));
}
