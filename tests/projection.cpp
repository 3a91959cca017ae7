// SPDX-License-Identifier: Apache-2.0
#include <ratify/projection.cuh>

#include "reference/projection.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

namespace {

using namespace ratify_test;
using operands = reference::projection_operands;

struct fp32_output : ratify::projection_policy {
  using output_format = float;
};
template <int Splits>
struct split : fp32_output {
  static constexpr int split_k = Splits;
};
template <int Splits, int Warps>
struct warps : split<Splits> {
  static constexpr int column_warps = Warps;
};
struct scale_fp32 : ratify::projection_policy {
  using input_format = ratify::bf16;
  using output_format = float;
  static constexpr int split_k = 3;
  static constexpr int column_warps = 2;
  static constexpr auto effective_scale = ratify::projection_scale::fp32;
};

template <class Policy>
constexpr bool fp32_scale = Policy::effective_scale == ratify::projection_scale::fp32;

/// What one launch reads and where it writes, with guard rows and columns around y.
template <class Policy, class Executor>
struct device_operands {
  using input = typename Policy::input_format;
  using output = typename Policy::output_format;
  static constexpr int guard = 3;

  device_operands(Executor& on, operands const& o, std::vector<input> const& x, int x_rows)
      : x_(on, x),
        packed_(on, o.w_packed),
        scale_(on, o.w_scale),
        global_(on, o.w_global),
        bias_(on, o.bias),
        segment_end_(on, o.segment_end),
        y_(on, static_cast<size_t>(o.rows + guard) * (o.n + guard)),
        n_(o.n),
        rows_(o.rows) {
    p.x = {x_.data(), static_cast<int64_t>(x.size()) / x_rows};
    p.w_packed = packed_.data();
    p.w_scale = scale_.data();
    p.w_global = global_.data();
    p.segments = static_cast<int>(o.w_global.size());
    p.segment_end = o.segment_end.empty() ? nullptr : segment_end_.data();
    p.bias = o.bias.empty() ? nullptr : bias_.data();
    p.y = {y_.data(), o.n + guard};
    p.rows = o.rows;
    p.n = o.n;
    p.k = o.k;
  }

  /// y dense; everything around it must be as it was.
  std::vector<output> read() const {
    auto const all = y_.read();
    std::vector<output> y;
    bool untouched = true;
    for (size_t i = 0; i < all.size(); ++i) {
      size_t const row = i / (n_ + guard), column = i % (n_ + guard);
      if (row < static_cast<size_t>(rows_) && column < static_cast<size_t>(n_)) {
        y.push_back(all[i]);
        continue;
      }
      unsigned char bytes[sizeof(output)];
      std::memcpy(bytes, &all[i], sizeof bytes);
      untouched = untouched && std::all_of(bytes, bytes + sizeof bytes, [](unsigned char b) { return b == 0xff; });
    }
    CHECK(untouched);
    return y;
  }

