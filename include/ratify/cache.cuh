// SPDX-License-Identifier: Apache-2.0
/// append: K and V of a round's rows into the paged cache. Ordered: the same bits on every executor.
#pragma once

#include <ratify/detail/cache_kernels.cuh>
#include <ratify/detail/machine/launch.cuh>

RATIFY_BEGIN_NAMESPACE

template <class Policy>
inline constexpr bool is_supported_append = detail::append_support<Policy>::value;

#if !defined(__CUDACC_RTC__)

/// Stores the new rows: value / scale, correctly rounded to FP32 and then to nearest even in the format of the pages.
/// FP8 saturates (infinities too), NaN stores 0x7F; f16 and bf16 follow IEEE.
///
/// @tparam Policy derives from `append_policy`
/// Parameters: `append_params`: k and v [rows, kv_heads, head_dim]; k_pages and v_pages [pages, page_size, kv_heads,
/// head_dim], page_size in tokens; strides in elements, any alignment. Row i of a request's n goes to position
/// context_len - n + i. Preconditions: block_table entries of new tokens are pages or negative; requests share no page
/// that is written; pages do not overlap inputs.
/// Lengths and pages are read on the device. A request whose query_start or context_len is out of range (context_len: 0
/// to max_pages * page_size) or whose rows another before it has, and a row whose page is negative, writes nothing.
/// Rows before position 0 are skipped. Bytes of other tokens are untouched. Reads each row once and writes each stored
/// element once. No workspace.
/// Status: unsupported with the rule's text; launch_failed.
template <class Policy>
struct append : detail::operation<append<Policy>, append_params<Policy>> {
  RATIFY_APPEND_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(append_params<Policy> const& p) { return detail::append_support<Policy>::reason(p); }
  static size_t scratch_bytes(append_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(append_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = detail::append_kernel<Policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{p.rows, detail::ceil_div(p.kv_heads * p.head_dim, kernel::block_threads)}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
