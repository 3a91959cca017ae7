// SPDX-License-Identifier: Apache-2.0
/// Gating fused into the recurrence: the bits of the separate operation and then the recurrence.
#include <ratify/activation.cuh>
#include <ratify/recurrence.cuh>

#include "support/random.hpp"
#include "support/recurrence.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

using small = small_recurrence<>;
/// The gates made inside, of formats that differ.
template <int ColumnThreads>
using fused_policy =
    small_recurrence_with<recurrence_mode::snapshots, ratify::column_threads<ColumnThreads>, ratify::fused_gating<true>,
                          ratify::a_format<ratify::bf16>, ratify::b_format<ratify::f16>>;
using fused_replay_policy =
    small_recurrence_with<recurrence_mode::replay, ratify::column_threads<4>, ratify::fused_gating<true>,
                          ratify::a_format<float>, ratify::b_format<float>>;
using wide_gates = ratify::gating<ratify::input_format<float>>;

/// Puts a, b, a_log and dt_bias into the launch; `gates` holds what the separate operation makes of them.
template <class Policy, class Executor>
struct fused_gates {
  using a_format = typename Policy::a_format;
  using b_format = typename Policy::b_format;
  fused_gates(Executor& on, random_source& random, int rows, int heads)
      : rows_(rows),
        heads_(heads),
        // Rows have two elements of padding.
        a(on, random.normals<a_format>(static_cast<size_t>(rows) * (heads + 2), 3.0f)),
        b(on, random.normals<b_format>(static_cast<size_t>(rows) * (heads + 2), 3.0f)),
        a_log(on, ends(random, heads, 100.0f, 10.0f)),
        dt_bias(on, ends(random, heads, -200.0f, 1e4f)),
        g(on, static_cast<size_t>(rows) * heads),
        beta(on, static_cast<size_t>(rows) * heads) {
    auto const wide = [](auto const& v) {
      std::vector<float> out;
      for (auto const x : v) out.push_back(ratify::to_float(x));
      return out;
    };
    buffer<float, Executor> wide_a(on, wide(a.read())), wide_b(on, wide(b.read()));
    wide_gates::params p;
    p.a = {wide_a.data(), heads + 2};
    p.b = {wide_b.data(), heads + 2};
    p.a_log = a_log.data();
    p.dt_bias = dt_bias.data();
    p.g = g.data();
    p.beta = beta.data();
    p.rows = rows;
    p.value_heads = heads;
    must_launch<wide_gates>(p, on);
  }
  /// Ordinary numbers, and in the first two places those where an exponential overflows.
  static std::vector<float> ends(random_source& random, int n, float first, float second) {
    auto v = random.normals<float>(static_cast<size_t>(n), 0.5f);
    v[0] = first;
    if (n > 1) v[1] = second;
    return v;
  }
  template <class Params>
  void give(Params& p) {
    p.a = {a.data(), heads_ + 2};
    p.b = {b.data(), heads_ + 2};
    p.a_log = a_log.data();
    p.dt_bias = dt_bias.data();
  }
  int rows_, heads_;
  buffer<a_format, Executor> a;
  buffer<b_format, Executor> b;
  buffer<float, Executor> a_log, dt_bias, g, beta;
};

}  // namespace

TEST_CASE_TEMPLATE("recurrence: fused gating equals the separate operation and then the recurrence, bit for bit",
                   Policy, fused_policy<0>, fused_policy<8>) {
  random_source random(17);
  auto const s = shape_of<Policy>(1, 3);
  auto const r = make_round(random, s, 11, {11, 3});
  auto in = make_inputs<Policy>(random, s, 14);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    fused_gates<Policy, executor> gates(on, random, 14, 3);
    snapshot_operands<Policy, executor> o(on, s, in, r, 0);
    gates.give(o.p);
    buffer<float, executor> pool(on, r.pool);
    o.p.state_pool = pool.data();
    o.p.pool_slots = static_cast<int64_t>(r.pool.size()) / r.slot_stride;
    must_launch<recurrence_of<Policy>>(o.p, on);
    in.g = gates.g.read();
    in.beta = gates.beta.read();
    auto const expected = run<small>(on, s, in, r);
    CHECK(bit_difference(o.out.read(), expected.out) == "");
    CHECK(bit_difference(pool.read(), expected.pool) == "");
  });
}

TEST_CASE("recurrence: fused gating puts its g into the ring") {
  random_source random(18);
  auto const s = shape_of<fused_replay_policy>(1, 2);
  auto in = make_inputs<fused_replay_policy>(random, s, 9);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    fused_gates<fused_replay_policy, executor> gates(on, random, 9, 2);
    row_operands<fused_replay_policy, executor> o(on, s, in, {0, 9}, {}, 9, 0);
    gates.give(o.p);
    reference::replay_round r;
    r.query_start = {0, 9};
    r.slot = r.ring_count = {0};
    r.ring_start = {30};
    r.flush = {1};
    r.max_rows = 9;
    r.places = 32;
    r.pool = random.normals<float>(static_cast<size_t>(s.state_elements()));
    r.slot_stride = s.state_elements();
    r.k_stride = 32 * 64, r.u_stride = 32 * 2 * 64, r.g_stride = 32 * 2;
    r.ring_k.assign(static_cast<size_t>(r.k_stride), 0.0f);
    r.ring_u.assign(static_cast<size_t>(r.u_stride), 0.0f);
    r.ring_g.assign(static_cast<size_t>(r.g_stride), 0.0f);
    buffer<float, executor> pool(on, r.pool), k(on, r.ring_k), u(on, r.ring_u), g(on, r.ring_g);
    buffer<int32_t, executor> zero(on, std::vector<int32_t>{0}), start(on, r.ring_start), flush(on, r.flush);
    o.p.state_pool = pool.data();
    o.p.slot_stride = r.slot_stride;
    o.p.pool_slots = 1;
    o.p.slot = o.p.ring_count = zero.data();
    o.p.ring_start = start.data();
    o.p.flush = flush.data();
    o.p.ring_places = 32;
    o.p.ring_k = {k.data(), r.k_stride};
    o.p.ring_u = {u.data(), r.u_stride};
    o.p.ring_g = {g.data(), r.g_stride};
    must_launch<recurrence_of<fused_replay_policy>>(o.p, on);
    in.g = gates.g.read();
    in.beta = gates.beta.read();
    auto const out = reference::recurrence_replay(s, in, r);
    CHECK(bit_difference(o.out.read(), out) == "");
    CHECK(bit_difference(pool.read(), r.pool) == "");
    CHECK(bit_difference(k.read(), r.ring_k) == "");
    CHECK(bit_difference(u.read(), r.ring_u) == "");
    CHECK(bit_difference(g.read(), r.ring_g) == "");
  });
}
