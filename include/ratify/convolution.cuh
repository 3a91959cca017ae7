// SPDX-License-Identifier: Apache-2.0
/// The causal depthwise convolution of a gated delta net over the rows of a round, with a pool of windows. FP32 inside,
/// ordered: the same bits on every executor and for every number of rows a launch. docs/arithmetic.md states the order.
#pragma once

#include <ratify/detail/convolution_kernels.cuh>
#include <ratify/detail/machine/launch.cuh>

RATIFY_BEGIN_NAMESPACE

template <class Policy>
inline constexpr bool is_supported_convolution = detail::convolution_support<Policy>::value;

#if !defined(__CUDACC_RTC__)

/// out[t] = bias + sum over j of weight[j] * x[t - width + 1 + j], then SiLU where the policy says so.
///
/// A slot of the window pool holds the width - 1 inputs before a round, then the round's own inputs. The next round
/// says how many of those were kept: its window starts that many places on, and is moved to the front of the slot.
///
/// @tparam Policy derives from `convolution_policy`
/// Parameters: `convolution_params`. Preconditions: no two requests of a launch name one slot; out may not be x.
/// On the device: a request with zero rows is not touched; slot -1 retires a request: zero rows, nothing read or
/// written; so do a slot below -1 or past `slots`, kept outside 0..T, fresh other than 0 and 1, fresh with kept rows,
/// and rows outside the launch, beyond T, or that a request before it has (those stay that request's). A round of n
/// rows writes the first width - 1 + n places of its slot. Reads and writes each input once and each output once. No
/// workspace.
/// Status: unsupported where a launch rule fails (the text names the parameter).
template <class Policy>
struct convolution : detail::operation<convolution<Policy>, convolution_params<Policy>> {
  RATIFY_CONVOLUTION_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(convolution_params<Policy> const& p) {
    return detail::convolution_support<Policy>::reason(p);
  }
  static size_t scratch_bytes(convolution_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(convolution_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = detail::convolution_kernel<Policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(p.channels), p.requests}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
