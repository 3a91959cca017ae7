// SPDX-License-Identifier: Apache-2.0
#include <ratify/activation.cuh>

#include "reference/activation.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"
#include "support/refusal.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

namespace {

using namespace ratify_test;
using ratify::bf16;
using ratify::f16;

struct gating_bf16 : ratify::gating_policy {
  using input_format = bf16;
};
struct gating_fp32 : ratify::gating_policy {
  using input_format = float;
};
struct silu_fp32 : ratify::silu_and_mul_policy {
  using input_format = float;
  using output_format = float;
};
struct sigmoid_fp32 : ratify::sigmoid_gate_policy {
  using input_format = float;
  using output_format = float;
};

template <class Format>
std::vector<float> floats(std::vector<Format> const& v) {
  std::vector<float> out;
  for (auto const x : v) out.push_back(ratify::to_float(x));
  return out;
}
template <class Format>
std::vector<Format> stored(std::vector<float> const& v) {
  std::vector<Format> out;
  for (float const x : v) out.push_back(ratify::convert<Format>(x));
  return out;
}

template <class Policy, class Executor>
reference::gates run_gating(Executor& on, std::vector<typename Policy::input_format> const& a,
                            std::vector<typename Policy::input_format> const& b, std::vector<float> const& a_log,
                            std::vector<float> const& dt_bias) {
  using format = typename Policy::input_format;
  int const heads = static_cast<int>(a_log.size());
  buffer<format, Executor> da(on, a), db(on, b);
  buffer<float, Executor> dl(on, a_log), dd(on, dt_bias), dg(on, a.size()), dbeta(on, a.size());
  typename ratify::gating<Policy>::params p;
  p.a = {da.data(), heads};
  p.b = {db.data(), heads};
  p.a_log = dl.data();
  p.dt_bias = dd.data();
  p.g = dg.data();
  p.beta = dbeta.data();
  p.rows = static_cast<int>(a.size()) / heads;
  p.value_heads = heads;
  auto const s = launch<ratify::gating<Policy>>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  return {dg.read(), dbeta.read()};
}

/// g of single elements, one head each.
template <class Executor>
std::vector<float> run_g(Executor& on, std::vector<float> const& a_log, std::vector<float> const& x) {
  std::vector<float> const zeros(x.size(), 0.0f);
  return run_gating<gating_fp32>(on, x, zeros, a_log, zeros).g;
}

/// x [rows, 2 * columns]
template <class Policy, class Executor>
auto run_silu(Executor& on, std::vector<typename Policy::input_format> const& x, int columns) {
  buffer<typename Policy::input_format, Executor> dx(on, x);
  buffer<typename Policy::output_format, Executor> dout(on, x.size() / 2);
  typename ratify::silu_and_mul<Policy>::params p;
  p.x = {dx.data(), 2 * columns};
  p.out = {dout.data(), columns};
  p.rows = static_cast<int>(x.size()) / (2 * columns);
  p.columns = columns;
  auto const s = launch<ratify::silu_and_mul<Policy>>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  return dout.read();
}

/// x, gate [rows, heads, dim]; with `in_place` the result lies on x.
template <class Policy, class Executor>
auto run_sigmoid(Executor& on, std::vector<typename Policy::input_format> const& x,
                 std::vector<typename Policy::gate_format> const& gate, int heads, int dim, bool in_place = false) {
  buffer<typename Policy::input_format, Executor> dx(on, x);
  buffer<typename Policy::gate_format, Executor> dgate(on, gate);
  buffer<typename Policy::output_format, Executor> dout(on, x.size());
  typename ratify::sigmoid_gate<Policy>::params p;
  p.x = {dx.data(), int64_t{heads} * dim, dim};
  p.gate = {dgate.data(), int64_t{heads} * dim, dim};
  p.out = {dout.data(), int64_t{heads} * dim, dim};
  if constexpr (std::is_same_v<typename Policy::input_format, typename Policy::output_format>)
    if (in_place) p.out.data = dx.data();
  p.rows = static_cast<int>(x.size()) / (heads * dim);
  p.heads = heads;
  p.head_dim = dim;
  auto const s = launch<ratify::sigmoid_gate<Policy>>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  if constexpr (std::is_same_v<typename Policy::input_format, typename Policy::output_format>)
    if (in_place) return dx.read();
  return dout.read();
}

float const edges[] = {0.0f,   -0.0f,   1e-45f,  -1e-45f, 1e-6f,   -17.0f,   -17.000002f, 17.0f,   -87.0f,
                       -88.5f, -103.0f, 88.0f,   89.0f,   -104.0f, -200.0f,  1e4f,        -1e4f,   3e38f,
                       -3e38f, 100.0f,  -100.0f, 10.0f,   -10.0f,  INFINITY, -INFINITY,   FLT_MAX, -FLT_MAX};

}  // namespace

