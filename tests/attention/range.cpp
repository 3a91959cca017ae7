// SPDX-License-Identifier: Apache-2.0
// Finite numbers near the ends of FP32: sums and products that overflow on the way to a result that does not.
#include <ratify/attention.cuh>

#include "support/attention.hpp"
#include "support/bits.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace ratify_test;

namespace {

using ratify::bf16;
template <class Query, class Cache>
using formats = ratify::attention_policy<ratify::head_dim<64>, ratify::partition_width<64>, ratify::q_format<Query>,
                                         ratify::kv_format<Cache>>;

template <class Case>
void check_within_bound(Case const& c, reference::attention_result const& got, int width) {
  auto const truth = reference::truth::attention(c, width);
  CHECK(error_over_bound(got.out, truth.out, truth.out_bound) <= 1.0);
  CHECK(error_over_bound(got.lse, truth.lse, truth.lse_bound) <= 1.0);
}

/// Compares with the twin, and with the truth where the results are FP32.
template <class Policy>
void check(attention_case_of<Policy> const& c) {
  check_equal_to_twin<Policy>(c);
  on_each_executor([&](auto& on) { check_within_bound(c, run_attention<Policy>(on, c), Policy::partition_width); });
}

}  // namespace

TEST_CASE("attention: a mean of values whose sum overflows is finite") {
  using policy = formats<float, bf16>;
  random_source random(50);
  float const largest = from_bits(0x7f7f0000u);  // of BF16
  std::function<float()> value;
  SUBCASE("the largest numbers") {
    value = [&] { return largest; };
  }
  SUBCASE("and their negatives") {
    value = [&] { return random.integer(0, 1) == 0 ? largest : -largest; };
  }
  SUBCASE("numbers of that size among others") {
    value = [&] { return random.integer(0, 2) == 0 ? random.uniform(-3e38f, 3e38f) : random.normal(); };
  }
  SUBCASE("an overflow in the sum over the partitions alone") {
    value = [&] { return random.uniform(2e36f, 4e36f); };
  }
  for (int const context : {2, 64, 300}) {
    CAPTURE(context);
    auto c = attention_case_with<policy>(random, 2, 1, {3}, {context}, 16);
    c.v_scale = {1.0f};
    for (auto& x : c.v) x = ratify::convert<bf16>(value());
    check<policy>(c);
  }
}

TEST_CASE("attention: a result that overflows by its scale alone is infinite") {
  using policy = formats<float, bf16>;
  random_source random(51);
  auto c = attention_case_with<policy>(random, 1, 1, {1}, {20}, 16);
  std::fill(c.v.begin(), c.v.end(), ratify::convert<bf16>(3e38f));
  c.v_scale = {2.0f};
  check_equal_to_twin<policy>(c);
  on_each_executor([&](auto& on) {
    for (float const x : run_attention<policy>(on, c).out) CHECK(x == INFINITY);
  });
  c.v_scale = {0.5f};
  check<policy>(c);
}

TEST_CASE_TEMPLATE("attention: a score whose dot product overflows is right", Policy, formats<float, ratify::e4m3>,
                   formats<bf16, ratify::e5m2>, formats<float, ratify::f16>, formats<bf16, bf16>,
                   formats<ratify::f16, bf16>) {
  random_source random(52);
  bool const large_q = !std::is_same_v<typename Policy::q_format, ratify::f16>;
  bool const large_k = std::is_same_v<typename Policy::kv_format, bf16>;
  for (int round = 0; round < scaled(10); ++round) {
    auto c = attention_case_with<Policy>(random, 6, 2, {3, 1}, {70, 9}, 16);
    for (auto& x : c.q) x = ratify::convert<typename Policy::q_format>(random.normal() * (large_q ? 5e37f : 1e4f));
    for (auto& x : c.k) x = ratify::convert<typename Policy::kv_format>(random.normal() * (large_k ? 5e37f : 300.0f));
    c.k_scale = {large_k ? 1e-38f : 1e-20f};
    c.softmax_scale =
        random.one_of({0.1f, 1.0f, 30.0f}) / ((large_q ? 5e37f : 1e4f) * c.k_scale[0] * (large_k ? 5e37f : 300.0f));
    check<Policy>(c);
    count_shape();
  }
}

