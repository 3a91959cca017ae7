// SPDX-License-Identifier: Apache-2.0
/// The enumerators of an enumeration that is a knob's argument, as data.
#pragma once

#include <ratify/config.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// One enumerator of a knob's enumeration: as a text such as ratify-run's `--policy` spells it, and as C++ does.
struct choice {
  char const* key;
  char const* source;
};
/// Specialised beside each enumeration that is a knob's argument: `values`, a `choice` for 0, 1, ... in turn.
template <class Enumeration>
struct choices;
template <class Enumeration>
RATIFY_HD constexpr bool is_choice(Enumeration value) {
  constexpr int count = static_cast<int>(sizeof(choices<Enumeration>::values) / sizeof(choice));
  return static_cast<int>(value) >= 0 && static_cast<int>(value) < count;
}

}  // namespace detail
RATIFY_END_NAMESPACE
