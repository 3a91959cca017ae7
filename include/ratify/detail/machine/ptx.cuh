// SPDX-License-Identifier: Apache-2.0
/// Every instruction that is written by hand, and the only file that asks which architecture it is compiled for.
///
/// Arithmetic here has one meaning everywhere: IEEE FP32, round to nearest even, subnormals kept, no contraction. On
/// CUDA that takes inline PTX (under -use_fast_math the intrinsics, `fmaxf` and `<` become .ftz forms). On the host it
/// takes a register barrier after each operation (g++ contracts a product into a sum under -march=x86-64-v3, across
/// calls too).
#pragma once

#include <ratify/config.hpp>
#if !defined(__CUDACC_RTC__)
#include <cmath>
#include <cstring>
#endif

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// What this code is compiled for, such as 900 for sm_90; 0 on the host.
#if defined(__CUDA_ARCH__)
inline constexpr int compiled_architecture = __CUDA_ARCH__;
#else
inline constexpr int compiled_architecture = 0;
#endif

inline constexpr uint32_t canonical_nan_bits = 0x7fffffffu;

RATIFY_HD inline uint32_t bits(float x) {
  uint32_t u;
#if defined(__CUDA_ARCH__)
  asm("mov.b32 %0, %1;" : "=r"(u) : "f"(x));
#else
  std::memcpy(&u, &x, sizeof u);
#endif
  return u;
}

RATIFY_HD inline float from_bits(uint32_t u) {
  float x;
#if defined(__CUDA_ARCH__)
  asm("mov.b32 %0, %1;" : "=f"(x) : "r"(u));
#else
  std::memcpy(&x, &u, sizeof x);
#endif
  return x;
}

// On the host the compiler may not look through this value. Results are kept so that nothing is contracted or
// reassociated across operations; operands where a flag would let the compiler fold a sum with 0 (-fno-signed-zeros) or
// divide by multiplying with a reciprocal (-freciprocal-math).
#if defined(__CUDA_ARCH__)
#define RATIFY_KEEP(x)
#elif defined(__x86_64__)
#define RATIFY_KEEP(x) asm("" : "+x"(x))
#elif defined(__aarch64__)
#define RATIFY_KEEP(x) asm("" : "+w"(x))
#else
#error "ratify: the host executor needs x86-64 or AArch64"
#endif

RATIFY_HD inline float fma_rn(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  float d;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
  return d;
#else
  return __builtin_fmaf(a, b, c);
#endif
}

RATIFY_HD inline float mul_rn(float a, float b) {
  float d;
#if defined(__CUDA_ARCH__)
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
#else
  d = a * b;
  RATIFY_KEEP(d);
#endif
  return d;
}

