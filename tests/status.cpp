// SPDX-License-Identifier: Apache-2.0
/// status, and what a rule list expands to.
#include <ratify/activation.cuh>
#include <ratify/status.hpp>

#include "support/executors.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

struct shape {
  int rows, columns;
};

#define RATIFY_TEST_RULES(RULE)                             \
  RULE(rows, (p.rows > 0), "test: rows must be at least 1") \
  RULE(columns, (p.columns % 4 == 0), "test: columns must be a multiple of 4")

constexpr bool supported(shape const& p) { return true RATIFY_TEST_RULES(RATIFY_RULE_TEST); }
constexpr char const* reason(shape const& p) {
  RATIFY_TEST_RULES(RATIFY_RULE_REASON)
  return nullptr;
}

struct bad_policy : ratify::gating_policy {
  using input_format = double;
};
struct stranger {
  using input_format = float;
};

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

TEST_CASE("a rule list is a predicate and the reason of the first rule that fails") {
  static_assert(supported({1, 8}) && !supported({0, 8}) && !supported({1, 7}));
  CHECK(reason({1, 8}) == nullptr);
  CHECK(std::string(reason({0, 7})) == "test: rows must be at least 1");
  CHECK(std::string(reason({3, 7})) == "test: columns must be a multiple of 4");
}

TEST_CASE("a predicate judges policies without stopping the compiler") {
  static_assert(ratify::is_supported_gating<ratify::gating_policy>);
  static_assert(!ratify::is_supported_gating<bad_policy>);
  static_assert(!ratify::is_supported_gating<stranger>);
}

TEST_CASE("can_launch and launch give the rule's text, and launch runs nothing") {
  using operation = ratify::gating<ratify::gating_policy>;
  operation::params p;  // null pointers: a run would fault
  p.rows = 1;
  p.value_heads = 0;
  for (ratify::status const s :
       {operation::can_launch(p, ratify_test::host()), operation::launch(p, {}, ratify_test::host())}) {
    CHECK(s.code() == ratify::status_code::unsupported);
    CHECK(std::string(s.reason()) == "ratify::gating: value_heads must be at least 1");
  }
  p.rows = 0;
  p.value_heads = 4;
  CHECK(operation::launch(p, {}, ratify_test::host()));  // nothing to do
}
