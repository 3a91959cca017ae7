// SPDX-License-Identifier: Apache-2.0
/// Histories of rounds through all modes at once: the same bits in each.
#include <ratify/recurrence.cuh>

#include "support/far_memory.hpp"
#include "support/random.hpp"
#include "support/recurrence.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

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
  auto b = make_replay_round(random, s, h.places, h.max_rows, std::vector<int>(B, 0), h.requests + 1, 8);
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
    with_snapshots.p.pool_slots = snapshot_slots;
    replay_operands<replay_policy, Executor> with_rings(on, s, in, now_b, 8);
    with_rings.p.state_pool = checkpoints.data();
    with_rings.p.ring_k.data = ring_k.data();
    with_rings.p.ring_u.data = ring_u.data();
    with_rings.p.ring_g.data = ring_g.data();
    with_rings.p.pool_slots = h.requests + 1;

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
      o.p.pool_slots = snapshot_slots;
      must_launch<recurrence_of<read_policy>>(o.p, on);
      only_read = o.out.read();
    }
    must_launch<recurrence_of<snapshots_policy>>(with_snapshots.p, on);
    must_launch<recurrence_of<replay_policy>>(with_rings.p, on);
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

TEST_CASE("replay and read equal snapshots over histories of 50 rounds, at each TP") {
  random_source random(102);
  on_each_executor([&](auto& on) {
    play<model_recurrence>(on, random, {2, 6, 8, random.one_of({16, 32, 64}), 3, 50});
    play<vk_recurrence>(on, random, {4, 12, 4, random.one_of({16, 32}), 2, scaled(50)});
    play<model_recurrence>(on, random, {8, 24, 2, 16, 2, scaled(50)});
    play<vk_recurrence>(on, random, {16, 48, 1, 16, 2, scaled(50)});
  });
}

TEST_CASE("replay and read equal snapshots over histories of rows 1 to 32") {
  random_source random(103);
  on_each_executor([&](auto& on) {
    play<small_recurrence>(on, random, {1, 3, 32, 64, 3, 50});
    for (int rows = 1; rows < 32; ++rows)
      play<small_recurrence>(on, random, {1, random.integer(1, 2), rows, rows <= 8 ? 16 : rows <= 16 ? 32 : 64, 2, 4});
    play<small_thin_recurrence>(on, random, {1, 2, 5, 16, 2, scaled(10)});
  });
}