RATIFY_HD inline float add_rn(float a, float b) {
  float d;
#if defined(__CUDA_ARCH__)
  asm("add.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
#else
  RATIFY_KEEP(a);
  RATIFY_KEEP(b);
  d = a + b;
  RATIFY_KEEP(d);
#endif
  return d;
}

RATIFY_HD inline float sub_rn(float a, float b) {
  float d;
#if defined(__CUDA_ARCH__)
  asm("sub.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
#else
  RATIFY_KEEP(a);
  RATIFY_KEEP(b);
  d = a - b;
  RATIFY_KEEP(d);
#endif
  return d;
}

RATIFY_HD inline float div_rn(float a, float b) {
  float d;
#if defined(__CUDA_ARCH__)
  asm("div.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
#else
  RATIFY_KEEP(b);
  d = a / b;
  RATIFY_KEEP(d);
#endif
  return d;
}

RATIFY_HD inline float sqrt_rn(float a) {
  float d;
#if defined(__CUDA_ARCH__)
  asm("sqrt.rn.f32 %0, %1;" : "=f"(d) : "f"(a));
#else
  d = __builtin_sqrtf(a);
  RATIFY_KEEP(d);
#endif
  return d;
}

RATIFY_HD inline bool is_nan(float x) { return (bits(x) & 0x7fffffffu) > 0x7f800000u; }
RATIFY_HD inline bool is_finite(float x) { return (bits(x) & 0x7fffffffu) < 0x7f800000u; }

/// x, with every NaN made the one NaN that PTX arithmetic gives (x86 gives 0xffc00000 and keeps payloads).
RATIFY_HD inline float canonical(float x) { return is_nan(x) ? from_bits(canonical_nan_bits) : x; }

/// x with -0 made +0, and every NaN the one NaN that PTX arithmetic gives: what x + 0 is on a card.
RATIFY_HD inline float plus_zero(float x) {
#if defined(__CUDA_ARCH__)
  return add_rn(x, 0.0f);
#else
  return bits(x) == 0x80000000u ? 0.0f : canonical(x);
#endif
}

RATIFY_HD inline float negate(float x) { return from_bits(bits(x) ^ 0x80000000u); }
RATIFY_HD inline float magnitude(float x) { return from_bits(bits(x) & 0x7fffffffu); }

/// An integer that orders numbers as they are ordered; both zeros are 0. What it is for a NaN means nothing.
RATIFY_HD inline int32_t order_of(float x) {
  auto const m = static_cast<int32_t>(bits(x) & 0x7fffffffu);
  return bits(x) >> 31 != 0 ? -m : m;
}

/// a < b; false when either is NaN. On the host by integers, which no flag of the compiler turns around.
RATIFY_HD inline bool less(float a, float b) {
#if defined(__CUDA_ARCH__)
  int r;
  asm("{ .reg .pred p; setp.lt.f32 p, %1, %2; selp.s32 %0, 1, 0, p; }" : "=r"(r) : "f"(a), "f"(b));
  return r != 0;
#else
  return !is_nan(a) && !is_nan(b) && order_of(a) < order_of(b);
#endif
}

/// The larger of two. +0 is above -0; a NaN loses to a number; two NaN give the canonical one.
RATIFY_HD inline float max_rn(float a, float b) {
#if defined(__CUDA_ARCH__)
  float d;
  asm("max.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
#else
  if (is_nan(a)) return canonical(b);
  if (is_nan(b)) return a;
  if (order_of(a) == order_of(b)) return from_bits(bits(a) & bits(b));
  return order_of(a) < order_of(b) ? b : a;
#endif
}

RATIFY_HD inline float float_from_int(int32_t x) {
#if defined(__CUDA_ARCH__)
  float d;
  asm("cvt.rn.f32.s32 %0, %1;" : "=f"(d) : "r"(x));
  return d;
#else
  return static_cast<float>(x);
#endif
}

/// The integer nearest to a / 2^Exponent, ties to even, where `a` are the bits of an FP32 of 0 or more and the quotient
/// is less than 2^23. By integers alone: the rounding mode of the caller and its treatment of subnormals have no part.
template <int Exponent>
RATIFY_HD inline uint32_t nearest_multiple(uint32_t a) {
  static_assert(Exponent >= -100 && Exponent <= 100, "ratify: nearest_multiple: Exponent must be -100 to 100");
  // a is significand * 2^(field - 150). Shifted out to the last bit, which gives 0, where the quotient is below 1/2.
  uint32_t const shift = static_cast<uint32_t>(Exponent + 150) - (a >> 23), by = shift < 31u ? shift : 31u;
  uint32_t const significand = (a & 0x007fffffu) | 0x00800000u;
  return (significand + (1u << (by - 1)) - 1u + (significand >> by & 1u)) >> by;
}

/// FP32 to FP16, round to nearest even; overflow gives infinity, NaN gives 0x7fff.
RATIFY_HD inline uint16_t f16_bits_rn(float x) {
#if defined(__CUDA_ARCH__)
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
#else
  uint32_t const u = bits(x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return 0x7fff;
  if (a >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);                  // 65520 and above
  if (a < 0x38800000u) return static_cast<uint16_t>(sign | nearest_multiple<-24>(a));  // below 2^-14
  return static_cast<uint16_t>(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13));
#endif
}

/// FP16 to FP32, exact; NaN gives the canonical NaN.
RATIFY_HD inline float f32_from_f16_bits(uint16_t h) {
#if defined(__CUDA_ARCH__)
  float d;
  asm("cvt.f32.f16 %0, %1;" : "=f"(d) : "h"(h));
  return canonical(d);
#else
  uint32_t const sign = static_cast<uint32_t>(h & 0x8000u) << 16, m = h & 0x7fffu;
  if (m >= 0x7c00u) return from_bits(m == 0x7c00u ? (sign | 0x7f800000u) : canonical_nan_bits);
  if (m < 0x0400u) return from_bits(bits(mul_rn(static_cast<float>(m), 0x1p-24f)) | sign);
  return from_bits(sign | ((m << 13) + 0x38000000u));
#endif
}

/// The FP32 of an FP16 that feeds arithmetic: a NaN stays one, whichever.
RATIFY_HD inline float widened_f16_bits(uint16_t h) {
#if defined(__CUDA_ARCH__)
  float d;
  asm("cvt.f32.f16 %0, %1;" : "=f"(d) : "h"(h));
  return d;
#else
  return f32_from_f16_bits(h);
#endif
}

/// x rounded to FP16 and back: what a value is worth once it has been stored as FP16.
RATIFY_HD inline float round_to_f16(float x) {
#if !defined(__CUDA_ARCH__)
  // The common case without packing: a finite magnitude that is a normal FP16 after rounding.
  uint32_t const u = bits(x), a = u & 0x7fffffffu;
  if (a - 0x38800000u < 0x477ff000u - 0x38800000u) return from_bits((u + 0xfffu + ((u >> 13) & 1u)) & 0xffffe000u);
#endif
  return f32_from_f16_bits(f16_bits_rn(x));
}

/// 256 times an FP16 below 256 in magnitude, exact; NaN gives the canonical NaN.
RATIFY_HD inline float f32_from_f16_bits_times_256(uint16_t h) {
#if defined(__CUDA_ARCH__)
  float d;
  asm("{ .reg .f32 t; cvt.f32.f16 t, %1; mul.rn.f32 %0, t, 0f43800000; }" : "=f"(d) : "h"(h));
  return d;
#else
  // No branch, so that a loop over codes vectorises. A subnormal is read as if it had the implicit bit, which is then
  // taken off.
  uint32_t const sign = static_cast<uint32_t>(h & 0x8000u) << 16, m = h & 0x7fffu;
  uint32_t const subnormal = m < 0x0400u ? ~0u : 0u;
  float const magnitude =
      fma_rn(from_bits((m << 13) + 0x3c000000u + (subnormal & 0x00800000u)), 1.0f, from_bits(subnormal & 0xbc800000u));
  return from_bits(m > 0x7c00u ? canonical_nan_bits : sign | bits(magnitude));
#endif
}

/// 256 times two FP16, each below 256 in magnitude, exact; NaN gives 0x7fff.
RATIFY_HD inline uint32_t f16x2_times_256(uint32_t h) {
#if defined(__CUDA_ARCH__)
  uint32_t d;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(h), "r"(0x5c005c00u));
  return d;
#else
  uint32_t const low = f16_bits_rn(f32_from_f16_bits_times_256(static_cast<uint16_t>(h)));
  return low | static_cast<uint32_t>(f16_bits_rn(f32_from_f16_bits_times_256(static_cast<uint16_t>(h >> 16)))) << 16;
#endif
}

/// Two E4M3 codes (low byte first) to two FP16 (low half first) by the card's own instruction, where it has one.
RATIFY_HD inline bool native_f16x2_from_e4m3x2(uint16_t codes, uint32_t& halves) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(codes));
  return true;
#else
  (void)codes;
  (void)halves;
  return false;
#endif
}

/// Two E4M3 codes to two FP32, low byte first, likewise. The conversions give the one NaN themselves (all codes are
/// tested on sm_90).
RATIFY_HD inline bool native_f32_from_e4m3x2(uint16_t codes, float& low, float& high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  asm("{ .reg .b32 pair; .reg .b16 l, h; cvt.rn.f16x2.e4m3x2 pair, %2; mov.b32 {l, h}, pair; cvt.f32.f16 %0, l; "
      "cvt.f32.f16 %1, h; }"
      : "=f"(low), "=f"(high)
      : "h"(codes));
  return true;
#else
  (void)codes;
  (void)low;
  (void)high;
  return false;
#endif
}

/// High 64 bits of a 64 x 64-bit product.
RATIFY_HD inline uint64_t multiply_high(uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH__)
  uint64_t d;
  asm("mul.hi.u64 %0, %1, %2;" : "=l"(d) : "l"(a), "l"(b));
  return d;
#else
  uint64_t const al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
  uint64_t const low = al * bl, m1 = ah * bl + (low >> 32), m2 = al * bh + (m1 & 0xffffffffu);
  return ah * bh + (m1 >> 32) + (m2 >> 32);
#endif
}

