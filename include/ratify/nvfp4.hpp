// SPDX-License-Identifier: Apache-2.0
/// NVFP4 as checkpoints hold it: E2M1 codes, two a byte (the low nibble is the even column), one E4M3 scale for 16
/// columns, one FP32 scale for a tensor. The operations read this layout as it is; nothing is repacked.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

/// Columns that share a scale.
inline constexpr int nvfp4_group = 16;

/// The code at column `k` of a packed row.
RATIFY_HD inline uint32_t nvfp4_code(uint8_t const* packed_row, int64_t k) {
  return static_cast<uint32_t>(packed_row[k / 2]) >> (k % 2 * 4) & 15u;
}

/// compressed-tensors stores a divisor: w_global = 1 / weight_global_scale, correctly rounded.
RATIFY_HD inline float nvfp4_global_from_divisor(float weight_global_scale) {
  return detail::div_rn(1.0f, weight_global_scale);
}

/// A group's scale under effective_scale fp32: float(w_scale) * w_global in FP32.
RATIFY_HD inline float nvfp4_scale_fp32(e4m3 w_scale, float w_global) {
  return detail::mul_rn(to_float(w_scale), w_global);
}

/// A group's scale under effective_scale fp16: the same, rounded to FP16.
RATIFY_HD inline float nvfp4_scale_fp16(e4m3 w_scale, float w_global) {
  return detail::round_to_f16(nvfp4_scale_fp32(w_scale, w_global));
}

/// A weight under effective_scale fp16; `scale` comes from `nvfp4_scale_fp16`.
RATIFY_HD inline float nvfp4_weight(uint32_t code, float scale) {
  return detail::round_to_f16(detail::mul_rn(e2m1_to_float(code), scale));
}

/// The E2M1 code nearest to x: ties to the even code, 6 and above saturate, NaN is 0.
RATIFY_HD inline uint32_t e2m1_from_float(float x) {
  if (detail::is_nan(x)) return 0;
  uint32_t const sign = detail::bits(x) >> 31 << 3;
  float const a = detail::magnitude(x);
  // Halfway points; one that lies under an odd code belongs to the even one below.
  constexpr float halfway[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  uint32_t code = 0;
  RATIFY_UNROLL
  for (uint32_t i = 0; i < 7; ++i) {
    bool const up = i % 2 == 0 ? detail::less(halfway[i], a) : !detail::less(a, halfway[i]);
    code += up ? 1u : 0u;
  }
  return sign | code;
}

#if !defined(__CUDACC_RTC__)

/// What rounding to FP16 does to a tensor under effective_scale fp16. Where anything here is not 0, use fp32.
struct nvfp4_report {
  int64_t zero_scales = 0;       ///< the FP16 scale is 0 and the FP32 one is not
  int64_t subnormal_scales = 0;  ///< the FP16 scale has lost bits to subnormal range
  int64_t infinite_scales = 0;   ///< the FP16 scale is infinite
  int64_t zero_weights = 0;      ///< the weight is 0, its code and FP32 scale are not
  int64_t subnormal_weights = 0;
  int64_t infinite_weights = 0;
};

/// Judges rows of packed weights. w_packed [n, k / 2], w_scale [n, k / 16], all with one w_global; on the host.
inline nvfp4_report nvfp4_inspect(uint8_t const* w_packed, e4m3 const* w_scale, float w_global, int64_t n, int64_t k) {
  using detail::bits;
  using detail::magnitude;
  auto const is_zero = [](float x) { return bits(x) << 1 == 0; };
  auto const is_subnormal = [&](float x) { return !is_zero(x) && detail::less(magnitude(x), 0x1p-14f); };
  auto const is_infinite = [](float x) { return bits(magnitude(x)) == 0x7f800000u; };
  nvfp4_report r;
  for (int64_t row = 0; row < n; ++row)
    for (int64_t group = 0; group < k / nvfp4_group; ++group) {
      e4m3 const stored = w_scale[row * (k / nvfp4_group) + group];
      float const exact = nvfp4_scale_fp32(stored, w_global), scale = nvfp4_scale_fp16(stored, w_global);
      r.zero_scales += is_zero(scale) && !is_zero(exact);
      r.subnormal_scales += is_subnormal(scale);
      r.infinite_scales += is_infinite(scale);
      for (int64_t i = 0; i < nvfp4_group; ++i) {
        uint32_t const code = nvfp4_code(w_packed + row * (k / 2), group * nvfp4_group + i);
        float const w = nvfp4_weight(code, scale);
        r.zero_weights += is_zero(w) && (code & 7u) != 0 && !is_zero(exact);
        r.subnormal_weights += is_subnormal(w);
        r.infinite_weights += is_infinite(w);
      }
    }
  return r;
}

/// Packs one row of k values (a multiple of 16): each group's scale maps its largest magnitude to 6, codes are the
/// nearest to value / (scale * w_global). A plain quantiser; a checkpoint's own is better. On the host.
inline void nvfp4_pack_row(float const* values, int64_t k, float w_global, uint8_t* packed_row, e4m3* scale_row) {
  for (int64_t group = 0; group < k / nvfp4_group; ++group) {
    float const* const v = values + group * nvfp4_group;
    float largest = 0.0f;
    for (int i = 0; i < nvfp4_group; ++i) largest = detail::max_rn(largest, detail::magnitude(v[i]));
    e4m3 const stored = convert<e4m3>(detail::div_rn(detail::div_rn(largest, 6.0f), w_global));
    float const scale = nvfp4_scale_fp32(stored, w_global);
    scale_row[group] = stored;
    uint32_t codes[nvfp4_group];
    for (int i = 0; i < nvfp4_group; ++i)
      codes[i] = detail::bits(scale) << 1 == 0 ? 0 : e2m1_from_float(detail::div_rn(v[i], scale));
    for (int i = 0; i < nvfp4_group / 2; ++i)
      packed_row[group * nvfp4_group / 2 + i] = static_cast<uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
  }
}

#endif

RATIFY_END_NAMESPACE