// q = 3e38, K of ones: the sum of 64 products overflows, and the smallest scales bring it back.
TEST_CASE("attention: scores of overflowing dot products at the ends of the scales") {
  using policy = formats<float, ratify::e4m3>;
  random_source random(53);
  auto c = attention_case_with<policy>(random, 1, 1, {1}, {5}, 16);
  std::fill(c.q.begin(), c.q.end(), 3e38f);
  std::fill(c.k.begin(), c.k.end(), ratify::convert<ratify::e4m3>(1.0f));
  c.v_scale = {1.0f};
  struct trial {
    float softmax_scale, k_scale;
    double lse;  // the score; NaN where it overflows
  };
  for (trial const t : {trial{1e-40f, 1, 0},
                        {from_bits(1), 1, 0},
                        {1, from_bits(1), 0},
                        {1e-30f, 1e-30f, 0},
                        {1e-38f, 1e-4f, 0},
                        {1, 0, 0},
                        {3e38f, 1e-38f, NAN},
                        {0.01f, 1, 1},
                        {1, 1, NAN},
                        {1, NAN, NAN},
                        {1, INFINITY, NAN}}) {
    CAPTURE(t.softmax_scale);
    CAPTURE(t.k_scale);
    c.softmax_scale = t.softmax_scale;
    c.k_scale = {t.k_scale};
    check_equal_to_twin<policy>(c);
    double const score = 64.0 * c.q[0] * t.softmax_scale * t.k_scale;
    on_each_executor([&](auto& on) {
      auto const r = run_attention<policy>(on, c);
      if (std::isnan(t.lse)) {
        CHECK(bits(r.lse[0]) == 0x7fffffffu);
      } else {
        CHECK(r.lse[0] == doctest::Approx(score + std::log(5.0)).epsilon(1e-5));
        CHECK(std::isfinite(r.out[0]));
      }
    });
  }
}

TEST_CASE("attention: scores at the largest numbers differ by more than FP32 holds") {
  using policy = formats<float, bf16>;
  random_source random(54);
  auto c = attention_case_with<policy>(random, 1, 1, {1}, {100}, 16);
  std::fill(c.q.begin(), c.q.end(), 0.0f);
  c.q[0] = 1;
  c.softmax_scale = 1;
  c.k_scale = c.v_scale = {1.0f};
  for (int t = 0; t < 100; ++t)
    c.k[c.kv_at(0, t, 0)] = ratify::convert<bf16>(random.one_of({3.3e38f, -3.3e38f, -1e38f}));
  c.k[c.kv_at(0, 3, 0)] = ratify::convert<bf16>(3.3e38f);
  check<policy>(c);
}

// Weights of 0 to 20 times 2^-149 beside one of 1 whose value is 0: what the others add is as large as their values.
TEST_CASE("attention: values so large that subnormal weights count") {
  using policy = formats<float, bf16>;
  random_source random(55);
  for (int const context : {40, 200}) {
    auto c = attention_case_with<policy>(random, 1, 1, {1}, {context}, 16);
    std::fill(c.q.begin(), c.q.end(), 0.0f);
    c.q[0] = 1;
    c.softmax_scale = 1;
    c.k_scale = c.v_scale = {1.0f};
    for (auto& x : c.v) x = ratify::convert<bf16>(random.uniform(1e38f, 3e38f));
    for (int t = 0; t < context; ++t) c.k[c.kv_at(0, t, 0)] = ratify::convert<bf16>(random.uniform(-104.0f, -100.3f));
    c.k[c.kv_at(0, 7, 0)] = ratify::convert<bf16>(0.0f);
    std::fill_n(c.v.begin() + static_cast<long>(c.kv_at(0, 7, 0)), 64, ratify::convert<bf16>(0.0f));
    check<policy>(c);
  }
}
