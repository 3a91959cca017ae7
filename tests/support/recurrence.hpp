// SPDX-License-Identifier: Apache-2.0
/// The gated delta rule in tests: policies, operands made at random and put where an executor can reach them, launches
/// and their comparison with the twin.
#pragma once

#include <ratify/recurrence.cuh>

#include "../reference/recurrence.hpp"
#include "compare.hpp"
#include "executors.hpp"
#include "random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace ratify_test {

using ratify::recurrence_layout;
using ratify::recurrence_mode;

template <class Policy>
using recurrence_of = ratify::operation_with<ratify::recurrence, Policy>;

// Policies: one arithmetic and schedule each, in every mode.

/// The model's own.
template <recurrence_mode Mode = recurrence_mode::snapshots>
using model_recurrence = ratify::recurrence_policy<ratify::mode<Mode>>;
/// With the schedule of a card, on fibers too.
template <recurrence_mode Mode = recurrence_mode::snapshots>
using lanes_recurrence = ratify::recurrence_policy<ratify::mode<Mode>, ratify::column_threads<4>>;
/// The other layout.
template <recurrence_mode Mode = recurrence_mode::snapshots>
using vk_recurrence =
    ratify::recurrence_policy<ratify::mode<Mode>, ratify::input_format<ratify::bf16>, ratify::output_format<float>,
                              ratify::state_layout<recurrence_layout::vk>>;
/// And half a warp per block.
template <recurrence_mode Mode = recurrence_mode::snapshots>
using thin_recurrence =
    ratify::recurrence_policy<ratify::mode<Mode>, ratify::input_format<ratify::bf16>, ratify::output_format<float>,
                              ratify::state_layout<recurrence_layout::vk>, ratify::value_block<2>,
                              ratify::column_threads<8>>;
/// Small heads.
template <recurrence_mode Mode, class... Knobs>
using small_recurrence_with =
    ratify::recurrence_policy<ratify::mode<Mode>, ratify::input_format<ratify::bf16>, ratify::output_format<float>,
                              ratify::key_dim<64>, ratify::value_dim<64>, Knobs...>;
template <recurrence_mode Mode = recurrence_mode::snapshots>
using small_recurrence = small_recurrence_with<Mode>;
/// Under a schedule of the card's.
template <int ValueBlock, int ColumnThreads>
using small_recurrence_on = small_recurrence_with<recurrence_mode::snapshots, ratify::value_block<ValueBlock>,
                                                  ratify::column_threads<ColumnThreads>>;
/// On 8 threads per block, so that ring rows come in several pieces.
template <recurrence_mode Mode = recurrence_mode::snapshots>
using small_thin_recurrence =
    small_recurrence_with<Mode, ratify::l2norm<false>, ratify::value_block<2>, ratify::column_threads<4>>;

// Operands.

template <class Policy>
reference::recurrence_shape shape_of(int key_heads, int value_heads) {
  reference::recurrence_shape s;
  s.key_heads = key_heads;
  s.value_heads = value_heads;
  s.key_dim = Policy::key_dim;
  s.value_dim = Policy::value_dim;
  s.l2norm = Policy::l2norm;
  s.vk = Policy::state_layout == ratify::recurrence_layout::vk;
  s.scale = 1.0f / std::sqrt(static_cast<float>(s.key_dim));
  return s;
}

