// SPDX-License-Identifier: Apache-2.0
/// y = x W^T with NVFP4 weights, for the few rows of a verification round. docs/arithmetic.md states the order of the
/// sums.
#pragma once

#include <ratify/cuda.cuh>
#include <ratify/detail/projection_contents.hpp>
#include <ratify/detail/projection_kernels.cuh>
#if !defined(__CUDACC_RTC__)
#include <ratify/dispatch.hpp>
#endif

RATIFY_BEGIN_NAMESPACE

/// Whether `projection<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_projection = projection_knobs::supports<Knobs...>;

#if !defined(__CUDACC_RTC__)

/// y[m, n] = bias[n] + sum over k of x[m, k] * weight[n, k], the weights stored as NVFP4.
///
/// With effective_scale fp16 a weight is FP16(e2m1 * FP16(w_scale * w_global)); with fp32 the scale stays FP32 and
/// multiplies the sum of its group. Sums are FP32 in a fixed order, so that a row has the bits that it has alone,
/// whatever the number of rows. K is summed in `split_k` parts that are then added in order.
///
/// Ordered: bits depend on `split_k` and `effective_scale` alone. Order, error bound and the range in which no
/// intermediate result overflows: docs/arithmetic.md. Which `split_k` is fast: `recommended_split_k`.
///
/// @tparam Knobs   knobs that differ from their defaults, in any order: projection_policy.hpp lists them
/// Parameters: `projection_params`.
/// Limits: any number of rows (there are kernels for 1, 8, 16 and 32 rows at a time; more rows are tiles of 32); n and
/// k up to 2^30, k a multiple of 16; w_packed aligned to 8 bytes. Reads 9/16 byte per weight for each 32 rows, and x
/// once for each tile of columns. No workspace.
/// @return of `launch`: ok, invalid_argument, unsupported, no_device, launch_failed
template <class... Knobs>
struct projection : detail::operation<projection<Knobs...>, projection_params<projection_policy<Knobs...>>> {
  using policy = projection_policy<Knobs...>;
  using params = projection_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  static size_t scratch_bytes(params const&) { return 0; }

  /// Ends of segments.
  template <class Checker>
  static void contents(params const& p, Checker& checker) {
    if (p.rows > 0) detail::check_contents(p, checker);
  }

  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const& on, Visitor&& visit) {
    if (p.rows == 0) return {};
    int const tile = p.rows > 16 ? 32 : p.rows > 8 ? 16 : p.rows > 1 ? 8 : 1;
    return dispatch(tile, values<1, 8, 16, 32>{}, "ratify::projection: no kernel for this row tile", [&](auto rows) {
      using kernel = projection_kernel<policy, rows()>;
      constexpr int columns = kernel::traits::thread_columns;
      int const lanes = detail::projection_lanes(p.n, on.multiprocessors(), kernel::traits::split_threads, columns);
      return visit(stage<kernel>{
          {detail::ceil_div(p.n, lanes * columns), detail::ceil_div(p.rows, static_cast<int>(rows()))}, {p, lanes}});
    });
  }
};

#endif

RATIFY_END_NAMESPACE
