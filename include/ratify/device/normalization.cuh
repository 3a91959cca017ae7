// SPDX-License-Identifier: Apache-2.0
/// The steps of a normalization, for kernels of your own.
#pragma once

#include <ratify/detail/math.cuh>
#include <ratify/detail/normalization_traits.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// The lane's chain of `warp_sum_of_squares`, continued from `sum`; n so far must be a multiple of 32.
RATIFY_ANY_BLOCK
template <class Block, class Value>
RATIFY_HD inline float lane_sum_of_squares(Block const& block, int n, Value const& value, float sum) {
  for (int i = block.lane(); i < n; i += 32) {
    float const v = value(i);
    sum = detail::fma_rn(v, v, sum);
  }
  return sum;
}

/// The sums of a full warp's lanes added in pairs 16, 8, 4, 2 and 1 apart.
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline float warp_sum(Block const& block, float sum) {
  RATIFY_UNROLL
  for (int apart = 16; apart > 0; apart /= 2) sum = detail::add_rn(sum, block.shuffle_xor(sum, apart, 0xffffffffu));
  return sum;
}

/// Sum of the squares of value(0) .. value(n - 1), in every lane of a full warp. Lane l sums elements l, l + 32, ...
/// ascending in one chain; the lanes are then added in pairs 16, 8, 4, 2 and 1 apart.
RATIFY_ANY_BLOCK
template <class Block, class Value>
RATIFY_HD inline float warp_sum_of_squares(Block const& block, int n, Value const& value) {
  return warp_sum(block, lane_sum_of_squares(block, n, value, 0.0f));
}

/// 1 / sqrt(mean of the squares + eps).
RATIFY_HD inline float inverse_rms(float sum_of_squares, int n, float eps) {
  float const mean = detail::div_rn(sum_of_squares, detail::float_from_int(n));
  return detail::rsqrt_ordered(detail::add_rn(mean, eps));
}

/// (x * inverse) * (1 + weight), or * weight without the unit offset.
template <bool UnitOffset>
RATIFY_HD inline float rms_scaled(float x, float inverse, float weight) {
  return detail::mul_rn(detail::mul_rn(x, inverse), UnitOffset ? detail::add_rn(1.0f, weight) : weight);
}

/// ((x * inverse) * weight) * silu(z).
RATIFY_HD inline float gated_rms_scaled(float x, float inverse, float weight, float z) {
  return detail::mul_rn(rms_scaled<false>(x, inverse, weight), detail::silu_ordered(z));
}

/// A pair (a, b) of dims turned by an angle.
struct rotary_pair {
  float a, b;
};

/// (a cos - b sin, b cos + a sin), the product with cos rounded first.
RATIFY_HD inline rotary_pair rotate(float a, float b, float cos, float sin) {
  using namespace detail;
  return {fma_rn(negate(b), sin, mul_rn(a, cos)), fma_rn(a, sin, mul_rn(b, cos))};
}

}  // namespace device
RATIFY_END_NAMESPACE
