// SPDX-License-Identifier: Apache-2.0
/// Launch rules of the embedding.
#pragma once

#include <ratify/detail/extents.hpp>
#include <ratify/embedding_params.hpp>
#include <ratify/status.hpp>

#define RATIFY_EMBEDDING_SHAPE_RULES(INVALID, UNSUPPORTED)                           \
  INVALID(rows, (p.rows >= 0), "ratify::embedding: rows must not be negative")       \
  INVALID(columns, (p.columns > 0), "ratify::embedding: columns must be at least 1") \
  INVALID(vocab, (p.vocab > 0), "ratify::embedding: vocab must be at least 1 token")

#define RATIFY_EMBEDDING_TENSOR_RULES(INVALID, UNSUPPORTED)                 \
  RATIFY_REQUIRED_ARRAY(INVALID, "embedding", table)                        \
  RATIFY_REQUIRED_ARRAY(INVALID, "embedding", tokens)                       \
  RATIFY_REQUIRED_VIEW(INVALID, "embedding", out, p.rows, p.columns)        \
  INVALID(in_place, (detail::are_apart({p.out.data}, {p.table, p.tokens})), \
          "ratify::embedding: out must not be an input")

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
RATIFY_HD status launch_rules(embedding_params<Policy> const& p) {
  RATIFY_EMBEDDING_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_EMBEDDING_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

}  // namespace detail
RATIFY_END_NAMESPACE
