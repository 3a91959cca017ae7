// SPDX-License-Identifier: Apache-2.0
/// How two elements differ, for kernels of your own.
#pragma once

#include <ratify/detail/shadow_traits.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

RATIFY_HD inline uint32_t shadow_bits(float x) { return bits(x); }
RATIFY_HD inline uint32_t shadow_bits(int32_t x) { return static_cast<uint32_t>(x); }
template <class Format>
RATIFY_HD inline uint32_t shadow_bits(Format x) {
  return x.bits;
}

RATIFY_HD inline uint32_t shadow_count_bits(uint32_t x) {
  x -= x >> 1 & 0x55555555u;
  x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
  return ((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

template <class Format>
RATIFY_HD inline float shadow_distance(Format a, Format b) {
  float const x = to_float(a), y = to_float(b);
  if (is_nan(x) && is_nan(y)) return 0.0f;
  if (is_nan(x) || is_nan(y)) return from_bits(0x7f800000u);
  return magnitude(sub_rn(x, y));
}
RATIFY_HD inline float shadow_distance(int32_t a, int32_t b) {
  int64_t const d = int64_t{a} - b, m = d < 0 ? -d : d;
  return float_from_int(m > 0x7fffffff ? 0x7fffffff : static_cast<int32_t>(m));
}

}  // namespace detail

namespace device {

/// Bits that differ, and |a - b| as the bits of an FP32 that is not negative, so that it orders like an integer.
struct shadow_difference {
  uint32_t bits, error;
};

template <class Format>
RATIFY_HD inline shadow_difference difference(Format a, Format b) {
  uint32_t const x = detail::shadow_bits(a), y = detail::shadow_bits(b);
  if (x == y) return {0, 0};
  return {detail::shadow_count_bits(x ^ y), detail::bits(detail::shadow_distance(a, b))};
}

}  // namespace device
RATIFY_END_NAMESPACE
