// SPDX-License-Identifier: Apache-2.0
/// gating against its twin, bit for bit, and FP64 within the bound of docs/arithmetic.md, at the ends of FP32 too.
#include <ratify/activation.cuh>

#include "reference/activation.hpp"
#include "support/compare.hpp"
#include "support/edges.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace {

using namespace ratify_test;
using gating_fp32 = ratify::gating<ratify::input_format<float>>;

template <class Operation, class Executor>
reference::gates run_gating(Executor& on, std::vector<typename Operation::policy::input_format> const& a,
                            std::vector<typename Operation::policy::input_format> const& b,
                            std::vector<float> const& a_log, std::vector<float> const& dt_bias) {
  using format = typename Operation::policy::input_format;
  int const heads = static_cast<int>(a_log.size());
  buffer<format, Executor> da(on, a), db(on, b);
  buffer<float, Executor> dl(on, a_log), dd(on, dt_bias), dg(on, a.size()), dbeta(on, a.size());
  typename Operation::params p;
  p.a = {da.data(), heads};
  p.b = {db.data(), heads};
  p.a_log = dl.data();
  p.dt_bias = dd.data();
  p.g = dg.data();
  p.beta = dbeta.data();
  p.rows = static_cast<int>(a.size()) / heads;
  p.value_heads = heads;
  auto const s = launch<Operation>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  return {dg.read(), dbeta.read()};
}

/// g of single elements, one head each; dt_bias is 0 unless given.
template <class Executor>
std::vector<float> run_g(Executor& on, std::vector<float> const& a_log, std::vector<float> const& a,
                         std::vector<float> const& dt_bias = {}) {
  std::vector<float> const zeros(a.size(), 0.0f);
  return run_gating<gating_fp32>(on, a, zeros, a_log, dt_bias.empty() ? zeros : dt_bias).g;
}

/// Largest FP64 that rounds to a finite FP32, or half a unit more.
constexpr double most = 0x1.ffffffp127;

/// Whether an FP32 is what `exact` may round to: within `bound`, or -inf where the exact value may be beyond FP32.
bool is_right(float got, double exact, double bound) {
  if (std::isnan(got) || got > 0) return false;
  if (std::isinf(got)) return -exact + bound >= most;
  return std::fabs(got - exact) <= bound || (-exact + bound >= most && got == -FLT_MAX);
}

}  // namespace

TEST_CASE_TEMPLATE("gating equals its twin bit for bit", Operation, ratify::gating<>,
                   ratify::gating<ratify::input_format<ratify::bf16>>, gating_fp32) {
  using format = typename Operation::policy::input_format;
  random_source random(1);
  for (int round = 0; round < scaled(20); ++round) {
    size_t const rows = random.integer(1, 40), heads = random.one_of({random.integer(1, 48), 6, 12, 24, 48});
    auto const a = random.normals<format>(rows * heads, 8), b = random.normals<format>(rows * heads, 8);
    auto const a_log = random.normals<float>(heads, 3), dt_bias = random.normals<float>(heads, 3);
    auto const expected = reference::gating(widened(a), widened(b), a_log, dt_bias);
    on_each_executor([&](auto& on) {
      auto const got = run_gating<Operation>(on, a, b, a_log, dt_bias);
      CHECK(bit_difference(got.g, expected.g) == "");
      CHECK(bit_difference(got.beta, expected.beta) == "");
    });
    count_shape();
  }
}

TEST_CASE("gating equals its twin bit for bit at all edges of its three arguments") {
  std::vector<float> a_log, a, dt_bias;
  for (float const l : edges)
    for (float const e : edges)
      for (float const d : edges) {
        a_log.push_back(l);
        a.push_back(e);
        dt_bias.push_back(d);
      }
  auto const expected = reference::gating(a, a, a_log, dt_bias);
  on_each_executor([&](auto& on) {
    auto const got = run_gating<gating_fp32>(on, a, a, a_log, dt_bias);
    CHECK(bit_difference(got.g, expected.g) == "");
    CHECK(bit_difference(got.beta, expected.beta) == "");
  });
}

