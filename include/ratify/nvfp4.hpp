// SPDX-License-Identifier: Apache-2.0
/// NVFP4 as checkpoints hold it: two E2M1 codes per byte (the low nibble is the even column), one E4M3 scale for each
/// group of 16 columns, one FP32 scale for a tensor. The operations read this layout as it is; nothing is repacked.
///
/// Every function here may be called anywhere, outside executors too: it gives the same bits in every rounding mode of
/// the calling thread, and with subnormals flushed to zero or not (`nvfp4_pack_row`: on x86-64).
#pragma once

#include <ratify/numeric.hpp>
#if !defined(__CUDACC_RTC__)
#include <ratify/detail/machine/floating_environment.hpp>
#endif

RATIFY_BEGIN_NAMESPACE

/// Columns that share a scale.
inline constexpr int nvfp4_group = 16;

/// The code at column `k` of a packed row.
RATIFY_HD inline uint32_t nvfp4_code(uint8_t const* packed_row, int64_t k) {
  return static_cast<uint32_t>(packed_row[k / 2]) >> (k % 2 * 4) & 15u;
}

namespace detail {

/// The FP32 nearest to significand * 2^exponent, ties to even, for 0 < significand < 2^62, with the sign bit of `sign`.
/// By integers alone.
RATIFY_HD inline float compose_float(uint32_t sign, uint64_t significand, int exponent) {
  int top = 61;
  while (significand >> top == 0) --top;
  sign &= 0x80000000u;
  if (top + exponent > 127) return from_bits(sign | 0x7f800000u);
  // The result is `quanta` times the distance of neighbouring FP32 numbers there.
  int const distance = max_of(top + exponent - 23, -149), shift = distance - exponent;
  uint64_t quanta = 0;
  if (shift <= 0)
    quanta = significand << -shift;
  else if (shift <= 62)
    quanta = (significand + (uint64_t{1} << (shift - 1)) - 1 + (significand >> shift & 1u)) >> shift;
  // 2^23 quanta and more have an exponent field of 1 and up, one that rounding has carried to included.
  return from_bits(sign | (static_cast<uint32_t>(quanta) + (static_cast<uint32_t>(distance + 149) << 23)));
}

/// A finite FP32 other than 0 as an integer below 2^24 times a power of two.
struct float_parts {
  uint32_t significand;
  int exponent;
};
RATIFY_HD inline float_parts parts_of(float x) {
  uint32_t const u = bits(x), field = u >> 23 & 0xffu;
  return {(u & 0x7fffffu) | (field != 0 ? 0x800000u : 0u), static_cast<int>(field != 0 ? field : 1u) - 150};
}

}  // namespace detail

/// compressed-tensors stores a divisor: w_global = 1 / weight_global_scale, correctly rounded.
RATIFY_HD inline float nvfp4_global_from_divisor(float weight_global_scale) {
  using namespace detail;
  uint32_t const u = bits(weight_global_scale), sign = u & 0x80000000u;
  if (is_nan(weight_global_scale)) return from_bits(canonical_nan_bits);
  if (u == sign) return from_bits(sign | 0x7f800000u);
  if (u == (sign | 0x7f800000u)) return from_bits(sign);
  float_parts const d = parts_of(weight_global_scale);
  // The quotient has more than 25 bits; what is left over only decides that it is no tie.
  uint64_t const one = uint64_t{1} << 50, quotient = one / d.significand;
  return compose_float(sign, quotient | (one % d.significand != 0 ? 1u : 0u), -50 - d.exponent);
}

