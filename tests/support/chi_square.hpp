// SPDX-License-Identifier: Apache-2.0
/// Whether counts may come from given probabilities.
#pragma once

#include <cmath>
#include <vector>

namespace ratify_test {

/// Upper quantile of chi-square at 1e-6 (Wilson and Hilferty).
inline double chi_square_limit(int degrees) {
  double const a = 2.0 / (9.0 * degrees), c = 1.0 - a + 4.7534 * std::sqrt(a);
  return degrees * c * c * c;
}

/// Chi-square of counts against probabilities, less its limit: positive rejects. Where p is 0, one count rejects.
inline double excess(std::vector<int> const& counts, std::vector<double> const& p) {
  double n = 0.0, sum = 0.0;
  int degrees = -1;
  for (int c : counts) n += c;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0.0 && counts[i] > 0) return INFINITY;
    if (p[i] == 0.0) continue;
    sum += (counts[i] - n * p[i]) * (counts[i] - n * p[i]) / (n * p[i]);
    ++degrees;
  }
  return sum - chi_square_limit(degrees);
}

}  // namespace ratify_test
