// SPDX-License-Identifier: Apache-2.0
/// Normalizations of numbers whose squares leave FP32: the result is right wherever it is itself an FP32 number, and
/// the bits are those of the plain sum of squares wherever that serves.
#include "support/normalization.hpp"

#include <cfloat>

namespace {

using namespace ratify_test;
using ratify::input_format;
using ratify::output_format;
using ratify::weight_format;

using rmsnorm_floats = ratify::rmsnorm<input_format<float>, output_format<float>, weight_format<float>>;
using gated_floats =
    ratify::gated_rmsnorm<input_format<float>, ratify::gate_format<float>, output_format<float>, weight_format<float>>;

/// The norm as it is defined without any scaling, and whether the plain sum serves: mean + eps in 2^-120 to FLT_MAX.
struct plain_norm {
  std::vector<float> values;
  bool serves;
};
plain_norm plain(std::vector<float> const& v, std::vector<float> const& weight, float eps) {
  reference::ieee_environment const environment;
  float const under_root = reference::add_rn(reference::mean_square(v, 1), eps);
  float const inverse = reference::rsqrt_ordered(under_root);
  plain_norm n{{}, under_root >= 0x1p-120f && under_root <= FLT_MAX};
  for (size_t i = 0; i < v.size(); ++i)
    n.values.push_back(reference::mul_rn(reference::mul_rn(v[i], inverse), reference::add_rn(1.0f, weight[i])));
  return n;
}

/// Against the twin, FP64 and, where it serves, the plain sum. v holds one row.
void check_row(std::vector<float> const& v, std::vector<float> const& weight, float eps) {
  CAPTURE(v.size());
  CAPTURE(v[0]);
  CAPTURE(eps);
  auto const expected = reference::rmsnorm(v, weight, true, eps);
  auto const truth = reference::truth::rmsnorm(v, weight, true, eps);
  std::vector<double> bound;
  for (size_t i = 0; i < v.size(); ++i)
    // Where v * inverse is subnormal it is rounded to a multiple of 2^-149.
    bound.push_back((reference::truth::inverse_rms_bound(v.size()) + 3.01 * reference::truth::unit) *
                        std::fabs(truth[i]) +
                    0x1p-149 * std::fabs(1.0 + weight[i]) + 0x1p-149);
  CHECK(error_over_bound(expected, truth, bound) <= 1.0);
  auto const unscaled = plain(v, weight, eps);
  if (unscaled.serves) CHECK(bit_difference(unscaled.values, expected) == "");
  on_each_executor([&](auto& on) {
    CHECK(bit_difference(run_rmsnorm<rmsnorm_floats>(on, v, {}, weight, false, eps).first, expected) == "");
  });
}

}  // namespace

TEST_CASE("rmsnorm over the whole range of FP32: the bound holds, and the plain sum's bits where it serves") {
  random_source random(36);
  // 1100 columns have a block per row.
  for (size_t const columns : {size_t{1}, size_t{8}, size_t{64}, size_t{1100}})
    for (int exponent = -149; exponent <= 127; exponent += columns == 8 ? 1 : 6)
      for (float const eps : {0.0f, 1e-6f, 0x1p-122f, 1e-45f, 3e38f}) {
        std::vector<float> v;
        for (size_t i = 0; i < columns; ++i)
          v.push_back(std::ldexp(random.uniform(1.0f, 1.99f), exponent) * static_cast<float>(random.one_of({-1, 1})));
        check_row(v, random.normals<float>(columns), eps);
      }
}

TEST_CASE("rmsnorm at the edges between the plain and the scaled sums") {
  // One column: the mean is the square. Where it is 2^-120, or the largest square that is finite, and beside it.
  for (float const edge : {0x1p-60f, 0x1.fffffep63f})
    for (float const x : {std::nextafter(edge, 0.0f), edge, std::nextafter(edge, INFINITY)})
      for (float const eps : {0.0f, 1e-6f}) check_row({x}, {0.25f}, eps);
  // eps alone: 2^-120 and below, and a sum with the mean that overflows.
  for (float const eps : {std::nextafter(0x1p-120f, 0.0f), 0x1p-120f, FLT_MAX}) {
    check_row({1e-30f, -2e-30f}, {0.0f, 1.0f}, eps);
    check_row({1.5e19f, -1.8e19f}, {0.0f, 1.0f}, eps);
  }
}

TEST_CASE("rmsnorm of rows that mix the largest and the smallest numbers") {
  random_source random(37);
  for (int round = 0; round < scaled(40); ++round) {
    std::vector<float> v;
    for (int i = random.integer(1, 200); i > 0; --i)
      v.push_back(std::ldexp(random.uniform(-2.0f, 2.0f), random.integer(-149, 127)));
    check_row(v, random.normals<float>(v.size()), random.one_of({0.0f, 1e-6f}));
    count_shape();
  }
  check_row({1e19f, 1e-19f, 3e38f, 1e-45f, -0.0f}, {0, 0, 0, 0, 0}, 1e-6f);
}

