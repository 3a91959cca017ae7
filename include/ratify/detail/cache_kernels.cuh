// SPDX-License-Identifier: Apache-2.0
/// A thread an element of a row.
#pragma once

#include <ratify/detail/cache_traits.cuh>
#include <ratify/device/cache.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
struct append_kernel {
  using params = append_params<Policy>;
  static constexpr char const* name = "append_kernel";
  static constexpr int block_threads = 128;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    int const row = block.block_x(), i = block.block_y() * block_threads + block.thread();
    auto const place = device::place_of_row(p, row);
    if (place.page >= 0 && i < p.kv_heads * p.head_dim) device::append_element(p, row, place, i);
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
