// SPDX-License-Identifier: Apache-2.0
#include <ratify/detail/meta.hpp>

#include <doctest/doctest.h>

TEST_CASE("integer helpers") {
  static_assert(ratify::detail::ceil_div(0, 4) == 0 && ratify::detail::ceil_div(1, 4) == 1 &&
                ratify::detail::ceil_div(4, 4) == 1 && ratify::detail::ceil_div(5, 4) == 2);
  static_assert(ratify::detail::min_of(3, -2) == -2 && ratify::detail::max_of(3, -2) == 3);
  static_assert(ratify::detail::is_one_of_v<int, float, int> && !ratify::detail::is_one_of_v<int, float, unsigned>);
}
