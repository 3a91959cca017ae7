// SPDX-License-Identifier: Apache-2.0
#include <ratify/embedding.cuh>

#include "reference/embedding.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"
#include "support/refusal.hpp"

#include <doctest/doctest.h>

#include <array>

namespace {

using namespace ratify_test;

using bf16_table = ratify::embedding<ratify::table_format<ratify::bf16>, ratify::output_format<ratify::f16>>;

template <class Operation, class Executor>
auto run_embedding(Executor& on, std::vector<typename Operation::policy::table_format> const& table,
                   std::vector<int32_t> const& tokens, int columns) {
  using policy = typename Operation::policy;
  buffer<typename policy::table_format, Executor> dt(on, table);
  buffer<int32_t, Executor> di(on, tokens);
  buffer<typename policy::output_format, Executor> dout(on, tokens.size() * columns);
  typename Operation::params p;
  p.table = dt.data();
  p.tokens = di.data();
  p.out = {dout.data(), columns};
  p.rows = static_cast<int>(tokens.size());
  p.columns = columns;
  p.vocab = static_cast<int>(table.size()) / columns;
  auto const s = launch<Operation>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  return dout.read();
}

}  // namespace

TEST_CASE_TEMPLATE("embedding equals its twin: it copies rows, a token outside the table gives zeros", Operation,
                   ratify::embedding<>, bf16_table) {
  using policy = typename Operation::policy;
  random_source random(40);
  std::vector<std::array<int, 2>> shapes{{264, 256}, {7, 5120}, {100, 1}, {33, 131}};
  for (int i = 0; i < scaled(6); ++i) shapes.push_back({random.integer(1, 300), random.integer(1, 700)});
  for (auto const& s : shapes) {
    auto const table = random.normals<typename policy::table_format>(static_cast<size_t>(s[0]) * s[1]);
    std::vector<int32_t> tokens{0, s[0] - 1, s[0], -1, INT32_MAX, INT32_MIN};
    for (int i = random.integer(1, 32); i > 0; --i) tokens.push_back(random.integer(0, s[0] - 1));
    std::vector<typename policy::output_format> expected;
    for (float const v : reference::embedding(table, tokens, s[1]))
      expected.push_back(ratify::convert<typename policy::output_format>(v));
    on_each_executor(
        [&](auto& on) { CHECK(bit_difference(run_embedding<Operation>(on, table, tokens, s[1]), expected) == ""); });
    count_shape();
  }
}

TEST_CASE("embedding refuses wrong launches, with the reason") {
  using op = ratify::embedding<>;
  alignas(4) ratify::f16 table[8] = {};
  int32_t tokens[2] = {};
  float out[8];
  op::params good;
  good.table = table;
  good.tokens = tokens;
  good.out = {out, 4};
  good.rows = good.vocab = 2;
  good.columns = 4;
  CHECK(op::can_launch(good, host()));
  invalid<op>(good, "ratify::embedding: rows must not be negative", [](auto& p) { p.rows = -1; });
  invalid<op>(good, "ratify::embedding: columns must be at least 1", [](auto& p) { p.columns = 0; });
  invalid<op>(good, "ratify::embedding: vocab must be at least 1 token", [](auto& p) { p.vocab = 0; });
  invalid<op>(good, "ratify::embedding: table must not be null", [](auto& p) { p.table = nullptr; });
  invalid<op>(good, "ratify::embedding: tokens must not be null", [](auto& p) { p.tokens = nullptr; });
  invalid<op>(good, "ratify::embedding: out must not be null", [](auto& p) { p.out.data = nullptr; });
  for (int const stride : {3, 0, -4})
    invalid<op>(good, "ratify::embedding: a stride of out is smaller than what it steps over",
                [&](auto& p) { p.out.stride = stride; });
  misaligned<op>(
      good, "ratify::embedding: table must be aligned to its elements", [](auto& q) -> auto& { return q.table; });
  misaligned<op>(
      good, "ratify::embedding: tokens must be aligned to its elements", [](auto& q) -> auto& { return q.tokens; });
  misaligned<op>(
      good, "ratify::embedding: out must be aligned to its elements", [](auto& q) -> auto& { return q.out; });
  far_away<op>(
      good, "ratify::embedding: the strides of out reach over 2^63 bytes", [](auto& q) -> auto& { return q.out; });
  invalid<op>(good, "ratify::embedding: out must not be an input",
              [&](auto& p) { p.out.data = reinterpret_cast<float*>(table); });
  invalid<op>(good, "ratify::embedding: out must not be an input",
              [&](auto& p) { p.out.data = reinterpret_cast<float*>(tokens); });
  op::params none;
  none.columns = none.vocab = 1;
  CHECK(op::launch(none, {}, host()));
}
