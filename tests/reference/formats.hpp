// SPDX-License-Identifier: Apache-2.0
/// Storage formats by definition, in FP64: what a code is worth, and the code nearest to a number.
#pragma once

#include <ratify/numeric.hpp>

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace reference {

/// Fields of a binary format, and what stands at its top.
struct format_fields {
  int exponent_bits, mantissa_bits;
  uint32_t infinity;    ///< code of +infinity; the first NaN code where there is none
  uint32_t stored_nan;  ///< what a NaN is stored as
  uint32_t overflow;    ///< what a magnitude beyond the largest finite code is stored as
  bool has_infinity;
};

template <class Format>
constexpr format_fields fields_of() {
  if constexpr (std::is_same_v<Format, ratify::f16>) return {5, 10, 0x7c00, 0x7fff, 0x7c00, true};
  if constexpr (std::is_same_v<Format, ratify::bf16>) return {8, 7, 0x7f80, 0x7fff, 0x7f80, true};
  if constexpr (std::is_same_v<Format, ratify::e4m3>) return {4, 3, 0x7f, 0x7f, 0x7e, false};
  if constexpr (std::is_same_v<Format, ratify::e5m2>) return {5, 2, 0x7c, 0x7f, 0x7b, true};
}

/// Value of a code. E2M1 is {2, 1, 8, 8, 7, false}.
inline double value_of_code(format_fields f, uint32_t code) {
  uint32_t const sign = 1u << (f.exponent_bits + f.mantissa_bits), m = code & (sign - 1);
  int const bias = (1 << (f.exponent_bits - 1)) - 1;
  int const e = static_cast<int>(m >> f.mantissa_bits);
  auto const fraction = static_cast<int>(m & ((1u << f.mantissa_bits) - 1));
  double magnitude = e == 0 ? std::ldexp(fraction, 1 - bias - f.mantissa_bits)
                            : std::ldexp(fraction + (1 << f.mantissa_bits), e - bias - f.mantissa_bits);
  if (m >= f.infinity) magnitude = f.has_infinity && m == f.infinity ? INFINITY : NAN;
  return code & sign ? -magnitude : magnitude;
}

/// Code of the value nearest to x, ties to even.
inline uint32_t nearest_code(format_fields f, double x) {
  if (std::isnan(x)) return f.stored_nan;
  uint32_t const sign = std::signbit(x) ? 1u << (f.exponent_bits + f.mantissa_bits) : 0u;
  double const a = std::fabs(x);
  if (std::isinf(a)) return sign | f.overflow;
  int const lowest = 2 - (1 << (f.exponent_bits - 1));  // exponent of the smallest normal number
  int const e = a == 0 ? lowest : std::max(std::ilogb(a), lowest);
  double const steps = std::nearbyint(std::ldexp(a, f.mantissa_bits - e));
  double const code = std::ldexp(e - lowest, f.mantissa_bits) + steps;
  return sign | (code >= f.infinity ? f.overflow : static_cast<uint32_t>(code));
}

template <class Format>
double value_of(Format x) {
  return value_of_code(fields_of<Format>(), x.bits);
}
inline double value_of(float x) { return x; }

template <class Format>
Format nearest(double x) {
  return {static_cast<decltype(Format::bits)>(nearest_code(fields_of<Format>(), x))};
}

}  // namespace reference