TEST_CASE("gating is within its bound of FP64") {
  random_source random(2);
  for (float const range : {4.0f, 20.0f, 120.0f, 300.0f}) {
    constexpr int n = 40000;
    std::vector<float> a, b, a_log, dt_bias;
    std::vector<double> beta, beta_bound;
    for (int i = 0; i < n; ++i) {
      a.push_back(random.uniform(-range, range));
      b.push_back(random.uniform(-range, range));
      a_log.push_back(random.uniform(-range, range));
      dt_bias.push_back(random.uniform(-range / 2, range / 2));
      beta.push_back(reference::truth::sigmoid(b.back()));
      beta_bound.push_back(1.01 * 8 * 0x1p-24 * beta.back() + 2 * 0x1p-149);
    }
    auto const got = reference::gating(a, b, a_log, dt_bias);
    int wrong = 0;
    for (size_t i = 0; i < got.g.size(); ++i) {
      auto const [exact, bound] = reference::truth::decay_log(a_log[i], a[i], dt_bias[i]);
      wrong += !is_right(got.g[i], exact, bound);
    }
    CHECK(wrong == 0);
    CHECK(error_over_bound(got.beta, beta, beta_bound) <= 1.0);
    on_each_executor(
        [&](auto& on) { CHECK(bit_difference(run_gating<gating_fp32>(on, a, b, a_log, dt_bias).g, got.g) == ""); });
  }
}

