// SPDX-License-Identifier: Apache-2.0
#include <ratify/normalization.cuh>

#include "reference/normalization.hpp"
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
using ratify::convert;
using ratify::f16;
using ratify::to_float;

constexpr float eps = 1e-6f;

struct rmsnorm_fp32 : ratify::rmsnorm_policy {  // a drafter's norm of an FP32 stream
  using input_format = float;
  using output_format = float;
  using weight_format = bf16;
  static constexpr bool unit_offset = false;
};
struct gated_fp32 : ratify::gated_rmsnorm_policy {
  using input_format = float;
  using output_format = float;
};
struct rotary_fp32 : ratify::qk_norm_rotary_policy {
  using output_format = float;
};

template <class Format>
std::vector<float> floats(std::vector<Format> const& v, size_t first, size_t n) {
  std::vector<float> out;
  for (size_t i = first; i < first + n; ++i) out.push_back(to_float(v[i]));
  return out;
}
template <class Format>
std::vector<float> floats(std::vector<Format> const& v) {
  return floats(v, 0, v.size());
}

/// x [rows, columns], residual the same or empty. Rows have a gap between them; `in_place` puts the sum on the
/// residual.
template <class Policy, class Executor>
auto run_rmsnorm(Executor& on, std::vector<typename Policy::input_format> const& x, std::vector<float> const& residual,
                 std::vector<typename Policy::weight_format> const& weight, bool in_place) {
  using input = typename Policy::input_format;
  using output = typename Policy::output_format;
  size_t const columns = weight.size(), rows = x.size() / columns, stride = columns + 5;
  std::vector<input> spread(rows * stride, convert<input>(NAN));
  for (size_t i = 0; i < x.size(); ++i) spread[i / columns * stride + i % columns] = x[i];
  buffer<input, Executor> dx(on, spread);
  buffer<float, Executor> dr(on, residual), ds(on, x.size());
  buffer<typename Policy::weight_format, Executor> dw(on, weight);
  buffer<output, Executor> dout(on, x.size());
  typename ratify::rmsnorm<Policy>::params p;
  p.x = {dx.data(), static_cast<int64_t>(stride)};
  if (!residual.empty()) p.residual = {dr.data(), int64_t(columns)};
  p.residual_out = {in_place ? dr.data() : ds.data(), int64_t(columns)};
  p.weight = dw.data();
  p.out = {dout.data(), int64_t(columns)};
  p.rows = static_cast<int>(rows);
  p.columns = static_cast<int>(columns);
  p.eps = eps;
  auto const s = launch<ratify::rmsnorm<Policy>>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  return std::pair(dout.read(), in_place ? dr.read() : ds.read());
}

template <class Policy>
void check_rmsnorm(random_source& random, int rows, int columns, bool with_residual) {
  CAPTURE(rows);
  CAPTURE(columns);
  auto const x = random.normals<typename Policy::input_format>(static_cast<size_t>(rows) * columns, 3);
  auto const residual =
      with_residual ? random.normals<float>(static_cast<size_t>(rows) * columns, 3) : std::vector<float>{};
  auto const weight = random.normals<typename Policy::weight_format>(columns);
  std::vector<typename Policy::output_format> expected;
  std::vector<float> sums, values;
  std::vector<double> truth, bound;
  for (int row = 0; row < rows; ++row) {
    auto v = floats(x, static_cast<size_t>(row) * columns, columns);
    if (with_residual)
      for (int i = 0; i < columns; ++i)
        v[i] = ratify::detail::add_rn(v[i], residual[static_cast<size_t>(row) * columns + i]);
    for (float const y : reference::rmsnorm(v, floats(weight), Policy::unit_offset, eps)) {
      expected.push_back(convert<typename Policy::output_format>(y));
      values.push_back(y);
    }
    for (double const y : reference::truth::rmsnorm(v, floats(weight), Policy::unit_offset, eps)) {
      truth.push_back(y);
      bound.push_back((reference::truth::inverse_rms_bound(columns) + 3.01 * reference::truth::unit) * std::fabs(y));
    }
    sums.insert(sums.end(), v.begin(), v.end());
  }
  CHECK(error_over_bound(values, truth, bound) <= 1.0);
  on_each_executor([&](auto& on) {
    for (bool const in_place : {false, true}) {
      if (in_place && !with_residual) continue;
      auto const got = run_rmsnorm<Policy>(on, x, residual, weight, in_place);
      CHECK(bit_difference(got.first, expected) == "");
      CHECK(bit_difference(got.second, sums) == "");
    }
  });
}

