// SPDX-License-Identifier: Apache-2.0
/// The elementwise functions, for kernels of your own.
#pragma once

#include <ratify/detail/math.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// What the gated delta rule takes per row and value head.
struct gates {
  float g;     ///< log of the state's decay, <= 0
  float beta;  ///< strength of the update, 0 to 1
};

/// -exp(a_log) * softplus(x), never NaN for numbers.
///
/// Below x = -17 softplus(x) is e^x to the last bit, and the product is taken as one exponential of a_log + x (the
/// sum's rounding error is carried as a factor), because one of the two may be far outside FP32. An overflowing
/// exp(a_log) times a softplus that is a normal number is -inf: decay 0.
RATIFY_HD inline float decay_log(float a_log, float x) {
  using namespace detail;
  float const rate = exp_ordered(a_log), soft = softplus_ordered(x);
  if (!less(x, -17.0f) || (bits(rate) == 0x7f800000u && !less(soft, 0x1p-126f)))
    return canonical(negate(mul_rn(rate, soft)));
  float const sum = add_rn(a_log, x), shifted = sub_rn(sum, a_log);
  float const lost = add_rn(sub_rn(a_log, sub_rn(sum, shifted)), sub_rn(x, shifted));
  float const e = exp_ordered(sum);
  // An infinite e keeps its sign: e * lost could be the opposite infinity.
  return canonical(negate(is_finite(e) && is_finite(lost) ? fma_rn(e, lost, e) : e));
}

/// g = -exp(a_log) * softplus(a + dt_bias), beta = sigmoid(b).
RATIFY_HD inline gates gating(float a, float b, float a_log, float dt_bias) {
  return {decay_log(a_log, detail::add_rn(a, dt_bias)), detail::canonical(detail::sigmoid_ordered(b))};
}

/// silu(gate) * x.
RATIFY_HD inline float silu_and_mul(float gate, float x) { return detail::mul_rn(detail::silu_ordered(gate), x); }

/// x * sigmoid(gate).
RATIFY_HD inline float sigmoid_gate(float x, float gate) { return detail::mul_rn(x, detail::sigmoid_ordered(gate)); }

}  // namespace device
RATIFY_END_NAMESPACE