/// Heads, rows and requests of a launch: a tensor-parallel shard's heads or others, 1 to 32 rows, 1 to 16 requests,
/// some of them without rows; as many as keep the states of a launch small.
struct recurrence_extent {
  int key_heads, value_heads, max_rows;
  std::vector<int> counts;
};
template <class Policy>
recurrence_extent random_recurrence_extent(random_source& random, int most_rows, bool slot_per_row) {
  constexpr int64_t most_elements = 1 << 20;
  recurrence_extent e;
  int const ratio = random.one_of({1, 2, 3, 3, 3, 4});
  e.key_heads = random.one_of({1, 1, 2, 2, 3, 4, 8, 16});
  e.max_rows = std::min(most_rows, random.one_of({1, 2, 3, 8, 8, 11, random.integer(1, 32), 32}));
  int64_t const head = int64_t{Policy::key_dim} * Policy::value_dim;
  // What a request costs in heads: its slots, or the rows that may be worked out on its one state.
  int64_t const most = std::max<int64_t>(1, most_elements / head / (slot_per_row ? e.max_rows + 1 : 2 * most_rows));
  if (e.key_heads * ratio > most) e.key_heads = random.one_of({1, 1, 2});
  e.value_heads = e.key_heads * ratio;
  int const requests = static_cast<int>(std::max<int64_t>(
      1, std::min<int64_t>(random.one_of({1, 2, 3, 5, random.integer(1, 16), 16}), most / e.value_heads)));
  for (int r = 0; r < requests; ++r) e.counts.push_back(random.integer(0, e.max_rows));
  e.counts.back() = e.max_rows;
  return e;
}

/// Values of a storage format, as FP32.
template <class Format>
std::vector<float> values(random_source& random, size_t n, float deviation) {
  std::vector<float> v;
  for (auto const x : random.normals<Format>(n, deviation)) v.push_back(ratify::to_float(x));
  return v;
}

template <class Policy>
reference::recurrence_inputs make_inputs(random_source& random, reference::recurrence_shape const& s, int rows) {
  using input = typename Policy::input_format;
  // Keys that are not normalised have about unit length, or the state would explode.
  float const deviation = s.l2norm ? 1.0f : 0.1f;
  size_t const n = static_cast<size_t>(rows);
  return {values<input>(random, n * s.key_heads * s.key_dim, deviation),
          values<input>(random, n * s.key_heads * s.key_dim, deviation),
          values<input>(random, n * s.value_heads * s.value_dim, 1.0f),
          random.uniforms<float>(n * s.value_heads, -0.5f, 0.0f),
          random.uniforms<float>(n * s.value_heads, 0.0f, 1.0f)};
}

inline reference::recurrence_inputs some_rows(reference::recurrence_shape const& s,
                                              reference::recurrence_inputs const& in, int begin, int end) {
  auto const part = [&](std::vector<float> const& v, int width) {
    return std::vector<float>(v.begin() + begin * width, v.begin() + end * width);
  };
  return {part(in.q, s.key_heads * s.key_dim), part(in.k, s.key_heads * s.key_dim),
          part(in.v, s.value_heads * s.value_dim), part(in.g, s.value_heads), part(in.beta, s.value_heads)};
}

template <class T>
std::vector<T> slice(std::vector<T> const& v, int64_t begin, int64_t n) {
  return std::vector<T>(v.begin() + begin, v.begin() + begin + n);
}

/// Device copies of what every mode takes. q, k and v lie in one mixed row with `padding` NaN after them.
template <class Policy, class Executor>
struct row_operands {
  using input = typename Policy::input_format;
  row_operands(Executor& on, reference::recurrence_shape const& s, reference::recurrence_inputs const& in,
               std::vector<int32_t> const& starts, std::vector<int32_t> const& fresh_requests, int max_rows,
               int padding)
      : mixed(on, mix(s, in, padding)),
        out(on, in.v.size()),
        g(on, in.g),
        beta(on, in.beta),
        query_start(on, starts),
        fresh(on, fresh_requests) {
    int const K = s.key_dim, V = s.value_dim;
    p.q.data = mixed.data();
    p.k.data = p.q.data + s.key_heads * K;
    p.v.data = p.k.data + s.key_heads * K;
    p.q.row_stride = p.k.row_stride = p.v.row_stride = 2 * s.key_heads * K + s.value_heads * V + padding;
    p.q.head_stride = p.k.head_stride = K;
    p.v.head_stride = V;
    if constexpr (!Policy::fused_gating) {
      p.g = g.data();
      p.beta = beta.data();
    }
    p.query_start = query_start.data();
    p.fresh = fresh_requests.empty() ? nullptr : fresh.data();
    p.out = {out.data(), int64_t{s.value_heads} * V, V};
    p.rows = static_cast<int>(in.g.size()) / s.value_heads;
    p.requests = static_cast<int>(starts.size()) - 1;
    p.key_heads = s.key_heads;
    p.value_heads = s.value_heads;
    p.max_rows = max_rows;
    p.scale = s.scale;
  }

