// SPDX-License-Identifier: Apache-2.0
/// Elementwise operations: FP32 twins, and FP64 truth with its bounds.
#pragma once

#include "reference/arithmetic.hpp"

#include <cfloat>
#include <cmath>
#include <utility>
#include <vector>

namespace reference {

struct gates {
  std::vector<float> g, beta;
};

/// What rounding takes from larger + smaller (Dekker).
inline float lost_by(float larger, float smaller) {
  if (std::fabs(larger) < std::fabs(smaller)) std::swap(larger, smaller);
  return sub_rn(smaller, sub_rn(add_rn(larger, smaller), larger));
}

/// -exp(a_log) * softplus(a + dt_bias).
inline float decay_log(float a_log, float a, float dt_bias) {
  float const x = add_rn(a, dt_bias);
  if (x < -17) {
    // One exponential of the sum, its rounding error as a factor.
    float sum = add_rn(a_log, x), lost = lost_by(a_log, x);
    if (!is_finite(exp_ordered(a_log)) && is_finite(sum) && is_finite(x)) {
      float const all_lost = add_rn(lost, lost_by(a, dt_bias));
      lost = lost_by(sum, all_lost);
      sum = add_rn(sum, all_lost);
    }
    float const e = exp_ordered(sum);
    if (!is_finite(sum) || sum > 89) return canonical(negate(e));
    if (is_finite(e)) return canonical(negate(fma_rn(e, lost, e)));
    wide_float const beyond = wide_exp(sum);
    return canonical(negate(narrow({fma_rn(beyond.mantissa, lost, beyond.mantissa), beyond.exponent})));
  }
  float const rate = exp_ordered(a_log);
  if (std::isnormal(rate) && is_finite(x)) return canonical(negate(mul_rn(rate, softplus_ordered(x))));
  wide_float soft = wide(softplus_ordered(x));
  if (!is_finite(x) && is_finite(a) && is_finite(dt_bias)) {  // the sum overflows: it is twice the half of it
    soft = wide(add_rn(mul_rn(a, 0.5f), mul_rn(dt_bias, 0.5f)));
    ++soft.exponent;
  }
  wide_float const factor = is_finite(a_log) ? wide_exp(a_log) : wide_float{rate, 0};
  return canonical(negate(narrow(times(factor, soft))));
}

/// a, b [rows, value_heads] dense, in FP32.
inline gates gating(std::vector<float> const& a, std::vector<float> const& b, std::vector<float> const& a_log,
                    std::vector<float> const& dt_bias) {
  ieee_environment const environment;
  gates out;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t const head = i % a_log.size();
    out.g.push_back(decay_log(a_log[head], a[i], dt_bias[head]));
    out.beta.push_back(canonical(sigmoid_ordered(b[i])));
  }
  return out;
}

/// x * sigmoid(gate), or gate * sigmoid(gate) * x.
inline float gated_element(float x, float gate, bool silu) {
  float const s = sigmoid_ordered(gate), factor = silu ? silu_ordered(gate) : s;
  bool const ordinary = std::isnormal(s) && (!silu || std::isnormal(factor));
  if (ordinary || !is_finite(gate)) return mul_rn(factor, x);
  wide_float const sigmoid = std::isnormal(s) ? wide(s) : wide_exp(gate);
  return narrow(times(silu ? times(wide(gate), sigmoid) : sigmoid, wide(x)));
}
inline std::vector<float> gated(std::vector<float> const& x, std::vector<float> const& gate, bool silu) {
  ieee_environment const environment;
  std::vector<float> out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back(gated_element(x[i], gate[i], silu));
  return out;
}

namespace truth {

constexpr double activation_unit = 0x1p-24, activation_quantum = 0x1p-149;

inline double softplus(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
inline double sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }

/// g of finite arguments, and how far an FP32 result may be from it. In the log domain, which holds every factor.
inline std::pair<double, double> decay_log(double a_log, double a, double dt_bias) {
  double const x = a + dt_bias;
  // Below -40 log(softplus(x)) is x to the last bit of an FP64, and the slope is 1 to it.
  double const soft_error = x < -40 ? std::fabs(x) : sigmoid(x) / softplus(x) * std::fabs(x);
  // a + dt_bias + a_log may cancel: an FP64 holds what is left if the larger ones come first.
  double const exponent = x < -40 ? (std::fabs(a) > std::fabs(dt_bias) ? a + a_log + dt_bias : dt_bias + a_log + a)
                                  : a_log + std::log(softplus(x));
  double const g = -std::exp(exponent);
  // Where exp(a_log) overflows the rounding of a + dt_bias is carried along, below x = -17.
  double const sum_error = x < -17.1 && a_log > 88.8 ? 0 : soft_error;
  return {g, 1.01 * -g * activation_unit * (13 + sum_error) + 2 * activation_quantum};
}

/// gated() of finite arguments, and its bound.
inline std::pair<double, double> gated(double x, double gate, bool silu) {
  double const exact = x * (silu ? gate : 1) * sigmoid(gate);
  return {exact, 1.01 * 10 * activation_unit * std::fabs(exact) + 2 * activation_quantum};
}

}  // namespace truth
}  // namespace reference
