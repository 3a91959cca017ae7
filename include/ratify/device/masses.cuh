// SPDX-License-Identifier: Apache-2.0
/// The integers that acceptance and the drafter decide by, for kernels of your own: words that order entries, masses
/// that stand for probabilities, and the exact comparisons between them. docs/arithmetic.md states the formulas.
#pragma once

#include <ratify/acceptance_policy.hpp>
#include <ratify/detail/math.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// 32 bits that order like the numbers: -0 = +0, -inf is 0x007fffff, +inf 0xff800000, NaN 0xffffffff.
RATIFY_HD inline uint32_t order_key(float x) {
  uint32_t const u = detail::bits(detail::plus_zero(x));
  return u ^ (u >> 31 != 0 ? 0xffffffffu : 0x80000000u);
}
inline constexpr uint32_t plus_infinity_key = 0xff800000u, minus_infinity_key = 0x007fffffu;

/// The number of a key.
RATIFY_HD inline float value_of_key(uint32_t key) {
  return detail::from_bits(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

/// A word that is larger the earlier an entry stands in the order (stored logit descending, id ascending). Never 0.
RATIFY_HD inline uint64_t order_word(float logit, int32_t id) {
  return static_cast<uint64_t>(order_key(logit)) << detail::acceptance_id_bits |
         static_cast<uint64_t>(detail::acceptance_most_words - 1 - id);
}
RATIFY_HD inline uint32_t key_of_word(uint64_t word) {
  return static_cast<uint32_t>(word >> detail::acceptance_id_bits);
}
RATIFY_HD inline int32_t id_of_word(uint64_t word) {
  return detail::acceptance_most_words - 1 - static_cast<int32_t>(word & (detail::acceptance_most_words - 1));
}

/// significand * 2^shift, rounded half to even.
RATIFY_HD inline uint64_t rounded_scale(uint64_t significand, int shift) {
  if (shift >= 0) return significand << shift;
  if (shift < -24) return 0;
  return (significand + (uint64_t{1} << (-shift - 1)) - 1 + (significand >> -shift & 1u)) >> -shift;
}

/// 2^40 * e for 0 <= e <= 1, rounded half to even. Exact from 2^-17 up.
RATIFY_HD inline uint64_t mass_of_exponential(float e) {
  uint32_t const u = detail::bits(e);
  if (u < 0x20000000u) return 0;  // below 2^-63, where adding to the exponent would not be a product
  uint32_t const scaled = u + (40u << 23);
  // Below 2^23 the sum's low bits are the rounded integer; from there up all numbers are integers.
  if (scaled < 0x4b000000u) return detail::bits(detail::add_rn(detail::from_bits(scaled), 8388608.0f)) - 0x4b000000u;
  return uint64_t{(scaled & 0x7fffffu) | 0x800000u} << ((scaled >> 23) - 150u);
}

/// What the largest entry of a row weighs.
inline constexpr uint64_t largest_mass = uint64_t{1} << 40;

/// The mass of an entry that lies z = (logit - maximum) / temperature below the largest one, for -80 <= z <= 0: the
/// exponential is `detail::exp_ordered`'s, whose result is a normal number there, so that it is scaled by its exponent.
RATIFY_HD inline uint64_t mass_of_difference(float z) {
  detail::reduced_argument const reduced = detail::reduce(z);
  uint32_t const scaled = detail::bits(detail::exp_polynomial(reduced.r)) + (static_cast<uint32_t>(reduced.n) << 23);
  return mass_of_exponential(detail::from_bits(scaled));
}

/// (logit - maximum) / temperature.
RATIFY_HD inline float scaled_difference(float logit, float maximum, float temperature) {
  float const difference = detail::sub_rn(logit, maximum);
  // A quotient by 1 is no step at all, and the usual one.
  return detail::bits(temperature) == 0x3f800000u ? difference : detail::div_rn(difference, temperature);
}

/// An entry's share of its row, in units of 2^-40 of the largest entry's.
RATIFY_HD inline uint64_t mass(float logit, float maximum, float temperature) {
  float const z = scaled_difference(logit, maximum, temperature);
  return (detail::bits(z) & 0x7fffffffu) < 0x42a00000u ? mass_of_difference(z) : 0;  // |z| < 80
}

/// The smallest integer >= top_p * total (the exact FP32 value), at least 1: what the kept prefix must reach.
/// 0 <= top_p <= 1, total < 2^63.
RATIFY_HD inline uint64_t top_p_target(float top_p, uint64_t total) {
  uint32_t const u = detail::bits(top_p) & 0x7fffffffu, exponent = u >> 23;
  uint64_t const significand = (u & 0x7fffffu) | (exponent != 0 ? 0x800000u : 0u);
  int const shift = 150 - static_cast<int>(exponent != 0 ? exponent : 1u);  // top_p = significand / 2^shift; >= 23
  uint64_t const high = detail::multiply_high(significand, total), low = significand * total;
  uint64_t quotient = 0;
  bool rest = false;
  if (shift < 64) {
    quotient = high << (64 - shift) | low >> shift;
    rest = low << (64 - shift) != 0;
  } else if (shift < 128) {
    quotient = high >> (shift - 64);
    rest = low != 0 || (high & ((uint64_t{1} << (shift - 64)) - 1)) != 0;
  } else {
    rest = (high | low) != 0;
  }
  quotient += rest ? 1u : 0u;
  return quotient != 0 ? quotient : 1u;
}

/// floor(random * total / 2^32): the drawn entry is the first whose running mass exceeds it. total < 2^63.
RATIFY_HD inline uint64_t draw_point(uint32_t random, uint64_t total) {
  return detail::multiply_high(static_cast<uint64_t>(random) << 32, total);
}

/// random * q < 2^32 * p, exactly: a draft of these two masses is accepted. p < 2^63.
RATIFY_HD inline bool is_accepted(uint32_t random, uint64_t q, uint64_t p) {
  uint64_t const high = detail::multiply_high(random, q), low = random * q;
  return high < p >> 32 || (high == p >> 32 && low < p << 32);
}

}  // namespace device

namespace detail {

/// floor(a * b / c) for a <= c. `divisor` is c shifted left by `shift`, so that its highest bit is set. Two digits of
/// 32 bits by long division (Knuth, The Art of Computer Programming 2, 4.3.1, algorithm D).
RATIFY_HD inline uint64_t multiply_divide(uint64_t a, uint64_t b, uint64_t divisor, int shift) {
  uint64_t high = multiply_high(a, b), low = a * b;
  if (shift > 0) {
    high = high << shift | low >> (64 - shift);
    low <<= shift;
  }
  uint64_t const d1 = divisor >> 32, d0 = divisor & 0xffffffffu;
  uint64_t quotient = 0;
  RATIFY_NO_UNROLL
  for (int digit = 0; digit < 2; ++digit) {
    uint64_t const next = digit == 0 ? low >> 32 : low & 0xffffffffu;
    uint64_t guess = high / d1, rest = high - guess * d1;
    while (guess >> 32 != 0 || guess * d0 > (rest << 32 | next)) {
      --guess;
      rest += d1;
      if (rest >> 32 != 0) break;
    }
    high = (high << 32 | next) - guess * divisor;
    quotient = quotient << 32 | guess;
  }
  return quotient;
}

}  // namespace detail
RATIFY_END_NAMESPACE