TEST_CASE_TEMPLATE("gating equals its twin bit for bit", Policy, ratify::gating_policy, gating_bf16, gating_fp32) {
  random_source random(1);
  for (int round = 0; round < scaled(20); ++round) {
    size_t const rows = random.integer(1, 40), heads = random.one_of({random.integer(1, 48), 6, 12, 24, 48});
    auto const a = random.normals<typename Policy::input_format>(rows * heads, 8),
               b = random.normals<typename Policy::input_format>(rows * heads, 8);
    auto const a_log = random.normals<float>(heads, 3), dt_bias = random.normals<float>(heads, 3);
    auto const expected = reference::gating(floats(a), floats(b), a_log, dt_bias);
    on_each_executor([&](auto& on) {
      auto const got = run_gating<Policy>(on, a, b, a_log, dt_bias);
      CHECK(bit_difference(got.g, expected.g) == "");
      CHECK(bit_difference(got.beta, expected.beta) == "");
    });
    count_shape();
  }
}

TEST_CASE("gating equals its twin bit for bit at every pair of edges") {
  std::vector<float> a_log, x;
  for (float const l : edges)
    for (float const e : edges) {
      a_log.push_back(l);
      x.push_back(e);
    }
  auto const expected = reference::gating(x, x, a_log, std::vector<float>(x.size(), 0.0f));
  on_each_executor([&](auto& on) {
    auto const got = run_gating<gating_fp32>(on, x, x, a_log, std::vector<float>(x.size(), 0.0f));
    CHECK(bit_difference(got.g, expected.g) == "");
    CHECK(bit_difference(got.beta, expected.beta) == "");
  });
}

TEST_CASE("gating is within its bound of FP64") {
  random_source random(2);
  for (float const range : {4.0f, 20.0f, 120.0f}) {
    constexpr int n = 40000;
    std::vector<float> a, b, a_log, dt_bias;
    std::vector<double> g, g_bound, beta, beta_bound;
    for (int i = 0; i < n; ++i) {
      a.push_back(random.uniform(-range, range));
      b.push_back(random.uniform(-range, range));
      a_log.push_back(random.uniform(-range, range));
      dt_bias.push_back(random.uniform(-range / 2, range / 2));
      auto const one = reference::truth::decay_log(a_log.back(), a.back(), dt_bias.back());
      g.push_back(one.first);
      g_bound.push_back(one.second);
      beta.push_back(reference::truth::sigmoid(b.back()));
      beta_bound.push_back(1.01 * 8 * 0x1p-24 * beta.back() + 2 * 0x1p-149);
    }
    auto const got = reference::gating(a, b, a_log, dt_bias);
    CHECK(error_over_bound(got.g, g, g_bound) <= 1.0);
    CHECK(error_over_bound(got.beta, beta, beta_bound) <= 1.0);
    on_each_executor(
        [&](auto& on) { CHECK(bit_difference(run_gating<gating_fp32>(on, a, b, a_log, dt_bias).g, got.g) == ""); });
  }
}

TEST_CASE("G4 gates at the ends of FP32") {
  on_each_executor([&](auto& on) {
    auto const decay = [&](float a_log, float x) { return ratify::detail::exp_ordered(run_g(on, {a_log}, {x})[0]); };
    CHECK(decay(100, -200) == 1.0f);
    CHECK(ulps(decay(0, 100), std::exp(-100.0)) <= 2.5);
    CHECK(run_g(on, {0.0f}, {100.0f})[0] == -100.0f);
    CHECK(decay(0, 1e4f) == 0.0f);
    float const finite = run_g(on, {10.0f}, {0.0f})[0];
    CHECK(std::fabs(finite / (-std::exp(10.0) * std::log(2.0)) - 1) < 13 * 0x1p-24);
    // An overflowing rate with a softplus that is a normal number: decay 0.
    CHECK(run_g(on, {100.0f}, {-50.0f})[0] == -INFINITY);

    std::vector<float> x, zeros;
    for (int i = 89; i <= 10000; i += 7) x.push_back(static_cast<float>(i));
    zeros.assign(x.size(), 0.0f);
    auto const softplus = run_g(on, zeros, x);
    bool equal = true;
    for (size_t i = 0; i < x.size(); ++i) equal = equal && softplus[i] == -x[i];
    CHECK(equal);

    std::vector<float> a_log, at;
    for (float const l : edges)
      for (float const e : edges)
        if (std::isfinite(l) && std::isfinite(e)) {
          a_log.push_back(l);
          at.push_back(e);
        }
    auto const all = run_g(on, a_log, at);
    CHECK(std::none_of(all.begin(), all.end(), [](float g) { return std::isnan(g) || g > 0; }));
  });
}

