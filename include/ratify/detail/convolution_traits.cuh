// SPDX-License-Identifier: Apache-2.0
/// Launch rules of the causal depthwise convolution.
#pragma once

#include <ratify/convolution_params.hpp>
#include <ratify/detail/convolution_tuning.hpp>
#include <ratify/detail/extents.hpp>
#include <ratify/status.hpp>

#define RATIFY_CONVOLUTION_SHAPE_RULES(INVALID, UNSUPPORTED)                                                     \
  INVALID(rows, (p.rows >= 0 && p.requests >= 0), "ratify::convolution: rows and requests must not be negative") \
  INVALID(requests, (p.rows == 0 || p.requests > 0),                                                             \
          "ratify::convolution: requests must be at least 1 if there are rows")                                  \
  UNSUPPORTED(most_requests, (p.requests <= 65535), "ratify::convolution: requests must be at most 65535")       \
  INVALID(channels, (p.channels > 0), "ratify::convolution: channels must be at least 1")                        \
  INVALID(max_rows, (p.max_rows > 0),                                                                            \
          "ratify::convolution: max_rows, the most rows of one request, must be at least 1")                     \
  UNSUPPORTED(most_rows, (p.max_rows <= 1 << 30), "ratify::convolution: max_rows must be at most 2^30")          \
  INVALID(pool_slots, (p.pool_slots >= 0), "ratify::convolution: pool_slots must not be negative")               \
  INVALID(slots_given, (p.rows == 0 || p.pool_slots > 0),                                                        \
          "ratify::convolution: pool_slots, the slots that the pool holds, must be at least 1 if there are rows")

#define RATIFY_CONVOLUTION_TENSOR_RULES(INVALID, UNSUPPORTED)                                             \
  RATIFY_REQUIRED_VIEW(INVALID, "convolution", x, p.rows, p.channels)                                     \
  RATIFY_REQUIRED_ARRAY(INVALID, "convolution", weight)                                                   \
  RATIFY_OPTIONAL_ARRAY(INVALID, "convolution", bias)                                                     \
  RATIFY_REQUIRED_ARRAY(INVALID, "convolution", window_pool)                                              \
  INVALID(slot_stride, (p.pool_slots == 1 || p.slot_stride >= window_elements(p)),                        \
          "ratify::convolution: slot_stride must be at least (width - 1 + max_rows) * channels elements") \
  INVALID(slot_stride_far, (detail::is_in_memory<typename Policy::input_format>(window_pool_span(p))),    \
          "ratify::convolution: the strides of window_pool reach over 2^63 bytes")                        \
  RATIFY_REQUIRED_ARRAY(INVALID, "convolution", slot)                                                     \
  RATIFY_REQUIRED_ARRAY(INVALID, "convolution", kept)                                                     \
  RATIFY_OPTIONAL_ARRAY(INVALID, "convolution", fresh)                                                    \
  RATIFY_REQUIRED_ARRAY(INVALID, "convolution", query_start)                                              \
  RATIFY_REQUIRED_VIEW(INVALID, "convolution", out, p.rows, p.channels)                                   \
  INVALID(in_place, (detail::begin_apart(p.out.data, p.x.data)), "ratify::convolution: out must not be x")

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Elements of one slot of the window pool.
template <class Policy>
RATIFY_HD constexpr int64_t window_elements(convolution_params<Policy> const& p) {
  return (int64_t{Policy::width} - 1 + p.max_rows) * p.channels;
}

/// Elements from the first to the last one of the window pool, see `span_of`.
template <class Policy>
RATIFY_HD constexpr int64_t window_pool_span(convolution_params<Policy> const& p) {
  strided_extent const dimensions[] = {{p.slot_stride, p.pool_slots}};
  return span_of(window_elements(p), dimensions);
}

template <class Policy>
RATIFY_HD status launch_rules(convolution_params<Policy> const& p) {
  RATIFY_CONVOLUTION_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_CONVOLUTION_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

}  // namespace detail
RATIFY_END_NAMESPACE
