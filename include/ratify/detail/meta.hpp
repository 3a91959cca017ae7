// SPDX-License-Identifier: Apache-2.0
/// Small compile-time helpers.
#pragma once

#include <ratify/config.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class T, class... Candidates>
inline constexpr bool is_one_of_v = (RATIFY_STD::is_same_v<T, Candidates> || ...);

template <class T>
RATIFY_HD constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

template <class T>
RATIFY_HD constexpr T min_of(T a, T b) {
  return b < a ? b : a;
}

template <class T>
RATIFY_HD constexpr T max_of(T a, T b) {
  return a < b ? b : a;
}

}  // namespace detail
RATIFY_END_NAMESPACE