/// Waits until the kernels before this one are done and what they wrote is seen, where this one was launched
/// programmatically; does nothing otherwise, or before sm_90.
RATIFY_HD inline void dependency_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// 16 bytes as they lie in memory.
struct vector16 {
  uint32_t word[4];
};

/// Reads 16 bytes that nothing writes while the kernel runs; `p` is aligned to 16 bytes.
RATIFY_HD inline vector16 load_16_bytes(void const* p) {
  vector16 v;
#if defined(__CUDA_ARCH__)
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(p));
#else
  std::memcpy(&v, p, sizeof v);
#endif
  return v;
}

/// Reads 1, 2 or 4 bytes, aligned to their number, that nothing writes while the kernel runs; the rest is zero.
template <int Bytes>
RATIFY_HD inline uint32_t load_bytes(void const* p) {
  static_assert(Bytes == 1 || Bytes == 2 || Bytes == 4, "ratify: load_bytes reads 1, 2 or 4 bytes");
  uint32_t v = 0;
#if defined(__CUDA_ARCH__)
  if constexpr (Bytes == 1)
    asm volatile("ld.global.nc.u8 %0, [%1];" : "=r"(v) : "l"(p));
  else if constexpr (Bytes == 2) {
    uint16_t half;
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(half) : "l"(p));
    v = half;
  } else
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
#else
  std::memcpy(&v, p, Bytes);
