// SPDX-License-Identifier: Apache-2.0
/// One place of a causal depthwise convolution, for kernels of your own.
#pragma once

#include <ratify/detail/math.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// bias + sum of weight[j] * window[j], oldest first, as one chain of fused multiply-adds that begins at the bias (0
/// where there is none); then, with `Silu`, y * sigmoid(y).
template <bool Silu, int Width>
RATIFY_HD inline float convolution(float bias, float const (&weight)[Width], float const (&window)[Width]) {
  float y = bias;
  RATIFY_UNROLL
  for (int j = 0; j < Width; ++j) y = detail::fma_rn(weight[j], window[j], y);
  if constexpr (Silu) y = detail::silu_ordered(y);
  return y;
}

}  // namespace device
RATIFY_END_NAMESPACE
