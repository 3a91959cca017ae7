// SPDX-License-Identifier: Apache-2.0
/// silu_and_mul and sigmoid_gate against their twins, bit for bit, and FP64 within the bounds of docs/arithmetic.md.
#include <ratify/activation.cuh>

#include "reference/activation.hpp"
#include "support/compare.hpp"
#include "support/edges.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace {

using namespace ratify_test;
using ratify::input_format;
using ratify::output_format;
using silu_fp32 = ratify::silu_and_mul<input_format<float>, output_format<float>>;
using sigmoid_fp32 = ratify::sigmoid_gate<input_format<float>, ratify::gate_format<float>, output_format<float>>;
using sigmoid_mixed = ratify::sigmoid_gate<input_format<float>, output_format<float>>;

/// x [rows, 2 * columns]
template <class Operation, class Executor>
auto run_silu(Executor& on, std::vector<typename Operation::policy::input_format> const& x, int columns) {
  buffer<typename Operation::policy::input_format, Executor> dx(on, x);
  buffer<typename Operation::policy::output_format, Executor> dout(on, x.size() / 2);
  typename Operation::params p;
  p.x = {dx.data(), 2 * columns};
  p.out = {dout.data(), columns};
  p.rows = static_cast<int>(x.size()) / (2 * columns);
  p.columns = columns;
  auto const s = launch<Operation>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  return dout.read();
}

/// x, gate [rows, heads, dim]; with `in_place` the result lies on x.
template <class Operation, class Executor>
auto run_sigmoid(Executor& on, std::vector<typename Operation::policy::input_format> const& x,
                 std::vector<typename Operation::policy::gate_format> const& gate, int heads, int dim,
                 bool in_place = false) {
  using policy = typename Operation::policy;
  buffer<typename policy::input_format, Executor> dx(on, x);
  buffer<typename policy::gate_format, Executor> dgate(on, gate);
  buffer<typename policy::output_format, Executor> dout(on, x.size());
  typename Operation::params p;
  p.x = {dx.data(), int64_t{heads} * dim, dim};
  p.gate = {dgate.data(), int64_t{heads} * dim, dim};
  p.out = {dout.data(), int64_t{heads} * dim, dim};
  if constexpr (std::is_same_v<typename policy::input_format, typename policy::output_format>)
    if (in_place) p.out.data = dx.data();
  p.rows = static_cast<int>(x.size()) / (heads * dim);
  p.heads = heads;
  p.head_dim = dim;
  auto const s = launch<Operation>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  if constexpr (std::is_same_v<typename policy::input_format, typename policy::output_format>)
    if (in_place) return dx.read();
  return dout.read();
}

/// The largest error over the bound, of elements with finite arguments and a finite result.
double worst_error(std::vector<float> const& got, std::vector<float> const& x, std::vector<float> const& gate,
                   bool silu) {
  std::vector<float> finite;
  std::vector<double> truth, bound;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) || !std::isfinite(gate[i])) continue;
    auto const one = reference::truth::gated(x[i], gate[i], silu);
    if (std::fabs(one.first) + one.second >= 0x1.ffffffp127) continue;
    finite.push_back(got[i]);
    truth.push_back(one.first);
    bound.push_back(one.second);
  }
  return error_over_bound(finite, truth, bound);
}

/// Every pair of edges, and a number of random pairs of all magnitudes.
struct pairs {
  std::vector<float> x, gate;
};
pairs pairs_of_all_sizes() {
  random_source random(6);
  pairs p;
  for (float const x : edges)
    for (float const gate : edges) {
      p.x.push_back(x);
      p.gate.push_back(gate);
    }
  for (int i = 0; i < 20000; ++i) {
    p.x.push_back(std::ldexp(random.uniform(-2, 2), random.integer(-149, 127)));
    p.gate.push_back(i % 2 == 0 ? random.uniform(-210, -80)
                                : std::ldexp(random.uniform(-2, 2), random.integer(-149, 8)));
  }
  return p;
}

}  // namespace

TEST_CASE_TEMPLATE("silu_and_mul equals its twin bit for bit, and FP64 within the bound", Operation,
                   ratify::silu_and_mul<>, silu_fp32) {
  using policy = typename Operation::policy;
  random_source random(3);
  std::vector<std::array<int, 2>> shapes{{8, 768}, {1, 768}, {3, 1}, {8, 17408 / 8}, {5, 129}, {1, 17408}, {1, 8704}};
  for (int i = 0; i < scaled(6); ++i) shapes.push_back({random.integer(1, 32), random.integer(1, 300)});
  for (auto const& s : shapes) {
    auto x = random.normals<typename policy::input_format>(static_cast<size_t>(2) * s[0] * s[1], 6);
    if (s[1] > 50)
      for (size_t i = 0; i < std::size(edges); ++i) x[i] = ratify::convert<typename policy::input_format>(edges[i]);
    std::vector<float> gate, up;
    for (size_t i = 0; i < x.size(); ++i) (i / s[1] % 2 == 0 ? gate : up).push_back(ratify::to_float(x[i]));
    auto const expected = reference::gated(up, gate, true);
    CHECK(worst_error(expected, up, gate, true) <= 1.0);
    on_each_executor([&](auto& on) {
      CHECK(bit_difference(run_silu<Operation>(on, x, s[1]), rounded<typename policy::output_format>(expected)) == "");
    });
    count_shape();
  }
}