/// The scale of a group with effective_scale fp32: float(w_scale) * w_global in FP32, correctly rounded.
RATIFY_HD inline float nvfp4_scale_fp32(e4m3 w_scale, float w_global) {
  using namespace detail;
  uint32_t const code = w_scale.bits & 0x7fu, field = code >> 3, u = bits(w_global);
  uint32_t const sign = (static_cast<uint32_t>(w_scale.bits) << 24 ^ u) & 0x80000000u, magnitude = u & 0x7fffffffu;
  if (code == 0x7fu || is_nan(w_global) || (code == 0 && magnitude == 0x7f800000u))
    return from_bits(canonical_nan_bits);
  if (magnitude == 0x7f800000u) return from_bits(sign | magnitude);
  if (code == 0 || magnitude == 0) return from_bits(sign);
  float_parts const g = parts_of(w_global);
  uint32_t const significand = (code & 7u) | (field != 0 ? 8u : 0u);
  return compose_float(sign, uint64_t{significand} * g.significand,
                       static_cast<int>(field != 0 ? field : 1u) - 10 + g.exponent);
}

/// The scale of a group with effective_scale fp16: the same, rounded to FP16.
RATIFY_HD inline float nvfp4_scale_fp16(e4m3 w_scale, float w_global) {
  return detail::round_to_f16(nvfp4_scale_fp32(w_scale, w_global));
}

/// A weight with effective_scale fp16.
/// `scale`: from `nvfp4_scale_fp16`
RATIFY_HD inline float nvfp4_weight(uint32_t code, float scale) {
  return detail::round_to_f16(detail::mul_rn(e2m1_to_float(code), scale));  // exact before it is rounded
}

/// The E2M1 code nearest to x: ties to the even code; 6 and above saturate, infinity too; NaN is 0.
RATIFY_HD inline uint32_t e2m1_from_float(float x) {
  if (detail::is_nan(x)) return 0;
  uint32_t const sign = detail::bits(x) >> 31 << 3, magnitude = detail::bits(x) & 0x7fffffffu;
  // The halfway points 0.25, 0.75, 1.25, 1.75, 2.5, 3.5 and 5; one below an odd code belongs to the even code under it.
  constexpr uint32_t halfway[7] = {0x3e800000u, 0x3f400000u, 0x3fa00000u, 0x3fe00000u,
                                   0x40200000u, 0x40600000u, 0x40a00000u};
  uint32_t code = 0;
  RATIFY_UNROLL
  for (uint32_t i = 0; i < 7; ++i) code += magnitude >= halfway[i] + (i % 2 == 0 ? 1u : 0u) ? 1u : 0u;
  return sign | code;
}

#if !defined(__CUDACC_RTC__)

/// What is wrong with a tensor, counted by kind. Counts of several tensors can be added up.
struct nvfp4_report {
  // Groups. With effective_scale fp32 a group keeps what rounding its scale to FP16 loses.

  /// The FP16 scale is 0, which it should not be: the FP32 scale or a code of the group is not 0, or w_global is 0.
  int64_t zero_scales = 0;
  int64_t stored_zero_scales = 0;  ///< those of zero_scales whose FP32 scale is 0 too: fp32 does not help
  int64_t subnormal_scales = 0;    ///< the FP16 scale is subnormal and may have lost bits
  int64_t infinite_scales = 0;     ///< the FP16 scale is infinite or NaN
  int64_t nan_scales = 0;          ///< those of infinite_scales that are NaN: fp32 does not help

  // Weights with effective_scale fp16.

  int64_t zero_weights = 0;       ///< the weight is 0, its code is not
  int64_t subnormal_weights = 0;  ///< the weight is subnormal and may have lost bits
  int64_t infinite_weights = 0;   ///< the weight is infinite or NaN
  int64_t nan_weights = 0;        ///< those of infinite_weights that are NaN

  // The tensor.

  int64_t zero_globals = 0;      ///< 1 if w_global is 0
  int64_t infinite_globals = 0;  ///< 1 if w_global is infinite
  int64_t nan_globals = 0;       ///< 1 if w_global is NaN

