// SPDX-License-Identifier: Apache-2.0
/// Root-mean-square normalizations of a round: rmsnorm, gated_rmsnorm, qk_norm_rotary. FP32 inside, ordered: the same
/// bits on every executor and for any number of rows. docs/arithmetic.md states the order.
#pragma once

#include <ratify/detail/machine/launch.cuh>
#include <ratify/detail/normalization_kernels.cuh>

RATIFY_BEGIN_NAMESPACE

template <class Policy>
inline constexpr bool is_supported_rmsnorm = detail::rmsnorm_support<Policy>::value;
template <class Policy>
inline constexpr bool is_supported_gated_rmsnorm = detail::gated_rmsnorm_support<Policy>::value;
template <class Policy>
inline constexpr bool is_supported_qk_norm_rotary = detail::qk_norm_rotary_support<Policy>::value;

#if !defined(__CUDACC_RTC__)

namespace detail {
/// Columns from which on rmsnorm gives a row to a block. At 5120 that is far faster; where the two meet is not
/// measured.
inline constexpr int long_row = 1024;
/// Blocks for `work` rows or heads, a warp each.
inline int normalization_blocks(int64_t work) { return grid_blocks(ceil_div(work, int64_t{normalization_warps})); }
}  // namespace detail

/// out = s / sqrt(mean(s^2) + eps) * (1 + weight), s = residual + x; the sum s is residual_out, in FP32.
///
/// @tparam Policy derives from `rmsnorm_policy`
/// Parameters: `rmsnorm_params`. residual and residual_out are optional, each alone too. Reads x, residual and weight
/// twice at most, writes each output once. No workspace.
/// Status: unsupported with the rule's text; launch_failed.
template <class Policy>
struct rmsnorm : detail::operation<rmsnorm<Policy>, rmsnorm_params<Policy>> {
  RATIFY_RMSNORM_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(rmsnorm_params<Policy> const& p) { return detail::rmsnorm_support<Policy>::reason(p); }
  static size_t scratch_bytes(rmsnorm_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(rmsnorm_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    if (p.rows == 0) return {};
    if (p.columns >= detail::long_row) return visit(stage<detail::rmsnorm_row_kernel<Policy>>{{p.rows}, p});
    return visit(stage<detail::rmsnorm_kernel<Policy>>{{detail::normalization_blocks(p.rows)}, p});
  }
};

/// Per head: out = x / sqrt(mean(x^2) + eps) * weight * silu(z).
///
/// @tparam Policy derives from `gated_rmsnorm_policy`
/// Parameters: `gated_rmsnorm_params`. Reads x twice, z once, writes out once. No workspace.
/// Status: unsupported with the rule's text; launch_failed.
template <class Policy>
struct gated_rmsnorm : detail::operation<gated_rmsnorm<Policy>, gated_rmsnorm_params<Policy>> {
  RATIFY_GATED_RMSNORM_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(gated_rmsnorm_params<Policy> const& p) {
    return detail::gated_rmsnorm_support<Policy>::reason(p);
  }
  static size_t scratch_bytes(gated_rmsnorm_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(gated_rmsnorm_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    if (p.rows == 0) return {};
    return visit(
        stage<detail::gated_rmsnorm_kernel<Policy>>{{detail::normalization_blocks(int64_t{p.rows} * p.heads)}, p});
  }
};

/// Per head: the norm with (1 + weight), then the pairs (i, i + rotary_dim / 2) of its first rotary_dim dims turned by
/// the angle of the row's position; the tables of cosines and sines are inputs.
///
/// @tparam Policy derives from `qk_norm_rotary_policy`
/// Parameters: `qk_norm_rotary_params`. A position outside the tables gives a zero row. Reads x twice, writes out once.
/// No workspace.
/// Status: unsupported with the rule's text; launch_failed.
template <class Policy>
struct qk_norm_rotary : detail::operation<qk_norm_rotary<Policy>, qk_norm_rotary_params<Policy>> {
  RATIFY_QK_NORM_ROTARY_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(qk_norm_rotary_params<Policy> const& p) {
    return detail::qk_norm_rotary_support<Policy>::reason(p);
  }
  static size_t scratch_bytes(qk_norm_rotary_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(qk_norm_rotary_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    if (p.rows == 0) return {};
    return visit(
        stage<detail::qk_norm_rotary_kernel<Policy>>{{detail::normalization_blocks(int64_t{p.rows} * p.heads)}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
