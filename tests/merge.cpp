// SPDX-License-Identifier: Apache-2.0
#include <ratify/attention.cuh>

#include "reference/merge.hpp"
#include "support/attention.hpp"
#include "support/bits.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"
#include "support/refusal.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

namespace {

using namespace ratify_test;
using operation = ratify::merge<>;
constexpr float none = -INFINITY;

/// Runs the case as `heads` heads of rows / heads rows, the parts, rows and heads apart by more than they hold.
template <class Executor>
reference::merge_result run_merge(Executor& on, reference::merge_case const& c, int heads = 1) {
  int64_t const head = c.head_dim + 3, row = heads * head + 5, part = (c.rows / heads) * row + 7;
  std::vector<float> padded(static_cast<size_t>(c.parts * part) + 1, NAN);
  for (int j = 0; j < c.parts; ++j)
    for (int r = 0; r < c.rows; ++r)
      std::copy_n(c.out.begin() + static_cast<long>(c.at(j, r) * c.head_dim), c.head_dim,
                  padded.begin() + j * part + r / heads * row + r % heads * head);
  buffer<float, Executor> parts(on, padded), part_lse(on, c.lse), lse(on, static_cast<size_t>(c.rows)),
      out(on, static_cast<size_t>(c.rows) * c.head_dim);
  operation::params p;
  p.partial_out = {parts.data(), part, row, head};
  p.partial_lse = {part_lse.data(), c.rows};
  p.out = {out.data(), int64_t{heads} * c.head_dim, c.head_dim};
  p.lse = lse.data();
  p.parts = c.parts;
  p.rows = c.rows / heads;
  p.q_heads = heads;
  p.head_dim = c.head_dim;
  auto const s = launch<operation>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  return {out.read(), lse.read()};
}

reference::merge_case random_case(random_source& random, int parts, int rows, int head_dim) {
  reference::merge_case c{parts, rows, head_dim, {}, {}};
  c.out = random.normals<float>(static_cast<size_t>(parts) * rows * head_dim);
  c.lse = random.uniforms<float>(static_cast<size_t>(parts) * rows, -60.0f, 60.0f);
  return c;
}

void check_equal(reference::merge_result const& got, reference::merge_result const& expected) {
  CHECK(bit_difference(got.out, expected.out) == "");
  CHECK(bit_difference(got.lse, expected.lse) == "");
}

/// Compares with the twin and with the truth.
void check_range(reference::merge_case const& c) {
  auto const expected = reference::merge(c);
  auto const truth = reference::truth::merge(c);
  on_each_executor([&](auto& on) {
    auto const got = run_merge(on, c, 3);
    check_equal(got, expected);
    CHECK(error_over_bound(got.out, truth.out, truth.out_bound) <= 1.0);
    CHECK(error_over_bound(got.lse, truth.lse, truth.lse_bound) <= 1.0);
  });
}

}  // namespace

TEST_CASE("merge equals its twin bit for bit over random shapes") {
  random_source random(60);
  for (int round = 0; round < scaled(60); ++round) {
    int const heads = random.one_of({1, 2, 3, 6, 12, 24});
    auto c = random_case(random, random.one_of({1, 2, 3, 5, 33, 300}), heads * random.integer(1, 4),
                         random.one_of({1, 3, 63, 64, 65, 128, 256}));
    for (float& x : c.lse)
      if (random.integer(0, 3) == 0) x = random.one_of({none, none, 1e30f, -3e38f, NAN, INFINITY, 0.0f});
    for (float& x : c.out)
      if (random.integer(0, 40) == 0) x = random.one_of({NAN, INFINITY, -INFINITY, -0.0f, 1e-40f, 3e38f, -3e38f});
    // An infinite lse makes NaN, so bits of the weights are compared there too.
    CAPTURE(c.parts);
    CAPTURE(c.rows);
    CAPTURE(c.head_dim);
    auto const expected = reference::merge(c);
    on_each_executor([&](auto& on) { check_equal(run_merge(on, c, heads), expected); });
    count_shape();
  }
}

TEST_CASE("merge stays within its error bound") {
  random_source random(61);
  for (int parts : {1, 2, 8, 40}) {
    auto const c = random_case(random, parts, 6, 128);
    auto const truth = reference::truth::merge(c);
    on_each_executor([&](auto& on) {
      auto const got = run_merge(on, c, 3);
      CHECK(error_over_bound(got.out, truth.out, truth.out_bound) <= 1.0);
      CHECK(error_over_bound(got.lse, truth.lse, truth.lse_bound) <= 1.0);
    });
  }
}