  static std::vector<input> mix(reference::recurrence_shape const& s, reference::recurrence_inputs const& in,
                                int padding) {
    int const qk = s.key_heads * s.key_dim, v = s.value_heads * s.value_dim;
    size_t const rows = in.g.size() / s.value_heads;
    std::vector<input> row;
    for (size_t t = 0; t < rows; ++t) {
      for (int i = 0; i < qk; ++i) row.push_back(ratify::convert<input>(in.q[t * qk + i]));
      for (int i = 0; i < qk; ++i) row.push_back(ratify::convert<input>(in.k[t * qk + i]));
      for (int i = 0; i < v; ++i) row.push_back(ratify::convert<input>(in.v[t * v + i]));
      row.insert(row.end(), static_cast<size_t>(padding), ratify::convert<input>(NAN));
    }
    return row;
  }

  buffer<input, Executor> mixed;
  buffer<typename Policy::output_format, Executor> out;
  buffer<float, Executor> g, beta;
  buffer<int32_t, Executor> query_start, fresh;
  typename recurrence_of<Policy>::params p;
};

/// And what mode snapshots takes. The pool is the caller's.
template <class Policy, class Executor>
struct snapshot_operands : row_operands<Policy, Executor> {
  snapshot_operands(Executor& on, reference::recurrence_shape const& s, reference::recurrence_inputs const& in,
                    reference::recurrence_round const& r, int padding)
      : row_operands<Policy, Executor>(on, s, in, r.query_start, r.fresh, r.max_rows, padding),
        initial_slot(on, r.initial_slot),
        selector(on, r.selector),
        snapshot_slot(on, r.snapshot_slot) {
    this->p.slot_stride = r.slot_stride;
    this->p.initial_slot = initial_slot.data();
    this->p.selector = selector.data();
    this->p.snapshot_slot = {snapshot_slot.data(), int64_t{r.sets} * r.max_rows};
    this->p.snapshot_sets = r.sets;
  }
  buffer<int32_t, Executor> initial_slot, selector, snapshot_slot;
};

/// And what mode replay takes. Pool and rings are the caller's.
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

// Rounds.

/// Numbers 0 to n - 1 in a random order.
inline std::vector<int32_t> shuffled_slots(random_source& random, size_t n) {
  std::vector<int32_t> slots(n);
  for (size_t i = 0; i < n; ++i) slots[i] = static_cast<int32_t>(i);
  for (size_t i = n; i-- > 1;) std::swap(slots[i], slots[static_cast<size_t>(random.integer(0, static_cast<int>(i)))]);
  return slots;
}

/// Requests of the given row counts, each with its own slots in shuffled places: one to start from and `sets` *
/// max_rows for snapshots; slot_padding elements between slots.
inline reference::recurrence_round make_round(random_source& random, reference::recurrence_shape const& s, int max_rows,
                                              std::vector<int> const& counts, int slot_padding = 0, int sets = 1) {
  reference::recurrence_round r;
  r.max_rows = max_rows;
  r.sets = sets;
  r.slot_stride = s.state_elements() + slot_padding;
  auto const each = static_cast<size_t>(sets) * static_cast<size_t>(max_rows);
  auto const slots = shuffled_slots(random, counts.size() * (each + 1) + 1);
  size_t next = 0;
  r.query_start.push_back(0);
  for (int n : counts) {
    r.query_start.push_back(r.query_start.back() + n);
    r.initial_slot.push_back(slots[next++]);
    r.selector.push_back(0);
    for (size_t t = 0; t < each; ++t) r.snapshot_slot.push_back(slots[next++]);
  }
  r.pool = random.normals<float>(slots.size() * static_cast<size_t>(r.slot_stride), 0.3f);
  return r;
}

