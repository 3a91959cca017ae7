// SPDX-License-Identifier: Apache-2.0
#include <ratify/activation.cuh>

#include "reference/activation.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

struct gating_bf16 : ratify::gating_policy {
  using input_format = ratify::bf16;
};

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

}  // namespace

TEST_CASE_TEMPLATE("gating equals its twin bit for bit", Policy, ratify::gating_policy, gating_bf16) {
  random_source random(1);
  for (int round = 0; round < 20; ++round) {
    size_t const rows = random.integer(1, 40), heads = random.integer(1, 48);
    auto const a = random.normals<typename Policy::input_format>(rows * heads, 8),
               b = random.normals<typename Policy::input_format>(rows * heads, 8);
    auto const a_log = random.normals<float>(heads, 3), dt_bias = random.normals<float>(heads, 3);
    auto const expected = reference::gating(a, b, a_log, dt_bias);
    on_each_executor([&](auto& on) {
      auto const got = run_gating<Policy>(on, a, b, a_log, dt_bias);
      CHECK(bit_difference(got.g, expected.g) == "");
      CHECK(bit_difference(got.beta, expected.beta) == "");
    });
  }
}