TEST_CASE_TEMPLATE("sigmoid_gate equals its twin bit for bit, and FP64 within the bound", Operation,
                   ratify::sigmoid_gate<>, sigmoid_fp32, sigmoid_mixed) {
  using policy = typename Operation::policy;
  random_source random(4);
  std::vector<std::array<int, 3>> shapes{{8, 2, 256}, {8, 12, 256}, {1, 1, 256}, {3, 5, 7}, {1, 24, 256}, {8, 6, 256}};
  for (int i = 0; i < scaled(6); ++i)
    shapes.push_back({random.integer(1, 32), random.one_of({random.integer(1, 9), 3, 24}), random.integer(1, 70)});
  for (auto const& s : shapes) {
    size_t const n = static_cast<size_t>(s[0]) * s[1] * s[2];
    auto const x = random.normals<typename policy::input_format>(n, 6);
    auto gate = random.normals<typename policy::gate_format>(n, 6);
    for (size_t i = 0; i < std::min(n, std::size(edges)); ++i)
      gate[i] = ratify::convert<typename policy::gate_format>(edges[i]);
    auto const expected = reference::gated(widened(x), widened(gate), false);
    CHECK(worst_error(expected, widened(x), widened(gate), false) <= 1.0);
    on_each_executor([&](auto& on) {
      auto const as_stored = rounded<typename policy::output_format>(expected);
      CHECK(bit_difference(run_sigmoid<Operation>(on, x, gate, s[1], s[2]), as_stored) == "");
      CHECK(bit_difference(run_sigmoid<Operation>(on, x, gate, s[1], s[2], true), as_stored) == "");
    });
    count_shape();
  }
}

TEST_CASE("silu_and_mul and sigmoid_gate of numbers of all sizes: a result is not lost to a factor that vanishes") {
  auto const p = pairs_of_all_sizes();
  int const n = static_cast<int>(p.x.size());
  auto const silu = reference::gated(p.x, p.gate, true), sigmoid = reference::gated(p.x, p.gate, false);
  CHECK(worst_error(silu, p.x, p.gate, true) <= 1.0);
  CHECK(worst_error(sigmoid, p.x, p.gate, false) <= 1.0);
  auto both = p.gate;
  both.insert(both.end(), p.x.begin(), p.x.end());
  on_each_executor([&](auto& on) {
    CHECK(bit_difference(run_silu<silu_fp32>(on, both, n), rounded<float>(silu)) == "");
    CHECK(bit_difference(run_sigmoid<sigmoid_fp32>(on, p.x, p.gate, 1, n), rounded<float>(sigmoid)) == "");
  });
  // exp(-100) is 26 quanta, gate 1e-45 a single one.
  CHECK(std::fabs(reference::gated_element(1e30f, -100, false) / (1e30 * std::exp(-100.0)) - 1) < 10 * 0x1p-24);
  CHECK(std::fabs(reference::gated_element(3e38f, -110, true) / (-110 * 3e38 * std::exp(-110.0)) - 1) < 10 * 0x1p-24);
  CHECK(std::fabs(reference::gated_element(3e38f, 0x1p-149f, true) / (0x1p-150 * 3e38) - 1) < 10 * 0x1p-24);
}

TEST_CASE("silu_and_mul and sigmoid_gate of infinities and NaN") {
  on_each_executor([&](auto& on) {
    auto const silu = [&](float gate, float x) { return bits(run_silu<silu_fp32>(on, {gate, x}, 1)[0]); };
    auto const sigmoid = [&](float x, float gate) { return bits(run_sigmoid<sigmoid_fp32>(on, {x}, {gate}, 1, 1)[0]); };
    uint32_t const infinity = 0x7f800000u, nan = 0x7fffffffu, minus = 0x80000000u;
    CHECK(silu(-INFINITY, 2) == minus);  // not NaN
    CHECK(silu(-INFINITY, INFINITY) == nan);
    CHECK(silu(INFINITY, -2) == (infinity | minus));
    CHECK(silu(-200, INFINITY) == (infinity | minus));
    CHECK(silu(0, INFINITY) == nan);
    CHECK(silu(NAN, 1) == nan);
    CHECK(silu(1e-45f, NAN) == nan);
    CHECK(sigmoid(2, -INFINITY) == 0u);
    CHECK(sigmoid(INFINITY, -INFINITY) == nan);
    CHECK(sigmoid(-INFINITY, -200) == (infinity | minus));
    CHECK(sigmoid(-3, INFINITY) == bits(-3.0f));
    CHECK(sigmoid(1, NAN) == nan);
    CHECK(sigmoid(NAN, -200) == nan);
  });
}