#endif
  return v;
}

/// 8 bytes that nothing writes while the kernel runs; `p` is aligned to 8 bytes.
struct vector8 {
  uint32_t word[2];
};

RATIFY_HD inline vector8 load_8_bytes(void const* p) {
  vector8 v;
#if defined(__CUDA_ARCH__)
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(v.word[0]), "=r"(v.word[1]) : "l"(p));
#else
  std::memcpy(&v, p, sizeof v);
#endif
  return v;
}

/// Stores N = 1, 2 or a multiple of 4 floats at p, which lies on as many floats, 4 at most.
template <int Count>
RATIFY_HD inline void store_floats(float* p, float const (&v)[Count]) {
  static_assert(Count == 1 || Count == 2 || Count % 4 == 0,
                "ratify: store_floats stores 1, 2 or a multiple of 4 floats");
#if defined(__CUDA_ARCH__)
  if constexpr (Count % 4 == 0) {
    RATIFY_UNROLL
    for (int i = 0; i < Count; i += 4) *reinterpret_cast<float4*>(p + i) = float4{v[i], v[i + 1], v[i + 2], v[i + 3]};
  } else if constexpr (Count == 2)
    *reinterpret_cast<float2*>(p) = float2{v[0], v[1]};
  else
    *p = v[0];
#else
  for (int i = 0; i < Count; ++i) p[i] = v[i];
#endif
}

/// Count floats at p, which lie on 16 bytes if Count is a multiple of 4. A card reads them as vectors into `registers`.
/// A host compiler vectorises best from where they are, and if it cannot tell two uses of them apart (g++ 12 otherwise
/// gathers them one by one).
template <int Count>
RATIFY_HD inline float const* staged_floats(float const* p, float (&registers)[Count]) {
#if defined(__CUDA_ARCH__)
  constexpr int wide = Count % 4 == 0 ? Count : 0;
  RATIFY_UNROLL
  for (int i = 0; i < wide; i += 4) {
    float4 const four = *reinterpret_cast<float4 const*>(p + i);
    registers[i] = four.x, registers[i + 1] = four.y, registers[i + 2] = four.z, registers[i + 3] = four.w;
  }
  RATIFY_UNROLL
  for (int i = wide; i < Count; ++i) registers[i] = p[i];
  return registers;
#else
  (void)registers;
  asm("" : "+r"(p));
  return p;
#endif
}

