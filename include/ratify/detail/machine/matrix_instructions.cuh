// SPDX-License-Identifier: Apache-2.0
/// Matrix instructions of a warp. Without one, where the card is too old, each of these ends the kernel; a kernel that
/// uses them says in `least_architecture` from which card on it runs.
#pragma once

#include <ratify/detail/machine/matrix.hpp>
#include <ratify/detail/machine/synchronisation.cuh>
#include <ratify/numeric.hpp>

#if defined(__CUDACC__)
RATIFY_BEGIN_NAMESPACE
namespace detail {

/// An address of shared storage as instructions take it.
__device__ inline uint32_t shared_address(void const* p) {
  uint32_t r = 0;
#if defined(__CUDA_ARCH__)
  asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(r) : "l"(p));
#endif
  return r;
}

__device__ inline void no_such_instruction() {
#if defined(__CUDA_ARCH__)
  asm volatile("trap;");
#endif
}

/// c += a b, for f16 from sm_75 on and for bf16 from sm_80 on. An sm_75 multiplies by halves of k, whose fragments are
/// the words of one of 16.
template <class Format>
__device__ inline void multiply_fragments(fragment_c& c, fragment_a const& a, fragment_b const& b) {
  float(&d)[4] = c.value;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (RATIFY_STD::is_same_v<Format, f16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  if constexpr (RATIFY_STD::is_same_v<Format, f16>) {
    for (int half = 0; half < 2; ++half)
      asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                   : "r"(a.word[2 * half]), "r"(a.word[2 * half + 1]), "r"(b.word[half]));
  } else {
    no_such_instruction();
  }
#else
  (void)d;
  no_such_instruction();
#endif
}

/// Four matrices of 8 x 8 elements of 16 bits out of shared storage, of which lane l passes the address of row l % 8 of
/// matrix l / 8.
template <bool Transposed>
__device__ inline void load_matrices_from(uint32_t (&w)[4], uint32_t address) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  if constexpr (Transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(address)
                 : "memory");
#else
  w[0] = w[1] = w[2] = w[3] = address;
  no_such_instruction();
#endif
}

/// The reverse of `load_matrices_from`. Before sm_90 each lane stores its four pairs.
__device__ inline void store_matrices_to(uint32_t address, uint32_t const (&w)[4], int lane) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  (void)lane;
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(w[0]), "r"(w[1]),
               "r"(w[2]), "r"(w[3])
               : "memory");
#elif defined(__CUDA_ARCH__)
  for (int m = 0; m < 4; ++m) {
    uint32_t const row = shuffle_bits(0xffffffffu, address, 8 * m + lane / 4);
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(row + 4 * static_cast<uint32_t>(lane % 4)), "r"(w[m]) : "memory");
  }
#else
  (void)address, (void)w, (void)lane;
#endif
}

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
