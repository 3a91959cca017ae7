// SPDX-License-Identifier: Apache-2.0
/// A weighted mean whose plain chain overflowed or met infinities, from chains that leave the infinities out.
#pragma once

#include "reference/arithmetic.hpp"

namespace reference {

/// @param plain chain of value * weight; @param scaled that of the values times 2^-32; @param weights their sum
/// @param infinite whether +infinity and whether -infinity counts
inline float guarded_quotient(float plain, float scaled, float weights, bool has_nan, bool const (&infinite)[2]) {
  if (has_nan || (infinite[0] && infinite[1])) return from_bits(canonical_nan_bits);
  if (infinite[0]) return INFINITY;
  if (infinite[1]) return -INFINITY;
  if (is_finite(plain)) return div_rn(plain, weights);
  double const mean = std::ldexp(static_cast<double>(div_rn(scaled, weights)), 32);
  double const largest = from_bits(0x7f7fffffu);  // a mean of finite numbers is finite, whatever rounding does
  return static_cast<float>(mean > largest ? largest : (mean < -largest ? -largest : mean));
}

}  // namespace reference
