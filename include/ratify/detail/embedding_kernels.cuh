// SPDX-License-Identifier: Apache-2.0
/// The kernel of the embedding: one thread per element.
#pragma once

#include <ratify/detail/elementwise.cuh>
#include <ratify/detail/embedding_traits.cuh>
#include <ratify/device/embedding.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
struct embedding_kernel : elementwise_kernel<embedding_kernel<Policy>, embedding_params<Policy>> {
  using params = embedding_params<Policy>;
  static constexpr char const* name = "embedding_kernel";
  RATIFY_HD static int64_t count(params const& p) { return int64_t{p.rows} * p.columns; }
  RATIFY_HD static void element(params const& p, int64_t i) {
    int64_t const row = i / p.columns, column = i % p.columns;
    p.out.row(row)[column] =
        convert<typename Policy::output_format>(device::embedding(p.table, p.tokens[row], column, p.columns, p.vocab));
  }
};

}  // namespace detail

using detail::embedding_kernel;

RATIFY_END_NAMESPACE
