// SPDX-License-Identifier: Apache-2.0
#include <ratify/attention.cuh>

#include "support/attention.hpp"
#include "support/bits.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace ratify_test;

TEST_CASE("attention of the demo model, TP1 and TP2 stays within its error bound") {
  random_source random(14);
  struct shape {
    int q_heads, kv_heads;
  };
  for (shape const s : {shape{2, 1}, shape{24, 4}, shape{12, 2}}) {
    auto c = random_attention_case<verify_policy>(random);
    c = attention_case_with<verify_policy>(random, s.q_heads, s.kv_heads, {8}, {1300}, 64);
    auto const truth = reference::truth::attention(c, verify_policy::partition_width);
    on_each_executor([&](auto& on) {
      auto const got = run_attention<verify_policy>(on, c);
      CHECK(error_over_bound(got.out, truth.out, truth.out_bound) <= 1.0);
      CHECK(error_over_bound(got.lse, truth.lse, truth.lse_bound) <= 1.0);
      CHECK(error_over_bound(got.out, truth.out, truth.out_bound) > 0.0);
    });
  }
}

TEST_CASE("A7 dot products beyond FP16") {
  random_source random(23);
  auto c = attention_case_with<verify_policy>(random, 1, 1, {1}, {40}, 16);
  std::fill(c.q.begin(), c.q.end(), ratify::convert<ratify::f16>(20.0f));
  std::fill(c.k.begin(), c.k.end(), ratify::convert<ratify::e4m3>(20.0f));
  c.k_scale = {1.0f};
  auto const truth = reference::truth::attention(c, 1024);
  on_each_executor([&](auto& on) {
    auto const r = run_attention<verify_policy>(on, c);
    CHECK(std::isfinite(r.lse[0]));
    for (size_t i = 0; i < r.out.size(); ++i) CHECK(r.out[i] == doctest::Approx(truth.out[i]).epsilon(1e-4));
  });
}

TEST_CASE("A8 scales per tensor and per KV head") {
  random_source random(24);
  for (bool per_head : {false, true}) {
    auto c = attention_case_with<verify_policy>(random, 8, 4, {8}, {77}, 1);
    c.scale_per_head = per_head;
    c.k_scale = per_head ? std::vector<float>{0.37f, 0.5f, 0.11f, 1.7f} : std::vector<float>{0.37f};
    c.v_scale = per_head ? std::vector<float>{2.5f, 0.3f, 1.0f, 7.0f} : std::vector<float>{2.5f};
    auto const truth = reference::truth::attention(c, 1024);
    on_each_executor([&](auto& on) {
      auto const r = run_attention<verify_policy>(on, c);
      CHECK(error_over_bound(r.out, truth.out, truth.out_bound) <= 1.0);
    });
    check_equal_to_twin<verify_policy>(c);
  }
}