  typename ratify::projection<Policy>::params p;
 private:
  buffer<input, Executor> x_;
  buffer<uint8_t, Executor> packed_;
  buffer<ratify::e4m3, Executor> scale_;
  buffer<float, Executor> global_, bias_;
  buffer<int32_t, Executor> segment_end_;
  buffer<output, Executor> y_;
  int n_, rows_;
};

template <class Format>
std::vector<Format> stored(std::vector<float> const& values) {
  std::vector<Format> v(values.size());
  std::transform(values.begin(), values.end(), v.begin(), [](float x) { return ratify::convert<Format>(x); });
  return v;
}

template <class Policy, class Executor>
std::vector<typename Policy::output_format> run(Executor& on, operands const& o) {
  device_operands<Policy, Executor> d(on, o, stored<typename Policy::input_format>(o.x), std::max(o.rows, 1));
  auto const s = launch<ratify::projection<Policy>>(d.p, on);
  REQUIRE_MESSAGE(s, s.reason());
  return d.read();
}

/// An executor that says it has so many multiprocessors, by which a launch shares columns out.
template <class Executor>
struct shared_out {
  Executor& on;
  int count;
  template <class Kernel, class Architectures>
  ratify::status can_run() const {
    return on.template can_run<Kernel, Architectures>();
  }
  template <class Kernel, class Architectures>
  ratify::status run(ratify::stage<Kernel> const& s) const {
    return on.template run<Kernel, Architectures>(s);
  }
  int multiprocessors() const { return count; }
};

/// Random operands; activations are numbers that Format holds.
template <class Format>
operands random_operands(random_source& random, int rows, int n, int k) {
  operands o;
  o.rows = rows;
  o.n = n;
  o.k = k;
  for (auto const v : random.normals<Format>(static_cast<size_t>(rows) * k)) o.x.push_back(ratify::to_float(v));
  o.w_packed.resize(static_cast<size_t>(n) * k / 2);
  for (auto& b : o.w_packed) b = static_cast<uint8_t>(random.word() >> 20);
  o.w_scale.resize(static_cast<size_t>(n) * k / 16);
  for (auto& s : o.w_scale) s.bits = static_cast<uint8_t>(random.integer(0x28, 0x60));
  o.w_global = {random.uniform(0.001f, 0.01f)};
  return o;
}

template <class Policy>
void check_shape(random_source& random, int rows, int n, int k, bool bias = false) {
  CAPTURE(rows);
  CAPTURE(n);
  CAPTURE(k);
  auto o = random_operands<typename Policy::input_format>(random, rows, n, k);
  if (bias) o.bias = random.normals<float>(n);
  auto const expected = reference::projection(o, Policy::split_k, fp32_scale<Policy>);
  auto const truth = reference::truth::projection(o, Policy::split_k, fp32_scale<Policy>);
  CHECK(error_over_bound(expected, truth.value, truth.bound) <= 1.0);
  on_each_executor([&](auto& on) {
    CHECK(bit_difference(run<Policy>(on, o), stored<typename Policy::output_format>(expected)) == "");
  });
}

}  // namespace

TEST_CASE("projection equals its twin bit for bit on the demo's shapes") {
  random_source random(10);
  int const shapes[][2] = {{772, 256}, {1280, 256}, {1536, 256}, {256, 768}, {256, 256}, {264, 256}};
  for (auto const& s : shapes)
    for (int const rows : {1, 8}) check_shape<ratify::projection_policy>(random, rows, s[0], s[1], rows == 8);
}

TEST_CASE("projection equals its twin bit for bit on slices of the TP2 shapes with their splits") {
  random_source random(11);
  check_shape<split<7>>(random, 8, 34, 5120);
  check_shape<split<8>>(random, 8, 40, 8704);
  check_shape<split<9>>(random, 8, 33, 5120);
  check_shape<split<9>>(random, 3, 31, 3072);
  check_shape<split<5>>(random, 8, 32, 5120);
  check_shape<split<5>>(random, 20, 36, 1024 + 48);
}

TEST_CASE("projection equals its twin bit for bit on odd shapes") {
  random_source random(12);
  for (int round = 0; round < scaled(25); ++round) {
    int const rows = random.one_of({1, 8, random.integer(1, 40), random.integer(1, 40)});
    // Odd columns of scales, and the K of every TP: hidden, MLP down, outputs.
    int const k =
        random.one_of({16 * random.integer(1, 30), 16 * random.integer(1, 30), 16 * random.integer(1, 330), 5120,
                       random.one_of({17408, 8704, 4352, 2176}), random.one_of({6144, 3072, 1536, 768})});
    int const n = std::min(random.integer(1, 150), std::max(1, 400000 / (rows * k)));
    bool const bias = random.integer(0, 1) != 0;
    check_shape<ratify::projection_policy>(random, rows, n, k, bias);
    check_shape<split<5>>(random, rows, n, k, !bias);
    check_shape<scale_fp32>(random, rows, n, k, bias);
    switch (random.integer(0, 2)) {
      case 0:
        check_shape<split<7>>(random, rows, n, k, bias);
        break;
      case 1:
        check_shape<split<8>>(random, rows, n, k, bias);
        break;
      default:
        check_shape<split<9>>(random, rows, n, k, bias);
    }
    for (int i = 0; i < 4; ++i) count_shape();
  }
}

