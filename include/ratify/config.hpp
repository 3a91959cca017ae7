// SPDX-License-Identifier: Apache-2.0
/// What differs between compilers, in one place: standard headers, function annotations, the ABI namespace.
#pragma once

// Two features of C++17 that every compiler has a macro for. A missing file ends the compilation where #error alone
// would be followed by hundreds of lines.
#if !defined(__cpp_if_constexpr) || !defined(__cpp_inline_variables)
#error "ratify needs C++17: compile with -std=c++17 or newer"
#include <ratify_needs_cxx17>
#endif

// Flags that break a promise and can be seen: NaN and infinity are data of the contract, and the order of a sum is too.
#if defined(__FAST_MATH__)
#error "ratify: ordered results need IEEE arithmetic; compile without -ffast-math"
#elif defined(__FINITE_MATH_ONLY__)
#if __FINITE_MATH_ONLY__
#error "ratify: NaN and infinity are data here; compile without -ffinite-math-only"
#endif
#endif

#include <ratify/version.hpp>

#if defined(__CUDACC_RTC__)
// NVRTC finds no <cstdint> and no <type_traits>; the toolkit's own standard library is there.
#include <cuda/std/cstddef>
#include <cuda/std/cstdint>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
#define RATIFY_STD ::cuda::std
#define RATIFY_HD __device__
#elif defined(__CUDACC__)
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#define RATIFY_STD ::std
#define RATIFY_HD __host__ __device__
#else
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#define RATIFY_STD ::std
#define RATIFY_HD
#endif

// A loop whose trip count is known: unrolled on a card, where arrays indexed by its variable must stay in registers.
#if defined(__CUDA_ARCH__)  // the host compiler behind nvcc does not know the pragma
#define RATIFY_UNROLL _Pragma("unroll")
#define RATIFY_NO_UNROLL _Pragma("unroll 1")
#else
#define RATIFY_UNROLL
#define RATIFY_NO_UNROLL
#endif

// Stands before every function template that takes a block: nvcc would warn at each use that a __host__ __device__
// function calls a __host__ only (fibers) or __device__ only (card) member, of which one is always the case.
#if defined(__NVCC__) && !defined(__CUDACC_RTC__)
#define RATIFY_ANY_BLOCK _Pragma("nv_exec_check_disable")
#else
#define RATIFY_ANY_BLOCK
#endif

#if defined(__GNUC__)
#define RATIFY_HIDDEN __attribute__((visibility("hidden")))
#define RATIFY_NOINLINE __attribute__((noinline))
#define RATIFY_INLINE __attribute__((always_inline)) inline
#else
#define RATIFY_HIDDEN
#define RATIFY_NOINLINE
#define RATIFY_INLINE inline
#endif

// clang as CUDA compiler ignores __grid_constant__ with a warning.
#if defined(__clang__) && defined(__CUDA__)
#define RATIFY_GRID_CONSTANT
#else
#define RATIFY_GRID_CONSTANT __grid_constant__
#endif

// The ABI namespace: v0_1 of version 0.1.
#define RATIFY_JOIN_VERSION(major_version, minor_version) v##major_version##_##minor_version
#define RATIFY_ABI_OF(major_version, minor_version) RATIFY_JOIN_VERSION(major_version, minor_version)
#define RATIFY_ABI RATIFY_ABI_OF(RATIFY_VERSION_MAJOR, RATIFY_VERSION_MINOR)

// What the host compiler is told about the code in the namespace, whatever flags the consumer chose. clang: that it is
// IEEE arithmetic, which undoes -fno-signed-zeros, -freciprocal-math and the like. It does not undo all of
// -fassociative-math: under that flag, or -funsafe-math-optimizations, clang 14 still splits an FMA into two roundings
// (docs/arithmetic.md). g++ has no such pragma that leaves inlining alone. g++: no -Wsign-conversion, which it gives
// for every array whose bound is an int of a template; clang does not, and is used to find the other ones.
#if defined(__CUDACC__)
#define RATIFY_PUSH_FLAGS
#define RATIFY_POP_FLAGS
#elif defined(__clang__)
#define RATIFY_PUSH_FLAGS _Pragma("float_control(precise, on, push)")
#define RATIFY_POP_FLAGS _Pragma("float_control(pop)")
#elif defined(__GNUC__)
#define RATIFY_PUSH_FLAGS _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wsign-conversion\"")
#define RATIFY_POP_FLAGS _Pragma("GCC diagnostic pop")
#else
#define RATIFY_PUSH_FLAGS
#define RATIFY_POP_FLAGS
#endif

#define RATIFY_BEGIN_NAMESPACE \
  RATIFY_PUSH_FLAGS            \
  namespace ratify {           \
  inline namespace RATIFY_ABI {
#define RATIFY_END_NAMESPACE \
  }                          \
  }                          \
  RATIFY_POP_FLAGS

RATIFY_BEGIN_NAMESPACE

using RATIFY_STD::int32_t;
using RATIFY_STD::int64_t;
using RATIFY_STD::size_t;
using RATIFY_STD::uint16_t;
using RATIFY_STD::uint32_t;
using RATIFY_STD::uint64_t;
using RATIFY_STD::uint8_t;

namespace detail {

/// The architectures an object file was compiled for. A defaulted template parameter of every member that launches, so
/// that the linker cannot fold the launch of an sm_80 object with that of an sm_90 object.
template <int... Architectures>
struct arch_list {};
#if defined(__CUDA_ARCH_LIST__)
using compiled_architectures = arch_list<__CUDA_ARCH_LIST__>;
#else
using compiled_architectures = arch_list<>;
#endif

}  // namespace detail

RATIFY_END_NAMESPACE
