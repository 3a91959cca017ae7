// SPDX-License-Identifier: Apache-2.0
/// Copying one thread an element; comparing one block a run of elements, whose counts go to the record by integer
/// atomics, so that the order of blocks does not show.
#pragma once

#include <ratify/detail/elementwise.cuh>
#include <ratify/device/shadow.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

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

template <class Policy>
struct shadow_compare_kernel {
  using params = shadow_compare_params<Policy>;
  static constexpr char const* name = "shadow_compare_kernel";
  static constexpr int block_threads = 128;
  static constexpr int thread_elements = 16;
  static constexpr int block_elements = block_threads * thread_elements;
  template <class Block>
  struct shared_storage {
    uint32_t elements, bits, error;
  };

  RATIFY_HD static int64_t count(params const& p) { return int64_t{p.rows} * p.columns; }

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    if (block.thread() == 0) storage.elements = storage.bits = storage.error = 0;
    block.barrier();
    int64_t const all = count(p), first = int64_t{block.block_x()} * block_elements;
    uint32_t elements = 0, bits = 0, error = 0;
    for (int j = 0; j < thread_elements; ++j) {
      int64_t const i = first + j * block_threads + block.thread();
      if (i >= all) break;
      int64_t const row = i / p.columns, column = i % p.columns;
      device::shadow_difference const d = device::difference(p.driver.row(row)[column], p.shadow.row(row)[column]);
      elements += d.bits != 0 ? 1u : 0u;
      bits += d.bits;
      error = d.error > error ? d.error : error;
    }
    if (elements > 0) {
      block.atomic_add(&storage.elements, elements);
      block.atomic_add(&storage.bits, bits);
      block.atomic_max(&storage.error, error);
    }
    block.barrier();
    if (block.thread() != 0) return;
    if (block.block_x() == 0 && p.calls > 0) block.atomic_add(&p.record->calls, static_cast<uint64_t>(p.calls));
    block.atomic_add(&p.record->elements,
                     static_cast<uint64_t>(all - first < block_elements ? all - first : block_elements));
    if (storage.elements == 0) return;
    block.atomic_add(&p.record->differing_elements, static_cast<uint64_t>(storage.elements));
    block.atomic_add(&p.record->differing_bits, static_cast<uint64_t>(storage.bits));
    block.atomic_max(&p.record->largest_error, storage.error);
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