TEST_CASE("rmsnorm: residual and x whose sum has squares beyond FP32, the sum on the residual") {
  for (size_t const columns : {size_t{40}, size_t{1500}}) {
    std::vector<float> const x(columns, 1e19f), residual(columns, 2e19f), weight(columns, 0.0f);
    std::vector<float> const sum(columns, reference::add_rn(1e19f, 2e19f));
    auto const expected = reference::rmsnorm(sum, weight, true, usual_eps);
    CHECK(std::fabs(expected[7] - 1) < 1e-5f);
    on_each_executor([&](auto& on) {
      auto const got = run_rmsnorm<rmsnorm_floats>(on, x, residual, weight, true);
      CHECK(bit_difference(got.first, expected) == "");
      CHECK(bit_difference(got.second, sum) == "");
    });
  }
}

TEST_CASE("rmsnorm: a row with an infinity or a NaN, and a row of zeros without eps") {
  auto const norm = [](auto& on, std::vector<float> const& v, float eps) {
    return run_rmsnorm<rmsnorm_floats>(on, v, {}, std::vector<float>(v.size(), 0.0f), false, eps).first;
  };
  on_each_executor([&](auto& on) {
    auto const with_infinity = norm(on, {1e19f, INFINITY, -2.0f}, 1e-6f);
    CHECK(bits(with_infinity[0]) == 0u);
    CHECK(bits(with_infinity[1]) == 0x7fffffffu);
    CHECK(bits(with_infinity[2]) == 0x80000000u);
    for (float const y : norm(on, {1e19f, NAN, 1e-30f}, 0.0f)) CHECK(bits(y) == 0x7fffffffu);
    for (float const y : norm(on, {0.0f, -0.0f}, 0.0f)) CHECK(bits(y) == 0x7fffffffu);
    CHECK(bits(norm(on, {-0.0f}, 1e-45f)[0]) == 0x80000000u);
  });
}

TEST_CASE("gated_rmsnorm and qk_norm_rotary of numbers whose squares leave FP32") {
  random_source random(38);
  for (float const size : {1e-40f, 1e-30f, 1e19f, 1e38f})
    for (float const eps : {0.0f, 1e-6f}) {
      CAPTURE(size);
      CAPTURE(eps);
      std::vector<float> x;
      for (int i = 0; i < 3 * 40; ++i) x.push_back(size * random.uniform(-2.0f, 2.0f));
      auto const z = random.normals<float>(x.size(), 4), weight = random.normals<float>(40);
      auto const expected = expect_gated(x, z, weight, eps);
      CHECK(error_over_bound(expected.values, expected.truth, expected.bound) <= 1.0);
      on_each_executor([&](auto& on) {
        CHECK(bit_difference(run_gated<gated_floats>(on, x, z, weight, 3, gated_output::own, eps), expected.values) ==
              "");
      });
    }
  using rotary = ratify::qk_norm_rotary<input_format<ratify::bf16>, output_format<float>, weight_format<float>>;
  for (float const size : {1e-30f, 1e19f, 1e38f}) {
    std::vector<ratify::bf16> x;
    for (int i = 0; i < 24; ++i) x.push_back(ratify::convert<ratify::bf16>(size * random.uniform(-2.0f, 2.0f)));
    auto const weight = random.normals<float>(24, 0.3f);
    std::vector<float> const cos{0.5f, 0.1f, 1.0f, 0.0f}, sin{0.86f, 0.99f, 0.0f, -1.0f};
    auto const expected = reference::qk_norm_rotary(widened(x), weight, cos, sin, 0.0f);
    CHECK(std::fabs(expected[10]) > 1e-4f);
    on_each_executor([&](auto& on) {
      using executor = std::decay_t<decltype(on)>;
      buffer<ratify::bf16, executor> dx(on, x);
      buffer<float, executor> dw(on, weight), dc(on, cos), ds(on, sin), out(on, x.size());
      buffer<int32_t, executor> dp(on, std::vector<int32_t>{0});
      rotary::params p;
      p.x = {dx.data(), 24, 24};
      p.weight = dw.data();
      p.cos = dc.data();
      p.sin = ds.data();
      p.positions = dp.data();
      p.out = {out.data(), 24, 24};
      p.rows = p.heads = p.max_position = 1;
      p.head_dim = 24;
      p.rotary_dim = 8;
      p.eps = 0;
      auto const s = launch<rotary>(p, on);
      REQUIRE_MESSAGE(s, s.reason());
      CHECK(bit_difference(out.read(), expected) == "");
    });
  }
}
