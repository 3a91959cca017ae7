// SPDX-License-Identifier: Apache-2.0
/// From run-time values to compile-time ones, over an explicit list.
#pragma once

#include <ratify/status.hpp>

#if !defined(__CUDACC_RTC__)  // of the host
RATIFY_BEGIN_NAMESPACE

/// An explicit list of compile-time values that a run-time value may take.
template <auto... Values>
struct values {};

namespace detail {

/// An integer, a bool or an enumerator as a sign and a magnitude, so that values of different types compare as the
/// numbers they are: no conversion can make -1 equal 255, or 256 equal 0.
struct signed_magnitude {
  bool negative;
  uint64_t magnitude;
};
constexpr bool operator==(signed_magnitude a, signed_magnitude b) {
  return a.negative == b.negative && a.magnitude == b.magnitude;
}
template <class Value>
constexpr signed_magnitude number_of(Value value) {
  static_assert(std::is_integral_v<Value> || std::is_enum_v<Value>,
                "ratify::dispatch: values must be integers, bools or enumerators");
  if constexpr (std::is_enum_v<Value>) {
    return number_of(static_cast<std::underlying_type_t<Value>>(value));
  } else if constexpr (std::is_signed_v<Value>) {
    auto const wide = static_cast<uint64_t>(value);
    return {value < 0, value < 0 ? uint64_t{0} - wide : wide};
  } else {
    return {false, static_cast<uint64_t>(value)};
  }
}

/// Calls `function` if `value` is the number `Candidate`; returns whether it was. A candidate that `Value` cannot hold
/// is not even instantiated.
template <auto Candidate, class Value, class Function>
bool dispatch_one(Value value, Function& function, status& result) {
  constexpr auto as_value = static_cast<Value>(Candidate);
  if constexpr (number_of(as_value) == number_of(Candidate)) {
    if (value == as_value) {
      result = function(std::integral_constant<Value, as_value>{});
      return true;
    }
  }
  return false;
}

}  // namespace detail

/// Calls `function(std::integral_constant<Value, V>)` for the first V of the list that is the same number as `value`,
/// and returns its status. Types may differ: the comparison is of numbers, whatever their width and sign.
/// `value` is an integer, a bool or an enumerator.
/// @return what `function` returns; `unsupported` with `reason` where no value of the list is equal, never the nearest
template <class Value, auto... Values, class Function>
status dispatch(Value value, values<Values...>, char const* reason, Function&& function) {
  status result{status_code::unsupported, reason};
  (void)(detail::dispatch_one<Values>(value, function, result) || ...);
  return result;
}

RATIFY_END_NAMESPACE
#endif
