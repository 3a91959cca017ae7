// SPDX-License-Identifier: Apache-2.0
/// Small compile-time helpers.
#pragma once

#include <ratify/config.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Type, class... Candidates>
inline constexpr bool is_one_of_v = (RATIFY_STD::is_same_v<Type, Candidates> || ...);

template <class Number>
RATIFY_HD constexpr Number ceil_div(Number a, Number b) {
  return (a + b - 1) / b;
}

template <class Number>
RATIFY_HD constexpr Number min_of(Number a, Number b) {
  return b < a ? b : a;
}

template <class Number>
RATIFY_HD constexpr Number max_of(Number a, Number b) {
  return a < b ? b : a;
}

}  // namespace detail
RATIFY_END_NAMESPACE
