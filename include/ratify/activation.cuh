// SPDX-License-Identifier: Apache-2.0
/// Elementwise operations of a round: gating, silu_and_mul and sigmoid_gate. All FP32 inside, ordered: the same bits on
/// every executor. docs/arithmetic.md states the formulas and the error bounds.
#pragma once

#include <ratify/cuda.cuh>
#include <ratify/detail/activation_kernels.cuh>

RATIFY_BEGIN_NAMESPACE

/// Whether `gating<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_gating = gating_knobs::supports<Knobs...>;

/// Whether `silu_and_mul<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_silu_and_mul = silu_and_mul_knobs::supports<Knobs...>;

/// Whether `sigmoid_gate<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_sigmoid_gate = sigmoid_gate_knobs::supports<Knobs...>;

#if !defined(__CUDACC_RTC__)

/// The gates of the gated delta rule: g = -exp(a_log) * softplus(a + dt_bias), beta = sigmoid(b).
///
/// A finite g is never lost to an intermediate: where exp(a_log) or a + dt_bias overflows, or exp(a_log) vanishes, g is
/// still within its error bound. It is -inf (decay 0) only where the exact value is beyond FP32, and never NaN unless
/// an input is NaN or infinite.
///
/// @tparam Knobs knobs that differ from their defaults: activation_policy.hpp lists them
/// Parameters: `gating_params`. Reads a and b once and writes 8 bytes per element. No workspace.
/// @return of `launch`: ok, invalid_argument or unsupported with the rule's text, no_device, launch_failed
template <class... Knobs>
struct gating : detail::operation<gating<Knobs...>, gating_params<gating_policy<Knobs...>>> {
  using policy = gating_policy<Knobs...>;
  using params = gating_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  static size_t scratch_bytes(params const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = gating_kernel<policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(kernel::count(p))}, p});
  }
};

/// The gate of an MLP: out = silu(x[:columns]) * x[columns:] in each row. A gate of -inf gives 0 and not NaN.
///
/// @tparam Knobs knobs that differ from their defaults, in any order: activation_policy.hpp lists them
/// Parameters: `silu_and_mul_params`. Reads and writes each element once. No workspace.
/// @return of `launch`: ok, invalid_argument or unsupported with the rule's text, no_device, launch_failed
template <class... Knobs>
struct silu_and_mul : detail::operation<silu_and_mul<Knobs...>, silu_and_mul_params<silu_and_mul_policy<Knobs...>>> {
  using policy = silu_and_mul_policy<Knobs...>;
  using params = silu_and_mul_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  static size_t scratch_bytes(params const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = silu_and_mul_kernel<policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(kernel::count(p))}, p});
  }
};

/// The output gate of attention: out = x * sigmoid(gate).
///
/// @tparam Knobs knobs that differ from their defaults, in any order: activation_policy.hpp lists them
/// Parameters: `sigmoid_gate_params`. Reads and writes each element once. No workspace.
/// @return of `launch`: ok, invalid_argument or unsupported with the rule's text, no_device, launch_failed
template <class... Knobs>
struct sigmoid_gate : detail::operation<sigmoid_gate<Knobs...>, sigmoid_gate_params<sigmoid_gate_policy<Knobs...>>> {
  using policy = sigmoid_gate_policy<Knobs...>;
  using params = sigmoid_gate_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  static size_t scratch_bytes(params const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = sigmoid_gate_kernel<policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(kernel::count(p))}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