/// x, z [rows, heads, head_dim]; z of a head lies behind its x.
template <class Policy, class Executor>
auto run_gated(Executor& on, std::vector<typename Policy::input_format> const& x,
               std::vector<typename Policy::gate_format> const& z,
               std::vector<typename Policy::weight_format> const& weight, int heads) {
  size_t const dim = weight.size();
  buffer<typename Policy::input_format, Executor> dx(on, x);
  buffer<typename Policy::gate_format, Executor> dz(on, z);
  buffer<typename Policy::weight_format, Executor> dw(on, weight);
  buffer<typename Policy::output_format, Executor> dout(on, x.size());
  typename ratify::gated_rmsnorm<Policy>::params p;
  auto const d = static_cast<int64_t>(dim);
  p.x = {dx.data(), d * heads, d};
  p.z = {dz.data(), d * heads, d};
  p.weight = dw.data();
  p.out = {dout.data(), d * heads, d};
  p.rows = static_cast<int>(x.size() / dim) / heads;
  p.heads = heads;
  p.head_dim = static_cast<int>(dim);
  p.eps = eps;
  auto const s = launch<ratify::gated_rmsnorm<Policy>>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  return dout.read();
}

struct rotary_operands {
  int rows, heads, dim, rotary, positions;
  std::vector<f16> x;  // [rows, heads, 2, dim]: the head, then as much of something else
  std::vector<f16> weight;
  std::vector<float> cos, sin;
  std::vector<int32_t> position;
};

rotary_operands random_rotary(random_source& random, int rows, int heads, int dim, int rotary) {
  rotary_operands o{rows, heads, dim, rotary, 37, {}, {}, {}, {}, {}};
  o.x = random.normals<f16>(static_cast<size_t>(rows) * heads * 2 * dim, 2);
  o.weight = random.normals<f16>(dim, 0.3f);
  for (int p = 0; p < o.positions; ++p)
    for (int i = 0; i < rotary / 2; ++i) {
      double const angle = p * std::pow(1e7, -2.0 * i / rotary);
      o.cos.push_back(static_cast<float>(std::cos(angle)));
      o.sin.push_back(static_cast<float>(std::sin(angle)));
    }
  for (int row = 0; row < rows; ++row) o.position.push_back(random.integer(0, o.positions - 1));
  return o;
}

/// out [rows, heads, dim]; with `in_place` it is written over x.
template <class Policy, class Executor>
auto run_rotary(Executor& on, rotary_operands const& o, bool in_place = false) {
  using output = typename Policy::output_format;
  size_t const n = static_cast<size_t>(o.rows) * o.heads * o.dim;
  buffer<f16, Executor> dx(on, o.x), dw(on, o.weight);
  buffer<float, Executor> dc(on, o.cos), ds(on, o.sin);
  buffer<int32_t, Executor> dp(on, o.position);
  buffer<output, Executor> dout(on, n);
  typename ratify::qk_norm_rotary<Policy>::params p;
  int64_t const d = o.dim;
  p.x = {dx.data(), 2 * d * o.heads, 2 * d};
  p.out = {dout.data(), d * o.heads, d};
  if constexpr (std::is_same_v<output, f16>)
    if (in_place) p.out = {dx.data(), 2 * d * o.heads, 2 * d};
  p.weight = dw.data();
  p.cos = dc.data();
  p.sin = ds.data();
  p.positions = dp.data();
  p.rows = o.rows;
  p.heads = o.heads;
  p.head_dim = o.dim;
  p.rotary_dim = o.rotary;
  p.max_position = o.positions;
  p.eps = eps;
  auto const s = launch<ratify::qk_norm_rotary<Policy>>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  if constexpr (std::is_same_v<output, f16>)
    if (in_place) {
      auto const all = dx.read();
      std::vector<f16> out;
      bool untouched = true;
      for (size_t i = 0; i < all.size(); ++i)
        if (i / o.dim % 2 == 0)
          out.push_back(all[i]);
        else
          untouched = untouched && all[i].bits == o.x[i].bits;
      CHECK(untouched);
      return out;
    }
  return dout.read();
}