TEST_CASE_TEMPLATE("projection: bits do not hang on how many multiprocessors share the columns", Policy, split<1>,
                   split<7>, split<11>) {
  random_source random(22);
  auto const o = random_operands<ratify::f16>(random, 5, 300, 704);
  auto const expected = reference::projection(o, Policy::split_k, false);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    for (int const count : {0, 1, 3, 7, 10, 80, 132, 300}) {
      CAPTURE(count);
      device_operands<Policy, executor> d(on, o, stored<ratify::f16>(o.x), o.rows);
      shared_out<executor> const others{on, count};
      REQUIRE(ratify::projection<Policy>::launch(d.p, {}, others));
      CHECK(bit_difference(d.read(), expected) == "");
    }
  });
}

TEST_CASE_TEMPLATE("projection equals its twin bit for bit with any number of warps", Policy, warps<1, 8>, warps<2, 7>,
                   warps<3, 3>, warps<6, 5>, warps<32, 1>) {
  random_source random(23);
  for (int const rows : {2, 17})
    for (int const k : {64, 784, 2752}) check_shape<Policy>(random, rows, random.integer(1, 90), k);
}

TEST_CASE_TEMPLATE("projection: activations of any alignment", Policy, split<5>, scale_fp32) {
  using input = typename Policy::input_format;
  random_source random(17);
  auto const o = random_operands<input>(random, 11, 70, 1040);
  auto const expected = stored<float>(reference::projection(o, Policy::split_k, fp32_scale<Policy>));
  auto const x = stored<input>(o.x);
  for (int const gap : {1, 4, 8}) {
    std::vector<input> spread(static_cast<size_t>(o.rows) * (o.k + gap), ratify::convert<input>(NAN));
    for (int r = 0; r < o.rows; ++r) std::copy_n(x.begin() + r * o.k, o.k, spread.begin() + r * (o.k + gap));
    on_each_executor([&](auto& on) {
      device_operands<Policy, std::decay_t<decltype(on)>> d(on, o, spread, o.rows);
      auto const s = launch<ratify::projection<Policy>>(d.p, on);
      REQUIRE_MESSAGE(s, s.reason());
      CHECK(bit_difference(d.read(), expected) == "");
    });
  }
}

TEST_CASE("projection: the error bound finds one wrong rounding") {
  random_source random(13);
  auto const o = random_operands<ratify::f16>(random, 1, 64, 512);
  auto const truth = reference::truth::projection(o, 1, false);
  auto const other = reference::projection(o, 1, true);  // unrounded scales are another sum
  CHECK(error_over_bound(other, truth.value, truth.bound) > 1.0);
}

TEST_CASE("projection: scales and weights at the edges of FP16") {
  random_source random(14);
  auto o = random_operands<ratify::f16>(random, 8, 256, 64);
  for (size_t i = 0; i < o.w_scale.size(); ++i) o.w_scale[i].bits = static_cast<uint8_t>(i);  // every code, NaN too
  for (float const global : {1.0f, -1.0f, 0x1p-16f, 0x1.8p-18f, 0x1p-24f, 200.0f, 1e5f, 0.0f}) {
    CAPTURE(global);
    o.w_global = {global};
    auto const fp16 = reference::projection(o, 1, false);
    auto bf16_input = o;
    for (auto& x : bf16_input.x) x = ratify::to_float(ratify::convert<ratify::bf16>(x));
    auto const fp32 = reference::projection(bf16_input, 3, true);
    on_each_executor([&](auto& on) {
      CHECK(bit_difference(run<fp32_output>(on, o), fp16) == "");
      CHECK(bit_difference(run<scale_fp32>(on, bf16_input), fp32) == "");
    });
  }
}

