// SPDX-License-Identifier: Apache-2.0
/// Parameters and support rules of the embedding.
#pragma once

#include <ratify/embedding_policy.hpp>
#include <ratify/status.hpp>
#include <ratify/views.hpp>

#define RATIFY_EMBEDDING_RULES(RULE)                                                           \
  RULE(policy, (RATIFY_STD::is_base_of_v<embedding_policy, Policy>),                           \
       "ratify::embedding: the policy must derive from ratify::embedding_policy")              \
  RULE(table_format, (detail::is_one_of_v<typename Policy::table_format, float, f16, bf16>),   \
       "ratify::embedding: table_format must be float, f16 or bf16")                           \
  RULE(output_format, (detail::is_one_of_v<typename Policy::output_format, float, f16, bf16>), \
       "ratify::embedding: output_format must be float, f16 or bf16")
#define RATIFY_EMBEDDING_LAUNCH_RULES(RULE)                                       \
  RULE(rows, (p.rows >= 0), "ratify::embedding: rows must not be negative")       \
  RULE(columns, (p.columns > 0), "ratify::embedding: columns must be at least 1") \
  RULE(vocab, (p.vocab > 0), "ratify::embedding: vocab must be at least 1 token")

RATIFY_BEGIN_NAMESPACE

/// One launch of `embedding`. Every pointer is the caller's.
template <class Policy>
struct embedding_params {
  typename Policy::table_format const* table = nullptr;  ///< [vocab, columns] dense
  int32_t const* tokens = nullptr;                       ///< [rows], read on the device
  rows_view<typename Policy::output_format> out;         ///< [rows, columns]
  int rows = 0;
  int columns = 0;
  int vocab = 0;
};

namespace detail {

template <class Policy>
struct embedding_support {
  static constexpr bool value = true RATIFY_EMBEDDING_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static constexpr char const* reason(embedding_params<Policy> const& p) {
    RATIFY_EMBEDDING_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
