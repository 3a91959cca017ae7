// SPDX-License-Identifier: Apache-2.0
/// Elementary functions of the library's own, with the same bits on every card and host. Each states its largest error
/// over all FP32 arguments: in ulp where the result is a normal number, in quanta (2^-149) where it is subnormal.
/// docs/arithmetic.md holds the formulas; tests/detail/math.cpp measures the errors.
#pragma once

#include <ratify/detail/machine/ptx.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// x * 2^n for -180 <= n <= 160, where |x| is at least 2^-20 and at most 2^20, or x is zero, infinite or NaN. By two
/// exact powers of two, so that a subnormal result is rounded once.
RATIFY_HD inline float scaled_by(float x, int n) {
  // The first factor keeps the product normal, the second one rounds.
  int const h = n < -100 ? -100 : (n > 100 ? 100 : n);
  return mul_rn(mul_rn(x, from_bits(static_cast<uint32_t>(127 + h) << 23)),
                from_bits(static_cast<uint32_t>(127 + n - h) << 23));
}

/// x as r + n ln2 with |r| <= 0.36, for |x| <= 300.
struct reduced_argument {
  float r;
  int n;
};
RATIFY_HD inline reduced_argument reduce(float x) {
  constexpr float shift = 12582912.0f;  // 1.5 * 2^23: the sum's low bits are the rounded integer
  float const t = fma_rn(x, 1.44269502f, shift);
  float const nf = sub_rn(t, shift);
  return {fma_rn(nf, -1.42860677e-6f, fma_rn(nf, -0.693145751953125f, x)),
          static_cast<int>(bits(t)) - static_cast<int>(bits(shift))};
}

/// e^r for |r| <= 0.36, a polynomial of degree 6.
RATIFY_HD inline float exp_polynomial(float r) {
  float y = 1.98756925e-4f;
  y = fma_rn(y, r, 1.39819995e-3f);
  y = fma_rn(y, r, 8.33345204e-3f);
  y = fma_rn(y, r, 4.16657962e-2f);
  y = fma_rn(y, r, 0.166666657f);
  y = fma_rn(y, r, 0.5f);
  return add_rn(fma_rn(mul_rn(r, r), y, r), 1.0f);
}

/// e^x. At most 1.02 ulp, 0.76 quanta; e^-inf = 0, NaN stays.
RATIFY_HD inline float exp_ordered(float x) {
  // No branch: a softmax takes many at once. Below -104 the result rounds to 0 by itself; NaN is neither below nor
  // above.
  float const c = less(x, -104.0f) ? -104.0f : (less(89.0f, x) ? 89.0f : x);
  reduced_argument const reduced = reduce(c);
  float const y = scaled_by(exp_polynomial(reduced.r), reduced.n);
  return less(88.7228317f, x) ? from_bits(0x7f800000u) : canonical(y);
}

/// A sum and what rounding took from it: a + b = sum + lost exactly, where no step overflows.
struct exact_sum {
  float sum;
  float lost;
};
RATIFY_HD inline exact_sum two_sum(float a, float b) {
  float const sum = add_rn(a, b), shifted = sub_rn(sum, a);
  return {sum, add_rn(sub_rn(a, sub_rn(sum, shifted)), sub_rn(b, shifted))};
}

/// The number value * 2^exponent, which may be outside FP32: for products whose factors overflow or vanish where the
/// product does not.
struct scaled_float {
  float value;
  int exponent;
};

/// x with 1 <= |value| < 2. Zero, infinity and NaN stay the value, with exponent 0.
RATIFY_HD inline scaled_float split(float x) {
  uint32_t u = bits(x);
  int exponent = 0;
  if ((u & 0x7fffffffu) == 0 || !is_finite(x)) return {x, 0};
  if ((u & 0x7f800000u) == 0) {
    u = bits(mul_rn(x, 0x1p24f));
    exponent = -24;
  }
  return {from_bits((u & 0x807fffffu) | 0x3f800000u), exponent + static_cast<int>(u >> 23 & 0xffu) - 127};
}

/// e^x as a value of 0.69 to 1.44 and an exponent, at most 1.02 ulp. Numbers beyond 300 in magnitude count as 300 or
/// -300: no FP32 factor brings the product back into range there. Infinity and NaN give what exp_ordered gives.
RATIFY_HD inline scaled_float exp_split(float x) {
  if (!is_finite(x)) return {exp_ordered(x), 0};
  reduced_argument const reduced = reduce(less(x, -300.0f) ? -300.0f : (less(300.0f, x) ? 300.0f : x));
  return {exp_polynomial(reduced.r), reduced.n};
}

