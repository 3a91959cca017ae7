// SPDX-License-Identifier: Apache-2.0
/// What one matrix instruction adds up, on the host: c + sum over k of a[k] * b[k] with FP16 or BF16 operands and an
/// FP32 result, as the tensor cores of a generation of cards round it. docs/arithmetic.md says what is known of each.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

/// How the host executor rounds matrix products.
enum class matrix_model {
  exact,   ///< each product exact, summed in FP64 in ascending order of k, rounded once to the nearest FP32
  turing,  ///< 8 products and the addend at a time, 24 fraction bits, toward zero
  ampere,  ///< the same; Ada too
  hopper   ///< 16 products and the addend at a time, 25 fraction bits, toward zero
};

namespace detail {

/// A number as the matrix unit aligns it: significand * 2^(exponent - fraction). A subnormal number has the least
/// exponent of its format and a significand without the leading bit; zero has an exponent below all others.
struct aligned_term {
  static constexpr int of_zero = -100000;
  int64_t significand = 0;
  int exponent = of_zero;
  int fraction = 0;
};

enum class number_kind { finite, infinite, nan };

struct decoded_number {
  number_kind kind;
  bool negative;
  aligned_term term;
};

/// The fields of a binary floating-point number.
template <int ExponentBits, int FractionBits>
decoded_number decoded_fields(uint32_t bits) {
  constexpr int bias = (1 << (ExponentBits - 1)) - 1, all_ones = (1 << ExponentBits) - 1;
  int const exponent = static_cast<int>(bits >> FractionBits) & all_ones;
  auto const fraction = static_cast<int64_t>(bits & ((1u << FractionBits) - 1u));
  decoded_number x{number_kind::finite, (bits >> (ExponentBits + FractionBits) & 1u) != 0, {}};
  if (exponent == all_ones) {
    x.kind = fraction != 0 ? number_kind::nan : number_kind::infinite;
  } else if (exponent != 0 || fraction != 0) {
    int64_t const magnitude = fraction + (exponent != 0 ? int64_t{1} << FractionBits : 0);
    x.term = {x.negative ? -magnitude : magnitude, (exponent != 0 ? exponent : 1) - bias, FractionBits};
  }
  return x;
}
inline decoded_number decoded(f16 x) { return decoded_fields<5, 10>(x.bits); }
inline decoded_number decoded(bf16 x) { return decoded_fields<8, 7>(x.bits); }
inline decoded_number decoded(float x) { return decoded_fields<8, 23>(bits(x)); }

/// The product of two operands; not normalised, its exponent is the sum of theirs.
inline decoded_number product_of(decoded_number const& a, decoded_number const& b) {
  decoded_number p{number_kind::finite, a.negative != b.negative, {}};
  bool const zero = a.term.significand == 0 || b.term.significand == 0;
  if (a.kind == number_kind::finite && b.kind == number_kind::finite) {
    if (!zero)
      p.term = {a.term.significand * b.term.significand, a.term.exponent + b.term.exponent,
                a.term.fraction + b.term.fraction};
  } else if (a.kind == number_kind::nan || b.kind == number_kind::nan) {
    p.kind = number_kind::nan;
  } else {  // an infinity times 0 is NaN; the other operand of an infinity may be one too, which has no significand
    bool const times_zero = (a.kind == number_kind::finite || b.kind == number_kind::finite) &&
                            (a.kind == number_kind::finite ? a : b).term.significand == 0;
    p.kind = times_zero ? number_kind::nan : number_kind::infinite;
  }
  return p;
}

/// magnitude * 2^shift, what is below 1 cut off.
inline uint64_t cut_off(uint64_t magnitude, int shift) {
  return shift >= 0 ? magnitude << shift : shift > -64 ? magnitude >> -shift : 0;
}

/// significand * 2^exponent as FP32, the bits that do not fit cut off. At 2^128 and above it is infinite.
inline float truncated_to_float(int64_t significand, int exponent) {
  if (significand == 0) return 0.0f;
  uint32_t const sign = significand < 0 ? 0x80000000u : 0u;
  uint64_t magnitude = static_cast<uint64_t>(significand < 0 ? -significand : significand);
  int leading = 0;
  while (magnitude >> leading > 1) ++leading;
  int const top = leading + exponent;  // 2^top <= |value| < 2^(top + 1)
  if (top >= 128) return from_bits(sign | 0x7f800000u);
  magnitude = cut_off(magnitude, exponent - max_of(top - 23, -149));
  // A subnormal number is its significand; a normal one has the leading bit at place 23, which adds 1 to the field.
  uint32_t const field = top >= -126 ? static_cast<uint32_t>(top + 126) << 23 : 0u;
  return from_bits(sign | (field + static_cast<uint32_t>(magnitude)));
}

/// The sum of terms that are aligned to the largest exponent among them and cut off after `kept` fraction bits.
inline float truncated_sum(aligned_term const* terms, int count, int kept) {
  int top = aligned_term::of_zero;
  for (int i = 0; i < count; ++i) top = max_of(top, terms[i].exponent);
  int64_t sum = 0;
  for (int i = 0; i < count; ++i) {
    aligned_term const& t = terms[i];
    auto const magnitude = static_cast<uint64_t>(t.significand < 0 ? -t.significand : t.significand);
    auto const kept_part = static_cast<int64_t>(cut_off(magnitude, t.exponent - top + kept - t.fraction));
    sum += t.significand < 0 ? -kept_part : kept_part;
  }
  return truncated_to_float(sum, top - kept);
}

inline constexpr int most_products = 16;

/// One step of the unit: `count` products and c.
template <class Format>
float fused_products(Format const* a, Format const* b, int count, float c, int kept) {
  aligned_term terms[most_products + 1];
  bool nan = false, positive = false, negative = false;
  for (int i = 0; i <= count; ++i) {
    decoded_number const x = i < count ? product_of(decoded(a[i]), decoded(b[i])) : decoded(c);
    nan |= x.kind == number_kind::nan;
    (x.negative ? negative : positive) |= x.kind == number_kind::infinite;
    terms[i] = x.term;
  }
  if (nan || (positive && negative)) return from_bits(canonical_nan_bits);
  if (positive || negative) return from_bits(positive ? 0x7f800000u : 0xff800000u);
  return truncated_sum(terms, count + 1, kept);
}

template <class Format>
float exact_products(Format const* a, Format const* b, int count, float c) {
  auto sum = static_cast<double>(c);
  for (int i = 0; i < count; ++i) {
    double product = static_cast<double>(to_float(a[i])) * static_cast<double>(to_float(b[i]));  // exact
    RATIFY_KEEP(product);
    sum += product;
    RATIFY_KEEP(sum);
  }
  return canonical(static_cast<float>(sum));
}

/// c + sum over k of a[k] * b[k] of one instruction with `count` products: 8 or 16.
/// @tparam Format f16 or bf16
template <class Format>
float matrix_sum(matrix_model model, Format const* a, Format const* b, int count, float c) {
  if (model == matrix_model::exact) return exact_products(a, b, count, c);
  int const at_once = min_of(model == matrix_model::hopper ? 16 : 8, count);
  for (int k = 0; k < count; k += at_once)
    c = fused_products(a + k, b + k, at_once, c, model == matrix_model::hopper ? 25 : 24);
  return c;
}

}  // namespace detail
RATIFY_END_NAMESPACE