std::vector<float> rotary_twin(rotary_operands const& o) {
  std::vector<float> out;
  size_t const half = o.rotary / 2;
  for (int row = 0; row < o.rows; ++row)
    for (int head = 0; head < o.heads; ++head) {
      int const position = o.position[row];
      if (position < 0 || position >= o.positions) {
        out.insert(out.end(), o.dim, 0.0f);
        continue;
      }
      auto const one = reference::qk_norm_rotary(
          floats(o.x, (static_cast<size_t>(row) * o.heads + head) * 2 * o.dim, o.dim), floats(o.weight),
          floats(o.cos, position * half, half), floats(o.sin, position * half, half), eps);
      out.insert(out.end(), one.begin(), one.end());
    }
  return out;
}

template <class Format>
std::vector<Format> stored(std::vector<float> const& values) {
  std::vector<Format> v;
  for (float const x : values) v.push_back(convert<Format>(x));
  return v;
}

}  // namespace

TEST_CASE("rmsnorm equals its twin bit for bit, and FP64 within the bound") {
  random_source random(30);
  for (int const columns : {256, 5120, 1, 31, 32, 33, 127, 1000})
    for (int const rows : {1, 8, 5}) {
      check_rmsnorm<ratify::rmsnorm_policy>(random, rows, columns, rows == 8);
      check_rmsnorm<rmsnorm_fp32>(random, rows, columns, rows != 8);
    }
  for (int i = 0; i < scaled(8); ++i) {
    int const columns = random.integer(1, random.one_of({70, 1500})), rows = random.integer(1, 32);
    check_rmsnorm<ratify::rmsnorm_policy>(random, rows, columns, random.integer(0, 1) == 1);
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
  std::vector<bf16> const weight(64, convert<bf16>(2.0f));
  on_each_executor([&](auto& on) {
    auto const got = run_rmsnorm<rmsnorm_fp32>(on, x, {}, weight, false).first;
    for (int i = 0; i < 64; ++i) {
      CHECK(ratify::detail::bits(got[i]) == 0);
      CHECK(ratify::detail::bits(got[64 + i]) == 0x7fffffffu);
      CHECK(std::fabs(got[128 + i] - 2.0f) < 1e-6f);
      CHECK(std::fabs(got[192 + i] + 2.0f) < 2e-6f);
    }
  });
}

TEST_CASE_TEMPLATE("gated_rmsnorm equals its twin bit for bit, and FP64 within the bound", Policy,
                   ratify::gated_rmsnorm_policy, gated_fp32) {
  random_source random(31);
  std::vector<std::array<int, 3>> shapes{{8, 2, 128}, {1, 2, 128}, {8, 48, 128}, {3, 24, 128}, {5, 3, 17}, {2, 7, 96}};
  for (int i = 0; i < scaled(6); ++i)
    shapes.push_back({random.integer(1, 32), random.one_of({random.integer(1, 9), 6, 12}), random.integer(1, 140)});
  for (auto const& s : shapes) {
    int const heads = s[1], dim = s[2];
    size_t const n = static_cast<size_t>(s[0]) * heads * dim;
    auto const x = random.normals<typename Policy::input_format>(n, 2);
    auto z = random.normals<typename Policy::gate_format>(n, 4);
    z[0] = convert<typename Policy::gate_format>(-INFINITY);
    auto const weight = random.normals<typename Policy::weight_format>(dim);
    std::vector<float> expected;
    std::vector<double> truth, bound;
    for (size_t first = 0; first < n; first += dim) {
      auto const v = floats(x, first, dim), gate = floats(z, first, dim);
      auto const one = reference::gated_rmsnorm(v, floats(weight), gate, eps);
      expected.insert(expected.end(), one.begin(), one.end());
      auto const norm = reference::truth::rmsnorm(v, floats(weight), false, eps);
      for (int i = 0; i < dim; ++i) {
        double const g = gate[i];
        double const silu = std::isinf(g) ? 0.0 : g < 0 ? g * std::exp(g) / (1 + std::exp(g)) : g / (1 + std::exp(-g));
        truth.push_back(norm[i] * silu);
        bound.push_back((reference::truth::inverse_rms_bound(dim) + 12.01 * reference::truth::unit) *
                            std::fabs(truth.back()) +
                        0x1p-140);
      }
    }
    CHECK(error_over_bound(expected, truth, bound) <= 1.0);
    on_each_executor([&](auto& on) {
      CHECK(bit_difference(run_gated<Policy>(on, x, z, weight, heads),
                           stored<typename Policy::output_format>(expected)) == "");
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
            floats(o.x, (static_cast<size_t>(row) * o.heads + head) * 2 * o.dim, o.dim), floats(o.weight), true, eps);
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
      CHECK(bit_difference(run_rotary<ratify::qk_norm_rotary_policy>(on, o), stored<f16>(expected)) == "");
      CHECK(bit_difference(run_rotary<ratify::qk_norm_rotary_policy>(on, o, true), stored<f16>(expected)) == "");
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

TEST_CASE("normalizations refuse what is not built, with the reason") {
  auto const reason = [](auto operation, auto const& p) { return refusal<decltype(operation)>(p); };
  {
    using op = ratify::rmsnorm<ratify::rmsnorm_policy>;
    op::params p;
    p.columns = 4;
    CHECK(op::launch(p, {}, host()));
    p.rows = -1;
    CHECK(reason(op{}, p) == "ratify::rmsnorm: rows must not be negative");
    p.rows = 1;
    for (int const columns : {0, (1 << 30) + 1, INT32_MAX}) {
      p.columns = columns;
      CHECK(reason(op{}, p) == "ratify::rmsnorm: columns must be 1 to 2^30");
    }
    p.columns = 1 << 30;
    CHECK(reason(op{}, p) == "");
  }
  {
    using op = ratify::gated_rmsnorm<ratify::gated_rmsnorm_policy>;
    op::params p;
    p.heads = 1;
    p.head_dim = 4;
    CHECK(op::launch(p, {}, host()));
    p.rows = -1;
    CHECK(reason(op{}, p) == "ratify::gated_rmsnorm: rows must not be negative");
    p.rows = 1;
    p.heads = 0;
    CHECK(reason(op{}, p) == "ratify::gated_rmsnorm: heads must be at least 1");
    p.heads = 1;
    for (int const dim : {0, (1 << 30) + 1, INT32_MAX}) {
      p.head_dim = dim;
      CHECK(reason(op{}, p) == "ratify::gated_rmsnorm: head_dim must be 1 to 2^30 elements");
    }
  }
  {
    using op = ratify::qk_norm_rotary<ratify::qk_norm_rotary_policy>;
    op::params p;
    p.heads = 1;
    p.head_dim = 8;
    CHECK(op::launch(p, {}, host()));
    p.rows = 1;
    for (int const rotary : {-2, 3, 10}) {
      p.rotary_dim = rotary;
      CHECK(reason(op{}, p) == "ratify::qk_norm_rotary: rotary_dim must be even and 0 to head_dim");
    }
    p.rotary_dim = 8;
    p.max_position = -1;
    CHECK(reason(op{}, p) == "ratify::qk_norm_rotary: max_position must not be negative");
    p.head_dim = INT32_MAX;
    CHECK(reason(op{}, p) == "ratify::qk_norm_rotary: head_dim must be 1 to 2^30 elements");
    p.heads = 0;
    CHECK(reason(op{}, p) == "ratify::qk_norm_rotary: heads must be at least 1");
  }
}

TEST_CASE("more blocks than a grid holds are refused") {
  ratify::gated_rmsnorm<ratify::gated_rmsnorm_policy>::params p;
  p.rows = p.heads = INT32_MAX;
  p.head_dim = 64;
  CHECK(std::string(ratify::gated_rmsnorm<ratify::gated_rmsnorm_policy>::can_launch(p, host()).reason()) ==
        "ratify: the shape needs more blocks than a grid holds");
  p.rows = 8;
  p.heads = 48;
  CHECK(ratify::gated_rmsnorm<ratify::gated_rmsnorm_policy>::can_launch(p, host()));
}
