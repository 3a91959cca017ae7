// SPDX-License-Identifier: Apache-2.0
/// Parameters and support rules of the causal depthwise convolution.
#pragma once

#include <ratify/convolution_policy.hpp>
#include <ratify/detail/meta.hpp>
#include <ratify/status.hpp>
#include <ratify/views.hpp>

#define RATIFY_CONVOLUTION_RULES(RULE)                                                         \
  RULE(policy, (RATIFY_STD::is_base_of_v<convolution_policy, Policy>),                         \
       "ratify::convolution: the policy must derive from ratify::convolution_policy")          \
  RULE(input_format, (detail::is_one_of_v<typename Policy::input_format, f16, bf16>),          \
       "ratify::convolution: input_format must be f16 or bf16")                                \
  RULE(weight_format, (detail::is_one_of_v<typename Policy::weight_format, float, f16, bf16>), \
       "ratify::convolution: weight_format must be float, f16 or bf16")                        \
  RULE(output_format, (detail::is_one_of_v<typename Policy::output_format, float, f16, bf16>), \
       "ratify::convolution: output_format must be float, f16 or bf16")                        \
  RULE(width, (Policy::width >= 2 && Policy::width <= 4), "ratify::convolution: width must be 2, 3 or 4 taps")

#define RATIFY_CONVOLUTION_LAUNCH_RULES(RULE)                                                  \
  RULE(rows, (p.rows >= 0), "ratify::convolution: rows must not be negative")                  \
  RULE(requests, (p.requests >= (p.rows > 0 ? 1 : 0) && p.requests <= 65535),                  \
       "ratify::convolution: requests must be 1 to 65535 (0 where there are no rows)")         \
  RULE(channels, (p.channels >= 1), "ratify::convolution: channels must be at least 1")        \
  RULE(max_rows, (p.max_rows >= 1 && p.max_rows <= 1 << 30),                                   \
       "ratify::convolution: max_rows must be 1 to 2^30 rows a request")                       \
  RULE(slot_stride, (p.slot_stride >= (int64_t{Policy::width} - 1 + p.max_rows) * p.channels), \
       "ratify::convolution: slot_stride must be at least (width - 1 + max_rows) * channels elements")

RATIFY_BEGIN_NAMESPACE

/// One launch of `convolution`. Every pointer is the caller's; strides are in elements. W = width, T = max_rows.
template <class Policy>
struct convolution_params {
  using input_format = typename Policy::input_format;
  using weight_format = typename Policy::weight_format;
  rows_view<input_format const> x;                ///< [rows, channels]
  weight_format const* weight = nullptr;          ///< [channels, W] dense, the last tap is the current row's
  weight_format const* bias = nullptr;            ///< [channels] or nullptr
  input_format* window_pool = nullptr;            ///< [slots, W - 1 + T, channels], dense inside a slot
  int64_t slot_stride = 0;                        ///< elements from slot to slot
  int32_t const* slot = nullptr;                  ///< [requests], -1: retired
  int32_t const* kept = nullptr;                  ///< [requests], 0..T rows of the previous round that were kept
  int32_t const* fresh = nullptr;                 ///< [requests] or nullptr, 1: the window is zeros, kept is 0
  int32_t const* query_start = nullptr;           ///< [requests + 1]
  rows_view<typename Policy::output_format> out;  ///< [rows, channels]
  int rows = 0;
  int requests = 0;
  int channels = 0;
  int max_rows = 0;                  ///< T, most rows of one request
  int64_t slots = int64_t{1} << 31;  ///< slots in the pool; an index at or past it is refused on the device
};

namespace detail {

template <class Policy>
struct convolution_support {
  static constexpr bool value = true RATIFY_CONVOLUTION_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static constexpr char const* reason(convolution_params<Policy> const& p) {
    RATIFY_CONVOLUTION_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

}  // namespace detail

RATIFY_END_NAMESPACE
