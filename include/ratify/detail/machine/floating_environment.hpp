// SPDX-License-Identifier: Apache-2.0
/// The floating-point environment ordered results are promised in, and what the CPU has for them.
#pragma once

#include <ratify/config.hpp>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Round to nearest, subnormals kept, exceptions masked, for its lifetime on this thread. A program linked with
/// -funsafe-math-optimizations, or a caller that set its own mode, has another outside.
class ordered_environment {
 public:
  ordered_environment(ordered_environment const&) = delete;
  ordered_environment& operator=(ordered_environment const&) = delete;
#if defined(__SSE__)
  ordered_environment() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~ordered_environment() { _mm_setcsr(saved_); }
 private:
  unsigned saved_;
#else
  ordered_environment() {}
#endif
};

/// Whether the CPU has the FMA instruction.
inline bool cpu_has_fma() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

}  // namespace detail
RATIFY_END_NAMESPACE
