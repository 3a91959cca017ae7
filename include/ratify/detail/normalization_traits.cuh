// SPDX-License-Identifier: Apache-2.0
/// Launch rules of the normalizations.
#pragma once

#include <ratify/detail/extents.hpp>
#include <ratify/detail/machine/ptx.cuh>
#include <ratify/normalization_params.hpp>
#include <ratify/status.hpp>

#define RATIFY_EPS_RULE(INVALID, op) \
  INVALID(eps, (is_finite(p.eps) && !less(p.eps, 0.0f)), "ratify::" op ": eps must be finite and at least 0")

#define RATIFY_RMSNORM_SHAPE_RULES(INVALID, UNSUPPORTED)                                             \
  INVALID(rows, (p.rows >= 0), "ratify::rmsnorm: rows must not be negative")                         \
  INVALID(columns, (p.columns > 0), "ratify::rmsnorm: columns must be at least 1")                   \
  UNSUPPORTED(most_columns, (p.columns <= 1 << 30), "ratify::rmsnorm: columns must be at most 2^30") \
  RATIFY_EPS_RULE(INVALID, "rmsnorm")

#define RATIFY_RMSNORM_TENSOR_RULES(INVALID, UNSUPPORTED)                                                             \
  RATIFY_REQUIRED_VIEW(INVALID, "rmsnorm", x, p.rows, p.columns)                                                      \
  RATIFY_OPTIONAL_VIEW(INVALID, "rmsnorm", residual, p.rows, p.columns)                                               \
  RATIFY_OPTIONAL_VIEW(INVALID, "rmsnorm", residual_out, p.rows, p.columns)                                           \
  RATIFY_REQUIRED_ARRAY(INVALID, "rmsnorm", weight)                                                                   \
  RATIFY_REQUIRED_VIEW(INVALID, "rmsnorm", out, p.rows, p.columns)                                                    \
  INVALID(in_place, (detail::is_apart_or_same(p.out, p.x, p.rows)),                                                   \
          "ratify::rmsnorm: out may be x only in its format and with its stride")                                     \
  INVALID(                                                                                                            \
      residual_in_place,                                                                                              \
      (detail::is_apart_or_same(p.residual_out, rows_view<float const>{p.residual.data, p.residual.stride}, p.rows)), \
      "ratify::rmsnorm: residual_out may be residual only with its stride")                                           \
  INVALID(out_apart, (detail::are_apart({p.out.data}, {p.residual.data, p.weight})),                                  \
          "ratify::rmsnorm: out must not be residual or weight")                                                      \
  INVALID(residual_apart, (detail::are_apart({p.residual_out.data}, {p.x.data, p.weight, p.out.data})),               \
          "ratify::rmsnorm: residual_out must not be x, weight or out")

#define RATIFY_GATED_RMSNORM_SHAPE_RULES(INVALID, UNSUPPORTED)                                                     \
  INVALID(rows, (p.rows >= 0), "ratify::gated_rmsnorm: rows must not be negative")                                 \
  INVALID(heads, (p.heads > 0), "ratify::gated_rmsnorm: heads must be at least 1")                                 \
  INVALID(head_dim, (p.head_dim > 0), "ratify::gated_rmsnorm: head_dim must be at least 1 element")                \
  UNSUPPORTED(most_dims, (p.head_dim <= 1 << 30), "ratify::gated_rmsnorm: head_dim must be at most 2^30 elements") \
  RATIFY_EPS_RULE(INVALID, "gated_rmsnorm")

#define RATIFY_GATED_RMSNORM_TENSOR_RULES(INVALID, UNSUPPORTED)                               \
  RATIFY_REQUIRED_VIEW(INVALID, "gated_rmsnorm", x, p.rows, p.heads, p.head_dim)              \
  RATIFY_REQUIRED_VIEW(INVALID, "gated_rmsnorm", z, p.rows, p.heads, p.head_dim)              \
  RATIFY_REQUIRED_ARRAY(INVALID, "gated_rmsnorm", weight)                                     \
  RATIFY_REQUIRED_VIEW(INVALID, "gated_rmsnorm", out, p.rows, p.heads, p.head_dim)            \
  INVALID(in_place,                                                                           \
          (detail::is_apart_or_same(p.out, p.x, p.rows, p.heads) &&                           \
           detail::is_apart_or_same(p.out, p.z, p.rows, p.heads)),                            \
          "ratify::gated_rmsnorm: out may be x or z only in its format and with its strides") \
  INVALID(out_apart, (detail::begin_apart(p.out.data, p.weight)), "ratify::gated_rmsnorm: out must not be weight")

