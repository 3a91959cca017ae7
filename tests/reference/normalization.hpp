// SPDX-License-Identifier: Apache-2.0
/// Normalizations: FP32 twins in plain loops, and FP64 truth with its bound. One row, or one head, at a time.
#pragma once

#include <ratify/detail/machine/floating_environment.hpp>
#include <ratify/detail/math.cuh>

#include <cmath>
#include <vector>

namespace reference {

/// 1 / sqrt(mean of squares + eps): 32 interleaved chains, then halves of them added until one is left.
inline float inverse_rms(std::vector<float> const& v, float eps) {
  using namespace ratify::detail;
  ordered_environment const environment;
  float chains[32] = {};
  for (size_t i = 0; i < v.size(); ++i) chains[i % 32] = fma_rn(v[i], v[i], chains[i % 32]);
  for (int count = 16; count > 0; count /= 2)
    for (int i = 0; i < count; ++i) chains[i] = add_rn(chains[i], chains[i + count]);
  return div_rn(1.0f, sqrt_rn(add_rn(div_rn(chains[0], static_cast<float>(v.size())), eps)));
}

inline std::vector<float> rmsnorm(std::vector<float> const& v, std::vector<float> const& weight, bool unit_offset,
                                  float eps) {
  using namespace ratify::detail;
  float const inverse = inverse_rms(v, eps);
  ordered_environment const environment;
  std::vector<float> out(v.size());
  for (size_t i = 0; i < v.size(); ++i)
    out[i] = mul_rn(mul_rn(v[i], inverse), unit_offset ? add_rn(1.0f, weight[i]) : weight[i]);
  return out;
}

inline std::vector<float> gated_rmsnorm(std::vector<float> const& v, std::vector<float> const& weight,
                                        std::vector<float> const& z, float eps) {
  using namespace ratify::detail;
  auto out = rmsnorm(v, weight, false, eps);
  ordered_environment const environment;
  for (size_t i = 0; i < v.size(); ++i) {
    float const gate = std::isinf(z[i]) && z[i] < 0 ? -0.0f : mul_rn(z[i], sigmoid_ordered(z[i]));
    out[i] = mul_rn(out[i], gate);
  }
  return out;
}

/// cos, sin: the row of the tables, half as long as the part that turns.
inline std::vector<float> qk_norm_rotary(std::vector<float> const& v, std::vector<float> const& weight,
                                         std::vector<float> const& cos, std::vector<float> const& sin, float eps) {
  using namespace ratify::detail;
  auto const n = rmsnorm(v, weight, true, eps);
  auto out = n;
  ordered_environment const environment;
  size_t const half = cos.size();
  for (size_t i = 0; i < half; ++i) {
    out[i] = fma_rn(-n[i + half], sin[i], mul_rn(n[i], cos[i]));
    out[i + half] = fma_rn(n[i], sin[i], mul_rn(n[i + half], cos[i]));
  }
  return out;
}

namespace truth {

inline constexpr double unit = 0x1p-24;

/// Relative error of inverse_rms, as docs/arithmetic.md derives it.
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
