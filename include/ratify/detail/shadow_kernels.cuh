// SPDX-License-Identifier: Apache-2.0
/// The kernels of the shadow's operations. Counts go to the record by integer atomics, so that the order of blocks does
/// not show.
#pragma once

#include <ratify/detail/elementwise.cuh>
#include <ratify/device/shadow.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// One thread per element.
template <class Policy>
struct shadow_copy_kernel : elementwise_kernel<shadow_copy_kernel<Policy>, shadow_copy_params<Policy>> {
  using params = shadow_copy_params<Policy>;
  static constexpr char const* name = "shadow_copy_kernel";
  RATIFY_HD static int64_t count(params const& p) { return int64_t{p.rows} * p.columns; }
  RATIFY_HD static void element(params const& p, int64_t i) {
    int64_t const row = i / p.columns, column = i % p.columns;
    p.to.row(row)[column] = p.from.row(row)[column];
  }
};

/// One block per run of elements.
template <class Policy>
struct shadow_compare_kernel {
  using params = shadow_compare_params<Policy>;
  static constexpr char const* name = "shadow_compare_kernel";
  static constexpr int block_threads = shadow_compare_threads;
  static constexpr int block_elements = block_threads * shadow_thread_elements;
  template <class Block>
  using shared_storage = device::shadow_counts;

  RATIFY_HD static int64_t count(params const& p) { return int64_t{p.rows} * p.columns; }

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int64_t const all = count(p), first = int64_t{block.block_x()} * block_elements;
    device::shadow_counts own{0, 0, 0};
    for (int j = 0; j < shadow_thread_elements; ++j) {
      int64_t const i = first + j * block_threads + block.thread();
      if (i >= all) break;
      int64_t const row = i / p.columns, column = i % p.columns;
      own.add(device::difference(p.driver.row(row)[column], p.shadow.row(row)[column]));
    }
    device::add_to_record(block, own, static_cast<uint64_t>(min_of<int64_t>(all - first, block_elements)),
                          block.block_x() == 0 ? static_cast<uint64_t>(p.calls) : 0, storage, *p.record);
  }
};

}  // namespace detail

using detail::shadow_compare_kernel;
using detail::shadow_copy_kernel;

RATIFY_END_NAMESPACE
