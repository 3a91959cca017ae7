// SPDX-License-Identifier: Apache-2.0
/// How far results are from the exact ones, and numbers at the ends of their range.
#include <ratify/recurrence.cuh>

#include "support/bits.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include "support/recurrence.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

using model = model_recurrence<>;
using lanes = lanes_recurrence<>;
using thin = thin_recurrence<>;
using small = small_recurrence<>;
/// FP32 inputs.
template <int ColumnThreads>
using single = ratify::recurrence_policy<ratify::input_format<float>, ratify::output_format<float>, ratify::key_dim<64>,
                                         ratify::value_dim<64>, ratify::column_threads<ColumnThreads>>;
using plain_single = ratify::recurrence_policy<ratify::input_format<float>, ratify::output_format<float>,
                                               ratify::key_dim<64>, ratify::value_dim<64>, ratify::l2norm<false>>;
using plain_small = small_recurrence_with<recurrence_mode::snapshots, ratify::l2norm<false>>;

/// The key as a row uses it: from a zero state with v = 1, beta = 1 and g = 0 every column of the state after one row
/// is that key. Compares with the twin on the way.
template <class Policy>
std::vector<float> key_as_used(std::vector<float> const& key) {
  auto s = shape_of<Policy>(1, 1);
  random_source random(9);
  auto r = make_round(random, s, 1, {1});
  r.fresh = {1};
  size_t const K = key.size();
  std::vector<float> stored;
  for (float x : key) stored.push_back(ratify::to_float(ratify::convert<typename Policy::input_format>(x)));
  reference::recurrence_inputs const in{stored, stored, std::vector<float>(K, 1.0f), {0.0f}, {1.0f}};
  check_against_twin<Policy>(s, in, r);
  auto const got = run<Policy>(host(), s, in, r);
  std::vector<float> column;
  for (size_t i = 0; i < K; ++i) column.push_back(got.pool[r.snapshot_slot[0] * r.slot_stride + i * K]);
  return column;
}

