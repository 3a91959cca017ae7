// SPDX-License-Identifier: Apache-2.0
/// One thread an element.
#pragma once

#include <ratify/device/embedding.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
struct embedding_kernel {
  using params = embedding_params<Policy>;
  static constexpr char const* name = "embedding_kernel";
  static constexpr int block_threads = 128;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    int64_t const i = int64_t{block.block_x()} * block_threads + block.thread();
    if (i >= int64_t{p.rows} * p.columns) return;
    int64_t const row = i / p.columns, column = i % p.columns;
    p.out.row(row)[column] =
        convert<typename Policy::output_format>(device::embedding(p.table, p.tokens[row], column, p.columns, p.vocab));
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
