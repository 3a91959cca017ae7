// SPDX-License-Identifier: Apache-2.0
/// Launches of the normalizations over plain vectors, and their twins' results over the same.
#pragma once

#include <ratify/normalization.cuh>

#include "reference/normalization.hpp"
#include "support/bits.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

namespace ratify_test {

constexpr float usual_eps = 1e-6f;

/// n elements from `first` on.
template <class Element>
std::vector<Element> part(std::vector<Element> const& v, size_t first, size_t n) {
  auto const begin = v.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(n)};
}

/// out and residual_out of x [rows, columns] and a residual of the same shape, or none. Rows of x have a gap between
/// them; `in_place` puts the sum on the residual.
template <class Operation, class Executor>
auto run_rmsnorm(Executor& on, std::vector<typename Operation::policy::input_format> const& x,
                 std::vector<float> const& residual,
                 std::vector<typename Operation::policy::weight_format> const& weight, bool in_place = false,
                 float eps = usual_eps) {
  using policy = typename Operation::policy;
  using input = typename policy::input_format;
  size_t const columns = weight.size(), rows = x.size() / columns, stride = columns + 5;
  std::vector<input> spread(rows * stride, ratify::convert<input>(NAN));
  for (size_t i = 0; i < x.size(); ++i) spread[i / columns * stride + i % columns] = x[i];
  buffer<input, Executor> dx(on, spread);
  buffer<float, Executor> dr(on, residual), ds(on, x.size());
  buffer<typename policy::weight_format, Executor> dw(on, weight);
  buffer<typename policy::output_format, Executor> dout(on, x.size());
  typename Operation::params p;
  p.x = {dx.data(), static_cast<int64_t>(stride)};
  if (!residual.empty()) p.residual = {dr.data(), static_cast<int64_t>(columns)};
  p.residual_out = {in_place ? dr.data() : ds.data(), static_cast<int64_t>(columns)};
  p.weight = dw.data();
  p.out = {dout.data(), static_cast<int64_t>(columns)};
  p.rows = static_cast<int>(rows);
  p.columns = static_cast<int>(columns);
  p.eps = eps;
  auto const s = launch<Operation>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  return std::pair(dout.read(), in_place ? dr.read() : ds.read());
}

/// Which input the output of gated_rmsnorm lies on.
enum class gated_output { own, on_x, on_z };

/// x, z [rows, heads, head_dim] dense.
template <class Operation, class Executor>
auto run_gated(Executor& on, std::vector<typename Operation::policy::input_format> const& x,
               std::vector<typename Operation::policy::gate_format> const& z,
               std::vector<typename Operation::policy::weight_format> const& weight, int heads,
               gated_output where = gated_output::own, float eps = usual_eps) {
  using policy = typename Operation::policy;
  using output = typename policy::output_format;
  auto const dim = static_cast<int64_t>(weight.size());
  buffer<typename policy::input_format, Executor> dx(on, x);
  buffer<typename policy::gate_format, Executor> dz(on, z);
  buffer<typename policy::weight_format, Executor> dw(on, weight);
  buffer<output, Executor> dout(on, x.size());
  typename Operation::params p;
  p.x = {dx.data(), dim * heads, dim};
  p.z = {dz.data(), dim * heads, dim};
  p.weight = dw.data();
  p.out = {dout.data(), dim * heads, dim};
  if constexpr (std::is_same_v<output, typename policy::input_format>)
    if (where == gated_output::on_x) p.out.data = dx.data();
  if constexpr (std::is_same_v<output, typename policy::gate_format>)
    if (where == gated_output::on_z) p.out.data = dz.data();
  p.rows = static_cast<int>(x.size()) / static_cast<int>(dim) / heads;
  p.heads = heads;
  p.head_dim = static_cast<int>(dim);
  p.eps = eps;
  auto const s = launch<Operation>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  if constexpr (std::is_same_v<output, typename policy::input_format>)
    if (where == gated_output::on_x) return dx.read();
  if constexpr (std::is_same_v<output, typename policy::gate_format>)
    if (where == gated_output::on_z) return dz.read();
  return dout.read();
}

/// What gated_rmsnorm computes, head by head, and FP64 truth with its bound.
struct gated_expectation {
  std::vector<float> values;
  std::vector<double> truth, bound;
};
inline gated_expectation expect_gated(std::vector<float> const& x, std::vector<float> const& z,
                                      std::vector<float> const& weight, float eps) {
  gated_expectation e;
  size_t const dim = weight.size();
  for (size_t first = 0; first < x.size(); first += dim) {
    auto const v = part(x, first, dim), gate = part(z, first, dim);
    auto const one = reference::gated_rmsnorm(v, weight, gate, eps);
    e.values.insert(e.values.end(), one.begin(), one.end());
    auto const norm = reference::truth::rmsnorm(v, weight, false, eps);
    for (size_t i = 0; i < dim; ++i) {
      double const g = gate[i];
      double const silu = std::isinf(g) ? 0.0 : g < 0 ? g * std::exp(g) / (1 + std::exp(g)) : g / (1 + std::exp(-g));
      e.truth.push_back(norm[i] * silu);
      e.bound.push_back((reference::truth::inverse_rms_bound(dim) + 12.01 * reference::truth::unit) *
                            std::fabs(e.truth.back()) +
                        0x1p-140);
    }
  }
  return e;
}

struct rotary_operands {
  int rows, heads, dim, rotary, positions;
  std::vector<ratify::f16> x;  // [rows, heads, 2, dim]: the head, then as much of something else
  std::vector<ratify::f16> weight;
  std::vector<float> cos, sin;
  std::vector<int32_t> position;
};

inline rotary_operands random_rotary(random_source& random, int rows, int heads, int dim, int rotary) {
  rotary_operands o{rows, heads, dim, rotary, 37, {}, {}, {}, {}, {}};
  o.x = random.normals<ratify::f16>(static_cast<size_t>(rows) * heads * 2 * dim, 2);
  o.weight = random.normals<ratify::f16>(dim, 0.3f);
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
template <class Operation, class Executor>
auto run_rotary(Executor& on, rotary_operands const& o, bool in_place = false) {
  using output = typename Operation::policy::output_format;
  using ratify::f16;
  size_t const n = static_cast<size_t>(o.rows) * o.heads * o.dim;
  buffer<f16, Executor> dx(on, o.x), dw(on, o.weight);
  buffer<float, Executor> dc(on, o.cos), ds(on, o.sin);
  buffer<int32_t, Executor> dp(on, o.position);
  buffer<output, Executor> dout(on, n);
  typename Operation::params p;
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
  p.eps = usual_eps;
  auto const s = launch<Operation>(p, on);
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

inline std::vector<float> rotary_twin(rotary_operands const& o) {
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
          widened(part(o.x, (static_cast<size_t>(row) * o.heads + head) * 2 * o.dim, o.dim)), widened(o.weight),
          part(o.cos, position * half, half), part(o.sin, position * half, half), usual_eps);
      out.insert(out.end(), one.begin(), one.end());
    }
  return out;
}

}  // namespace ratify_test
