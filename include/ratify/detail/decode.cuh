// SPDX-License-Identifier: Apache-2.0
/// From 8-bit codes to FP32 and FP16, one, two or four codes of a word at a time. Every revision of the decoder gives
/// the same bits for all 256 codes; every NaN code gives 0x7fffffff in FP32 and 0x7fff in FP16.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// An E4M3 code by integers alone, as the fields of a format with `Mantissa` fraction bits and exponent bias `Bias`.
template <int Mantissa, int Bias>
RATIFY_HD inline uint32_t e4m3_fields(uint32_t code) {
  uint32_t const m = code & 0x7fu;
  // A subnormal m * 2^-9: its leading bit becomes the exponent, the bits below it the fraction.
  uint32_t const top = m >= 4u ? 2u : (m >= 2u ? 1u : 0u);
  uint32_t const subnormal = ((Bias - 9u + top) << Mantissa) + ((m - (1u << top)) << (Mantissa - top));
  return m >= 8u ? (m << (Mantissa - 3)) + ((Bias - 7u) << Mantissa) : (m == 0u ? 0u : subnormal);
}

/// Two E4M3 codes in the high bytes of the halves of `high` (low bytes: anything) to two FP16 of 2^-8 their value: the
/// exponent fields differ in bias by 8. A NaN code becomes an FP16 NaN.
RATIFY_HD inline uint32_t e4m3_shift_x2(uint32_t high) {
  uint32_t const m = (high >> 1) & 0x3f803f80u;
  // Only a NaN code, all ones, carries into bit 14; with that bit its exponent field is full.
  return m | ((m + 0x00800080u) & 0x40004000u) | (high & 0x80008000u);
}

/// The decoder of one format: FP32 of one code and of four, FP16 of one code and of two.
template <decoder_revision Revision, class Format>
struct code_decoder {
  RATIFY_HD static float to_f32(uint8_t code) { return to_float(Format{code}); }
  RATIFY_HD static void to_f32_x4(uint32_t codes, float (&out)[4]) {
    RATIFY_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = to_f32(static_cast<uint8_t>(codes >> (8 * i)));
  }
  RATIFY_HD static uint16_t to_f16(uint8_t code) { return f16_bits_rn(to_f32(code)); }
  RATIFY_HD static uint32_t to_f16_x2(uint16_t codes) {
    return to_f16(static_cast<uint8_t>(codes)) | static_cast<uint32_t>(to_f16(static_cast<uint8_t>(codes >> 8))) << 16;
  }
};

/// E2M1: one code a byte, in its low 4 bits.
template <decoder_revision Revision>
struct code_decoder<Revision, e2m1x2> {
  RATIFY_HD static float to_f32(uint8_t code) { return e2m1_to_float(code); }
  RATIFY_HD static void to_f32_x4(uint32_t codes, float (&out)[4]) {
    RATIFY_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = e2m1_to_float(codes >> (8 * i));
  }
  RATIFY_HD static uint16_t to_f16(uint8_t code) { return f16_bits_rn(to_f32(code)); }
  RATIFY_HD static uint32_t to_f16_x2(uint16_t codes) {
    return to_f16(static_cast<uint8_t>(codes)) | static_cast<uint32_t>(to_f16(static_cast<uint8_t>(codes >> 8))) << 16;
  }
};

template <>
struct code_decoder<decoder_revision::bit_fields, e4m3> {
  RATIFY_HD static float to_f32(uint8_t code) {
    uint32_t const value = e4m3_fields<23, 127>(code) | static_cast<uint32_t>(code & 0x80u) << 24;
    return from_bits((code & 0x7fu) == 0x7fu ? canonical_nan_bits : value);
  }
  RATIFY_HD static void to_f32_x4(uint32_t codes, float (&out)[4]) {
    RATIFY_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = to_f32(static_cast<uint8_t>(codes >> (8 * i)));
  }
  RATIFY_HD static uint16_t to_f16(uint8_t code) {
    uint32_t const value = e4m3_fields<10, 15>(code) | static_cast<uint32_t>(code & 0x80u) << 8;
    return static_cast<uint16_t>((code & 0x7fu) == 0x7fu ? 0x7fffu : value);
  }
  RATIFY_HD static uint32_t to_f16_x2(uint16_t codes) {
    return to_f16(static_cast<uint8_t>(codes)) | static_cast<uint32_t>(to_f16(static_cast<uint8_t>(codes >> 8))) << 16;
  }
};