TEST_CASE_TEMPLATE("silu_and_mul equals its twin bit for bit, and FP64 within the bound", Policy,
                   ratify::silu_and_mul_policy, silu_fp32) {
  random_source random(3);
  std::vector<std::array<int, 2>> shapes{{8, 768}, {1, 768}, {3, 1}, {8, 17408 / 8}, {5, 129}, {1, 17408}, {1, 8704}};
  for (int i = 0; i < scaled(6); ++i) shapes.push_back({random.integer(1, 32), random.integer(1, 300)});
  for (auto const& s : shapes) {
    auto x = random.normals<typename Policy::input_format>(static_cast<size_t>(2) * s[0] * s[1], 6);
    if (s[1] > 50)
      for (size_t i = 0; i < std::size(edges); ++i) x[i] = ratify::convert<typename Policy::input_format>(edges[i]);
    std::vector<float> gate, up;
    for (size_t i = 0; i < x.size(); ++i) (i / s[1] % 2 == 0 ? gate : up).push_back(ratify::to_float(x[i]));
    auto const expected = reference::gated(up, gate, true);
    std::vector<float> finite;
    std::vector<double> truth, bound;
    for (size_t i = 0; i < up.size(); ++i) {
      if (!std::isfinite(gate[i]) || std::fabs(gate[i]) > 1e30f) continue;
      auto const one = reference::truth::gated(up[i], gate[i], true);
      finite.push_back(expected[i]);
      truth.push_back(one.first);
      bound.push_back(one.second);
    }
    CHECK(error_over_bound(finite, truth, bound) <= 1.0);
    on_each_executor([&](auto& on) {
      CHECK(bit_difference(run_silu<Policy>(on, x, s[1]), stored<typename Policy::output_format>(expected)) == "");
    });
    count_shape();
  }
}

TEST_CASE_TEMPLATE("sigmoid_gate equals its twin bit for bit, and FP64 within the bound", Policy,
                   ratify::sigmoid_gate_policy, sigmoid_fp32) {
  random_source random(4);
  std::vector<std::array<int, 3>> shapes{{8, 2, 256}, {8, 12, 256}, {1, 1, 256}, {3, 5, 7}, {1, 24, 256}, {8, 6, 256}};
  for (int i = 0; i < scaled(6); ++i)
    shapes.push_back({random.integer(1, 32), random.one_of({random.integer(1, 9), 3, 24}), random.integer(1, 70)});
  for (auto const& s : shapes) {
    size_t const n = static_cast<size_t>(s[0]) * s[1] * s[2];
    auto const x = random.normals<typename Policy::input_format>(n, 6);
    auto gate = random.normals<typename Policy::gate_format>(n, 6);
    for (size_t i = 0; i < std::min(n, std::size(edges)); ++i)
      gate[i] = ratify::convert<typename Policy::gate_format>(edges[i]);
    auto const expected = reference::gated(floats(x), floats(gate), false);
    std::vector<double> truth, bound;
    for (size_t i = 0; i < n; ++i) {
      auto const one = reference::truth::gated(ratify::to_float(x[i]), ratify::to_float(gate[i]), false);
      truth.push_back(one.first);
      bound.push_back(one.second);
    }
    CHECK(error_over_bound(expected, truth, bound) <= 1.0);
    on_each_executor([&](auto& on) {
      auto const as_stored = stored<typename Policy::output_format>(expected);
      CHECK(bit_difference(run_sigmoid<Policy>(on, x, gate, s[1], s[2]), as_stored) == "");
      CHECK(bit_difference(run_sigmoid<Policy>(on, x, gate, s[1], s[2], true), as_stored) == "");
    });
    count_shape();
  }
}

TEST_CASE("activations refuse what is not built, with the reason") {
  auto const reason = [](auto operation, auto const& p) { return refusal<decltype(operation)>(p); };
  {
    using op = ratify::gating<ratify::gating_policy>;
    op::params p;
    p.value_heads = 1;
    CHECK(op::launch(p, {}, host()));
    p.rows = -1;
    CHECK(reason(op{}, p) == "ratify::gating: rows must not be negative");
    p.rows = 1;
    p.value_heads = 0;
    CHECK(reason(op{}, p) == "ratify::gating: value_heads must be at least 1");
  }
  {
    using op = ratify::silu_and_mul<ratify::silu_and_mul_policy>;
    op::params p;
    p.columns = 1;
    CHECK(op::launch(p, {}, host()));
    p.rows = -1;
    CHECK(reason(op{}, p) == "ratify::silu_and_mul: rows must not be negative");
    p.rows = 1;
    p.columns = 0;
    CHECK(reason(op{}, p) == "ratify::silu_and_mul: columns must be at least 1");
  }
  {
    using op = ratify::sigmoid_gate<ratify::sigmoid_gate_policy>;
    op::params p;
    p.heads = 1;
    p.head_dim = 1;
    CHECK(op::launch(p, {}, host()));
    p.rows = -1;
    CHECK(reason(op{}, p) == "ratify::sigmoid_gate: rows must not be negative");
    p.rows = 1;
    p.heads = 0;
    CHECK(reason(op{}, p) == "ratify::sigmoid_gate: heads must be at least 1");
    p.heads = 1;
    p.head_dim = 0;
    CHECK(reason(op{}, p) == "ratify::sigmoid_gate: head_dim must be at least 1 element");
    p.rows = p.heads = p.head_dim = INT32_MAX;
    CHECK(reason(op{}, p) == "ratify::sigmoid_gate: heads * head_dim must be less than 2^31 elements");
  }
}
