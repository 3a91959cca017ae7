// SPDX-License-Identifier: Apache-2.0
/// The inner steps of the NVFP4 projection, for kernels of your own.
#pragma once

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

/// Adds one scale group's 16 products to each row's sum, k ascending. x is [16][Rows] in FP32.
template <projection_scale Scale, int Rows>
RATIFY_HD inline void accumulate_group(detail::vector8 const& codes, e4m3 w_scale, float w_global, float const* x,
                                       float (&sum)[Rows]) {
  using namespace detail;
  float w[nvfp4_group];
  if constexpr (Scale == projection_scale::fp16) {
    scaled_e2m1_x16(codes, nvfp4_scale_fp16(w_scale, w_global), w);
    RATIFY_UNROLL
    for (int i = 0; i < nvfp4_group; ++i) {
      RATIFY_UNROLL
      for (int r = 0; r < Rows; ++r) sum[r] = fma_rn(x[i * Rows + r], w[i], sum[r]);
    }
  } else {
    scaled_e2m1_x16(codes, 1.0f, w);
    float const scale = nvfp4_scale_fp32(w_scale, w_global);
    float part[Rows];
    RATIFY_UNROLL
    for (int r = 0; r < Rows; ++r) part[r] = 0.0f;
    RATIFY_UNROLL
    for (int i = 0; i < nvfp4_group; ++i) {
      RATIFY_UNROLL
      for (int r = 0; r < Rows; ++r) part[r] = fma_rn(x[i * Rows + r], w[i], part[r]);
    }
    RATIFY_UNROLL
    for (int r = 0; r < Rows; ++r) sum[r] = fma_rn(part[r], scale, sum[r]);
  }
}

}  // namespace device
RATIFY_END_NAMESPACE
