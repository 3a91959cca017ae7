// SPDX-License-Identifier: Apache-2.0
/// Elementwise operations: FP32 twins in plain loops, and FP64 truth.
#pragma once

#include <ratify/device/activation.cuh>
#include <ratify/numeric.hpp>

#include <cmath>
#include <vector>

namespace reference {

struct gates {
  std::vector<float> g, beta;
};

/// a, b [rows, value_heads] dense.
template <class Format>
gates gating(std::vector<Format> const& a, std::vector<Format> const& b, std::vector<float> const& a_log,
             std::vector<float> const& dt_bias) {
  gates out;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t const head = i % a_log.size();
    auto const one = ratify::device::gating(ratify::to_float(a[i]), ratify::to_float(b[i]), a_log[head], dt_bias[head]);
    out.g.push_back(one.g);
    out.beta.push_back(one.beta);
  }
  return out;
}

namespace truth {

inline double softplus(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
inline double sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
inline double decay_log(double a_log, double x) { return -std::exp(a_log) * softplus(x); }

}  // namespace truth
}  // namespace reference
