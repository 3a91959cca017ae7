// SPDX-License-Identifier: Apache-2.0
/// NVFP4 projection: the FP32 twin in plain loops, and FP64 truth with its bound.
#pragma once

#include <ratify/numeric.hpp>

#include "arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace reference {

/// The operands of a projection, activations already in FP32.
struct projection_operands {
  int rows = 0, n = 0, k = 0;
  std::vector<float> x;           // [rows, k]
  std::vector<uint8_t> w_packed;  // [n, k / 2]
  std::vector<ratify::e4m3> w_scale;
  std::vector<float> w_global;
  std::vector<int32_t> segment_end;
  std::vector<float> bias;  // empty: none

  float global(int column) const {
    size_t s = 0;
    while (s + 1 < w_global.size() && column >= segment_end[s]) ++s;
    return w_global[s];
  }
  float element(int column, int at) const {
    constexpr float magnitudes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    int const byte = w_packed[static_cast<size_t>(column) * (k / 2) + at / 2];
    int const code = at % 2 == 0 ? byte & 15 : byte / 16;
    return code < 8 ? magnitudes[code] : -magnitudes[code - 8];
  }
  float scale_fp32(int column, int at) const {
    return mul_rn(ratify::to_float(w_scale[static_cast<size_t>(column) * (k / 16) + at / 16]), global(column));
  }
  float scale_fp16(int column, int at) const {
    return ratify::to_float(ratify::convert<ratify::f16>(scale_fp32(column, at)));
  }
  /// The weight under effective_scale fp16.
  float weight(int column, int at) const {
    return ratify::to_float(ratify::convert<ratify::f16>(mul_rn(element(column, at), scale_fp16(column, at))));
  }
  /// First column of K of a split.
  int split_begin(int split, int splits) const { return std::min(k, split * ((k + 63) / 64) / splits * 64); }
};

/// y [rows, n] in FP32 before it is stored.
inline std::vector<float> projection(projection_operands const& o, int splits, bool fp32_scale) {
  ieee_environment const environment;
  std::vector<float> y(static_cast<size_t>(o.rows) * o.n), weights(o.k);
  for (int column = 0; column < o.n; ++column) {
    for (int at = 0; at < o.k; ++at) weights[at] = fp32_scale ? o.element(column, at) : o.weight(column, at);
    for (int row = 0; row < o.rows; ++row) {
      float const* const x = &o.x[static_cast<size_t>(row) * o.k];
      float total = 0;
      for (int split = 0; split < splits; ++split) {
        float sum = 0;
        int const end = o.split_begin(split + 1, splits);
        for (int at = o.split_begin(split, splits); at < end; at += 16) {
          float group = 0;
          for (int i = at; i < at + 16; ++i)
            (fp32_scale ? group : sum) = fma_rn(x[i], weights[i], fp32_scale ? group : sum);
          if (fp32_scale) sum = fma_rn(group, o.scale_fp32(column, at), sum);
        }
        total = split == 0 ? sum : add_rn(total, sum);
      }
      if (!o.bias.empty()) total = add_rn(total, o.bias[column]);
      y[static_cast<size_t>(row) * o.n + column] = canonical(total);
    }
  }
  return y;
}

namespace truth {

struct projection_sum {
  std::vector<double> value, bound;
};

/// The sum in FP64 of what the policy's rounded scales and weights say, and how far an FP32 result may be from it.
inline projection_sum projection(projection_operands const& o, int splits, bool fp32_scale) {
  projection_sum out;
  int const longest = ((o.k + 63) / 64 + splits - 1) / splits * 64;
  double const u = std::ldexp(1.0, -24), roundings = (fp32_scale ? 16 + longest / 16 : longest) + splits;
  std::vector<double> weights(o.k);
  out.value.resize(static_cast<size_t>(o.rows) * o.n);
  out.bound.resize(out.value.size());
  for (int column = 0; column < o.n; ++column) {
    for (int at = 0; at < o.k; ++at)
      weights[at] = fp32_scale ? static_cast<double>(o.element(column, at)) * o.scale_fp32(column, at)
                               : static_cast<double>(o.weight(column, at));
    for (int row = 0; row < o.rows; ++row) {
      double sum = o.bias.empty() ? 0.0 : o.bias[column], size = std::fabs(sum);
      for (int at = 0; at < o.k; ++at) {
        double const product = o.x[static_cast<size_t>(row) * o.k + at] * weights[at];
        sum += product;
        size += std::fabs(product);
      }
      size_t const i = static_cast<size_t>(row) * o.n + column;
      out.value[i] = sum;
      out.bound[i] = roundings * u / (1 - roundings * u) * size + std::ldexp(1.0, -140);
    }
  }
  return out;
}

}  // namespace truth
}  // namespace reference