TEST_CASE("projection: each segment of columns has its own global scale") {
  random_source random(15);
  auto o = random_operands<ratify::f16>(random, 4, 100, 96);
  o.w_global = {0.5f, 7.0f, 0.001f, 2.0f};
  o.segment_end = {1, 33, 33, 100};  // the third is empty
  auto const expected = reference::projection(o, 1, false);
  on_each_executor([&](auto& on) { CHECK(bit_difference(run<fp32_output>(on, o), expected) == ""); });
  // Ends that do not reach n leave columns without a scale: zeros, and no read past the list.
  o.segment_end = {1, 33, 33, 90};
  on_each_executor([&](auto& on) {
    auto const got = run<fp32_output>(on, o);
    for (int row = 0; row < 4; ++row)
      for (int n = 0; n < 100; ++n) {
        size_t const i = static_cast<size_t>(row) * 100 + n;
        CHECK(ratify::detail::bits(got[i]) == (n < 90 ? ratify::detail::bits(expected[i]) : 0u));
      }
  });
}

TEST_CASE("projection: non-finite activations make their own row NaN or infinite, no other") {
  random_source random(16);
  auto o = random_operands<ratify::f16>(random, 8, 40, 64);
  auto const clean = reference::projection(o, 1, false);
  o.x[2 * 64 + 5] = INFINITY;
  o.x[5 * 64 + 7] = NAN;
  auto const expected = reference::projection(o, 1, false);
  on_each_executor([&](auto& on) {
    auto const got = run<fp32_output>(on, o);
    CHECK(bit_difference(got, expected) == "");
    for (size_t i = 0; i < got.size(); ++i)
      if (i / 40 != 2 && i / 40 != 5) CHECK(ratify::detail::bits(got[i]) == ratify::detail::bits(clean[i]));
  });
}

TEST_CASE("projection: weights on 8 bytes give the bits of weights on 16") {
  random_source random(17);
  auto o = random_operands<ratify::f16>(random, 8, 70, 160);
  auto const expected = reference::projection(o, 1, false);
  std::vector<uint8_t> shifted(8 + static_cast<size_t>(o.n) * o.k / 2);
  for (size_t i = 8; i < shifted.size(); ++i) shifted[i] = o.w_packed[i - 8];
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    device_operands<fp32_output, executor> d(on, o, stored<ratify::f16>(o.x), o.rows);
    buffer<uint8_t, executor> packed(on, shifted);
    d.p.w_packed = packed.data() + 8;
    REQUIRE(launch<ratify::projection<fp32_output>>(d.p, on));
    CHECK(bit_difference(d.read(), expected) == "");
  });
}

TEST_CASE("projection refuses what is not built, with the reason") {
  using operation = ratify::projection<ratify::projection_policy>;
  alignas(16) uint8_t weights[32] = {};
  operation::params good;
  good.w_packed = weights;
  good.rows = 1;
  good.n = 1;
  good.k = 16;
  auto const reason = [&](auto change) {
    auto p = good;
    change(p);
    auto const s = operation::can_launch(p, host());
    CHECK(s.code() == ratify::status_code::unsupported);
    CHECK(operation::launch(p, {}, host()).code() == ratify::status_code::unsupported);
    return std::string(s.reason());
  };
  CHECK(operation::can_launch(good, host()));
  CHECK(reason([](auto& p) { p.rows = -1; }) == "ratify::projection: rows must not be negative");
  CHECK(reason([](auto& p) { p.n = 0; }) == "ratify::projection: n must be at least 1 column");
  for (int const k : {0, 8, 24, -16})
    CHECK(reason([=](auto& p) { p.k = k; }) ==
          "ratify::projection: k must be a positive multiple of 16, the columns of one scale; pad with zero weights");
  CHECK(reason([](auto& p) { p.n = (1 << 30) + 1; }) == "ratify::projection: n and k must be at most 2^30");
  CHECK(reason([](auto& p) { p.k = (1 << 30) + 16; }) == "ratify::projection: n and k must be at most 2^30");
  CHECK(reason([](auto& p) { p.segments = 0; }) == "ratify::projection: segments must be at least 1");
  CHECK(reason([](auto& p) { p.segments = 2; }) ==
        "ratify::projection: segment_end must point to the last column + 1 of each segment when segments is over 1");
  CHECK(reason([](auto& p) { p.w_packed += 4; }) == "ratify::projection: w_packed must be aligned to 8 bytes");
  auto none = good;
  none.rows = 0;
  CHECK(operation::launch(none, {}, host()));
}