#if defined(__CUDACC__)
/// Byte i of the result is byte s of the eight in `low` and `high`, s the i-th nibble of `selector`, 0 to 7.
__device__ inline uint32_t permuted_bytes(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t r = 0;
#if defined(__CUDA_ARCH__)
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(low), "r"(high), "r"(selector));
#else
  (void)low, (void)high, (void)selector;
#endif
  return r;
}
#endif

/// w[i] = FP16 nearest to (value of E2M1 code i) * scale, as FP32, for the 16 codes of two words, low nibble first.
/// `scale` is a value that FP16 holds. On a card a product is one FP16 multiplication; on the host the 8 magnitudes are
/// multiplied once and the codes look them up (a table indexed at run time would be local memory on a card).
RATIFY_HD inline void scaled_e2m1_x16(vector8 const& codes, float scale, float (&w)[16]) {
#if defined(__CUDA_ARCH__)
  uint32_t const h = f16_bits_rn(scale), pair = h | h << 16;
  RATIFY_UNROLL
  for (int word = 0; word < 2; ++word) {
    // The high bytes of the 8 magnitudes as FP16, whose low bytes are zero, and a sign: a byte permutation looks 4 up.
    uint32_t const magnitude = codes.word[word] & 0x77777777u, sign = codes.word[word] >> 3 & 0x11111111u;
    RATIFY_UNROLL
    for (int half = 0; half < 2; ++half) {
      uint32_t const four = permuted_bytes(0x3e3c3800u, 0x46444240u, magnitude >> (16 * half)) |
                            permuted_bytes(0x00008000u, 0u, sign >> (16 * half));
      RATIFY_UNROLL
      for (int two = 0; two < 2; ++two) {
        int const at = 8 * word + 4 * half + 2 * two;
        asm("{ .reg .b32 v; .reg .b16 low, high; mul.rn.f16x2 v, %2, %3; mov.b32 {low, high}, v; cvt.f32.f16 %0, low; "
            "cvt.f32.f16 %1, high; }"
            : "=f"(w[at]), "=f"(w[at + 1])
            : "r"(permuted_bytes(four, 0u, two == 0 ? 0x1404u : 0x3424u)), "r"(pair));
      }
    }
  }
#else
  // The products are exact in FP32. Between these bounds they are normal FP16 numbers, or zero, so that only 1.5 *
  // scale needs rounding and the others are it, or the scale, times a power of two.
  uint32_t const a = bits(scale) & 0x7fffffffu;
  bool const plain = a - 0x39000000u < 0x46000000u - 0x39000000u;  // 2^-13 to 2^13
  float table[16];
  if (plain) {
    constexpr float powers[8] = {0.0f, 0.5f, 1.0f, 1.0f, 2.0f, 2.0f, 4.0f, 4.0f};
    uint32_t const u = bits(fma_rn(1.5f, scale, -0.0f));
    float const half_more = from_bits((u + 0xfffu + ((u >> 13) & 1u)) & 0xffffe000u);
    float const base[8] = {scale, scale, scale, half_more, scale, half_more, scale, half_more};
    for (int c = 0; c < 8; ++c) table[c] = fma_rn(powers[c], base[c], -0.0f);
    for (int c = 0; c < 8; ++c) table[c + 8] = fma_rn(-powers[c], base[c], -0.0f);
  } else {
    constexpr float magnitudes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    for (int c = 0; c < 8; ++c) {
      table[c] = round_to_f16(mul_rn(magnitudes[c], scale));
      table[c + 8] = negate(table[c]);
    }
  }
  uint64_t const all = codes.word[0] | static_cast<uint64_t>(codes.word[1]) << 32;
  for (int i = 0; i < 16; ++i) w[i] = table[all >> (4 * i) & 15u];
#endif
}

}  // namespace detail
RATIFY_END_NAMESPACE
