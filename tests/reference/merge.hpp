// SPDX-License-Identifier: Apache-2.0
/// Merge of softmax partials: FP32 twin in plain loops, and FP64 truth with its error bound.
#pragma once

#include <ratify/detail/machine/floating_environment.hpp>
#include <ratify/detail/math.cuh>

#include <algorithm>
#include <cmath>
#include <vector>

namespace reference {

/// Dense: out is [parts, rows of all heads, head_dim], lse [parts, rows of all heads].
struct merge_case {
  int parts = 1, rows = 1, head_dim = 64;
  std::vector<float> out, lse;
  size_t at(int part, int row) const { return static_cast<size_t>(part) * rows + row; }
};

struct merge_result {
  std::vector<float> out, lse;
};

inline merge_result merge(merge_case const& c) {
  using namespace ratify::detail;
  ordered_environment const environment;
  float const none = from_bits(0xff800000u);
  merge_result r{std::vector<float>(static_cast<size_t>(c.rows) * c.head_dim), std::vector<float>(c.rows, none)};
  for (int row = 0; row < c.rows; ++row) {
    std::vector<int> parts;
    for (int part = 0; part < c.parts; ++part)
      if (bits(c.lse[c.at(part, row)]) != bits(none)) parts.push_back(part);
    if (parts.empty()) continue;
    float top = none, total = 0.0f;
    for (int part : parts) top = max_rn(top, c.lse[c.at(part, row)]);
    std::vector<float> sum(c.head_dim, 0.0f);
    for (int part : parts) {
      float const w = exp_ordered(sub_rn(c.lse[c.at(part, row)], top));
      total = add_rn(total, w);
      for (int d = 0; d < c.head_dim; ++d) sum[d] = fma_rn(c.out[c.at(part, row) * c.head_dim + d], w, sum[d]);
    }
    for (int d = 0; d < c.head_dim; ++d)
      r.out[static_cast<size_t>(row) * c.head_dim + d] = canonical(div_rn(sum[d], total));
    r.lse[row] = canonical(add_rn(top, log_ordered(total)));
  }
  return r;
}

namespace truth {

struct merge_result {
  std::vector<double> out, lse;
  std::vector<double> out_bound, lse_bound;  ///< docs/arithmetic.md, "Merge", error bound
};

/// For cases of numbers with at least one part that is not empty in each row.
inline merge_result merge(merge_case const& c) {
  constexpr double u = 0x1p-24, weight = (104 + 2.04) * u;
  size_t const n = static_cast<size_t>(c.rows) * c.head_dim;
  merge_result r{std::vector<double>(n), std::vector<double>(c.rows), std::vector<double>(n),
                 std::vector<double>(c.rows)};
  for (int row = 0; row < c.rows; ++row) {
    double top = -INFINITY, total = 0;
    for (int part = 0; part < c.parts; ++part) top = std::max(top, double{c.lse[c.at(part, row)]});
    for (int part = 0; part < c.parts; ++part) total += std::exp(c.lse[c.at(part, row)] - top);
    for (int d = 0; d < c.head_dim; ++d) {
      double sum = 0, size = 0;
      for (int part = 0; part < c.parts; ++part) {
        double const w = std::exp(c.lse[c.at(part, row)] - top);
        if (w == 0) continue;
        sum += w * c.out[c.at(part, row) * c.head_dim + d];
        size += w * std::fabs(c.out[c.at(part, row) * c.head_dim + d]);
      }
      size_t const at = static_cast<size_t>(row) * c.head_dim + d;
      r.out[at] = sum / total;
      r.out_bound[at] = size / total * (2 * weight + (2 * c.parts + 1) * u) * 1.01 + 0x1p-140;
    }
    r.lse[row] = top + std::log(total);
    r.lse_bound[row] = (weight + c.parts * u) * 1.01 + 4 * u * (std::fabs(std::log(total)) + std::fabs(top) + 1);
  }
  return r;
}

}  // namespace truth
}  // namespace reference