TEST_CASE("A1 empty parts change nothing, all empty is zeros and lse -inf") {
  random_source random(62);
  auto three = random_case(random, 3, 4, 64);
  auto two = three;
  for (int row = 0; row < 4; ++row) three.lse[three.at(1, row)] = none;
  for (int d = 0; d < 4 * 64; ++d) three.out[4 * 64 + static_cast<size_t>(d)] = random.one_of({0.0f, NAN, INFINITY});
  two.parts = 2;
  two.out.erase(two.out.begin() + 4 * 64, two.out.begin() + 8 * 64);
  two.lse.erase(two.lse.begin() + 4, two.lse.begin() + 8);
  reference::merge_case const empty{2, 1, 64, std::vector<float>(128, 0.0f), {none, none}};
  reference::merge_case const no_parts{0, 2, 64, {}, {}};
  on_each_executor([&](auto& on) {
    check_equal(run_merge(on, three), run_merge(on, two));
    for (auto const& c : {empty, no_parts}) {
      auto const r = run_merge(on, c);
      for (float x : r.out) CHECK(bits(x) == 0u);
      for (float x : r.lse) CHECK(x == none);
    }
  });
}

TEST_CASE("attention over two halves of a context, merged, is attention over all of it") {
  using policy = ratify::attention_policy<>;
  random_source random(63);
  // Not causal, so that both halves are seen whole; page and partition of the split, so that the partials agree.
  auto whole = attention_case_with<policy>(random, 4, 2, {3}, {512}, 64);
  whole.causal = false;
  auto first = whole, second = whole;
  first.context_len = second.context_len = {256};
  second.block_table.erase(second.block_table.begin(), second.block_table.begin() + 4);
  second.block_table.resize(static_cast<size_t>(second.max_pages), 0);
  auto const truth = reference::truth::attention(whole, policy::partition_width);
  on_each_executor([&](auto& on) {
    auto const a = run_attention<policy>(on, first), b = run_attention<policy>(on, second);
    reference::merge_case c{2, 12, policy::head_dim, a.out, a.lse};
    c.out.insert(c.out.end(), b.out.begin(), b.out.end());
    c.lse.insert(c.lse.end(), b.lse.begin(), b.lse.end());
    auto const merged = run_merge(on, c, 4);
    // The merge's own error is far below the attention's bound.
    CHECK(error_over_bound(merged.out, truth.out, truth.out_bound) <= 1.0);
    CHECK(error_over_bound(merged.lse, truth.lse, truth.lse_bound) <= 1.0);
  });
}

TEST_CASE("a merge of finite values is finite, up to the largest") {
  random_source random(64);
  float const largest = from_bits(0x7f7fffffu);
  std::function<void(reference::merge_case&)> fill;
  SUBCASE("the largest numbers") {
    fill = [&](auto& c) { std::fill(c.out.begin(), c.out.end(), largest); };
  }
  SUBCASE("the largest numbers and their negatives") {
    fill = [&](auto& c) {
      for (float& x : c.out) x = random.integer(0, 1) == 0 ? largest : -largest;
    };
  }
  SUBCASE("numbers of that size in some columns") {
    fill = [&](auto& c) {
      for (size_t i = 0; i < c.out.size(); i += 2) c.out[i] = random.uniform(-largest, largest);
    };
  }
  SUBCASE("equal weights") {
    fill = [&](auto& c) {
      std::fill(c.out.begin(), c.out.end(), -largest);
      std::fill(c.lse.begin(), c.lse.end(), 3.0f);
    };
  }
  for (int parts : {2, 3, 40, 300}) {
    CAPTURE(parts);
    auto c = random_case(random, parts, 6, 65);
    fill(c);
    check_range(c);
  }
}

TEST_CASE("a merge of values so large that subnormal weights count stays within its error bound") {
  random_source random(65);
  auto c = random_case(random, 40, 6, 65);
  for (float& x : c.out) x = random.uniform(1e38f, 3e38f);
  for (float& x : c.lse) x = random.uniform(-104.0f, -96.0f);
  std::fill_n(c.out.begin(), 6 * 65, 0.0f);
  std::fill_n(c.lse.begin(), 6, 0.0f);
  check_range(c);
}

// exp(-103.5) is 2^-149, exp(-104.5) is 0.
TEST_CASE("an infinite value counts in its element unless its weight is 0 in FP32") {
  for (bool const counts : {true, false}) {
    reference::merge_case const c{3,
                                  1,
                                  4,
                                  {INFINITY, -INFINITY, INFINITY, NAN,  //
                                   2, 2, 2, 2,                          //
                                   2, 2, -INFINITY, 2},
                                  {counts ? -103.5f : -104.5f, 0.0f, 0.0f}};
    auto const expected = reference::merge(c);
    on_each_executor([&](auto& on) {
      auto const got = run_merge(on, c);
      check_equal(got, expected);
      CHECK(got.out[0] == (counts ? INFINITY : 2.0f));
      CHECK(got.out[1] == (counts ? -INFINITY : 2.0f));
      CHECK(bits(got.out[2]) == (counts ? 0x7fffffffu : bits(-INFINITY)));
      CHECK(bits(got.out[3]) == 0x7fffffffu);
    });
  }
}

