// SPDX-License-Identifier: Apache-2.0
/// The normalizations against their twins, bit for bit, and FP64 truth within the bounds of docs/arithmetic.md.
#include "support/normalization.hpp"

#include <algorithm>
#include <array>

namespace {

using namespace ratify_test;
using ratify::bf16;
using ratify::f16;
using ratify::input_format;
using ratify::output_format;
using ratify::unit_offset;
using ratify::weight_format;

/// A drafter's norm of an FP32 stream.
using rmsnorm_fp32 =
    ratify::rmsnorm<input_format<float>, output_format<float>, weight_format<bf16>, unit_offset<false>>;
using gated_fp32 = ratify::gated_rmsnorm<input_format<float>, output_format<float>>;
using rotary_fp32 = ratify::qk_norm_rotary<output_format<float>>;
using rotary_f16 = ratify::qk_norm_rotary<>;

template <class Operation>
void check_rmsnorm(random_source& random, int rows, int columns, bool with_residual) {
  using policy = typename Operation::policy;
  CAPTURE(rows);
  CAPTURE(columns);
  auto const x = random.normals<typename policy::input_format>(static_cast<size_t>(rows) * columns, 3);
  auto const residual =
      with_residual ? random.normals<float>(static_cast<size_t>(rows) * columns, 3) : std::vector<float>{};
  auto const weight = random.normals<typename policy::weight_format>(columns);
  std::vector<typename policy::output_format> expected;
  std::vector<float> sums, values;
  std::vector<double> truth, bound;
  for (int row = 0; row < rows; ++row) {
    auto v = widened(part(x, static_cast<size_t>(row) * columns, columns));
    if (with_residual)
      for (int i = 0; i < columns; ++i)
        v[i] = reference::add_rn(v[i], residual[static_cast<size_t>(row) * columns + i]);
    for (float const y : reference::rmsnorm(v, widened(weight), policy::unit_offset, usual_eps)) {
      expected.push_back(ratify::convert<typename policy::output_format>(y));
      values.push_back(y);
    }
    for (double const y : reference::truth::rmsnorm(v, widened(weight), policy::unit_offset, usual_eps)) {
      truth.push_back(y);
      bound.push_back((reference::truth::inverse_rms_bound(columns) + 3.01 * reference::truth::unit) * std::fabs(y));
    }
    sums.insert(sums.end(), v.begin(), v.end());
  }
  CHECK(error_over_bound(values, truth, bound) <= 1.0);
  on_each_executor([&](auto& on) {
    for (bool const in_place : {false, true}) {
      if (in_place && !with_residual) continue;
      auto const got = run_rmsnorm<Operation>(on, x, residual, weight, in_place);
      CHECK(bit_difference(got.first, expected) == "");
      CHECK(bit_difference(got.second, sums) == "");
    }
  });
}

}  // namespace

TEST_CASE("rmsnorm equals its twin bit for bit, and FP64 within the bound") {
  random_source random(30);
  for (int const columns : {256, 5120, 1, 31, 32, 33, 127, 1000})
    for (int const rows : {1, 8, 5}) {
      check_rmsnorm<ratify::rmsnorm<>>(random, rows, columns, rows == 8);
      check_rmsnorm<rmsnorm_fp32>(random, rows, columns, rows != 8);
    }
  for (int i = 0; i < scaled(8); ++i) {
    int const columns = random.integer(1, random.one_of({70, 1500})), rows = random.integer(1, 32);
    check_rmsnorm<ratify::rmsnorm<>>(random, rows, columns, random.integer(0, 1) == 1);
    check_rmsnorm<rmsnorm_fp32>(random, rows, columns, random.integer(0, 1) == 1);
    count_shape();
    count_shape();
  }
}

TEST_CASE("rmsnorm: zeros stay zeros, a row's NaN is its own, large numbers of an FP32 stream keep their size") {
  std::vector<float> x(4 * 64, 0.0f);
  for (int i = 0; i < 64; ++i) x[64 + i] = i == 3 ? NAN : 1.0f;
  for (int i = 0; i < 64; ++i) x[128 + i] = 1e15f;
  for (int i = 0; i < 64; ++i) x[192 + i] = -1.0f;
  std::vector<bf16> const weight(64, ratify::convert<bf16>(2.0f));
  on_each_executor([&](auto& on) {
    auto const got = run_rmsnorm<rmsnorm_fp32>(on, x, {}, weight, false).first;
    for (int i = 0; i < 64; ++i) {
      CHECK(bits(got[i]) == 0);
      CHECK(bits(got[64 + i]) == 0x7fffffffu);
      CHECK(std::fabs(got[128 + i] - 2.0f) < 1e-6f);
      CHECK(std::fabs(got[192 + i] + 2.0f) < 2e-6f);
    }
  });
}

