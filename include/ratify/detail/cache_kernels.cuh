// SPDX-License-Identifier: Apache-2.0
/// The kernel of append: one thread per element of a row.
#pragma once

#include <ratify/detail/cache_tuning.hpp>
#include <ratify/device/cache.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
struct append_kernel {
  using params = append_params<Policy>;
  static constexpr char const* name = "append_kernel";
  static constexpr int block_threads = cache_tuning::append_threads;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    int const row = block.block_x(), i = block.block_y() * block_threads + block.thread();
    auto const owners = device::judge_rows(block, {p.query_start, p.requests, p.rows});
    auto const place = device::place_of_row(p, owners.owner_of(row), row);
    if (place.exists() && i < p.kv_heads * p.head_dim) device::append_element(p, row, place, i);
  }
};

}  // namespace detail

using detail::append_kernel;

RATIFY_END_NAMESPACE
