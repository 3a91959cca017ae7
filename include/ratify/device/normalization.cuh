// SPDX-License-Identifier: Apache-2.0
/// The steps of a normalization, for kernels of your own.
#pragma once

#include <ratify/detail/meta.hpp>
#include <ratify/device/activation.cuh>
#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// The lane's chain of `warp_sum_of_squares`, continued from `sum`; the number of elements so far must be a multiple of
/// 32.
RATIFY_ANY_BLOCK
template <class Block, class Value>
RATIFY_HD inline float lane_sum_of_squares(Block const& block, int n, Value const& value, float sum) {
  for (int i = block.lane(); i < n; i += 32) {
    float const v = value(i);
    sum = detail::fma_rn(v, v, sum);
  }
  return sum;
}

/// The sums of a full warp's lanes added in pairs 16, 8, 4, 2 and 1 apart, in every lane.
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

/// By what the values of a row must be multiplied before their squares are summed, once the plain sum is known: 1
/// where mean + eps lies in 2^-120 to FLT_MAX, so that no square that counts was lost; else 2^-96 or 2^104, and the
/// row's sum has to be taken again.
RATIFY_HD inline float square_scale(float sum_of_squares, int n, float eps) {
  using namespace detail;
  float const under_root = add_rn(div_rn(sum_of_squares, float_from_int(n)), eps);
  if (bits(under_root) == 0x7f800000u) return 0x1p-96f;
  return less(under_root, 0x1p-120f) ? 0x1p104f : 1.0f;
}

/// What a value is multiplied by, one factor after the other: 1 / sqrt(mean + eps), which FP32 may not hold, is
/// before * inverse * after. Two of the three are powers of two, 1 in the ordinary case.
struct rms_factor {
  float before;
  float inverse;
  float after;
};

/// 1 / sqrt(mean of the squares + eps), from the sum of the squares of `scale` times the values.
/// @param scale what `square_scale` says
RATIFY_HD inline rms_factor inverse_rms(float sum_of_squares, int n, float eps, float scale = 1.0f) {
  using namespace detail;
  float const mean = div_rn(sum_of_squares, float_from_int(n));
  float const inverse = rsqrt_ordered(add_rn(mean, mul_rn(mul_rn(eps, scale), scale)));
  // A power above 1 comes before the inverse and one below 1 after it, so that no product of them overflows or vanishes
  // where the result does not.
  return {less(1.0f, scale) ? scale : 1.0f, inverse, less(scale, 1.0f) ? scale : 1.0f};
}

/// The factor of a row of n values, in every lane of a full warp.
/// @param first value(i), called once per element, for what must happen once (a residual's sum is stored)
/// @param again the same value once more, without that
RATIFY_ANY_BLOCK
template <class Block, class First, class Again>
RATIFY_HD inline rms_factor warp_rms(Block const& block, int n, float eps, First const& first, Again const& again) {
  float sum = warp_sum_of_squares(block, n, first);
  float const scale = square_scale(sum, n, eps);
  if (detail::bits(scale) != detail::bits(1.0f))
    sum = warp_sum_of_squares(block, n, [&](int i) { return detail::mul_rn(scale, again(i)); });
  return inverse_rms(sum, n, eps, scale);
}

/// Shared storage of a block of `Threads` threads that sums a row together, `Loads` elements per thread at a time.
template <int Threads, int Loads>
struct row_stage {
  static constexpr int chunk = Threads * Loads;  ///< elements that a block takes at a time
  float value[2][chunk];                         ///< one is summed while the other is filled
  float sum;
};

/// The thread's elements first + thread, first + thread + Threads, ... of a row, as FP32; 0 past the last column. All
/// loads come before the first conversion, so that none waits for another.
RATIFY_ANY_BLOCK
template <class Block, class Format, int Loads>
RATIFY_HD inline void chunk_values(Block const& block, int first, int columns, Format const* row,
                                   float (&values)[Loads]) {
  Format raw[Loads];
  RATIFY_UNROLL
  for (int a = 0; a < Loads; ++a) {
    int const i = first + a * Block::threads + block.thread();
    raw[a] = i < columns ? row[i] : Format{};
  }
  RATIFY_UNROLL
  for (int a = 0; a < Loads; ++a) values[a] = to_float(raw[a]);
}

/// Sum of the squares of scale * values of one row, in every thread of a block, with the order and the bits of
/// `warp_sum_of_squares`: all warps bring the row to shared storage, the first one sums it. Every thread of the block
/// calls it.
/// @param values called as values(first, v) with the first element of a chunk; puts the thread's elements into v as
///               `chunk_values` does
RATIFY_ANY_BLOCK
template <class Block, int Threads, int Loads, class Values>
RATIFY_HD inline float block_sum_of_squares(Block const& block, row_stage<Threads, Loads>& storage, int columns,
                                            float scale, Values const& values) {
  constexpr int chunk = row_stage<Threads, Loads>::chunk;
  float sum = 0.0f;
  int buffer = 0;
  for (int first = 0; first < columns; first += chunk, buffer ^= 1) {
    float v[Loads];
    values(first, v);
    RATIFY_UNROLL
    for (int a = 0; a < Loads; ++a) storage.value[buffer][a * Threads + block.thread()] = detail::mul_rn(scale, v[a]);
    block.barrier();
    if (block.warp() == 0)
      sum = lane_sum_of_squares(
          block, detail::min_of(chunk, columns - first), [&](int i) { return storage.value[buffer][i]; }, sum);
  }
  if (block.warp() == 0) {
    float const total = warp_sum(block, sum);
    if (block.lane() == 0) storage.sum = total;
  }
  block.barrier();
  return storage.sum;
}

/// (x * inverse) * (1 + weight), or * weight without the unit offset; `inverse` is the row's factor.
template <bool UnitOffset>
RATIFY_HD inline float rms_scaled(float x, rms_factor const& inverse, float weight) {
  using namespace detail;
  float const normed = mul_rn(mul_rn(mul_rn(x, inverse.before), inverse.inverse), inverse.after);
  return mul_rn(normed, UnitOffset ? add_rn(1.0f, weight) : weight);
}

/// ((x * inverse) * weight) * silu(z).
RATIFY_HD inline float gated_rms_scaled(float x, rms_factor const& inverse, float weight, float z) {
  return silu_and_mul(z, rms_scaled<false>(x, inverse, weight));
}

/// A pair (a, b) of elements turned by an angle.
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
