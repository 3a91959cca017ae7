// SPDX-License-Identifier: Apache-2.0
/// The inner steps of the NVFP4 projection, for kernels of your own.
#pragma once

#include <ratify/detail/decode.cuh>
#include <ratify/detail/projection_traits.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// The global scale of column n: that of the first segment that ends past it, 0 where none does.
RATIFY_HD inline float global_scale(float const* w_global, int32_t const* segment_end, int segments, int n) {
  if (segment_end == nullptr) return w_global[0];
  for (int s = 0; s < segments; ++s)
    if (n < segment_end[s]) return w_global[s];
  return 0.0f;
}

/// The scale of a group of 16 weights under the policy's rounding.
template <projection_scale Scale>
RATIFY_HD inline float group_scale(e4m3 w_scale, float w_global) {
  // nvfp4_scale_fp16 and _fp32 with the decoder that takes the fewest instructions.
  float const scale = detail::mul_rn(detail::decode_x1<decoder_revision::fp16_shift, e4m3>(w_scale.bits), w_global);
  return Scale == projection_scale::fp16 ? detail::round_to_f16(scale) : scale;
}

/// Adds one scale group's 16 products of each column to each row's sum, k ascending. x is [16][Rows] in FP32, on 16
/// bytes where Rows is a multiple of 4; a scale is what `group_scale` gives.
template <projection_scale Scale, int Columns, int Rows>
RATIFY_HD inline void accumulate_group(detail::vector8 const (&codes)[Columns], float const (&scale)[Columns],
                                       float const* x, float (&sum)[Columns][Rows]) {
  using namespace detail;
  constexpr bool matched = Scale == projection_scale::fp16;
  float w[Columns][nvfp4_group], part[Columns][Rows];
  RATIFY_UNROLL
  for (int c = 0; c < Columns; ++c) {
    scaled_e2m1_x16(codes[c], matched ? scale[c] : 1.0f, w[c]);
    RATIFY_UNROLL
    for (int r = 0; r < Rows; ++r) part[c][r] = matched ? sum[c][r] : 0.0f;
  }
  RATIFY_UNROLL
  for (int i = 0; i < nvfp4_group; ++i) {
    RATIFY_UNROLL
    for (int c = 0; c < Columns; ++c) {
      float registers[Rows];
      float const* const at = staged_floats(x + i * Rows, registers);
      RATIFY_UNROLL
      for (int r = 0; r < Rows; ++r) part[c][r] = fma_rn(at[r], w[c][i], part[c][r]);
    }
  }
  RATIFY_UNROLL
  for (int c = 0; c < Columns; ++c) {
    RATIFY_UNROLL
    for (int r = 0; r < Rows; ++r) sum[c][r] = matched ? part[c][r] : fma_rn(part[c][r], scale[c], sum[c][r]);
  }
}

}  // namespace device
RATIFY_END_NAMESPACE