TEST_CASE("G4 a finite g is not lost to an intermediate, whatever the three arguments") {
  random_source random(5);
  std::vector<float> a_log, a, dt_bias;
  for (float const l : edges)
    for (float const e : edges)
      for (float const d : edges)
        if (std::isfinite(l) && std::isfinite(e) && std::isfinite(d)) {
          a_log.push_back(l);
          a.push_back(e);
          dt_bias.push_back(d);
        }
  for (int i = 0; i < 20000; ++i) {  // large numbers that cancel, sums that overflow
    a_log.push_back(random.uniform(-220, 220));
    a.push_back(std::ldexp(random.uniform(-2, 2), random.integer(-20, 127)));
    dt_bias.push_back(i % 2 == 0 ? -a.back() + random.uniform(-30, 30) : a.back());
  }
  for (int i = 0; i < 20000; ++i) {  // g near the largest number, from both sides
    float const x = std::ldexp(random.uniform(-2, -1), random.integer(-2, 7));  // all bits of a significand
    a_log.push_back(88.7228317f - (x < -17 ? x : std::log(std::log1p(std::exp(x)))) + random.uniform(-2e-5f, 2e-5f));
    a.push_back(x);
    dt_bias.push_back(0);
  }
  on_each_executor([&](auto& on) {
    auto const got = run_g(on, a_log, a, dt_bias);
    int wrong = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      auto const [exact, bound] = reference::truth::decay_log(a_log[i], a[i], dt_bias[i]);
      if (is_right(got[i], exact, bound)) continue;
      if (++wrong == 1)
        MESSAGE("a_log " << a_log[i] << ", a " << a[i] << ", dt_bias " << dt_bias[i] << ": " << got[i] << ", exact "
                         << exact);
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("G4 g does not jump where exp(a_log) overflows or stops being a normal number") {
  on_each_executor([&](auto& on) {
    for (float const edge : {88.7228394f, -87.3365448f})
      for (float const x : {-40.0f, -17.0f, -16.0f, -5.0f}) {
        std::vector<float> a_log{edge - 1e-3f};
        while (a_log.back() < edge + 1e-3f) a_log.push_back(std::nextafter(a_log.back(), INFINITY));
        auto const g = run_g(on, a_log, std::vector<float>(a_log.size(), x));
        double worst = 0;  // a step of a_log is 7.6e-6, and so is one of log(-g); 26 u are the errors of two
        for (size_t i = 1; i < g.size(); ++i)
          worst = std::fmax(worst, std::fabs(static_cast<double>(g[i]) - g[i - 1]) - 2 * 0x1p-149) / std::fabs(g[i]);
        CAPTURE(edge);
        CAPTURE(x);
        CHECK(worst < 7.7e-6 + 26 * 0x1p-24 + 40 * 0x1p-24);
      }
  });
}

TEST_CASE("G4 gates at the ends of FP32") {
  on_each_executor([&](auto& on) {
    auto const decay = [&](float a_log, float x) { return reference::exp_ordered(run_g(on, {a_log}, {x})[0]); };
    CHECK(decay(100, -200) == 1.0f);
    CHECK(ulps(decay(0, 100), std::exp(-100.0)) <= 2.5);
    CHECK(run_g(on, {0.0f}, {100.0f})[0] == -100.0f);
    CHECK(decay(0, 1e4f) == 0.0f);
    float const finite = run_g(on, {10.0f}, {0.0f})[0];
    CHECK(std::fabs(finite / (-std::exp(10.0) * std::log(2.0)) - 1) < 13 * 0x1p-24);
    // exp(100) overflows, the product does not.
    CHECK(std::fabs(run_g(on, {100.0f}, {-50.0f})[0] / -std::exp(50.0) - 1) < 13 * 0x1p-24);
    CHECK(run_g(on, {100.0f}, {-5.0f})[0] == -INFINITY);
    // A sum that overflows: times an exponential that vanishes, and one that does not.
    CHECK(bits(run_g(on, {-200.0f}, {3e38f}, {3e38f})[0]) == 0x80000000u);
    CHECK(std::fabs(run_g(on, {-104.0f}, {3e38f}, {1e38f})[0] / (-4e38 * std::exp(-104.0)) - 1) < 15 * 0x1p-24);
    CHECK(run_g(on, {0.0f}, {3e38f}, {3e38f})[0] == -INFINITY);
    CHECK(bits(run_g(on, {300.0f}, {-3e38f}, {-3e38f})[0]) == 0x80000000u);
    // What rounding takes from a + dt_bias is all that is left.
    CHECK(std::fabs(run_g(on, {0x1p40f}, {-20.5f}, {-0x1p40f})[0] / -std::exp(-20.5) - 1) < 13 * 0x1p-24);

    std::vector<float> x, zeros;
    for (int i = 89; i <= 10000; i += 7) x.push_back(static_cast<float>(i));
    zeros.assign(x.size(), 0.0f);
    auto const softplus = run_g(on, zeros, x);
    bool equal = true;
    for (size_t i = 0; i < x.size(); ++i) equal = equal && softplus[i] == -x[i];
    CHECK(equal);
  });
}

TEST_CASE("G4 gates of infinities and NaN") {
  on_each_executor([&](auto& on) {
    auto const g = [&](float a_log, float a, float dt_bias) { return bits(run_g(on, {a_log}, {a}, {dt_bias})[0]); };
    uint32_t const minus_infinity = 0xff800000u, minus_zero = 0x80000000u, nan = 0x7fffffffu;
    CHECK(g(INFINITY, 5, 0) == minus_infinity);
    CHECK(g(INFINITY, -200, 0) == minus_infinity);
    CHECK(g(-INFINITY, 5, 0) == minus_zero);
    CHECK(g(-INFINITY, 3e38f, 3e38f) == minus_zero);
    CHECK(g(-300, INFINITY, 0) == minus_infinity);
    CHECK(g(300, -INFINITY, 0) == minus_zero);
    CHECK(g(-INFINITY, INFINITY, 0) == nan);
    CHECK(g(INFINITY, -INFINITY, 0) == nan);
    CHECK(g(0, INFINITY, -INFINITY) == nan);
    for (float const other : {0.0f, -200.0f, 3e38f, INFINITY}) {
      CHECK(g(NAN, other, 0) == nan);
      CHECK(g(other, NAN, 0) == nan);
      CHECK(g(other, 0, NAN) == nan);
    }
  });
}