#define RATIFY_QK_NORM_ROTARY_SHAPE_RULES(INVALID, UNSUPPORTED)                                                     \
  INVALID(rows, (p.rows >= 0), "ratify::qk_norm_rotary: rows must not be negative")                                 \
  INVALID(heads, (p.heads > 0), "ratify::qk_norm_rotary: heads must be at least 1")                                 \
  INVALID(head_dim, (p.head_dim > 0), "ratify::qk_norm_rotary: head_dim must be at least 1 element")                \
  UNSUPPORTED(most_dims, (p.head_dim <= 1 << 30), "ratify::qk_norm_rotary: head_dim must be at most 2^30 elements") \
  INVALID(rotary_dim, (p.rotary_dim >= 0 && p.rotary_dim % 2 == 0 && p.rotary_dim <= p.head_dim),                   \
          "ratify::qk_norm_rotary: rotary_dim must be even and 0 to head_dim")                                      \
  INVALID(max_position, (p.max_position >= 0), "ratify::qk_norm_rotary: max_position must not be negative")         \
  INVALID(positions_there, (p.rows == 0 || p.max_position > 0),                                                     \
          "ratify::qk_norm_rotary: max_position must be at least 1 if there are rows")                              \
  RATIFY_EPS_RULE(INVALID, "qk_norm_rotary")

#define RATIFY_QK_NORM_ROTARY_TENSOR_RULES(INVALID, UNSUPPORTED)                                              \
  RATIFY_REQUIRED_VIEW(INVALID, "qk_norm_rotary", x, p.rows, p.heads, p.head_dim)                             \
  RATIFY_REQUIRED_ARRAY(INVALID, "qk_norm_rotary", weight)                                                    \
  INVALID(cos_given, (p.rotary_dim == 0 || p.cos != nullptr), "ratify::qk_norm_rotary: cos must not be null") \
  RATIFY_OPTIONAL_ARRAY(INVALID, "qk_norm_rotary", cos)                                                       \
  INVALID(sin_given, (p.rotary_dim == 0 || p.sin != nullptr), "ratify::qk_norm_rotary: sin must not be null") \
  RATIFY_OPTIONAL_ARRAY(INVALID, "qk_norm_rotary", sin)                                                       \
  RATIFY_REQUIRED_ARRAY(INVALID, "qk_norm_rotary", positions)                                                 \
  RATIFY_REQUIRED_VIEW(INVALID, "qk_norm_rotary", out, p.rows, p.heads, p.head_dim)                           \
  INVALID(in_place, (detail::is_apart_or_same(p.out, p.x, p.rows, p.heads)),                                  \
          "ratify::qk_norm_rotary: out may be x only in its format and with its strides")                     \
  INVALID(out_apart, (detail::are_apart({p.out.data}, {p.weight, p.cos, p.sin, p.positions})),                \
          "ratify::qk_norm_rotary: out must not be weight, cos, sin or positions")

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
RATIFY_HD status launch_rules(rmsnorm_params<Policy> const& p) {
  RATIFY_RMSNORM_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_RMSNORM_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

template <class Policy>
RATIFY_HD status launch_rules(gated_rmsnorm_params<Policy> const& p) {
  RATIFY_GATED_RMSNORM_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_GATED_RMSNORM_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

template <class Policy>
RATIFY_HD status launch_rules(qk_norm_rotary_params<Policy> const& p) {
  RATIFY_QK_NORM_ROTARY_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_QK_NORM_ROTARY_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

}  // namespace detail
RATIFY_END_NAMESPACE
