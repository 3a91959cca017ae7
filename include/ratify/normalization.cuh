// SPDX-License-Identifier: Apache-2.0
/// Root-mean-square normalizations of a round: rmsnorm, gated_rmsnorm and qk_norm_rotary. FP32 inside, ordered: the
/// same bits on every executor and for any number of rows. docs/arithmetic.md states the order and the error bounds.
#pragma once

#include <ratify/cuda.cuh>
#include <ratify/detail/normalization_contents.hpp>
#include <ratify/detail/normalization_kernels.cuh>

RATIFY_BEGIN_NAMESPACE

/// Whether `rmsnorm<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_rmsnorm = rmsnorm_knobs::supports<Knobs...>;

/// Whether `gated_rmsnorm<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_gated_rmsnorm = gated_rmsnorm_knobs::supports<Knobs...>;

/// Whether `qk_norm_rotary<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_qk_norm_rotary = qk_norm_rotary_knobs::supports<Knobs...>;

#if !defined(__CUDACC_RTC__)

namespace detail {
/// Blocks for `work` rows or heads, with a warp for each.
inline int normalization_blocks(int64_t work) { return grid_blocks(ceil_div(work, int64_t{normalization_warps})); }
}  // namespace detail

/// out = s / sqrt(mean(s^2) + eps) * (1 + weight), s = residual + x; without `unit_offset`, * weight. The sum s is
/// residual_out, in FP32. A NaN or infinity stays in its row. A row of zeros stays zeros where eps is above 0, and is
/// NaN where eps is 0. Values whose squares leave FP32 are normalised like all others.
///
/// @tparam Knobs knobs that differ from their defaults, in any order: normalization_policy.hpp lists them
/// Parameters: `rmsnorm_params`; residual and residual_out are optional, each alone too. Reads x, residual and weight
/// twice at most, writes each output once. No workspace.
/// @return of `launch`: ok, invalid_argument or unsupported with the rule's text, no_device, launch_failed
template <class... Knobs>
struct rmsnorm : detail::operation<rmsnorm<Knobs...>, rmsnorm_params<rmsnorm_policy<Knobs...>>> {
  using policy = rmsnorm_policy<Knobs...>;
  using params = rmsnorm_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  static size_t scratch_bytes(params const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    if (p.rows == 0) return {};
    if (p.columns >= detail::rmsnorm_long_row) return visit(stage<rmsnorm_row_kernel<policy>>{{p.rows}, p});
    return visit(stage<rmsnorm_kernel<policy>>{{detail::normalization_blocks(p.rows)}, p});
  }
};

/// Per head: out = x / sqrt(mean(x^2) + eps) * weight * silu(z).
///
/// @tparam Knobs knobs that differ from their defaults, in any order: normalization_policy.hpp lists them
/// Parameters: `gated_rmsnorm_params`. Reads x twice and z once, writes out once. No workspace.
/// @return of `launch`: ok, invalid_argument or unsupported with the rule's text, no_device, launch_failed
template <class... Knobs>
struct gated_rmsnorm
    : detail::operation<gated_rmsnorm<Knobs...>, gated_rmsnorm_params<gated_rmsnorm_policy<Knobs...>>> {
  using policy = gated_rmsnorm_policy<Knobs...>;
  using params = gated_rmsnorm_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  static size_t scratch_bytes(params const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    if (p.rows == 0) return {};
    int const blocks = detail::normalization_blocks(int64_t{p.rows} * p.heads);
    return visit(stage<gated_rmsnorm_kernel<policy>>{{blocks}, p});
  }
};

/// Per head: x / sqrt(mean(x^2) + eps) * (1 + weight) (without `unit_offset`, * weight), then the pairs
/// (i, i + rotary_dim / 2) of its first rotary_dim elements turned by the angle of the row's position. The tables of
/// cosines and sines are inputs. A row whose position is outside the tables becomes zeros.
///
/// @tparam Knobs knobs that differ from their defaults, in any order: normalization_policy.hpp lists them
/// Parameters: `qk_norm_rotary_params`. Reads x twice, writes out once. No workspace.
/// @return of `launch`: ok, invalid_argument or unsupported with the rule's text, no_device, launch_failed
template <class... Knobs>
struct qk_norm_rotary
    : detail::operation<qk_norm_rotary<Knobs...>, qk_norm_rotary_params<qk_norm_rotary_policy<Knobs...>>> {
  using policy = qk_norm_rotary_policy<Knobs...>;
  using params = qk_norm_rotary_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  template <class Checker>
  static void contents(params const& p, Checker& checker) {
    if (p.rows > 0) detail::check_contents(p, checker);
  }
  static size_t scratch_bytes(params const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    if (p.rows == 0) return {};
    int const blocks = detail::normalization_blocks(int64_t{p.rows} * p.heads);
    return visit(stage<qk_norm_rotary_kernel<policy>>{{blocks}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
