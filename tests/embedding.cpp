// SPDX-License-Identifier: Apache-2.0
#include <ratify/embedding.cuh>

#include "reference/embedding.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

#include <array>

namespace {

using namespace ratify_test;

struct bf16_table : ratify::embedding_policy {
  using table_format = ratify::bf16;
  using output_format = ratify::f16;
};

template <class Policy, class Executor>
auto run_embedding(Executor& on, std::vector<typename Policy::table_format> const& table,
                   std::vector<int32_t> const& tokens, int columns) {
  buffer<typename Policy::table_format, Executor> dt(on, table);
  buffer<int32_t, Executor> di(on, tokens);
  buffer<typename Policy::output_format, Executor> dout(on, tokens.size() * columns);
  typename ratify::embedding<Policy>::params p;
  p.table = dt.data();
  p.tokens = di.data();
  p.out = {dout.data(), columns};
  p.rows = static_cast<int>(tokens.size());
  p.columns = columns;
  p.vocab = static_cast<int>(table.size()) / columns;
  auto const s = launch<ratify::embedding<Policy>>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  return dout.read();
}

}  // namespace

TEST_CASE_TEMPLATE("embedding equals its twin: it copies rows, a token outside the table gives zeros", Policy,
                   ratify::embedding_policy, bf16_table) {
  random_source random(40);
  std::vector<std::array<int, 2>> shapes{{264, 256}, {7, 5120}, {100, 1}, {33, 131}};
  for (int i = 0; i < scaled(6); ++i) shapes.push_back({random.integer(1, 300), random.integer(1, 700)});
  for (auto const& s : shapes) {
    auto const table = random.normals<typename Policy::table_format>(static_cast<size_t>(s[0]) * s[1]);
    std::vector<int32_t> tokens{0, s[0] - 1, s[0], -1, INT32_MAX, INT32_MIN};
    for (int i = random.integer(1, 32); i > 0; --i) tokens.push_back(random.integer(0, s[0] - 1));
    std::vector<typename Policy::output_format> expected;
    for (float const v : reference::embedding(table, tokens, s[1]))
      expected.push_back(ratify::convert<typename Policy::output_format>(v));
    on_each_executor(
        [&](auto& on) { CHECK(bit_difference(run_embedding<Policy>(on, table, tokens, s[1]), expected) == ""); });
    count_shape();
  }
}

TEST_CASE("embedding refuses what is not built, with the reason") {
  using operation = ratify::embedding<ratify::embedding_policy>;
  operation::params p;
  p.columns = 4;
  p.vocab = 2;
  CHECK(operation::launch(p, {}, host()));
  p.rows = -1;
  CHECK(std::string(operation::can_launch(p, host()).reason()) == "ratify::embedding: rows must not be negative");
  p.rows = 1;
  p.columns = 0;
  CHECK(std::string(operation::can_launch(p, host()).reason()) == "ratify::embedding: columns must be at least 1");
  p.columns = 4;
  p.vocab = 0;
  CHECK(std::string(operation::launch(p, {}, host()).reason()) == "ratify::embedding: vocab must be at least 1 token");
}
