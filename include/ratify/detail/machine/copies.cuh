// SPDX-License-Identifier: Apache-2.0
/// Asynchronous copies from global memory to shared storage, on a card. Before sm_80 they are made at once.
#pragma once

#include <ratify/detail/machine/matrix_instructions.cuh>

#if defined(__CUDACC__)
RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Copies 4, 8 or 16 bytes; if not `present` it writes zeros and reads nothing.
template <int Bytes>
__device__ inline void copy_to_shared(void* shared, void const* global, bool present) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  int const read = present ? Bytes : 0;
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(read)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(shared)), "l"(global), "n"(Bytes),
                 "r"(read)
                 : "memory");
#else
  auto* const to = static_cast<uint32_t*>(shared);
  for (int i = 0; i < Bytes / 4; ++i) to[i] = present ? static_cast<uint32_t const*>(global)[i] : 0u;
#endif
}

__device__ inline void commit_copy_group() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits for the calling thread's groups of copies except the newest `Pending` ones.
template <int Pending>
__device__ inline void wait_copy_groups() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
