// SPDX-License-Identifier: Apache-2.0
#include <ratify/attention.cuh>

#include "support/attention.hpp"
#include "support/bits.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace ratify_test;

namespace {

using ratify::kv_format;

}  // namespace

TEST_CASE("A2 rows before the first token see nothing") {
  random_source random(20);
  auto c = attention_case_with<verify_policy>(random, 2, 1, {4}, {2}, 16);
  on_each_executor([&](auto& on) {
    auto const r = run_attention<verify_policy>(on, c);
    size_t const row = 2 * 256;
    for (size_t i = 0; i < 2 * row; ++i) CHECK(bits(r.out[i]) == 0u);
    for (int i = 0; i < 4; ++i) CHECK(r.lse[i] == -INFINITY);
    for (int i = 4; i < 8; ++i) CHECK(std::isfinite(r.lse[i]));
    for (size_t i = 0; i < 256; ++i)
      CHECK(r.out[2 * row + i] == doctest::Approx(ratify::to_float(c.v[c.kv_at(0, 0, 0) + i]) * c.v_scale[0]));
  });
  for (int rows : {1, 3, 8}) {
    auto empty = attention_case_with<verify_policy>(random, 2, 1, {rows}, {0}, 16);
    on_each_executor([&](auto& on) {
      auto const r = run_attention<verify_policy>(on, empty);
      for (float x : r.out) CHECK(bits(x) == 0u);
      for (float x : r.lse) CHECK(x == -INFINITY);
    });
  }
}

TEST_CASE_TEMPLATE("A3 bytes of unused slots and unlisted pages never reach a result", Policy, verify_policy,
                   shift_policy<256, 1024, kv_format<ratify::e5m2>>, shift_policy<128, 1024, kv_format<ratify::f16>>) {
  using kv = typename Policy::kv_format;
  random_source random(21);
  constexpr int d = Policy::head_dim, page = 16, unlisted = 2;
  std::vector<int> const poisons = std::is_same_v<kv, ratify::e4m3>   ? std::vector<int>{0x7f, 0xff}
                                   : std::is_same_v<kv, ratify::e5m2> ? std::vector<int>{0x7c, 0x7e, 0xff}
                                                                      : std::vector<int>{0x7e00, 0x7c00, 0xffff};
  for (int rows : {1, 8})
    for (int context = 1; context <= 33; ++context) {
      CAPTURE(rows);
      CAPTURE(context);
      auto clean = attention_case_with<Policy>(random, 2, 1, {rows}, {context}, page);
      for (auto* const cache : {&clean.k, &clean.v}) cache->resize(cache->size() + unlisted * page * d);
      std::vector<char> used(clean.k.size(), 0);
      for (int t = 0; t < context; ++t) std::fill_n(used.begin() + static_cast<long>(clean.kv_at(0, t, 0)), d, 1);
      auto const fill = [&](auto& c, int bits) {
        for (size_t i = 0; i < used.size(); ++i)
          if (!used[i]) c.k[i].bits = c.v[i].bits = static_cast<decltype(kv::bits)>(bits);
      };
      fill(clean, 0);
      on_each_executor([&](auto& on) {
        auto const expected = run_attention<Policy>(on, clean);
        for (int const poison : poisons) {
          auto dirty = clean;
          fill(dirty, poison);
          check_equal(run_attention<Policy>(on, dirty), expected);
        }
      });
    }
}

// With q = 0 all tokens weigh the same. Column j of V is 1 at one position alone: row i holds there 1 / the number of
// tokens that it sees, or 0.
TEST_CASE_TEMPLATE("A6 every row sees the right tokens", Policy, shift_policy<64, 256, ratify::pv_unroll<4>>,
                   verify_policy) {
  constexpr int d = Policy::head_dim, page = 16, width = Policy::partition_width;
  struct shape {
    int rows, context;
  };
  for (shape const s : {shape{2, 10}, shape{8, 9}, shape{8, 8}, shape{32, 33}, shape{1, 1}, shape{4, 2}, shape{5, 1030},
                        shape{5, 262144}}) {
    if (s.context > 2000 && (d > 64 || scale() < 1.0)) continue;  // the same paths, four times the work; checkers
    CAPTURE(s.rows);
    CAPTURE(s.context);
    // The last rows' edges, then those of pages and partitions.
    std::vector<int> positions;
    auto const add = [&](int p) {
      bool const known = std::find(positions.begin(), positions.end(), p) != positions.end();
      if (p >= 0 && p < s.context && !known && positions.size() < d) positions.push_back(p);
    };
    for (int p = s.context - 1; p >= s.context - s.rows - 1; --p) add(p);
    for (int const edge : {0, page, 2 * page, width, 2 * width, s.context / 2, s.context / width * width,
                           s.context / page * page, s.context - width, s.context - page})
      for (int const by : {-1, 0, 1}) add(edge + by);
    for (int p = 0; p < s.context && positions.size() < d; ++p) add(p);
    random_source random(22);
    auto c = attention_case_with<Policy>(random, 1, 1, {s.rows}, {s.context}, page);
    std::fill(c.q.begin(), c.q.end(), ratify::f16{0});
    std::fill(c.v.begin(), c.v.end(), ratify::e4m3{0});
    for (size_t j = 0; j < positions.size(); ++j)
      c.v[c.kv_at(0, positions[j], 0) + j] = ratify::convert<ratify::e4m3>(1.0f);
    c.v_scale = {1.0f};
    std::vector<float> expected(static_cast<size_t>(s.rows) * d, 0.0f);
    for (int i = 0; i < s.rows; ++i)
      for (size_t j = 0; j < positions.size(); ++j) {
        int const seen = s.context - s.rows + i + 1;
        if (positions[j] < seen) expected[static_cast<size_t>(i) * d + j] = 1.0f / static_cast<float>(seen);
      }
    on_each_executor([&](auto& on) { CHECK(bit_difference(run_attention<Policy>(on, c).out, expected) == ""); });
  }
}

TEST_CASE("attention: a row before the first token sees what the rule says, and a window may be as large as an int") {
  random_source random(31);
  for (bool causal : {true, false})
    for (int window : {0, 2, 1 << 30, INT32_MAX - 1, INT32_MAX}) {
      auto c = attention_case_with<verify_policy>(random, 2, 1, {4, 8}, {2, 300}, 16);
      c.causal = causal;
      c.window = window;
      CAPTURE(describe(c));
      check_equal_to_twin<verify_policy>(c);
    }
}