template <>
struct code_decoder<decoder_revision::fp16_shift, e4m3> {
  RATIFY_HD static float to_f32(uint8_t code) {
    return f32_from_f16_bits_times_256(static_cast<uint16_t>(e4m3_shift_x2(static_cast<uint32_t>(code) << 8)));
  }
  RATIFY_HD static void to_f32_x4(uint32_t codes, float (&out)[4]) {
    uint32_t const even = e4m3_shift_x2(codes << 8), odd = e4m3_shift_x2(codes);
    uint32_t const halves[4] = {even & 0xffffu, odd & 0xffffu, even >> 16, odd >> 16};
    RATIFY_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = f32_from_f16_bits_times_256(static_cast<uint16_t>(halves[i]));
  }
  RATIFY_HD static uint16_t to_f16(uint8_t code) { return static_cast<uint16_t>(to_f16_x2(code)); }
  RATIFY_HD static uint32_t to_f16_x2(uint16_t codes) {
    uint32_t const c = codes;
    return f16x2_times_256(e4m3_shift_x2((c << 8 & 0xff00u) | c << 16));
  }
};

template <>
struct code_decoder<decoder_revision::native, e4m3> {
  using elsewhere = code_decoder<decoder_revision::fp16_shift, e4m3>;
  RATIFY_HD static float to_f32(uint8_t code) {
    float low, high;
    return native_f32_from_e4m3x2(code, low, high) ? low : elsewhere::to_f32(code);
  }
  RATIFY_HD static void to_f32_x4(uint32_t codes, float (&out)[4]) {
    if (!native_f32_from_e4m3x2(static_cast<uint16_t>(codes), out[0], out[1]) ||
        !native_f32_from_e4m3x2(static_cast<uint16_t>(codes >> 16), out[2], out[3]))
      elsewhere::to_f32_x4(codes, out);
  }
  RATIFY_HD static uint16_t to_f16(uint8_t code) { return static_cast<uint16_t>(to_f16_x2(code)); }
  RATIFY_HD static uint32_t to_f16_x2(uint16_t codes) {
    uint32_t h = 0;
    return native_f16x2_from_e4m3x2(codes, h) ? h : elsewhere::to_f16_x2(codes);
  }
};

/// FP32 of one code. `Revision` matters for e4m3 alone; the other formats have one decoder.
template <decoder_revision Revision, class Format>
RATIFY_HD inline float decode_x1(uint8_t code) {
  return code_decoder<Revision, Format>::to_f32(code);
}

/// FP32 of two codes, low byte first.
template <decoder_revision Revision, class Format>
RATIFY_HD inline void decode_x2(uint16_t codes, float (&out)[2]) {
  float four[4];
  code_decoder<Revision, Format>::to_f32_x4(codes, four);
  out[0] = four[0];
  out[1] = four[1];
}

/// FP32 of four codes, low byte first.
template <decoder_revision Revision, class Format>
RATIFY_HD inline void decode_x4(uint32_t codes, float (&out)[4]) {
  code_decoder<Revision, Format>::to_f32_x4(codes, out);
}

/// The power of two by which `decode_x4_scaled` divides every value.
template <decoder_revision Revision, class Format>
inline constexpr int decode_scale = 1;
template <>
inline constexpr int decode_scale<decoder_revision::fp16_shift, e4m3> = 256;

/// FP32 of four codes, low byte first, divided by `decode_scale`: for callers that multiply it into the other factor. A
/// NaN code gives a NaN, with no promise which.
template <decoder_revision Revision, class Format>
RATIFY_HD inline void decode_x4_scaled(uint32_t codes, float (&out)[4]) {
  if constexpr (Revision == decoder_revision::fp16_shift && RATIFY_STD::is_same_v<Format, e4m3>) {
    uint32_t const even = e4m3_shift_x2(codes << 8), odd = e4m3_shift_x2(codes);
    uint32_t const halves[4] = {even & 0xffffu, odd & 0xffffu, even >> 16, odd >> 16};
    RATIFY_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = widened_f16_bits(static_cast<uint16_t>(halves[i]));
  } else {
    decode_x4<Revision, Format>(codes, out);
  }
}

/// The bits of the FP16 of one code.
template <decoder_revision Revision, class Format>
RATIFY_HD inline uint16_t decode_f16_x1(uint8_t code) {
  return code_decoder<Revision, Format>::to_f16(code);
}

/// Two FP16 in a word, of two codes, low first.
template <decoder_revision Revision, class Format>
RATIFY_HD inline uint32_t decode_f16_x2(uint16_t codes) {
  return code_decoder<Revision, Format>::to_f16_x2(codes);
}

/// Four FP16 in two words, of four codes, low first.
template <decoder_revision Revision, class Format>
RATIFY_HD inline void decode_f16_x4(uint32_t codes, uint32_t (&out)[2]) {
  out[0] = code_decoder<Revision, Format>::to_f16_x2(static_cast<uint16_t>(codes));
  out[1] = code_decoder<Revision, Format>::to_f16_x2(static_cast<uint16_t>(codes >> 16));
}

}  // namespace detail
RATIFY_END_NAMESPACE
