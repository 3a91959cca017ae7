// SPDX-License-Identifier: Apache-2.0
/// Trials P1 to P5: operands for which the result is known without a sum.
#include "support/bits.hpp"
#include "support/projection.hpp"

namespace {

using namespace ratify_test;

template <int Splits>
using split = ratify::projection<ratify::output_format<float>, ratify::split_k<Splits>>;
using scale_fp32 =
    ratify::projection<ratify::input_format<ratify::bf16>, ratify::output_format<float>, ratify::split_k<3>,
                       ratify::column_warps<2>, ratify::effective_scale<ratify::projection_scale::fp32>>;

template <class Operation>
void check_ones(int rows, int k) {
  CAPTURE(rows);
  CAPTURE(k);
  projection_operands o;
  o.rows = rows;
  o.n = 3;
  o.k = k;
  o.x.assign(static_cast<size_t>(rows) * k, 1.0f);
  o.w_packed.assign(static_cast<size_t>(o.n) * k / 2, 0x22);
  o.w_scale.assign(static_cast<size_t>(o.n) * k / 16, ratify::e4m3{0x38});
  o.w_global = {1.0f};
  std::vector<float> const expected(static_cast<size_t>(rows) * o.n, static_cast<float>(k));
  on_each_executor([&](auto& on) { CHECK(bit_difference(run_projection<Operation>(on, o), expected) == ""); });
}

}  // namespace

TEST_CASE("P1 all ones give exactly K") {
  for (int const rows : {1, 2, 8}) {
    for (int k = 16; k <= 2048; k += 16) check_ones<split<1>>(rows, k);
    for (int k = 16; k <= 2048; k += 272) check_ones<scale_fp32>(rows, k);
    for (int const k : {5120, 8704}) {
      check_ones<split<1>>(rows, k);
      check_ones<split<8>>(rows, k);
    }
  }
}

TEST_CASE("P2 rows past M are neither read nor written") {
  random_source random(18);
  for (int const rows : {1, 3, 5, 7, 8, 9}) {
    CAPTURE(rows);
    auto const o = random_projection<ratify::f16>(random, rows, 50, 144);
    auto const expected = reference::projection(o, 1, false);
    auto padded = stored<ratify::f16>(o.x);
    padded.resize(static_cast<size_t>(16) * o.k, ratify::f16{0x7fff});
    on_each_executor([&](auto& on) {
      projection_memory<split<1>, std::decay_t<decltype(on)>> memory(on, o, padded, 16);
      REQUIRE(launch<split<1>>(memory.p, on));
      CHECK(bit_difference(memory.read(), expected) == "");
      // And with nothing at all behind the last row, where a sanitizer sees any read.
      CHECK(bit_difference(run_projection<split<1>>(on, o), expected) == "");
    });
  }
}

TEST_CASE("P3 any number of columns") {
  random_source random(19);
  for (int const n : {1, 7, 129, 1001, 248321}) {
    check_projection<split<1>>(random, n > 10000 ? 2 : 8, n, 16);
    if (n < 10000) check_projection<split<9>>(random, 8, n, 16);  // more splits than blocks
  }
}

TEST_CASE("P4 a one-hot activation returns the weight itself") {
  random_source random(20);
  constexpr int n = 20, k = 176;
  auto o = random_projection<ratify::f16>(random, 8, n, k);
  for (int first = 0; first < k; first += 8) {
    std::fill(o.x.begin(), o.x.end(), 0.0f);
    std::vector<float> expected;
    for (int row = 0; row < 8; ++row) {
      o.x[static_cast<size_t>(row) * k + first + row] = 1.0f;
      for (int column = 0; column < n; ++column) {
        float const w = o.weight(column, first + row);
        expected.push_back(w == 0 ? 0.0f : w);  // a sum that starts at +0 has no -0
      }
    }
    on_each_executor([&](auto& on) { CHECK(bit_difference(run_projection<split<1>>(on, o), expected) == ""); });
  }
}

TEST_CASE("P5 a row has the bits it has alone, and depends on every weight") {
  random_source random(21);
  constexpr int n = 37, k = 208, most = 70;
  auto const all = random_projection<ratify::f16>(random, most, n, k);
  on_each_executor([&](auto& on) {
    auto const run_rows = [&](projection_operands o, int first, int rows) {
      o.x.assign(all.x.begin() + static_cast<int64_t>(first) * k,
                 all.x.begin() + static_cast<int64_t>(first + rows) * k);
      o.rows = rows;
      return run_projection<split<5>>(on, o);
    };
    std::vector<float> alone;
    for (int row = 0; row < most; ++row)
      for (float const y : run_rows(all, row, 1)) alone.push_back(y);
    for (int rows = 1; rows <= most; rows += rows < 34 ? 1 : 12) {
      CAPTURE(rows);
      CHECK(bit_difference(run_rows(all, 0, rows), {alone.begin(), alone.begin() + static_cast<int64_t>(rows) * n}) ==
            "");
    }
    for (int i = 0; i < 20; ++i) {
      auto changed = all;
      int const column = random.integer(0, n - 1), at = random.integer(0, k - 1);
      changed.w_packed[static_cast<size_t>(column) * (k / 2) + at / 2] ^= at % 2 == 0 ? 0x06 : 0x60;
      auto const got = run_rows(changed, 0, 8);
      for (int c = 0; c < n; ++c) CHECK((bits(got[c]) != bits(alone[c])) == (c == column));
    }
  });
}
