// SPDX-License-Identifier: Apache-2.0
/// y = x W^T with NVFP4 weights, for the few rows of a verification round. docs/arithmetic.md states the order.
#pragma once

#include <ratify/detail/machine/launch.cuh>
#include <ratify/detail/projection_kernels.cuh>
#if !defined(__CUDACC_RTC__)
#include <ratify/dispatch.hpp>
#endif

RATIFY_BEGIN_NAMESPACE

template <class Policy>
inline constexpr bool is_supported_projection = detail::projection_support<Policy>::value;

#if !defined(__CUDACC_RTC__)

/// y[m, n] = bias[n] + sum over k of x[m, k] * weight[n, k], the weights stored as NVFP4.
///
/// A weight is FP16(e2m1 * FP16(w_scale * w_global)) under effective_scale fp16; under fp32 the scale stays FP32 and
/// multiplies a group's sum. The sum is FP32 in a fixed order: row m has the bits it has alone, for any number of rows.
///
/// @tparam Policy derives from `projection_policy`
/// Parameters: `projection_params`; any rows >= 0 (kernels for 1, 8, 16 and 32 rows at a time; more rows are tiles of
/// 32), any n >= 1, k a multiple of 16. w_packed is aligned to 8 bytes (16 and a k that is a multiple of 32 read it
/// in wider pieces). Reads 9/16 byte a weight for each 32 rows; x once per column tile; rows past `rows` are neither
/// read nor written. No workspace.
/// Status: unsupported with the rule's text; launch_failed.
template <class Policy>
struct projection : detail::operation<projection<Policy>, projection_params<Policy>> {
  RATIFY_PROJECTION_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(projection_params<Policy> const& p) {
    return detail::projection_support<Policy>::reason(p);
  }
  static size_t scratch_bytes(projection_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(projection_params<Policy> const& p, workspace, Executor const& on, Visitor&& visit) {
    if (p.rows == 0) return {};
    int const tile = p.rows > 16 ? 32 : p.rows > 8 ? 16 : p.rows > 1 ? 8 : 1;
    return dispatch(tile, values<1, 8, 16, 32>{}, "ratify::projection: no kernel for this row tile", [&](auto rows) {
      using kernel = detail::projection_kernel<Policy, rows()>;
      int const lanes = kernel::traits::lanes(p.n, on.multiprocessors());
      return visit(stage<kernel>{{detail::ceil_div(p.n, lanes * kernel::traits::thread_columns),
                                  detail::ceil_div(p.rows, static_cast<int>(rows()))},
                                 {p, lanes}});
    });
  }
};

#endif

RATIFY_END_NAMESPACE
