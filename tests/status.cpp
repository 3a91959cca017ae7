// SPDX-License-Identifier: Apache-2.0
/// status, and what a list of launch rules expands to.
#include <ratify/activation.cuh>
#include <ratify/status.hpp>

#include "support/executors.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

struct shape {
  int rows, columns;
};

#define RATIFY_TEST_SHAPE_RULES(INVALID, UNSUPPORTED)          \
  INVALID(rows, (p.rows > 0), "test: rows must be at least 1") \
  UNSUPPORTED(columns, (p.columns % 4 == 0), "test: columns must be a multiple of 4")

constexpr ratify::status check(shape const& p) {
  RATIFY_TEST_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

}  // namespace

TEST_CASE("a status is ok or says why not") {
  constexpr ratify::status ok;
  static_assert(ok.code() == ratify::status_code::ok);
  static_assert(static_cast<bool>(ok));
  CHECK(std::string(ok.reason()).empty());
  constexpr ratify::status bad(ratify::status_code::workspace_too_small, "too small");
  static_assert(!bad);
  CHECK(bad.code() == ratify::status_code::workspace_too_small);
  CHECK(std::string(bad.reason()) == "too small");
}

TEST_CASE("a list of launch rules becomes the status of the first one that is broken") {
  static_assert(check({1, 8}));
  CHECK(check({0, 7}).code() == ratify::status_code::invalid_argument);
  CHECK(std::string(check({0, 7}).reason()) == "test: rows must be at least 1");
  CHECK(check({3, 7}).code() == ratify::status_code::unsupported);
  CHECK(std::string(check({3, 7}).reason()) == "test: columns must be a multiple of 4");
}

TEST_CASE("a predicate judges knobs without stopping the compiler") {
  static_assert(ratify::is_supported_gating<>);
  static_assert(ratify::is_supported_gating<ratify::input_format<float>>);
  static_assert(!ratify::is_supported_gating<ratify::input_format<double>>);
  static_assert(!ratify::is_supported_gating<ratify::head_dim<64>>);
  static_assert(!ratify::is_supported_gating<int>);
}

TEST_CASE("can_launch and launch give the rule's text, and launch runs nothing") {
  using operation = ratify::gating<>;
  operation::params p;  // null pointers: a run would fault
  p.rows = 1;
  p.value_heads = 0;
  for (ratify::status const s :
       {operation::can_launch(p, ratify_test::host()), operation::launch(p, {}, ratify_test::host())}) {
    CHECK(s.code() == ratify::status_code::invalid_argument);
    CHECK(std::string(s.reason()) == "ratify::gating: value_heads must be at least 1");
  }
  p.rows = 0;
  p.value_heads = 4;
  CHECK(operation::launch(p, {}, ratify_test::host()));  // nothing to do
}
