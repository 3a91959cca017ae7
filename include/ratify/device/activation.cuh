// SPDX-License-Identifier: Apache-2.0
/// The elementwise functions, for kernels of your own. Each computes so that no intermediate overflows or vanishes
/// where the result does not. docs/arithmetic.md states the formulas and their error bounds.
#pragma once

#include <ratify/detail/math.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// What the gated delta rule takes per row and value head.
struct gates {
  float g;     ///< log of the state's decay, <= 0
  float beta;  ///< strength of the update, 0 to 1
};

/// -exp(a_log) * softplus(a + dt_bias). A finite result is never lost to an intermediate: it is -inf only where the
/// exact value is beyond FP32, -0 where that is below, and NaN only where an argument is NaN, or infinities have no
/// product (exp(-inf) * inf).
///
/// Below x = a + dt_bias = -17 softplus(x) is e^x to the last bit, and the product is taken as one exponential of
/// a_log + x, with what rounding takes from the sums as a factor. From -17 up it is the product of the two, with
/// exponents kept apart where exp(a_log) is not a normal number or x overflows.
RATIFY_HD inline float decay_log(float a_log, float a, float dt_bias) {
  using namespace detail;
  exact_sum const x = two_sum(a, dt_bias);
  float const rate = exp_ordered(a_log);
  if (less(x.sum, -17.0f)) {
    exact_sum s = two_sum(a_log, x.sum);
    // Where a_log is large enough to cancel any x, what x has lost may be all that is left.
    if (!is_finite(rate) && is_finite(s.lost) && is_finite(x.lost)) s = two_sum(s.sum, add_rn(s.lost, x.lost));
    float const e = exp_ordered(s.sum);
    if (!is_finite(s.lost) || less(89.0f, s.sum)) return canonical(negate(e));
    if (is_finite(e)) return canonical(negate(fma_rn(e, s.lost, e)));
    scaled_float const beyond = exp_split(s.sum);  // whether it overflows may hang on what the sum has lost
    return canonical(negate(joined_float(fma_rn(beyond.value, s.lost, beyond.value), beyond.exponent)));
  }
  if (!is_tiny(rate) && is_finite(rate) && is_finite(x.sum))
    return canonical(negate(mul_rn(rate, softplus_ordered(x.sum))));
  scaled_float const factor = exp_split(a_log);
  // A sum that overflows is its softplus: half of it fits.
  bool const overflows = !is_finite(x.sum) && is_finite(a) && is_finite(dt_bias);
  scaled_float soft = split(overflows ? add_rn(mul_rn(a, 0.5f), mul_rn(dt_bias, 0.5f)) : softplus_ordered(x.sum));
  if (overflows) ++soft.exponent;
  return canonical(negate(joined_float(mul_rn(factor.value, soft.value), factor.exponent + soft.exponent)));
}

/// g = -exp(a_log) * softplus(a + dt_bias) as `decay_log` computes it, beta = sigmoid(b).
RATIFY_HD inline gates gating(float a, float b, float a_log, float dt_bias) {
  return {decay_log(a_log, a, dt_bias), detail::canonical(detail::sigmoid_ordered(b))};
}

/// silu(gate) * x. A gate of -inf gives -0 * x.
RATIFY_HD inline float silu_and_mul(float gate, float x) {
  using namespace detail;
  float const s = sigmoid_ordered(gate), silu = mul_rn(gate, s);
  if (!is_finite(gate) || (!is_tiny(s) && !is_tiny(silu))) return mul_rn(silu_ordered(gate), x);
  scaled_float const factor = split(gate), sigmoid = is_tiny(s) ? exp_split(gate) : split(s), other = split(x);
  return joined_float(mul_rn(mul_rn(factor.value, sigmoid.value), other.value),
                      factor.exponent + sigmoid.exponent + other.exponent);
}

/// x * sigmoid(gate).
RATIFY_HD inline float sigmoid_gate(float x, float gate) {
  using namespace detail;
  float const s = sigmoid_ordered(gate);
  if (!is_finite(gate) || !is_tiny(s)) return mul_rn(x, s);
  scaled_float const sigmoid = exp_split(gate), other = split(x);
  return joined_float(mul_rn(sigmoid.value, other.value), sigmoid.exponent + other.exponent);
}

}  // namespace device
RATIFY_END_NAMESPACE
