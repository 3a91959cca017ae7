// SPDX-License-Identifier: Apache-2.0
/// Parameters and support rules of the elementwise operations.
#pragma once

#include <ratify/activation_policy.hpp>
#include <ratify/status.hpp>
#include <ratify/views.hpp>

#define RATIFY_GATING_RULES(RULE)                                                            \
  RULE(policy, (RATIFY_STD::is_base_of_v<gating_policy, Policy>),                            \
       "ratify::gating: the policy must derive from ratify::gating_policy")                  \
  RULE(input_format, (detail::is_one_of_v<typename Policy::input_format, float, f16, bf16>), \
       "ratify::gating: input_format must be float, f16 or bf16")
#define RATIFY_GATING_LAUNCH_RULES(RULE)                                 \
  RULE(rows, (p.rows >= 0), "ratify::gating: rows must not be negative") \
  RULE(value_heads, (p.value_heads > 0), "ratify::gating: value_heads must be at least 1")

#define RATIFY_SILU_AND_MUL_RULES(RULE)                                                        \
  RULE(policy, (RATIFY_STD::is_base_of_v<silu_and_mul_policy, Policy>),                        \
       "ratify::silu_and_mul: the policy must derive from ratify::silu_and_mul_policy")        \
  RULE(input_format, (detail::is_one_of_v<typename Policy::input_format, float, f16, bf16>),   \
       "ratify::silu_and_mul: input_format must be float, f16 or bf16")                        \
  RULE(output_format, (detail::is_one_of_v<typename Policy::output_format, float, f16, bf16>), \
       "ratify::silu_and_mul: output_format must be float, f16 or bf16")
#define RATIFY_SILU_AND_MUL_LAUNCH_RULES(RULE)                                 \
  RULE(rows, (p.rows >= 0), "ratify::silu_and_mul: rows must not be negative") \
  RULE(columns, (p.columns > 0), "ratify::silu_and_mul: columns must be at least 1")

#define RATIFY_SIGMOID_GATE_RULES(RULE)                                                        \
  RULE(policy, (RATIFY_STD::is_base_of_v<sigmoid_gate_policy, Policy>),                        \
       "ratify::sigmoid_gate: the policy must derive from ratify::sigmoid_gate_policy")        \
  RULE(input_format, (detail::is_one_of_v<typename Policy::input_format, float, f16, bf16>),   \
       "ratify::sigmoid_gate: input_format must be float, f16 or bf16")                        \
  RULE(gate_format, (detail::is_one_of_v<typename Policy::gate_format, float, f16, bf16>),     \
       "ratify::sigmoid_gate: gate_format must be float, f16 or bf16")                         \
  RULE(output_format, (detail::is_one_of_v<typename Policy::output_format, float, f16, bf16>), \
       "ratify::sigmoid_gate: output_format must be float, f16 or bf16")
#define RATIFY_SIGMOID_GATE_LAUNCH_RULES(RULE)                                                  \
  RULE(rows, (p.rows >= 0), "ratify::sigmoid_gate: rows must not be negative")                  \
  RULE(heads, (p.heads > 0), "ratify::sigmoid_gate: heads must be at least 1")                  \
  RULE(head_dim, (p.head_dim > 0), "ratify::sigmoid_gate: head_dim must be at least 1 element") \
  RULE(width, (int64_t{p.heads} * p.head_dim <= 0x7fffffff),                                    \
       "ratify::sigmoid_gate: heads * head_dim must be less than 2^31 elements")

RATIFY_BEGIN_NAMESPACE

/// One launch of `gating`. Every pointer is the caller's.
template <class Policy>
struct gating_params {
  using input_format = typename Policy::input_format;
  rows_view<input_format const> a;  ///< [rows, value_heads]
  rows_view<input_format const> b;  ///< [rows, value_heads]
  float const* a_log = nullptr;     ///< [value_heads]
  float const* dt_bias = nullptr;   ///< [value_heads]
  float* g = nullptr;               ///< [rows, value_heads], dense
  float* beta = nullptr;            ///< [rows, value_heads], dense
  int rows = 0;
  int value_heads = 0;
};

/// One launch of `silu_and_mul`.
template <class Policy>
struct silu_and_mul_params {
  rows_view<typename Policy::input_format const> x;  ///< [rows, 2 * columns], the gate half first
  rows_view<typename Policy::output_format> out;     ///< [rows, columns]
  int rows = 0;
  int columns = 0;
};

/// One launch of `sigmoid_gate`.
template <class Policy>
struct sigmoid_gate_params {
  heads_view<typename Policy::input_format const> x;    ///< [rows, heads, head_dim]
  heads_view<typename Policy::gate_format const> gate;  ///< [rows, heads, head_dim]
  heads_view<typename Policy::output_format> out;       ///< [rows, heads, head_dim]
  int rows = 0;
  int heads = 0;
  int head_dim = 0;
};

namespace detail {

template <class Policy>
struct gating_support {
  static constexpr bool value = true RATIFY_GATING_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static constexpr char const* reason(gating_params<Policy> const& p) {
    RATIFY_GATING_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

template <class Policy>
struct silu_and_mul_support {
  static constexpr bool value = true RATIFY_SILU_AND_MUL_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static constexpr char const* reason(silu_and_mul_params<Policy> const& p) {
    RATIFY_SILU_AND_MUL_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

template <class Policy>
struct sigmoid_gate_support {
  static constexpr bool value = true RATIFY_SIGMOID_GATE_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static constexpr char const* reason(sigmoid_gate_params<Policy> const& p) {
    RATIFY_SIGMOID_GATE_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

}  // namespace detail

RATIFY_END_NAMESPACE
