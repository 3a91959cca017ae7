// SPDX-License-Identifier: Apache-2.0
/// Storage formats as structs that hold bits, the same in every compiler, and the conversions between them and FP32.
#pragma once

#include <ratify/detail/choices.hpp>
#include <ratify/detail/machine/ptx.cuh>
#include <ratify/detail/meta.hpp>

RATIFY_BEGIN_NAMESPACE

/// IEEE binary16.
struct f16 {
  uint16_t bits;
};
/// bfloat16: the upper half of an FP32.
struct bf16 {
  uint16_t bits;
};
/// OCP E4M3 "fn": no infinities, 0x7F and 0xFF are NaN, 0x7E is 448.
struct e4m3 {
  uint8_t bits;
};
/// OCP E5M2: 0x7C is infinity, 0x7D to 0x7F are NaN, 0x7B is 57344.
struct e5m2 {
  uint8_t bits;
};
/// Two E2M1 codes (0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives); the low nibble is the even element.
struct e2m1x2 {
  uint8_t bits;
};

/// Ways to turn E4M3 codes into FP32. All give the same bits for all 256 codes.
enum class decoder_revision {
  reference,   ///< 0: by definition
  bit_fields,  ///< 1: builds the fields of the FP32
  fp16_shift,  ///< 2: shifts the code into an FP16, converts, multiplies by 256
  native       ///< the card's conversion where it has one (sm_89 and up), fp16_shift elsewhere
};

namespace detail {
template <>
struct choices<decoder_revision> {
  static constexpr choice values[] = {
      {"0", "ratify::decoder_revision::reference"},
      {"1", "ratify::decoder_revision::bit_fields"},
      {"2", "ratify::decoder_revision::fp16_shift"},
      {"native", "ratify::decoder_revision::native"},
  };
};
}  // namespace detail

/// Whether a format is one of the 8-bit ones, which saturate when a value is stored.
template <class Format>
inline constexpr bool is_fp8_v = detail::is_one_of_v<Format, e4m3, e5m2>;

/// The FP32 value of a number in a storage format, exactly. Every NaN becomes 0x7fffffff.
RATIFY_HD inline float to_float(float x) { return detail::canonical(x); }
RATIFY_HD inline float to_float(f16 x) { return detail::f32_from_f16_bits(x.bits); }
RATIFY_HD inline float to_float(bf16 x) {
  return detail::canonical(detail::from_bits(static_cast<uint32_t>(x.bits) << 16));
}

RATIFY_HD inline float to_float(e4m3 x) {
  uint32_t const sign = static_cast<uint32_t>(x.bits & 0x80u) << 24, m = x.bits & 0x7fu;
  if (m == 0x7fu) return detail::from_bits(detail::canonical_nan_bits);
  if (m < 8u)
    return detail::from_bits(detail::bits(detail::mul_rn(detail::float_from_int(static_cast<int32_t>(m)), 0x1p-9f)) |
                             sign);
  return detail::from_bits(sign | ((m << 20) + 0x3c000000u));
}

RATIFY_HD inline float to_float(e5m2 x) { return detail::f32_from_f16_bits(static_cast<uint16_t>(x.bits << 8)); }

/// FP32 value of one E2M1 code (the low 4 bits of `code`).
RATIFY_HD inline float e2m1_to_float(uint32_t code) {
  uint32_t const sign = (code & 8u) << 28, m = code & 7u;
  if (m < 2u) return detail::from_bits(sign | (m ? 0x3f000000u : 0u));
  return detail::from_bits(sign | (((m >> 1) + 126u) << 23) | ((m & 1u) << 22));
}

namespace detail {

template <class To>
struct converter;

template <>
struct converter<float> {
  RATIFY_HD static float from(float x) { return canonical(x); }
};
template <>
struct converter<f16> {
  RATIFY_HD static f16 from(float x) { return {f16_bits_rn(x)}; }
};
template <>
struct converter<bf16> {
  RATIFY_HD static bf16 from(float x) {
    uint32_t const u = bits(x);
    if (is_nan(x)) return {0x7fff};
    return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
  }
};
template <>
struct converter<e4m3> {
  RATIFY_HD static e4m3 from(float x) {
    uint32_t const u = bits(x), sign = (u >> 24) & 0x80u, a = u & 0x7fffffffu;
    if (is_nan(x)) return {0x7f};
    if (a >= 0x43e00000u) return {static_cast<uint8_t>(sign | 0x7eu)};                   // 448 and above
    if (a < 0x3c800000u) return {static_cast<uint8_t>(sign | nearest_multiple<-9>(a))};  // below 2^-6
    return {static_cast<uint8_t>(sign | ((a - 0x3c000000u + 0x7ffffu + ((a >> 20) & 1u)) >> 20))};
  }
};
template <>
struct converter<e5m2> {
  RATIFY_HD static e5m2 from(float x) {
    uint32_t const u = bits(x), sign = (u >> 24) & 0x80u, a = u & 0x7fffffffu;
    if (is_nan(x)) return {0x7f};
    if (a >= 0x47600000u) return {static_cast<uint8_t>(sign | 0x7bu)};                    // 57344 and above
    if (a < 0x38800000u) return {static_cast<uint8_t>(sign | nearest_multiple<-16>(a))};  // below 2^-14
    return {static_cast<uint8_t>(sign | ((a - 0x38000000u + 0xfffffu + ((a >> 21) & 1u)) >> 21))};
  }
};

/// Element i of 16 bytes of float, f16 or bf16, as FP32.
template <class Format>
RATIFY_HD inline float vector_element(vector16 const& v, int i) {
  if constexpr (sizeof(Format) == 4) {
    return to_float(from_bits(v.word[i]));
  } else {
    return to_float(Format{static_cast<uint16_t>(v.word[i / 2] >> (16 * (i % 2)))});
  }
}

}  // namespace detail

/// x in a storage format, rounded to nearest even. FP8 saturates at its largest finite value, infinities too, and
/// stores a NaN as 0x7F; a NaN in FP32, FP16 or BF16 is stored as 0x7fffffff or 0x7fff, and values beyond their range
/// are infinite.
///
/// `convert` and `to_float` may be called anywhere, outside executors too: they give the same bits in every rounding
/// mode of the calling thread, and with subnormals flushed to zero or not.
/// @tparam To float, f16, bf16, e4m3 or e5m2
template <class To>
RATIFY_HD inline To convert(float x) {
  return detail::converter<To>::from(x);
}

RATIFY_END_NAMESPACE
