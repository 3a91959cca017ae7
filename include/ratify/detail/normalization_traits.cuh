// SPDX-License-Identifier: Apache-2.0
/// Parameters and support rules of the normalizations.
#pragma once

#include <ratify/normalization_policy.hpp>
#include <ratify/status.hpp>
#include <ratify/views.hpp>

#define RATIFY_RMSNORM_RULES(RULE)                                                                            \
  RULE(policy, (RATIFY_STD::is_base_of_v<rmsnorm_policy, Policy>),                                            \
       "ratify::rmsnorm: the policy must derive from ratify::rmsnorm_policy")                                 \
  RULE(input_format, (detail::is_one_of_v<typename Policy::input_format, float, f16, bf16>),                  \
       "ratify::rmsnorm: input_format must be float, f16 or bf16")                                            \
  RULE(output_format, (detail::is_one_of_v<typename Policy::output_format, float, f16, bf16>),                \
       "ratify::rmsnorm: output_format must be float, f16 or bf16")                                           \
  RULE(weight_format, (detail::is_one_of_v<typename Policy::weight_format, float, f16, bf16>),                \
       "ratify::rmsnorm: weight_format must be float, f16 or bf16")                                           \
  RULE(unit_offset, (RATIFY_STD::is_same_v<RATIFY_STD::remove_const_t<decltype(Policy::unit_offset)>, bool>), \
       "ratify::rmsnorm: unit_offset must be a bool, true (1 + weight) or false (weight)")
#define RATIFY_RMSNORM_LAUNCH_RULES(RULE)                                 \
  RULE(rows, (p.rows >= 0), "ratify::rmsnorm: rows must not be negative") \
  RULE(columns, (p.columns > 0 && p.columns <= 1 << 30), "ratify::rmsnorm: columns must be 1 to 2^30")

#define RATIFY_GATED_RMSNORM_RULES(RULE)                                                       \
  RULE(policy, (RATIFY_STD::is_base_of_v<gated_rmsnorm_policy, Policy>),                       \
       "ratify::gated_rmsnorm: the policy must derive from ratify::gated_rmsnorm_policy")      \
  RULE(input_format, (detail::is_one_of_v<typename Policy::input_format, float, f16, bf16>),   \
       "ratify::gated_rmsnorm: input_format must be float, f16 or bf16")                       \
  RULE(gate_format, (detail::is_one_of_v<typename Policy::gate_format, float, f16, bf16>),     \
       "ratify::gated_rmsnorm: gate_format must be float, f16 or bf16")                        \
  RULE(output_format, (detail::is_one_of_v<typename Policy::output_format, float, f16, bf16>), \
       "ratify::gated_rmsnorm: output_format must be float, f16 or bf16")                      \
  RULE(weight_format, (detail::is_one_of_v<typename Policy::weight_format, float, f16, bf16>), \
       "ratify::gated_rmsnorm: weight_format must be float, f16 or bf16")
#define RATIFY_GATED_RMSNORM_LAUNCH_RULES(RULE)                                 \
  RULE(rows, (p.rows >= 0), "ratify::gated_rmsnorm: rows must not be negative") \
  RULE(heads, (p.heads > 0), "ratify::gated_rmsnorm: heads must be at least 1") \
  RULE(head_dim, (p.head_dim > 0 && p.head_dim <= 1 << 30),                     \
       "ratify::gated_rmsnorm: head_dim must be 1 to 2^30 elements")

#define RATIFY_QK_NORM_ROTARY_RULES(RULE)                                                                     \
  RULE(policy, (RATIFY_STD::is_base_of_v<qk_norm_rotary_policy, Policy>),                                     \
       "ratify::qk_norm_rotary: the policy must derive from ratify::qk_norm_rotary_policy")                   \
  RULE(input_format, (detail::is_one_of_v<typename Policy::input_format, float, f16, bf16>),                  \
       "ratify::qk_norm_rotary: input_format must be float, f16 or bf16")                                     \
  RULE(output_format, (detail::is_one_of_v<typename Policy::output_format, float, f16, bf16>),                \
       "ratify::qk_norm_rotary: output_format must be float, f16 or bf16")                                    \
  RULE(weight_format, (detail::is_one_of_v<typename Policy::weight_format, float, f16, bf16>),                \
       "ratify::qk_norm_rotary: weight_format must be float, f16 or bf16")                                    \
  RULE(unit_offset, (RATIFY_STD::is_same_v<RATIFY_STD::remove_const_t<decltype(Policy::unit_offset)>, bool>), \
       "ratify::qk_norm_rotary: unit_offset must be a bool, true (1 + weight) or false (weight)")
