// SPDX-License-Identifier: Apache-2.0
/// Launch rules of the two operations that a shadow is made of.
#pragma once

#include <ratify/detail/extents.hpp>
#include <ratify/detail/shadow_tuning.hpp>
#include <ratify/shadow_params.hpp>
#include <ratify/status.hpp>

// Rules that both have.
#define RATIFY_SHADOW_EXTENT_RULES(INVALID, UNSUPPORTED, op)                                 \
  INVALID(rows, (p.rows >= 0), "ratify::" op ": rows must not be negative")                  \
  INVALID(columns, (p.columns > 0), "ratify::" op ": columns must be at least 1 element")    \
  UNSUPPORTED(elements, (p.rows <= 0 || p.columns <= detail::shadow_most_elements / p.rows), \
              "ratify::" op ": rows * columns must be at most 2^37 elements; take a larger tensor in several pieces")

#define RATIFY_SHADOW_COPY_SHAPE_RULES(INVALID, UNSUPPORTED) \
  RATIFY_SHADOW_EXTENT_RULES(INVALID, UNSUPPORTED, "shadow_copy")

#define RATIFY_SHADOW_COPY_TENSOR_RULES(INVALID, UNSUPPORTED)           \
  RATIFY_REQUIRED_VIEW(INVALID, "shadow_copy", from, p.rows, p.columns) \
  RATIFY_REQUIRED_VIEW(INVALID, "shadow_copy", to, p.rows, p.columns)   \
  INVALID(in_place, (detail::begin_apart(p.to.data, p.from.data)), "ratify::shadow_copy: to must not be from")

#define RATIFY_SHADOW_COMPARE_SHAPE_RULES(INVALID, UNSUPPORTED)      \
  RATIFY_SHADOW_EXTENT_RULES(INVALID, UNSUPPORTED, "shadow_compare") \
  INVALID(calls, (p.calls >= 0), "ratify::shadow_compare: calls must not be negative")

#define RATIFY_SHADOW_COMPARE_TENSOR_RULES(INVALID, UNSUPPORTED)             \
  RATIFY_REQUIRED_VIEW(INVALID, "shadow_compare", driver, p.rows, p.columns) \
  RATIFY_REQUIRED_VIEW(INVALID, "shadow_compare", shadow, p.rows, p.columns) \
  RATIFY_REQUIRED_ARRAY(INVALID, "shadow_compare", record)

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// So that the blocks of a launch can be counted in an int.
inline constexpr int64_t shadow_most_elements = int64_t{1} << 37;

template <class Policy>
RATIFY_HD status launch_rules(shadow_copy_params<Policy> const& p) {
  RATIFY_SHADOW_COPY_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_SHADOW_COPY_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

template <class Policy>
RATIFY_HD status launch_rules(shadow_compare_params<Policy> const& p) {
  RATIFY_SHADOW_COMPARE_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_SHADOW_COMPARE_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

}  // namespace detail
RATIFY_END_NAMESPACE