/// Requests of the given row counts over `slots` slots, each with a slot of its own and kept rows in its ring.
inline reference::replay_round make_replay_round(random_source& random, reference::recurrence_shape const& s,
                                                 int places, int max_rows, std::vector<int> const& counts, int slots,
                                                 int slot_padding = 0) {
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
  auto const order = shuffled_slots(random, static_cast<size_t>(slots));
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

// Launches.

template <class Operation, class Executor>
void must_launch(typename Operation::params const& p, Executor& on) {
  auto const status = launch<Operation>(p, on);
  REQUIRE_MESSAGE(status, std::string(status.reason()));
}

/// What a launch leaves. Rings: of mode replay.
template <class Policy>
struct recurrence_outcome {
  std::vector<typename Policy::output_format> out;
  std::vector<float> pool, ring_k, ring_u, ring_g;
};

template <class Policy, class Executor>
recurrence_outcome<Policy> run(Executor& on, reference::recurrence_shape const& s,
                               reference::recurrence_inputs const& in, reference::recurrence_round const& r,
                               int padding = 0) {
  snapshot_operands<Policy, Executor> o(on, s, in, r, padding);
  buffer<float, Executor> pool(on, r.pool);
  o.p.state_pool = pool.data();
  o.p.pool_slots = static_cast<int64_t>(r.pool.size()) / r.slot_stride;
  must_launch<recurrence_of<Policy>>(o.p, on);
  return {o.out.read(), pool.read(), {}, {}, {}};
}

template <class Policy, class Executor>
recurrence_outcome<Policy> run(Executor& on, reference::recurrence_shape const& s,
                               reference::recurrence_inputs const& in, reference::replay_round const& r,
                               int padding = 0) {
  replay_operands<Policy, Executor> o(on, s, in, r, padding);
  buffer<float, Executor> pool(on, r.pool), k(on, r.ring_k), u(on, r.ring_u), g(on, r.ring_g);
  o.p.state_pool = pool.data();
  o.p.ring_k.data = k.data();
  o.p.ring_u.data = u.data();
  o.p.ring_g.data = g.data();
  o.p.pool_slots = static_cast<int64_t>(r.pool.size()) / r.slot_stride;
  must_launch<recurrence_of<Policy>>(o.p, on);
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
  o.p.pool_slots = static_cast<int64_t>(r.pool.size()) / r.slot_stride;
  must_launch<recurrence_of<Policy>>(o.p, on);
  CHECK(bit_difference(pool.read(), r.pool) == "");
  return o.out.read();
}

// Comparisons with the twin: bits of outputs, pool and rings.

template <class Policy, class Executor, class Round>
void check_outcome(Executor& on, reference::recurrence_shape const& s, reference::recurrence_inputs const& in,
                   Round const& r, std::vector<float> const& out, Round const& expected, int padding = 0) {
  auto const got = run<Policy>(on, s, in, r, padding);
  CHECK(bit_difference(got.out, rounded<typename Policy::output_format>(out)) == "");
  CHECK(bit_difference(got.pool, expected.pool) == "");
  if constexpr (std::is_same_v<Round, reference::replay_round>) {
    CHECK(bit_difference(got.ring_k, expected.ring_k) == "");
    CHECK(bit_difference(got.ring_u, expected.ring_u) == "");
    CHECK(bit_difference(got.ring_g, expected.ring_g) == "");
  }
}

/// On every executor that the policy is for.
template <class Policy>
void check_against_twin(reference::recurrence_shape const& s, reference::recurrence_inputs const& in,
                        reference::recurrence_round const& r, int padding = 0) {
  auto expected = r;
  auto const out = reference::recurrence(s, in, expected);
  on_each_executor([&](auto& on) {
    if constexpr (Policy::column_threads != 1 || std::is_same_v<std::decay_t<decltype(on)>, ratify::host_executor>)
      check_outcome<Policy>(on, s, in, r, out, expected, padding);
  });
}
template <class Policy>
void check_against_twin(reference::recurrence_shape const& s, reference::recurrence_inputs const& in,
                        reference::replay_round const& r, int padding = 0) {
  auto expected = r;
  auto const out = reference::recurrence_replay(s, in, expected);
  on_each_executor([&](auto& on) { check_outcome<Policy>(on, s, in, r, out, expected, padding); });
}

}  // namespace ratify_test
