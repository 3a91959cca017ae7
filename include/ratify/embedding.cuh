// SPDX-License-Identifier: Apache-2.0
/// Rows of an embedding table by token.
#pragma once

#include <ratify/cuda.cuh>
#include <ratify/detail/embedding_contents.hpp>
#include <ratify/detail/embedding_kernels.cuh>

RATIFY_BEGIN_NAMESPACE

/// Whether `embedding<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_embedding = embedding_knobs::supports<Knobs...>;

#if !defined(__CUDACC_RTC__)

/// out[row] = table[tokens[row]]. A row whose token is outside the table becomes zeros.
///
/// @tparam Knobs knobs that differ from their defaults, in any order: embedding_policy.hpp lists them
/// Parameters: `embedding_params`. Reads and writes each element once. No workspace.
/// @return of `launch`: ok, invalid_argument or unsupported with the rule's text, no_device, launch_failed
template <class... Knobs>
struct embedding : detail::operation<embedding<Knobs...>, embedding_params<embedding_policy<Knobs...>>> {
  using policy = embedding_policy<Knobs...>;
  using params = embedding_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  template <class Checker>
  static void contents(params const& p, Checker& checker) {
    if (p.rows > 0) detail::check_contents(p, checker);
  }
  static size_t scratch_bytes(params const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = embedding_kernel<policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(kernel::count(p))}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
