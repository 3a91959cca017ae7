// SPDX-License-Identifier: Apache-2.0
/// Launch rules of the elementwise operations.
#pragma once

#include <ratify/activation_params.hpp>
#include <ratify/detail/extents.hpp>
#include <ratify/status.hpp>

#define RATIFY_GATING_SHAPE_RULES(INVALID, UNSUPPORTED)                     \
  INVALID(rows, (p.rows >= 0), "ratify::gating: rows must not be negative") \
  INVALID(value_heads, (p.value_heads > 0), "ratify::gating: value_heads must be at least 1")

#define RATIFY_GATING_TENSOR_RULES(INVALID, UNSUPPORTED)                                          \
  RATIFY_REQUIRED_VIEW(INVALID, "gating", a, p.rows, p.value_heads)                               \
  RATIFY_REQUIRED_VIEW(INVALID, "gating", b, p.rows, p.value_heads)                               \
  RATIFY_REQUIRED_ARRAY(INVALID, "gating", a_log)                                                 \
  RATIFY_REQUIRED_ARRAY(INVALID, "gating", dt_bias)                                               \
  RATIFY_REQUIRED_ARRAY(INVALID, "gating", g)                                                     \
  RATIFY_REQUIRED_ARRAY(INVALID, "gating", beta)                                                  \
  INVALID(in_place, (detail::are_apart({p.g, p.beta}, {p.a.data, p.b.data, p.a_log, p.dt_bias})), \
          "ratify::gating: g and beta must not be each other or an input")

#define RATIFY_SILU_AND_MUL_SHAPE_RULES(INVALID, UNSUPPORTED)                     \
  INVALID(rows, (p.rows >= 0), "ratify::silu_and_mul: rows must not be negative") \
  INVALID(columns, (p.columns > 0), "ratify::silu_and_mul: columns must be at least 1")

#define RATIFY_SILU_AND_MUL_TENSOR_RULES(INVALID, UNSUPPORTED)                     \
  RATIFY_REQUIRED_VIEW(INVALID, "silu_and_mul", x, p.rows, int64_t{2} * p.columns) \
  RATIFY_REQUIRED_VIEW(INVALID, "silu_and_mul", out, p.rows, p.columns)            \
  INVALID(in_place, (detail::begin_apart(p.out.data, p.x.data)), "ratify::silu_and_mul: out must not be x")

#define RATIFY_SIGMOID_GATE_SHAPE_RULES(INVALID, UNSUPPORTED)                                      \
  INVALID(rows, (p.rows >= 0), "ratify::sigmoid_gate: rows must not be negative")                  \
  INVALID(heads, (p.heads > 0), "ratify::sigmoid_gate: heads must be at least 1")                  \
  INVALID(head_dim, (p.head_dim > 0), "ratify::sigmoid_gate: head_dim must be at least 1 element") \
  UNSUPPORTED(width, (int64_t{p.heads} * p.head_dim <= 0x7fffffff),                                \
              "ratify::sigmoid_gate: heads * head_dim must be less than 2^31 elements")

#define RATIFY_SIGMOID_GATE_TENSOR_RULES(INVALID, UNSUPPORTED)                          \
  RATIFY_REQUIRED_VIEW(INVALID, "sigmoid_gate", x, p.rows, p.heads, p.head_dim)         \
  RATIFY_REQUIRED_VIEW(INVALID, "sigmoid_gate", gate, p.rows, p.heads, p.head_dim)      \
  RATIFY_REQUIRED_VIEW(INVALID, "sigmoid_gate", out, p.rows, p.heads, p.head_dim)       \
  INVALID(in_place, (detail::is_apart_or_same(p.out, p.x, p.rows, p.heads)),            \
          "ratify::sigmoid_gate: out may be x only in its format and with its strides") \
  INVALID(gate_in_place, (detail::begin_apart(p.out.data, p.gate.data)), "ratify::sigmoid_gate: out must not be gate")

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
RATIFY_HD status launch_rules(gating_params<Policy> const& p) {
  RATIFY_GATING_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_GATING_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

template <class Policy>
RATIFY_HD status launch_rules(silu_and_mul_params<Policy> const& p) {
  RATIFY_SILU_AND_MUL_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_SILU_AND_MUL_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

template <class Policy>
RATIFY_HD status launch_rules(sigmoid_gate_params<Policy> const& p) {
  RATIFY_SIGMOID_GATE_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_SIGMOID_GATE_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

}  // namespace detail
RATIFY_END_NAMESPACE