#define RATIFY_QK_NORM_ROTARY_LAUNCH_RULES(RULE)                                               \
  RULE(rows, (p.rows >= 0), "ratify::qk_norm_rotary: rows must not be negative")               \
  RULE(heads, (p.heads > 0), "ratify::qk_norm_rotary: heads must be at least 1")               \
  RULE(head_dim, (p.head_dim > 0 && p.head_dim <= 1 << 30),                                    \
       "ratify::qk_norm_rotary: head_dim must be 1 to 2^30 elements")                          \
  RULE(rotary_dim, (p.rotary_dim >= 0 && p.rotary_dim % 2 == 0 && p.rotary_dim <= p.head_dim), \
       "ratify::qk_norm_rotary: rotary_dim must be even and 0 to head_dim")                    \
  RULE(max_position, (p.max_position >= 0), "ratify::qk_norm_rotary: max_position must not be negative")

RATIFY_BEGIN_NAMESPACE

/// One launch of `rmsnorm`. Every pointer is the caller's.
template <class Policy>
struct rmsnorm_params {
  rows_view<typename Policy::input_format const> x;  ///< [rows, columns]
  rows_view<float const> residual;                   ///< [rows, columns], added to x first; data null: none
  rows_view<float> residual_out;  ///< [rows, columns], the sum (x without a residual); may be residual; data null: none
  typename Policy::weight_format const* weight = nullptr;  ///< [columns]
  rows_view<typename Policy::output_format> out;           ///< [rows, columns]; may be x where the formats are equal
  int rows = 0;
  int columns = 0;
  float eps = 1e-6f;
};

/// One launch of `gated_rmsnorm`.
template <class Policy>
struct gated_rmsnorm_params {
  heads_view<typename Policy::input_format const> x;       ///< [rows, heads, head_dim]
  heads_view<typename Policy::gate_format const> z;        ///< [rows, heads, head_dim]
  typename Policy::weight_format const* weight = nullptr;  ///< [head_dim]
  heads_view<typename Policy::output_format> out;          ///< [rows, heads, head_dim]; may be x or z
  int rows = 0;
  int heads = 0;
  int head_dim = 0;
  float eps = 1e-6f;
};

/// One launch of `qk_norm_rotary`.
template <class Policy>
struct qk_norm_rotary_params {
  heads_view<typename Policy::input_format const> x;       ///< [rows, heads, head_dim]
  typename Policy::weight_format const* weight = nullptr;  ///< [head_dim]
  float const* cos = nullptr;                              ///< [max_position, rotary_dim / 2]
  float const* sin = nullptr;                              ///< [max_position, rotary_dim / 2]
  int32_t const* positions = nullptr;  ///< [rows], rows of the tables; read on the device, others give zeros
  heads_view<typename Policy::output_format> out;  ///< [rows, heads, head_dim]; may be x
  int rows = 0;
  int heads = 0;
  int head_dim = 0;
  int rotary_dim = 0;    ///< leading dims that turn; 0 is none
  int max_position = 0;  ///< rows of the tables
  float eps = 1e-6f;
};

namespace detail {

template <class Policy>
struct rmsnorm_support {
  static constexpr bool value = true RATIFY_RMSNORM_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static constexpr char const* reason(rmsnorm_params<Policy> const& p) {
    RATIFY_RMSNORM_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

template <class Policy>
struct gated_rmsnorm_support {
  static constexpr bool value = true RATIFY_GATED_RMSNORM_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static constexpr char const* reason(gated_rmsnorm_params<Policy> const& p) {
    RATIFY_GATED_RMSNORM_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

template <class Policy>
struct qk_norm_rotary_support {
  static constexpr bool value = true RATIFY_QK_NORM_ROTARY_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static constexpr char const* reason(qk_norm_rotary_params<Policy> const& p) {
    RATIFY_QK_NORM_ROTARY_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
