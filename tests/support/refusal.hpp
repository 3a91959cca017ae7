// SPDX-License-Identifier: Apache-2.0
/// What `can_launch` says.
#pragma once

#include "executors.hpp"

#include <doctest/doctest.h>

#include <string>

namespace ratify_test {

/// Why the host executor is refused a launch; "" where it is not.
template <class Operation>
std::string refusal(typename Operation::params const& p) {
  auto const s = Operation::can_launch(p, host());
  CHECK((s ? ratify::status_code::ok : ratify::status_code::unsupported) == s.code());
  return s.reason();
}

/// The same of parameters changed by `change`.
template <class Operation, class Change>
std::string refusal(typename Operation::params p, Change&& change) {
  change(p);
  return refusal<Operation>(p);
}

}  // namespace ratify_test
