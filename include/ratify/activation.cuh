// SPDX-License-Identifier: Apache-2.0
/// Elementwise operations of a round: gating, silu_and_mul, sigmoid_gate. All FP32 inside, ordered: the same bits on
/// every executor. docs/arithmetic.md states the formulas.
#pragma once

#include <ratify/detail/activation_kernels.cuh>
#include <ratify/detail/machine/launch.cuh>

RATIFY_BEGIN_NAMESPACE

template <class Policy>
inline constexpr bool is_supported_gating = detail::gating_support<Policy>::value;
template <class Policy>
inline constexpr bool is_supported_silu_and_mul = detail::silu_and_mul_support<Policy>::value;
template <class Policy>
inline constexpr bool is_supported_sigmoid_gate = detail::sigmoid_gate_support<Policy>::value;

#if !defined(__CUDACC_RTC__)

/// The gates of the gated delta rule: g = -exp(a_log) * softplus(a + dt_bias), beta = sigmoid(b).
///
/// @tparam Policy derives from `gating_policy`
/// Parameters: `gating_params`: a and b [rows, value_heads], each with a row stride; a_log and dt_bias [value_heads]; g
/// and beta [rows, value_heads], dense, which must not overlap inputs. g is never NaN for numbers: an overflowing
/// exp(a_log) gives -inf (decay 0) or, where softplus underflows, what the product is mathematically. Reads a and b
/// once and writes 8 bytes an element. No workspace.
/// Status: unsupported with the rule's text; launch_failed.
template <class Policy>
struct gating : detail::operation<gating<Policy>, gating_params<Policy>> {
  RATIFY_GATING_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(gating_params<Policy> const& p) { return detail::gating_support<Policy>::reason(p); }
  static size_t scratch_bytes(gating_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(gating_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = detail::gating_kernel<Policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(kernel::count(p))}, p});
  }
};

/// The MLP's gate: out = silu(x[:columns]) * x[columns:].
///
/// @tparam Policy derives from `silu_and_mul_policy`
/// Parameters: `silu_and_mul_params`: x [rows, 2 * columns] and out [rows, columns], each with a row stride; out must
/// not overlap x. Reads and writes each element once. No workspace.
/// Status: unsupported with the rule's text; launch_failed.
template <class Policy>
struct silu_and_mul : detail::operation<silu_and_mul<Policy>, silu_and_mul_params<Policy>> {
  RATIFY_SILU_AND_MUL_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(silu_and_mul_params<Policy> const& p) {
    return detail::silu_and_mul_support<Policy>::reason(p);
  }
  static size_t scratch_bytes(silu_and_mul_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(silu_and_mul_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = detail::silu_and_mul_kernel<Policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(kernel::count(p))}, p});
  }
};

/// The attention's output gate: out = x * sigmoid(gate).
///
/// @tparam Policy derives from `sigmoid_gate_policy`
/// Parameters: `sigmoid_gate_params`: x, gate and out [rows, heads, head_dim], each with a row and a head stride; out
/// may be x where formats and strides are equal, and must not overlap gate. Reads and writes each element once. No
/// workspace.
/// Status: unsupported with the rule's text; launch_failed.
template <class Policy>
struct sigmoid_gate : detail::operation<sigmoid_gate<Policy>, sigmoid_gate_params<Policy>> {
  RATIFY_SIGMOID_GATE_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(sigmoid_gate_params<Policy> const& p) {
    return detail::sigmoid_gate_support<Policy>::reason(p);
  }
  static size_t scratch_bytes(sigmoid_gate_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(sigmoid_gate_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = detail::sigmoid_gate_kernel<Policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(kernel::count(p))}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