double norm(std::vector<float> const& v) {
  double sum = 0;
  for (float x : v) sum += double{x} * x;
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE_TEMPLATE("recurrence stays within its bound of FP64", Policy, model, small, plain_small) {
  random_source random(5);
  using output = typename Policy::output_format;
  auto const s = shape_of<Policy>(2, 4);
  auto const r = make_round(random, s, 16, {16});
  auto const in = make_inputs<Policy>(random, s, 16);
  reference::truth::recurrence exact(s);
  exact.start(&r.pool[r.initial_slot[0] * r.slot_stride]);
  std::vector<double> out, bound;
  for (int t = 0; t < 16; ++t) exact.row(in, t, out, bound);
  if (!std::is_same_v<output, float>)
    for (size_t i = 0; i < out.size(); ++i) bound[i] += 0x1p-11 * std::fabs(out[i]) + 0x1p-25;
  on_each_executor([&](auto& on) {
    auto const got = run<Policy>(on, s, in, r);
    CHECK(error_over_bound(got.out, out, bound) <= 1.0);
    // The state: the 2-norm of each column's error.
    float const* const state = &got.pool[r.snapshot_slot[15] * r.slot_stride];
    for (int h = 0; h < 4; ++h)
      for (int v = 0; v < s.value_dim; ++v) {
        double error = 0;
        for (int i = 0; i < s.key_dim; ++i) {
          size_t const at = (static_cast<size_t>(h) * s.key_dim + i) * s.value_dim + v;
          error += (state[at] - exact.state[at]) * (state[at] - exact.state[at]);
        }
        REQUIRE(std::sqrt(error) <= 1.01 * exact.state_bound[static_cast<size_t>(h) * s.value_dim + v]);
      }
  });
}

TEST_CASE("G5 l2norm is x / sqrt(sum x^2 + 1e-6)") {
  CHECK(norm(key_as_used<small>(std::vector<float>(64, 1.25e-5f))) == doctest::Approx(0.0995).epsilon(0.005));
  CHECK(norm(key_as_used<small>(std::vector<float>(64, 0.0f))) == 0.0);
  CHECK(norm(key_as_used<model>(std::vector<float>(128, 300.0f))) == doctest::Approx(1.0).epsilon(1e-6));
  for (float x : key_as_used<plain_small>(std::vector<float>(64, 0.5f))) CHECK(x == 0.5f);
}

TEST_CASE("G6 the error against FP64 stays flat over 4096 tokens, and a rounded beta shows") {
  random_source random(10);
  int const tokens = 4096, rows = 8;
  auto const s = shape_of<small>(1, 1);
  auto in = make_inputs<small>(random, s, tokens);
  in.g = random.uniforms<float>(tokens, -0.05f, -0.001f);
  auto bent = in;
  for (float& b : bent.beta) b = ratify::to_float(ratify::convert<ratify::bf16>(b));
  auto r = make_round(random, s, rows, {rows});
  r.pool.assign(r.pool.size(), 0.0f);
  reference::truth::recurrence exact(s);
  exact.start(r.pool.data());
  std::vector<double> truth, bound;
  for (int t = 0; t < tokens; ++t) exact.row(in, t, truth, bound);

  on_each_executor([&](auto& on) {
    auto const sequence = [&](reference::recurrence_inputs const& from) {
      auto round = r;
      std::vector<float> out;
      for (int t = 0; t < tokens; t += rows) {
        auto const got = run<small>(on, s, some_rows(s, from, t, t + rows), round);
        out.insert(out.end(), got.out.begin(), got.out.end());
        round.pool = got.pool;
        round.selector = {rows};
      }
      return out;
    };
    auto const error = [&](std::vector<float> const& out, int from, int to) {  // relative 2-norm
      double sum = 0, all = 0;
      for (int i = from * s.value_dim; i < to * s.value_dim; ++i) {
        sum += (out[i] - truth[i]) * (out[i] - truth[i]);
        all += truth[i] * truth[i];
      }
      return std::sqrt(sum / all);
    };
    auto const out = sequence(in);
    CHECK(error_over_bound(out, truth, bound) <= 1.0);
    double const early = error(out, 256, 768), late = error(out, tokens - 512, tokens);
    CHECK(late < 1.5 * early);
    CHECK(late < 1e-6);
    CHECK(error(sequence(bent), tokens - 512, tokens) > 100 * late);
  });
}

TEST_CASE("recurrence: NaN and infinities are data, and stay in their column") {
  random_source random(16);
  auto const s = shape_of<small>(1, 1);
  auto const r = make_round(random, s, 2, {2});
  auto in = make_inputs<small>(random, s, 2);
  in.v[5] = NAN;
  in.v[6] = INFINITY;
  in.g[1] = -INFINITY;
  check_against_twin<small>(s, in, r);
  check_against_twin<small_recurrence_on<8, 8>>(s, in, r);
  on_each_executor([&](auto& on) {
    auto const got = run<small>(on, s, in, r);
    for (int i = 0; i < 64; ++i) CHECK(std::isfinite(got.out[static_cast<size_t>(i)]) == (i != 5 && i != 6));
  });
}

TEST_CASE_TEMPLATE("recurrence: l2norm of a vector of any size", Policy, small, single<0>, single<4>, single<8>) {
  random_source random(20);
  // Sums of squares on both sides of what FP32 holds: 64 * x^2 = 2^128 at x = 2^61.
  for (float const size : {0x1.8p60f, 0x1.fp60f, 0x1p61f, 2e19f, 1e30f, 0x1.fep127f}) {
    CAPTURE(size);
    std::vector<float> key(64);
    for (float& x : key) x = size * random.uniform(-1.0f, 1.0f);
    key[3] = size;
    key[4] = 1e-38f;  // beside the others nothing
    CHECK(norm(key_as_used<Policy>(key)) == doctest::Approx(1.0).epsilon(1e-6));
    std::vector<float> one(64, 0.0f);
    one[17] = -size;
    CHECK(key_as_used<Policy>(one)[17] == doctest::Approx(-1.0).epsilon(1e-6));
    CHECK(norm(key_as_used<Policy>(std::vector<float>(64, size))) == doctest::Approx(1.0).epsilon(1e-6));
  }
  // Several rows, of which some overflow, beside an infinity and a NaN, which stay in their own row and head.
  auto const s = shape_of<Policy>(2, 2);
  auto r = make_round(random, s, 9, {9});
  auto in = make_inputs<Policy>(random, s, 9);
  int const width = s.key_heads * s.key_dim;
  auto const row = [&](std::vector<float>& x, int t, int head) {
    return &x[static_cast<size_t>(t * width + head * 64)];
  };
  for (int i = 0; i < 64; ++i)
    row(in.k, 0, 1)[i] *= 0x1p100f, row(in.q, 2, 0)[i] *= 0x1p120f, row(in.k, 8, 0)[i] *= 0x1p62f;
  row(in.q, 4, 0)[5] = INFINITY;
  row(in.q, 5, 1)[6] = NAN;
  check_against_twin<Policy>(s, in, r);
}

TEST_CASE_TEMPLATE("recurrence stays within its bound at the ends of its range", Policy, single<0>, plain_single) {
  random_source random(21);
  auto const s = shape_of<Policy>(1, 2);
  for (float const size : {0x1p122f, 0x1p-128f, 0x1p-140f}) {
    CAPTURE(size);
    auto r = make_round(random, s, 16, {16});
    auto in = make_inputs<Policy>(random, s, 16);
    // The 2-norm of a column of the state is below 8 * size, that of q and k about 1.
    for (float& x : r.pool) x = size * random.uniform(-1.0f, 1.0f);
    for (float& x : in.v) x = size * random.uniform(-1.0f, 1.0f);
    check_against_twin<Policy>(s, in, r);
    reference::truth::recurrence exact(s);
    exact.start(&r.pool[r.initial_slot[0] * r.slot_stride]);
    std::vector<double> out, bound;
    for (int t = 0; t < 16; ++t) {
      exact.row(in, t, out, bound);
      // Roundings to subnormal numbers, |scale q| below 1/4.
      for (size_t i = bound.size() - static_cast<size_t>(s.value_heads * s.value_dim); i < bound.size(); ++i)
        bound[i] += (t + 1) * 0x1p-144 - 0x1p-140;
    }
    on_each_executor([&](auto& on) {
      auto const got = run<Policy>(on, s, in, r);
      for (float const x : got.out) REQUIRE(std::isfinite(x));
      CHECK(error_over_bound(got.out, out, bound) <= 1.0);
    });
  }
}
