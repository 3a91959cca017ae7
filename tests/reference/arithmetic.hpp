// SPDX-License-Identifier: Apache-2.0
/// FP32 arithmetic for twins, written from docs/arithmetic.md and independent of the library: every function rounds
/// where that page says so and nowhere else. Twins compute inside an `ieee_environment`.
#pragma once

#include "support/bits.hpp"

#include <cfenv>
#include <cmath>

namespace reference {

/// Round to nearest with subnormals kept, for its lifetime on this thread, whatever the caller has set.
class ieee_environment {
 public:
  ieee_environment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~ieee_environment() { std::fesetenv(&saved_); }
  ieee_environment(ieee_environment const&) = delete;
  ieee_environment& operator=(ieee_environment const&) = delete;
 private:
  std::fenv_t saved_;
};

using ratify_test::bits;
using ratify_test::from_bits;

inline constexpr uint32_t canonical_nan_bits = 0x7fffffffu;
inline bool is_nan(float x) { return (bits(x) & 0x7fffffffu) > 0x7f800000u; }
inline bool is_finite(float x) { return (bits(x) & 0x7fffffffu) < 0x7f800000u; }
/// x, with every NaN made the one that is stored.
inline float canonical(float x) { return is_nan(x) ? from_bits(canonical_nan_bits) : x; }
inline float negate(float x) { return from_bits(bits(x) ^ 0x80000000u); }
inline float magnitude(float x) { return from_bits(bits(x) & 0x7fffffffu); }

// One rounding each. `volatile` keeps a compiler from contracting a product into a sum, across calls too.
inline float add_rn(float a, float b) {
  float volatile const result = a + b;
  return result;
}
inline float sub_rn(float a, float b) {
  float volatile const result = a - b;
  return result;
}
inline float mul_rn(float a, float b) {
  float volatile const result = a * b;
  return result;
}
inline float div_rn(float a, float b) {
  float volatile const result = a / b;
  return result;
}
inline float sqrt_rn(float a) {
  float volatile const result = std::sqrt(a);
  return result;
}
inline float fma_rn(float a, float b, float c) { return std::fma(a, b, c); }

/// The larger one; +0 is above -0, a NaN loses to a number.
inline float max_rn(float a, float b) {
  if (is_nan(a)) return canonical(b);
  if (is_nan(b)) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a < b ? b : a;
}

/// A number as mantissa * 2^exponent with an ordinary mantissa, for products whose factors FP32 does not hold.
struct wide_float {
  float mantissa;
  int exponent;
};
inline wide_float wide(float x) {
  if (x == 0 || !is_finite(x)) return {x, 0};
  int exponent = 0;
  float const mantissa = std::frexp(x, &exponent);
  return {mantissa, exponent};
}
/// The mantissas' product is rounded once.
inline wide_float times(wide_float a, wide_float b) {
  return {mul_rn(a.mantissa, b.mantissa), a.exponent + b.exponent};
}
inline float narrow(wide_float x) {
  return static_cast<float>(std::ldexp(static_cast<double>(x.mantissa), x.exponent));
}

/// e^x for a finite x of any size: the polynomial of the reduced argument, and the exponent.
inline wide_float wide_exp(float x) {
  // |x| beyond 300 overflows or vanishes whatever it is multiplied with.
  float const c = x < -300 ? -300.0f : (x > 300 ? 300.0f : x);
  // The product of two FP32 is exact in FP64.
  double const n = std::nearbyint(static_cast<double>(c) * 1.44269502f);
  auto const nf = static_cast<float>(n);
  float const r = fma_rn(nf, -1.42860677e-6f, fma_rn(nf, -0.693145751953125f, c));
  float y = 1.98756925e-4f;
  for (float const coefficient : {1.39819995e-3f, 8.33345204e-3f, 4.16657962e-2f, 0.166666657f, 0.5f})
    y = fma_rn(y, r, coefficient);
  return {add_rn(fma_rn(mul_rn(r, r), y, r), 1.0f), static_cast<int>(n)};
}

inline float exp_ordered(float x) {
  if (is_nan(x)) return from_bits(canonical_nan_bits);
  if (x > 88.7228317f) return INFINITY;
  return narrow(wide_exp(x));
}

/// 2 atanh(s) for |s| <= 1/3.
inline float twice_atanh(float s) {
  float const z = mul_rn(s, s), s2 = add_rn(s, s);
  float p = 0.066666667f;
  for (float const coefficient : {0.076923079f, 0.090909094f, 0.11111111f, 0.14285715f, 0.2f, 0.33333334f})
    p = fma_rn(p, z, coefficient);
  return fma_rn(mul_rn(s2, z), p, s2);
}

inline float log_ordered(float x) {
  if (is_nan(x) || x < 0) return from_bits(canonical_nan_bits);
  if (x == 0) return -INFINITY;
  if (!is_finite(x)) return x;
  int k = 0;
  float m = std::frexp(x, &k);  // 1/2 to 1
  if (m < 0.70710677f) {
    m *= 2;
    --k;
  }
  float const f = sub_rn(m, 1.0f), kf = static_cast<float>(k), y = twice_atanh(div_rn(f, add_rn(f, 2.0f)));
  return fma_rn(kf, 0.693145751953125f, fma_rn(kf, 1.42860677e-6f, y));
}

inline float log1p_unit(float e) { return twice_atanh(div_rn(e, add_rn(e, 2.0f))); }

inline float softplus_ordered(float x) {
  if (is_nan(x)) return from_bits(canonical_nan_bits);
  float const tail = log1p_unit(exp_ordered(-std::fabs(x)));
  return x < 0 ? tail : add_rn(x, tail);
}

inline float sigmoid_ordered(float x) {
  if (is_nan(x)) return from_bits(canonical_nan_bits);
  float const e = exp_ordered(-std::fabs(x));
  return div_rn(x < 0 ? e : 1.0f, add_rn(1.0f, e));
}

/// x * sigmoid(x); -inf gives -0.
inline float silu_ordered(float x) { return x == -INFINITY ? -0.0f : mul_rn(x, sigmoid_ordered(x)); }

inline float rsqrt_ordered(float x) { return div_rn(1.0f, sqrt_rn(x)); }

}  // namespace reference
