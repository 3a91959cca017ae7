// SPDX-License-Identifier: Apache-2.0
/// One block a row.
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
    device::append_row(block, p, block.block_x(), device::place_of_row(p, block.block_x()));
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