  /// Whether every count is 0: effective_scale fp16 gives exactly the weights that FP16 can hold.
  bool is_clean() const {
    return (zero_scales | subnormal_scales | infinite_scales | zero_weights | subnormal_weights | infinite_weights |
            zero_globals | infinite_globals | nan_globals) == 0;
  }
  nvfp4_report& operator+=(nvfp4_report const& other) {
    zero_scales += other.zero_scales;
    stored_zero_scales += other.stored_zero_scales;
    subnormal_scales += other.subnormal_scales;
    infinite_scales += other.infinite_scales;
    nan_scales += other.nan_scales;
    zero_weights += other.zero_weights;
    subnormal_weights += other.subnormal_weights;
    infinite_weights += other.infinite_weights;
    nan_weights += other.nan_weights;
    zero_globals += other.zero_globals;
    infinite_globals += other.infinite_globals;
    nan_globals += other.nan_globals;
    return *this;
  }
};

namespace detail {

/// A float by its bits.
inline bool is_zero(float x) { return bits(x) << 1 == 0; }
inline bool is_subnormal_f16(float x) { return !is_zero(x) && (bits(x) & 0x7fffffffu) < 0x38800000u; }

/// Counts one group of 16 weights.
inline void inspect_group(uint8_t const* packed, e4m3 stored, float w_global, nvfp4_report& r) {
  float const exact = nvfp4_scale_fp32(stored, w_global), scale = nvfp4_scale_fp16(stored, w_global);
  bool has_codes = false;
  for (int i = 0; i < nvfp4_group; ++i) {
    uint32_t const code = nvfp4_code(packed, i);
    float const w = nvfp4_weight(code, scale);
    has_codes = has_codes || (code & 7u) != 0;
    r.zero_weights += is_zero(w) && (code & 7u) != 0;
    r.subnormal_weights += is_subnormal_f16(w);
    r.infinite_weights += !is_finite(w);
    r.nan_weights += is_nan(w);
  }
  bool const lost = is_zero(scale) && (!is_zero(exact) || has_codes || is_zero(w_global));
  r.zero_scales += lost;
  r.stored_zero_scales += lost && is_zero(exact);
  r.subnormal_scales += is_subnormal_f16(scale);
  r.infinite_scales += !is_finite(scale);
  r.nan_scales += is_nan(scale);
}

}  // namespace detail

/// Counts what rounding to FP16 does to a tensor with effective_scale fp16, and what cannot be right in it at all.
/// Clipping leaves no trace in packed weights, so it cannot be seen here: `nvfp4_pack_row` reports it. On the host.
///
/// @param w_packed [n, k / 2]
/// @param w_scale  [n, k / 16]
/// @param w_global of all n rows
/// @param n        rows of the weight
/// @param k        columns of the weight, a multiple of 16
inline nvfp4_report nvfp4_inspect(uint8_t const* w_packed, e4m3 const* w_scale, float w_global, int64_t n, int64_t k) {
  nvfp4_report r;
  r.zero_globals = detail::is_zero(w_global);
  r.nan_globals = detail::is_nan(w_global);
  r.infinite_globals = !detail::is_finite(w_global) && r.nan_globals == 0;
  int64_t const groups = k / nvfp4_group;
  for (int64_t group = 0; group < n * groups; ++group)
    detail::inspect_group(w_packed + group * (nvfp4_group / 2), w_scale[group], w_global, r);
  return r;
}

/// What `nvfp4_pack_row` could not keep, counted by kind. Counts of several rows can be added up. Rounding a value to
/// the nearest code, 0 included, is no loss.
struct nvfp4_loss {
  int64_t nan_values = 0;        ///< values that are NaN
  int64_t infinite_values = 0;   ///< values that are infinite
  int64_t clipped_values = 0;    ///< finite values beyond the largest that the format holds with this w_global
  int64_t zero_groups = 0;       ///< groups with values other than 0 whose scale rounds to 0
  int64_t unusable_globals = 0;  ///< 1 if w_global is 0, infinite or NaN, so that no group can be packed

