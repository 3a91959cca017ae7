// SPDX-License-Identifier: Apache-2.0
/// Comparisons: bits as integers, and values against FP64 with a bound.
#pragma once

#include <ratify/numeric.hpp>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace ratify_test {

/// "" if every byte of the two is equal, otherwise how many elements differ and the first that does.
template <class T>
std::string bit_difference(std::vector<T> const& got, std::vector<T> const& expected) {
  if (got.size() != expected.size())
    return "sizes " + std::to_string(got.size()) + " and " + std::to_string(expected.size());
  size_t count = 0, first = 0;
  for (size_t i = got.size(); i-- > 0;)
    if (std::memcmp(&got[i], &expected[i], sizeof(T)) != 0) {
      ++count;
      first = i;
    }
  if (count == 0) return "";
  uint64_t a = 0, b = 0;
  std::memcpy(&a, &got[first], sizeof(T));
  std::memcpy(&b, &expected[first], sizeof(T));
  char text[128];
  std::snprintf(text, sizeof text, "%zu of %zu elements differ, first at %zu: got 0x%llx, expected 0x%llx", count,
                got.size(), first, static_cast<unsigned long long>(a), static_cast<unsigned long long>(b));
  return text;
}

/// Stored values as a kernel reads them, in FP32.
template <class Format>
std::vector<float> widened(std::vector<Format> const& v) {
  std::vector<float> out;
  for (auto const x : v) out.push_back(ratify::to_float(x));
  return out;
}

/// A twin's FP32 values as a kernel stores them.
template <class Format>
std::vector<Format> rounded(std::vector<float> const& v) {
  std::vector<Format> out;
  for (float x : v) out.push_back(ratify::convert<Format>(x));
  return out;
}

/// Largest of |got - truth| / bound over all elements; a bound that holds gives at most 1. A NaN or infinity that the
/// truth does not share counts as infinite.
template <class T>
double error_over_bound(std::vector<T> const& got, std::vector<double> const& truth, std::vector<double> const& bound) {
  double worst = got.size() == truth.size() && got.size() == bound.size() ? 0.0 : INFINITY;
  for (size_t i = 0; worst < INFINITY && i < got.size(); ++i) {
    double const g = ratify::to_float(got[i]), t = truth[i];
    if (std::isnan(g) && std::isnan(t)) continue;
    if (g == t) continue;
    double const ratio = std::fabs(g - t) / bound[i];
    worst = std::isnan(ratio) ? INFINITY : std::fmax(worst, ratio);
  }
  return worst;
}

/// Distance in units of the last place of the FP32 result, of a value against its truth; subnormal results count in
/// units of 2^-149.
inline double ulps(float got, double truth) {
  if (std::isnan(got) && std::isnan(truth)) return 0.0;
  if (static_cast<double>(got) == truth) return 0.0;
  int exponent = 0;
  std::frexp(truth, &exponent);
  double const unit = std::ldexp(1.0, (exponent - 24 < -149) ? -149 : exponent - 24);
  double const distance = std::fabs(static_cast<double>(got) - truth) / unit;
  return std::isnan(distance) ? INFINITY : distance;
}

}  // namespace ratify_test
