// SPDX-License-Identifier: Apache-2.0
/// Merge of softmax partials: FP32 twin in plain loops, and FP64 truth with its error bound.
#pragma once

#include "reference/arithmetic.hpp"
#include "reference/guarded.hpp"

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

/// Column d of a row: the chain over the parts that are not empty. Where that is not finite, infinite values are kept
/// out of it and counted where the weight is not 0, and where it still overflows, the chain of the values times 2^-32
/// stands in.
inline float merged_column(merge_case const& c, std::vector<int> const& parts, std::vector<float> const& weight,
                           float total, int row, int d) {
  float chain = 0.0f, plain = 0.0f, scaled = 0.0f;
  bool nan = false, infinite[2] = {};
  for (size_t i = 0; i < parts.size(); ++i) {
    float const x = c.out[c.at(parts[i], row) * c.head_dim + d];
    chain = fma_rn(x, weight[i], chain);
    if (is_nan(x)) {
      nan = true;
    } else if (!is_finite(x)) {
      if (weight[i] != 0.0f) infinite[std::signbit(x)] = true;
    } else {
      plain = fma_rn(x, weight[i], plain);
      scaled = fma_rn(mul_rn(x, 0x1p-32f), weight[i], scaled);
    }
  }
  if (is_finite(chain) || is_nan(total)) return div_rn(chain, total);
  return guarded_quotient(plain, scaled, total, nan, infinite);
}

inline merge_result merge(merge_case const& c) {
  ieee_environment const environment;
  merge_result r{std::vector<float>(static_cast<size_t>(c.rows) * c.head_dim), std::vector<float>(c.rows, -INFINITY)};
  for (int row = 0; row < c.rows; ++row) {
    std::vector<int> parts;
    for (int part = 0; part < c.parts; ++part)
      if (bits(c.lse[c.at(part, row)]) != bits(-INFINITY)) parts.push_back(part);
    if (parts.empty()) continue;
    float top = -INFINITY, total = 0.0f;
    for (int part : parts) top = max_rn(top, c.lse[c.at(part, row)]);
    std::vector<float> weight;
    for (int part : parts) {
      weight.push_back(exp_ordered(sub_rn(c.lse[c.at(part, row)], top)));
      total = add_rn(total, weight.back());
    }
    for (int d = 0; d < c.head_dim; ++d)
      r.out[static_cast<size_t>(row) * c.head_dim + d] = canonical(merged_column(c, parts, weight, total, row, d));
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
      double sum = 0, size = 0, values = 0;
      for (int part = 0; part < c.parts; ++part) {
        double const w = std::exp(c.lse[c.at(part, row)] - top);
        if (c.lse[c.at(part, row)] == -INFINITY) continue;
        values += std::fabs(c.out[c.at(part, row) * c.head_dim + d]);
        sum += w * c.out[c.at(part, row) * c.head_dim + d];
        size += w * std::fabs(c.out[c.at(part, row) * c.head_dim + d]);
      }
      size_t const at = static_cast<size_t>(row) * c.head_dim + d;
      r.out[at] = sum / total;
      r.out_bound[at] = size / total * (2 * weight + (2 * c.parts + 1) * u) * 1.01 + 0x1p-149 * values + 0x1p-140;
    }
    r.lse[row] = top + std::log(total);
    r.lse_bound[row] = (weight + c.parts * u) * 1.01 + 4 * u * (std::fabs(std::log(total)) + std::fabs(top) + 1);
  }
  return r;
}

}  // namespace truth
}  // namespace reference
