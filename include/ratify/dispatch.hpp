// SPDX-License-Identifier: Apache-2.0
/// From run-time values to compile-time ones, over an explicit list.
#pragma once

#include <ratify/status.hpp>

#if !defined(__CUDACC_RTC__)  // of the host
RATIFY_BEGIN_NAMESPACE

/// An explicit list of compile-time values that a run-time value may take.
template <auto... Values>
struct values {};

/// Calls `f(std::integral_constant<T, V>)` for the V of the list that equals `value` and returns its status. No match
/// is `unsupported` with `reason`, never the nearest.
template <class T, auto... Values, class F>
status dispatch(T value, values<Values...>, char const* reason, F&& f) {
  status result{status_code::unsupported, reason};
  (void)((value == static_cast<T>(Values)
              ? (result = f(RATIFY_STD::integral_constant<T, static_cast<T>(Values)>{}), true)
              : false) ||
         ...);
  return result;
}

RATIFY_END_NAMESPACE
#endif
