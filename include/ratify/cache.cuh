// SPDX-License-Identifier: Apache-2.0
/// append: K and V of a round's rows into the paged cache.
#pragma once

#include <ratify/cuda.cuh>
#include <ratify/detail/cache_contents.hpp>
#include <ratify/detail/cache_kernels.cuh>

RATIFY_BEGIN_NAMESPACE

/// Whether `append<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_append = append_knobs::supports<Knobs...>;

#if !defined(__CUDACC_RTC__)

/// Stores the new rows: value / scale, correctly rounded to FP32 and then to nearest even in the format of the pages.
/// FP8 saturates (infinities too), and NaN is stored as 0x7F; f16 and bf16 follow IEEE 754.
///
/// Row i of a request's n goes to position context_len - n + i; rows before position 0 are skipped. A request whose
/// query_start or context_len contradicts the capacities (context_len: 0 to max_pages * page_size), one whose rows an
/// earlier request owns, and a row whose page is outside the pool, write nothing. Bytes of other tokens are untouched.
///
/// Ordered: the same bits on every executor.
///
/// @tparam Knobs   knobs that differ from their defaults, in any order: cache_policy.hpp lists them
/// Parameters: `append_params`. Precondition that only the device could see: no two new rows go to one token of a page.
/// Limits: kv_heads * head_dim at most 8388480 elements; any alignment.
/// Reads each row once and writes each stored element once. No workspace.
/// @return of `launch`: ok, invalid_argument, unsupported, no_device, launch_failed
template <class... Knobs>
struct append : detail::operation<append<Knobs...>, append_params<append_policy<Knobs...>>> {
  using policy = append_policy<Knobs...>;
  using params = append_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  template <class Checker>
  static void contents(params const& p, Checker& checker) {
    if (p.rows > 0) detail::check_contents(p, checker);
  }

  static size_t scratch_bytes(params const&) { return 0; }

  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = append_kernel<policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{p.rows, detail::ceil_div(p.kv_heads * p.head_dim, kernel::block_threads)}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