/// The FP32 nearest to x * 2^n, for x as scaled_by takes it and any n; a subnormal result is rounded once.
RATIFY_HD inline float joined_float(float x, int n) { return scaled_by(x, n < -180 ? -180 : (n > 160 ? 160 : n)); }

/// Whether x is subnormal or 0.
RATIFY_HD inline bool is_tiny(float x) { return (bits(x) & 0x7fffffffu) < 0x00800000u; }

/// 2 atanh(s) = 2 s (1 + s^2/3 + s^4/5 + ...) for |s| <= 1/3, the common core of the logarithms.
RATIFY_HD inline float twice_atanh(float s) {
  float const z = mul_rn(s, s);
  float p = 0.066666667f;          // 1/15
  p = fma_rn(p, z, 0.076923079f);  // 1/13
  p = fma_rn(p, z, 0.090909094f);  // 1/11
  p = fma_rn(p, z, 0.11111111f);   // 1/9
  p = fma_rn(p, z, 0.14285715f);   // 1/7
  p = fma_rn(p, z, 0.2f);
  p = fma_rn(p, z, 0.33333334f);
  float const s2 = add_rn(s, s);
  return fma_rn(mul_rn(s2, z), p, s2);
}

/// log(1 + e) for 0 <= e <= 1. At most 2 ulp, 1 quantum.
RATIFY_HD inline float log1p_unit(float e) { return twice_atanh(div_rn(e, add_rn(e, 2.0f))); }

/// Natural logarithm. At most 2 ulp, near 1 too; log(0) = -inf, log(inf) = inf, a negative number or NaN gives NaN.
RATIFY_HD inline float log_ordered(float x) {
  uint32_t u = bits(x);
  if (is_nan(x) || ((u >> 31) && (u << 1))) return from_bits(canonical_nan_bits);
  if (u == 0x7f800000u) return x;
  if ((u << 1) == 0) return from_bits(0xff800000u);
  int e = 0;
  if (u < 0x00800000u) {
    u = bits(mul_rn(x, 0x1p24f));
    e = -24;
  }
  // m in [sqrt(1/2), sqrt(2)): the exponent field of u minus that of sqrt(1/2).
  int const k = static_cast<int>(u - 0x3f3504f3u) >> 23;
  float const m = from_bits(u - (static_cast<uint32_t>(k) << 23));
  e += k;
  float const f = sub_rn(m, 1.0f);
  float const y = twice_atanh(div_rn(f, add_rn(f, 2.0f)));
  float const ef = float_from_int(e);
  return fma_rn(ef, 0.693145751953125f, fma_rn(ef, 1.42860677e-6f, y));
}

/// log(1 + e^x), accurate in relative terms over the whole range: at most 2.8 ulp, 1.51 quanta.
RATIFY_HD inline float softplus_ordered(float x) {
  if (is_nan(x)) return from_bits(canonical_nan_bits);
  float const tail = log1p_unit(exp_ordered(negate(magnitude(x))));
  return less(x, 0.0f) ? tail : add_rn(x, tail);
}

/// 1 / (1 + e^-x). At most 2.41 ulp, 0.76 quanta.
RATIFY_HD inline float sigmoid_ordered(float x) {
  if (is_nan(x)) return from_bits(canonical_nan_bits);
  float const e = exp_ordered(negate(magnitude(x)));
  return div_rn(less(x, 0.0f) ? e : 1.0f, add_rn(1.0f, e));
}

/// x * sigmoid(x). At most 3.2 ulp for x >= -87; below, where the sigmoid is subnormal, 53 quanta. -inf gives 0 and not
/// NaN.
RATIFY_HD inline float silu_ordered(float x) {
  if (bits(x) == 0xff800000u) return from_bits(0x80000000u);
  return mul_rn(x, sigmoid_ordered(x));
}

/// 1 / sqrt(x), two correctly rounded steps: at most 1.5 ulp.
RATIFY_HD inline float rsqrt_ordered(float x) { return div_rn(1.0f, sqrt_rn(x)); }

}  // namespace detail
RATIFY_END_NAMESPACE