namespace {

/// A launch that nothing refuses: every tensor has room for 2 of each extent, 64 elements a head.
operation::params good_params() {
  static float out[2 * 2 * 2 * 64], lse[2 * 2 * 2], merged[2 * 2 * 64];
  operation::params p;
  p.partial_out = {out, 2 * 2 * 64, 2 * 64, 64};
  p.partial_lse = {lse, 2 * 2};
  p.out = {merged, 2 * 64, 64};
  p.parts = p.rows = p.q_heads = 2;
  p.head_dim = 64;
  return p;
}

}  // namespace

TEST_CASE("merge refuses contradicting parameters and shapes that are not built by name") {
  auto const p = good_params();
  CHECK(operation::can_launch(p, host()));
  invalid<operation>(p, "ratify::merge: parts and rows must not be negative", [](auto& p) { p.parts = -1; });
  invalid<operation>(p, "ratify::merge: parts and rows must not be negative", [](auto& p) { p.rows = -1; });
  invalid<operation>(p, "ratify::merge: q_heads must be at least 1", [](auto& p) { p.q_heads = 0; });
  invalid<operation>(p, "ratify::merge: head_dim must be at least 1 element", [](auto& p) { p.head_dim = 0; });
  unsupported<operation>(p, "ratify::merge: q_heads must be at most 65535", [](auto& p) { p.q_heads = 65536; });
  unsupported<operation>(p, "ratify::merge: head_dim must be at most 65536 elements",
                         [](auto& p) { p.head_dim = 65537; });
  invalid<operation>(p, "ratify::merge: partial_out must not be null", [](auto& p) { p.partial_out.data = nullptr; });
  invalid<operation>(p, "ratify::merge: partial_lse must not be null", [](auto& p) { p.partial_lse.data = nullptr; });
  invalid<operation>(p, "ratify::merge: out must not be null", [](auto& p) { p.out.data = nullptr; });
  invalid<operation>(p, "ratify::merge: a stride of partial_out is smaller than what it steps over",
                     [](auto& p) { p.partial_out.page_stride = 2 * 2 * 64 - 1; });
  invalid<operation>(p, "ratify::merge: a stride of partial_out is smaller than what it steps over",
                     [](auto& p) { p.partial_out.head_stride = 0; });
  invalid<operation>(p, "ratify::merge: a stride of partial_lse is smaller than what it steps over",
                     [](auto& p) { p.partial_lse.stride = 3; });
  invalid<operation>(p, "ratify::merge: a stride of out is smaller than what it steps over",
                     [](auto& p) { p.out.row_stride = 64; });
  misaligned<operation>(
      p, "ratify::merge: partial_out must be aligned to its elements", [](auto& q) -> auto& { return q.partial_out; });
  far_away<operation>(
      p, "ratify::merge: the strides of partial_out reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.partial_out; });
  misaligned<operation>(
      p, "ratify::merge: partial_lse must be aligned to its elements", [](auto& q) -> auto& { return q.partial_lse; });
  far_away<operation>(
      p, "ratify::merge: the strides of partial_lse reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.partial_lse; });
  misaligned<operation>(
      p, "ratify::merge: out must be aligned to its elements", [](auto& q) -> auto& { return q.out; });
  far_away<operation>(
      p, "ratify::merge: the strides of out reach over 2^63 bytes", [](auto& q) -> auto& { return q.out; });
  misaligned<operation>(
      p, "ratify::merge: lse must be aligned to its elements", [](auto& q) -> auto& { return q.lse; });
  char const* const alias = "ratify::merge: out and lse must not be each other or an input";
  invalid<operation>(p, alias, [](auto& p) { p.lse = reinterpret_cast<float*>(p.out.data); });
  invalid<operation>(p, alias, [](auto& p) { p.partial_lse.data = p.lse = const_cast<float*>(p.partial_lse.data); });
  invalid<operation>(p, alias, [](auto& p) { p.partial_out.data = reinterpret_cast<float*>(p.out.data); });
  CHECK(!ratify::is_supported_merge<ratify::output_format<int>>);
  // Without parts there are no partials; without rows nothing is looked at.
  auto none = p;
  none.parts = 0;
  none.partial_out = {};
  none.partial_lse = {};
  CHECK(operation::can_launch(none, host()));
  none.rows = 0;
  none.out = {};
  CHECK(operation::can_launch(none, host()));
}
