// SPDX-License-Identifier: Apache-2.0
/// Causal depthwise convolution: FP32 twin in plain loops, and FP64 truth with an error bound.
#pragma once

#include <ratify/numeric.hpp>

#include "arithmetic.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

namespace reference {

template <class Input, class Weight>
struct convolution_round {
  int channels = 0, width = 0, max_rows = 0;
  bool silu = false;
  std::vector<Input> x;              // [rows, channels]
  std::vector<Weight> weight, bias;  // [channels, width]; [channels] or empty
  std::vector<Input> pool;           // [slots, width - 1 + max_rows, channels]
  std::vector<int32_t> slot, kept, fresh, query_start;
};

/// Calls each(row, channel, window) with the width inputs of every output, oldest first, and updates the pool. Rows of
/// a retired request get nothing.
template <class Input, class Weight, class Each>
void each_window(convolution_round<Input, Weight>& r, Each&& each) {
  for (size_t request = 0; request + 1 < r.query_start.size(); ++request) {
    int const begin = r.query_start[request], n = r.query_start[request + 1] - begin;
    if (n == 0 || r.slot[request] == -1) continue;
    size_t const places = static_cast<size_t>(r.width - 1 + r.max_rows);
    auto const place = [&](size_t i, int c) -> Input& {
      return r.pool[(r.slot[request] * places + i) * r.channels + c];
    };
    bool const fresh = !r.fresh.empty() && r.fresh[request] != 0;
    for (int c = 0; c < r.channels; ++c) {
      std::vector<Input> line;
      for (int j = 0; j < r.width - 1; ++j) line.push_back(fresh ? Input{} : place(r.kept[request] + j, c));
      for (int t = 0; t < n; ++t) line.push_back(r.x[static_cast<size_t>(begin + t) * r.channels + c]);
      for (size_t i = 0; i < line.size(); ++i) place(i, c) = line[i];
      for (int t = 0; t < n; ++t) each(begin + t, c, &line[static_cast<size_t>(t)]);
    }
  }
}

/// @return out [rows, channels], not rounded to a storage format; the round's pool is what the launch leaves.
template <class Input, class Weight>
std::vector<float> convolution(convolution_round<Input, Weight>& r) {
  ieee_environment const environment;
  std::vector<float> out(r.x.size(), 0.0f);
  each_window(r, [&](int row, int c, Input const* window) {
    float y = r.bias.empty() ? 0.0f : ratify::to_float(r.bias[c]);
    for (int j = 0; j < r.width; ++j)
      y = fma_rn(ratify::to_float(r.weight[static_cast<size_t>(c) * r.width + j]), ratify::to_float(window[j]), y);
    out[static_cast<size_t>(row) * r.channels + c] = r.silu ? silu_ordered(y) : y;
  });
  return out;
}

namespace truth {

struct bounded {
  std::vector<double> value, bound;
};

/// FP64 outputs and a bound of their FP32 error (docs/arithmetic.md derives it).
template <class Input, class Weight>
bounded convolution(convolution_round<Input, Weight> r) {
  bounded out{std::vector<double>(r.x.size(), 0.0), std::vector<double>(r.x.size(), 0x1p-140)};
  each_window(r, [&](int row, int c, Input const* window) {
    double y = r.bias.empty() ? 0.0 : ratify::to_float(r.bias[c]), total = std::fabs(y);
    for (int j = 0; j < r.width; ++j) {
      double const term = double{ratify::to_float(r.weight[static_cast<size_t>(c) * r.width + j])} *
                          double{ratify::to_float(window[j])};
      y += term;
      total += std::fabs(term);
    }
    double const error = 1.01 * r.width * 0x1p-24 * total;
    size_t const i = static_cast<size_t>(row) * r.channels + c;
    double const sigmoid = y < 0 ? std::exp(y) / (1 + std::exp(y)) : 1 / (1 + std::exp(-y));
    out.value[i] = r.silu ? y * sigmoid : y;
    out.bound[i] += r.silu ? 1.1 * error + 1.01 * 9 * 0x1p-24 * std::fabs(y * sigmoid) : error;
  });
  return out;
}

}  // namespace truth
}  // namespace reference