TEST_CASE_TEMPLATE("gated_rmsnorm equals its twin bit for bit, and FP64 within the bound", Operation,
                   ratify::gated_rmsnorm<>, gated_fp32) {
  using policy = typename Operation::policy;
  random_source random(31);
  std::vector<std::array<int, 3>> shapes{{8, 2, 128}, {1, 2, 128}, {8, 48, 128}, {3, 24, 128}, {5, 3, 17}, {2, 7, 96}};
  for (int i = 0; i < scaled(6); ++i)
    shapes.push_back({random.integer(1, 32), random.one_of({random.integer(1, 9), 6, 12}), random.integer(1, 140)});
  for (auto const& s : shapes) {
    int const heads = s[1], dim = s[2];
    size_t const n = static_cast<size_t>(s[0]) * heads * dim;
    auto const x = random.normals<typename policy::input_format>(n, 2);
    auto z = random.normals<typename policy::gate_format>(n, 4);
    z[0] = ratify::convert<typename policy::gate_format>(-INFINITY);
    auto const weight = random.normals<typename policy::weight_format>(dim);
    auto const expected = expect_gated(widened(x), widened(z), widened(weight), usual_eps);
    CHECK(error_over_bound(expected.values, expected.truth, expected.bound) <= 1.0);
    on_each_executor([&](auto& on) {
      auto const as_stored = rounded<typename policy::output_format>(expected.values);
      CHECK(bit_difference(run_gated<Operation>(on, x, z, weight, heads), as_stored) == "");
      for (auto const where : {gated_output::on_x, gated_output::on_z})
        CHECK(bit_difference(run_gated<Operation>(on, x, z, weight, heads, where), as_stored) == "");
    });
    count_shape();
  }
}

TEST_CASE("qk_norm_rotary equals its twin bit for bit, and FP64 within the bound") {
  random_source random(32);
  std::vector<std::array<int, 4>> shapes{{8, 2, 256, 64},  {8, 12, 256, 64}, {1, 1, 256, 64}, {1, 24, 256, 64},
                                         {3, 4, 128, 128}, {5, 2, 96, 6},    {2, 2, 40, 0}};
  for (int i = 0; i < scaled(6); ++i) {
    int const dim = random.one_of({64, 128, 256, 8 * random.integer(1, 32)});
    shapes.push_back({random.integer(1, 32), random.one_of({1, 3, 4, 6}), dim, 2 * random.integer(0, dim / 2)});
  }
  for (auto const& s : shapes) {
    auto const o = random_rotary(random, s[0], s[1], s[2], s[3]);
    auto const expected = rotary_twin(o);
    std::vector<double> truth, bound;
    for (int row = 0; row < o.rows; ++row)
      for (int head = 0; head < o.heads; ++head) {
        auto const n = reference::truth::rmsnorm(
            widened(part(o.x, (static_cast<size_t>(row) * o.heads + head) * 2 * o.dim, o.dim)), widened(o.weight), true,
            usual_eps);
        int const half = o.rotary / 2;
        double const norm_error = reference::truth::inverse_rms_bound(o.dim) + 3.01 * reference::truth::unit;
        for (int i = 0; i < o.dim; ++i) {
          bool const turns = i < o.rotary;
          int const pair = turns ? i % half : 0;
          double const c = turns ? o.cos[static_cast<size_t>(o.position[row]) * half + pair] : 1;
          double const sine = turns ? o.sin[static_cast<size_t>(o.position[row]) * half + pair] : 0;
          double const other = !turns ? 0 : i < half ? -n[i + half] : n[i - half];
          truth.push_back(n[i] * c + other * sine);
          bound.push_back((norm_error + 2.01 * reference::truth::unit) *
                              (std::fabs(n[i] * c) + std::fabs(other * sine)) +
                          0x1p-140);
        }
      }
    CHECK(error_over_bound(expected, truth, bound) <= 1.0);
    on_each_executor([&](auto& on) {
      CHECK(bit_difference(run_rotary<rotary_fp32>(on, o), expected) == "");
      CHECK(bit_difference(run_rotary<rotary_f16>(on, o), rounded<f16>(expected)) == "");
      CHECK(bit_difference(run_rotary<rotary_f16>(on, o, true), rounded<f16>(expected)) == "");
    });
    count_shape();
  }
}

TEST_CASE("qk_norm_rotary: a position outside the tables gives a zero row, and no other row changes") {
  random_source random(33);
  auto o = random_rotary(random, 6, 2, 64, 32);
  o.position = {0, -1, 36, 37, INT32_MAX, INT32_MIN};
  auto const expected = rotary_twin(o);
  on_each_executor([&](auto& on) { CHECK(bit_difference(run_rotary<rotary_fp32>(on, o), expected) == ""); });
}

TEST_CASE("a row's norm has the bits it has alone") {
  random_source random(34);
  auto const o = random_rotary(random, 9, 3, 64, 32);
  on_each_executor([&](auto& on) {
    auto const all = run_rotary<rotary_fp32>(on, o);
    for (int row = 0; row < o.rows; ++row) {
      auto one = o;
      one.rows = 1;
      size_t const n = static_cast<size_t>(o.heads) * 2 * o.dim;
      one.x.assign(o.x.begin() + static_cast<int64_t>(row * n), o.x.begin() + static_cast<int64_t>((row + 1) * n));
      one.position = {o.position[row]};
      std::vector<float> const expected(all.begin() + static_cast<int64_t>(row * n / 2),
                                        all.begin() + static_cast<int64_t>((row + 1) * n / 2));
      CHECK(bit_difference(run_rotary<rotary_fp32>(on, one), expected) == "");
    }
  });
}
