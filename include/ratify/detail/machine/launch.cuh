// SPDX-License-Identifier: Apache-2.0
/// The only kernel entry of the library.
#pragma once

#include <ratify/detail/machine/block.cuh>
#include <ratify/detail/meta.hpp>
#include <ratify/executor.hpp>

#if defined(__CUDACC__)

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Blocks of a kernel that a multiprocessor must be able to hold, where the kernel says: it bounds the registers.
template <class Kernel, class = void>
inline constexpr int minimum_blocks = 1;
template <class Kernel>
inline constexpr int minimum_blocks<Kernel, RATIFY_STD::void_t<decltype(Kernel::minimum_blocks)>> =
    Kernel::minimum_blocks;

/// Waits for the launches before this one.
struct wait_for_launches {
  RATIFY_HD void operator()() const { dependency_wait(); }
};

}  // namespace detail

#if defined(__NVCC__)
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1407  // hidden is not for a kernel of a type without linkage: it is local anyway
#endif
/// Every kernel of the library, and one of your own. Hidden, so that two shared libraries in one process keep their
/// own.
template <class Kernel, class Architectures = detail::compiled_architectures>
__global__ void RATIFY_HIDDEN __launch_bounds__(Kernel::block_threads, detail::minimum_blocks<Kernel>)
    entry(RATIFY_GRID_CONSTANT typename Kernel::params const p) {
  using block_type = detail::cuda_block<Kernel::block_threads>;
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  using storage_type = typename Kernel::template shared_storage<block_type>;
  static_assert(sizeof(storage_type) == stage<Kernel>::shared_bytes,
                "ratify: shared storage depends on the thread count alone");
  if constexpr (detail::compiled_architecture > 0 &&
                detail::compiled_architecture < detail::needs_of<Kernel>.architecture) {
    detail::no_such_instruction();  // a launch is refused before it comes to this
  } else {
    block_type block;
    // Every block waits before it reads what a launch before this one may have written, and before it writes anything.
    detail::run_kernel<Kernel>(block, p, *reinterpret_cast<storage_type*>(shared_bytes), detail::wait_for_launches{});
  }
}

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif

RATIFY_END_NAMESPACE
#endif
