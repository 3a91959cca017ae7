// SPDX-License-Identifier: Apache-2.0
/// Elementwise operations: FP32 twins, and FP64 truth with its bounds.
#pragma once

#include <ratify/detail/machine/floating_environment.hpp>
#include <ratify/detail/math.cuh>

#include <cfloat>
#include <cmath>
#include <utility>
#include <vector>

namespace reference {

struct gates {
  std::vector<float> g, beta;
};

/// -exp(a_log) * softplus(x).
inline float decay_log(float a_log, float x) {
  using namespace ratify::detail;
  float const rate = exp_ordered(a_log), soft = softplus_ordered(x);
  bool const overflows = std::isinf(rate) && soft >= FLT_MIN;
  if (x < -17 && !overflows) {
    // One exponential of the sum, its rounding error (Dekker: exact if the larger term comes first) as a factor.
    float const sum = add_rn(a_log, x);
    float const large = std::fabs(a_log) > std::fabs(x) ? a_log : x,
                small = std::fabs(a_log) > std::fabs(x) ? x : a_log;
    float const lost = sub_rn(small, sub_rn(sum, large)), e = exp_ordered(sum);
    // By bits: g++ 12 fuses a minus sign before an FMA into it, which loses the sign of a zero.
    return canonical(negate(std::isfinite(sum) && std::isfinite(e) ? fma_rn(e, lost, e) : e));
  }
  return canonical(negate(mul_rn(rate, soft)));
}

/// a, b [rows, value_heads] dense, in FP32.
inline gates gating(std::vector<float> const& a, std::vector<float> const& b, std::vector<float> const& a_log,
                    std::vector<float> const& dt_bias) {
  ratify::detail::ordered_environment const environment;
  gates out;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t const head = i % a_log.size();
    out.g.push_back(decay_log(a_log[head], ratify::detail::add_rn(a[i], dt_bias[head])));
    out.beta.push_back(ratify::detail::canonical(ratify::detail::sigmoid_ordered(b[i])));
  }
  return out;
}

/// x * sigmoid(gate), or gate * sigmoid(gate) * x.
inline std::vector<float> gated(std::vector<float> const& x, std::vector<float> const& gate, bool silu) {
  using namespace ratify::detail;
  ordered_environment const environment;
  std::vector<float> out;
  for (size_t i = 0; i < x.size(); ++i) {
    float const s = sigmoid_ordered(gate[i]);
    float const minus_infinity_times_zero = -0.0f;
    out.push_back(!silu                  ? mul_rn(x[i], s)
                  : gate[i] == -INFINITY ? mul_rn(minus_infinity_times_zero, x[i])
                                         : mul_rn(mul_rn(gate[i], s), x[i]));
  }
  return out;
}

namespace truth {

constexpr double activation_unit = 0x1p-24, activation_quantum = 0x1p-149;

inline double softplus(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
inline double sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }

/// g and how far an FP32 result may be from it. Beyond FP32 it is -inf, and where exp(a_log) alone is beyond while
/// softplus is a normal number.
inline std::pair<double, double> decay_log(double a_log, double a, double dt_bias) {
  double const x = a + dt_bias, rate = std::exp(a_log), soft = softplus(x), g = -rate * soft;
  if ((rate > FLT_MAX && soft >= FLT_MIN) || g < -FLT_MAX) return {-INFINITY, 0};
  return {g, 1.01 * (13 * activation_unit * -g + rate * sigmoid(x) * activation_unit * std::fabs(x)) +
                 2 * activation_quantum * (1 + (rate < FLT_MIN ? soft : 0))};
}

/// gated(), and its bound.
inline std::pair<double, double> gated(double x, double gate, bool silu) {
  double const s = sigmoid(gate), factor = silu ? gate : 1;
  return {x * factor * s, 1.01 * 10 * activation_unit * std::fabs(x * factor * s) +
                              2 * activation_quantum * (1 + std::fabs(x)) * (1 + std::fabs(factor))};
}

}  // namespace truth
}  // namespace reference
