// SPDX-License-Identifier: Apache-2.0
/// The base of kernels that have one thread per element.
#pragma once

#include <ratify/config.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Base of a kernel that has one thread per element. `Kernel` gives
///   static int64_t count(params const&)               elements, for the launch too
///   static void element(params const&, int64_t i)     what the thread of element i does
template <class Kernel, class Params>
struct elementwise_kernel {
  using params = Params;
  static constexpr int block_threads = 128;  ///< not measured against other sizes
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    int64_t const i = int64_t{block.block_x()} * block_threads + block.thread();
    if (i < Kernel::count(p)) Kernel::element(p, i);
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
