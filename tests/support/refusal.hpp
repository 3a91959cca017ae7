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

/// Moves a pointer, or that of a view, off its elements.
template <class Element>
void misalign(Element*& p) {
  p = reinterpret_cast<Element*>(reinterpret_cast<uintptr_t>(p) + 1);
}
template <class View>
void misalign(View& view) {
  misalign(view.data);
}

/// The stride of a view that steps over the most.
template <class Element>
int64_t& outer_stride(ratify::rows_view<Element>& view) {
  return view.stride;
}
template <class Element>
int64_t& outer_stride(ratify::heads_view<Element>& view) {
  return view.row_stride;
}
template <class Element>
int64_t& outer_stride(ratify::pages_view<Element>& view) {
  return view.page_stride;
}

/// A tensor that lies off its elements. `of` gives the member of the parameters.
template <class Operation, class Member>
void misaligned(typename Operation::params const& p, std::string const& text, Member&& of) {
  invalid<Operation>(p, text, [&](auto& q) { misalign(of(q)); });
}

/// A view of more bytes than addresses can tell apart.
template <class Operation, class Member>
void far_away(typename Operation::params const& p, std::string const& text, Member&& of) {
  invalid<Operation>(p, text, [&](auto& q) { outer_stride(of(q)) = INT64_MAX; });
}

}  // namespace ratify_test
