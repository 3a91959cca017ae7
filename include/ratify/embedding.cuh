// SPDX-License-Identifier: Apache-2.0
/// Rows of an embedding table by token.
#pragma once

#include <ratify/detail/embedding_kernels.cuh>
#include <ratify/detail/machine/launch.cuh>

RATIFY_BEGIN_NAMESPACE

template <class Policy>
inline constexpr bool is_supported_embedding = detail::embedding_support<Policy>::value;

#if !defined(__CUDACC_RTC__)

/// out[row] = table[tokens[row]].
///
/// @tparam Policy derives from `embedding_policy`
/// Parameters: `embedding_params`. A token outside the table gives a zero row. Reads and writes each element once. No
/// workspace.
/// Status: unsupported with the rule's text; launch_failed.
template <class Policy>
struct embedding : detail::operation<embedding<Policy>, embedding_params<Policy>> {
  RATIFY_EMBEDDING_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(embedding_params<Policy> const& p) { return detail::embedding_support<Policy>::reason(p); }
  static size_t scratch_bytes(embedding_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(embedding_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = detail::embedding_kernel<Policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(kernel::count(p))}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
