// SPDX-License-Identifier: Apache-2.0
/// Launches that are refused, by their status code and text.
#pragma once

#include "executors.hpp"

#include <doctest/doctest.h>

#include <string>

namespace ratify_test {

/// `can_launch` and `launch` refuse the parameters after `change`, with this code and text, on the host executor.
template <class Operation, class Change>
void refuses(typename Operation::params p, ratify::status_code code, std::string const& text, Change&& change) {
  change(p);
  ratify::status const asked = Operation::can_launch(p, host());
  CHECK(asked.code() == code);
  CHECK(std::string(asked.reason()) == text);
  ratify::status const launched = Operation::launch(p, {}, host());
  CHECK(launched.code() == code);
  CHECK(std::string(launched.reason()) == text);
}

/// A contradiction in the caller's parameters.
template <class Operation, class Change>
void invalid(typename Operation::params const& p, std::string const& text, Change&& change) {
  refuses<Operation>(p, ratify::status_code::invalid_argument, text, change);
}

/// Consistent parameters that are not built.
template <class Operation, class Change>
void unsupported(typename Operation::params const& p, std::string const& text, Change&& change) {
  refuses<Operation>(p, ratify::status_code::unsupported, text, change);
}

}  // namespace ratify_test
