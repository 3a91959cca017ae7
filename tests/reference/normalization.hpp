// SPDX-License-Identifier: Apache-2.0
/// Normalizations: FP32 twins in plain loops, and FP64 truth with its bound. One row, or one head, at a time.
#pragma once

#include "reference/activation.hpp"
#include "reference/arithmetic.hpp"

#include <cmath>
#include <vector>

namespace reference {

/// Mean of the squares of scale * v: 32 interleaved chains, then halves of them added until one is left.
inline float mean_square(std::vector<float> const& v, float scale) {
  float chains[32] = {};
  for (size_t i = 0; i < v.size(); ++i) {
    float const scaled = mul_rn(scale, v[i]);
    chains[i % 32] = fma_rn(scaled, scaled, chains[i % 32]);
  }
  for (int count = 16; count > 0; count /= 2)
    for (int i = 0; i < count; ++i) chains[i] = add_rn(chains[i], chains[i + count]);
  return div_rn(chains[0], static_cast<float>(v.size()));
}

/// v / sqrt(mean of squares + eps), the squares scaled where FP32 does not hold them.
inline std::vector<float> normed(std::vector<float> const& v, float eps) {
  float scale = 1;
  float const under_root = add_rn(mean_square(v, 1), eps);
  if (under_root == INFINITY) scale = 0x1p-96f;
  if (under_root < 0x1p-120f) scale = 0x1p104f;
  float const inverse = rsqrt_ordered(add_rn(mean_square(v, scale), mul_rn(mul_rn(eps, scale), scale)));
  std::vector<float> out;
  for (float const x : v)
    out.push_back(scale < 1 ? mul_rn(mul_rn(x, inverse), scale) : mul_rn(mul_rn(x, scale), inverse));
  return out;
}

inline std::vector<float> rmsnorm(std::vector<float> const& v, std::vector<float> const& weight, bool unit_offset,
                                  float eps) {
  ieee_environment const environment;
  auto out = normed(v, eps);
  for (size_t i = 0; i < v.size(); ++i) out[i] = mul_rn(out[i], unit_offset ? add_rn(1.0f, weight[i]) : weight[i]);
  return out;
}

inline std::vector<float> gated_rmsnorm(std::vector<float> const& v, std::vector<float> const& weight,
                                        std::vector<float> const& z, float eps) {
  auto out = rmsnorm(v, weight, false, eps);
  return gated(out, z, true);
}

/// cos, sin: the row of the tables, half as long as the part that turns.
inline std::vector<float> qk_norm_rotary(std::vector<float> const& v, std::vector<float> const& weight,
                                         std::vector<float> const& cos, std::vector<float> const& sin, float eps) {
  auto const n = rmsnorm(v, weight, true, eps);
  auto out = n;
  ieee_environment const environment;
  size_t const half = cos.size();
  for (size_t i = 0; i < half; ++i) {
    out[i] = fma_rn(negate(n[i + half]), sin[i], mul_rn(n[i], cos[i]));
    out[i + half] = fma_rn(n[i], sin[i], mul_rn(n[i + half], cos[i]));
  }
  return out;
}

namespace truth {

inline constexpr double unit = 0x1p-24;

/// Relative error of the factor that a row's values are multiplied by, as docs/arithmetic.md derives it.
inline double inverse_rms_bound(size_t n) {
  return (static_cast<double>((n + 31) / 32 + 5 + 2) / 2 + 2) * unit * 1.001;
}

inline double inverse_rms(std::vector<float> const& v, double eps) {
  double sum = 0;
  for (double const x : v) sum += x * x;
  return 1 / std::sqrt(sum / static_cast<double>(v.size()) + eps);
}

inline std::vector<double> rmsnorm(std::vector<float> const& v, std::vector<float> const& weight, bool unit_offset,
                                   double eps) {
  double const inverse = inverse_rms(v, eps);
  std::vector<double> out(v.size());
  for (size_t i = 0; i < v.size(); ++i) out[i] = v[i] * inverse * ((unit_offset ? 1.0 : 0.0) + weight[i]);
  return out;
}

}  // namespace truth
}  // namespace reference
