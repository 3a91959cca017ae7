// SPDX-License-Identifier: Apache-2.0
/// The causal depthwise convolution of a gated delta net over the rows of a round, with a pool of windows.
#pragma once

#include <ratify/cuda.cuh>
#include <ratify/detail/convolution_contents.hpp>
#include <ratify/detail/convolution_kernels.cuh>

RATIFY_BEGIN_NAMESPACE

/// Whether `convolution<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_convolution = convolution_knobs::supports<Knobs...>;

#if !defined(__CUDACC_RTC__)

/// out[t] = bias + sum over j of weight[j] * x[t - W + 1 + j], then SiLU where the policy says so; W is the width.
///
/// A slot of the window pool holds the W - 1 inputs before a round, then the round's own inputs. The next round says
/// how many of those were kept: its window starts that many places on, and is moved to the front of the slot.
///
/// FP32 inside. Ordered: no bit depends on batch, strides, executor, or how many rows a launch has. Order, error bound
/// and range: docs/arithmetic.md.
///
/// @tparam Knobs   knobs that differ from their defaults, in any order: convolution_policy.hpp lists them
/// Parameters: `convolution_params`. Preconditions: no two requests of a launch name one slot (`check_contents`
/// looks), and out does not overlap x (the launch rules look whether they begin at one place). On the device: a request
/// without rows is not touched. Rows of a retired request (slot -1) are zeros, and nothing of it is read or written. So
/// are rows that no request names, and those of a request that contradicts: a slot that is not one of the pool, kept
/// outside 0 to T, fresh other than 0 and 1, fresh with kept rows, rows outside the launch or more than T. A row that
/// two requests name is the first one's, and the second one contradicts. Limits: 65535 requests, 2^30 rows per request.
/// Reads and writes each input once and each output once; a round of n rows writes the first W - 1 + n places of its
/// slot. No workspace.
/// @return of `launch`: ok, invalid_argument, unsupported, no_device, launch_failed
template <class... Knobs>
struct convolution : detail::operation<convolution<Knobs...>, convolution_params<convolution_policy<Knobs...>>> {
  using policy = convolution_policy<Knobs...>;
  using params = convolution_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  static size_t scratch_bytes(params const&) { return 0; }

  /// Row bounds, slots, and how many rows were kept.
  template <class Checker>
  static void contents(params const& p, Checker& checker) {
    if (p.rows > 0) detail::check_contents(p, checker);
  }

  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = convolution_kernel<policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(p.channels), p.requests}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