TEST_CASE("P1 all ones give exactly K") {
  auto const check = [](int rows, int k, auto policy) {
    using tested = decltype(policy);
    CAPTURE(rows);
    CAPTURE(k);
    operands o;
    o.rows = rows;
    o.n = 3;
    o.k = k;
    o.x.assign(static_cast<size_t>(rows) * k, 1.0f);
    o.w_packed.assign(static_cast<size_t>(o.n) * k / 2, 0x22);
    o.w_scale.assign(static_cast<size_t>(o.n) * k / 16, ratify::e4m3{0x38});
    o.w_global = {1.0f};
    std::vector<float> const expected(static_cast<size_t>(rows) * o.n, static_cast<float>(k));
    on_each_executor([&](auto& on) { CHECK(bit_difference(run<tested>(on, o), expected) == ""); });
  };
  for (int const rows : {1, 2, 8}) {
    for (int k = 16; k <= 2048; k += 16) check(rows, k, fp32_output{});
    for (int k = 16; k <= 2048; k += 272) check(rows, k, scale_fp32{});
    for (int const k : {5120, 8704}) {
      check(rows, k, fp32_output{});
      check(rows, k, split<8>{});
    }
  }
}

TEST_CASE("P2 rows past M are neither read nor written") {
  random_source random(18);
  for (int const rows : {1, 3, 5, 7, 8, 9}) {
    CAPTURE(rows);
    auto const o = random_operands<ratify::f16>(random, rows, 50, 144);
    auto const expected = reference::projection(o, 1, false);
    auto padded = stored<ratify::f16>(o.x);
    padded.resize(static_cast<size_t>(16) * o.k, ratify::f16{0x7fff});
    on_each_executor([&](auto& on) {
      device_operands<fp32_output, std::decay_t<decltype(on)>> d(on, o, padded, 16);
      REQUIRE(launch<ratify::projection<fp32_output>>(d.p, on));
      CHECK(bit_difference(d.read(), expected) == "");
      // And with nothing at all behind the last row, where a sanitizer sees any read.
      CHECK(bit_difference(run<fp32_output>(on, o), expected) == "");
    });
  }
}

TEST_CASE("P3 any number of columns") {
  random_source random(19);
  for (int const n : {1, 7, 129, 1001, 248321}) {
    check_shape<fp32_output>(random, n > 10000 ? 2 : 8, n, 16);
    if (n < 10000) check_shape<split<9>>(random, 8, n, 16);  // more splits than blocks
  }
}

TEST_CASE("P4 a one-hot activation returns the weight itself") {
  random_source random(20);
  constexpr int n = 20, k = 176;
  auto o = random_operands<ratify::f16>(random, 8, n, k);
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
    on_each_executor([&](auto& on) { CHECK(bit_difference(run<fp32_output>(on, o), expected) == ""); });
  }
}

TEST_CASE("P5 a row has the bits it has alone, and hangs on every weight") {
  random_source random(21);
  constexpr int n = 37, k = 208, most = 70;
  auto const all = random_operands<ratify::f16>(random, most, n, k);
  on_each_executor([&](auto& on) {
    auto const run_rows = [&](operands o, int first, int rows) {
      o.x.assign(all.x.begin() + static_cast<int64_t>(first) * k,
                 all.x.begin() + static_cast<int64_t>(first + rows) * k);
      o.rows = rows;
      return run<split<5>>(on, o);
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
      for (int c = 0; c < n; ++c)
        CHECK((ratify::detail::bits(got[c]) != ratify::detail::bits(alone[c])) == (c == column));
    }
  });
}