  /// Whether every count is 0.
  bool is_clean() const {
    return (nan_values | infinite_values | clipped_values | zero_groups | unusable_globals) == 0;
  }
  nvfp4_loss& operator+=(nvfp4_loss const& other) {
    nan_values += other.nan_values;
    infinite_values += other.infinite_values;
    clipped_values += other.clipped_values;
    zero_groups += other.zero_groups;
    unusable_globals += other.unusable_globals;
    return *this;
  }
};

namespace detail {

/// The scale of a group whose largest magnitude becomes a 6, before it is rounded to E4M3.
inline float unrounded_scale(float value, float w_global) {
  // A sixth of a tiny value would be subnormal and lose bits.
  return (bits(value) & 0x7fffffffu) < 0x03000000u ? div_rn(div_rn(value, w_global), 6.0f)
                                                   : div_rn(div_rn(value, 6.0f), w_global);
}

/// Packs one group of 16 values into 8 bytes. @return its scale
inline e4m3 pack_group(float const* values, float w_global, bool usable, uint8_t* packed, nvfp4_loss& loss) {
  constexpr uint32_t most = 0x43e80000u;  // 464: a scale above it would be rounded past 448
  uint32_t largest = 0;
  bool holds = usable;
  for (int i = 0; i < nvfp4_group; ++i) {
    uint32_t const magnitude = bits(values[i]) & 0x7fffffffu;
    bool const nan = magnitude > 0x7f800000u, infinite = magnitude == 0x7f800000u;
    bool const clipped =
        usable && !nan && !infinite && (bits(unrounded_scale(values[i], w_global)) & 0x7fffffffu) > most;
    loss.nan_values += nan;
    loss.infinite_values += infinite;
    loss.clipped_values += clipped;
    holds = holds && !nan && !infinite && !clipped;
    largest = max_of(largest, magnitude);
  }
  e4m3 const stored = holds ? convert<e4m3>(unrounded_scale(from_bits(largest), w_global)) : e4m3{0x7f};
  float const scale = nvfp4_scale_fp32(stored, w_global);
  loss.zero_groups += holds && largest != 0 && is_zero(scale);
  for (int i = 0; i < nvfp4_group / 2; ++i) {
    // 0 / 0 and what is divided by NaN give code 0.
    uint32_t const low = e2m1_from_float(div_rn(values[2 * i], scale));
    uint32_t const high = e2m1_from_float(div_rn(values[2 * i + 1], scale));
    packed[i] = static_cast<uint8_t>(low | high << 4);
  }
  return stored;
}

}  // namespace detail

/// Packs one row: the scale of each group maps its largest magnitude to 6, and codes are the nearest to value / (scale
/// * w_global). A plain quantiser; that of a checkpoint is better. On the host.
///
/// What the format cannot hold is returned, and cannot pass for a weight either: a group with a NaN, an infinity or a
/// value beyond 6 * 448 * |w_global|, and every group if w_global is 0, infinite or NaN, gets a NaN scale and codes of
/// 0; a group whose scale rounds to 0 keeps codes other than 0. `nvfp4_inspect` counts all of them.
///
/// @param values      [k]
/// @param k           a multiple of 16
/// @param w_global    the factor of all scales
/// @param packed_row  [k / 2]
/// @param scale_row   [k / 16]
/// @return what was lost; all 0 if nothing was
inline nvfp4_loss nvfp4_pack_row(float const* values, int64_t k, float w_global, uint8_t* packed_row, e4m3* scale_row) {
  detail::ordered_environment const environment;
  nvfp4_loss loss;
  bool const usable = detail::is_finite(w_global) && !detail::is_zero(w_global);
  loss.unusable_globals = !usable;
  for (int64_t group = 0; group < k / nvfp4_group; ++group)
    scale_row[group] = detail::pack_group(values + group * nvfp4_group, w_global, usable,
                                          packed_row + group * (nvfp4_group / 2), loss);
  return loss;
}

#endif

RATIFY_END_NAMESPACE
