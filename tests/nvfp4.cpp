// SPDX-License-Identifier: Apache-2.0
/// The NVFP4 layout: codes, scales, packing and what packing reports, and the inspection of packed tensors.
#include <ratify/nvfp4.hpp>

#include "support/bits.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace {

using namespace ratify_test;
constexpr double magnitudes[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

double value(uint32_t code) { return code < 8 ? magnitudes[code] : -magnitudes[code - 8]; }

/// One group of 16 values, packed, and what packing and inspection said of it.
struct packed_group {
  uint8_t codes[8];
  ratify::e4m3 scale;
  ratify::nvfp4_loss loss;
  ratify::nvfp4_report report;
  float value_of(int i) const {
    return ratify::e2m1_to_float(ratify::nvfp4_code(codes, i)) * ratify::nvfp4_scale_fp32(scale, global);
  }
  float global;
};
packed_group pack(std::vector<float> values, float global) {
  values.resize(16, values.back());
  packed_group g{};
  g.global = global;
  g.loss = ratify::nvfp4_pack_row(values.data(), 16, global, g.codes, &g.scale);
  g.report = ratify::nvfp4_inspect(g.codes, &g.scale, global, 1, 16);
  return g;
}

}  // namespace

TEST_CASE("nvfp4: an E2M1 code is the nearest, ties to even") {
  for (uint32_t code = 0; code < 16; ++code) CHECK(ratify::e2m1_from_float(static_cast<float>(value(code))) == code);
  for (float x = -8.0f; x <= 8.0f; x += 0x1p-6f) {
    uint32_t const got = ratify::e2m1_from_float(x);
    for (uint32_t code = 0; code < 16; ++code) {
      if ((code < 8) == std::signbit(x)) continue;
      double const here = std::fabs(value(got) - x), there = std::fabs(value(code) - x);
      CHECK(here <= there);
      if (here == there && got != code) CHECK(got % 2 == 0);
    }
  }
  for (float const halfway : {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f})
    for (float const x : {std::nextafter(halfway, 0.0f), halfway, std::nextafter(halfway, 8.0f)}) {
      double const got = value(ratify::e2m1_from_float(x));
      for (double const m : magnitudes) CHECK(std::fabs(got - x) <= std::fabs(m - x));
    }
  CHECK(ratify::e2m1_from_float(-0.0f) == 8);
  CHECK(ratify::e2m1_from_float(1e30f) == 7);
  CHECK(ratify::e2m1_from_float(-INFINITY) == 15);
  CHECK(ratify::e2m1_from_float(NAN) == 0);
}

TEST_CASE("nvfp4: a scale is the product and a global scale the quotient, correctly rounded") {
  random_source random(51);
  std::vector<float> numbers{0.0f,      -0.0f,     1.0f,    3.0f,      INFINITY, -INFINITY, NAN,        0x1p-149f,
                             0x1p-126f, -0x1p127f, 3.4e38f, 0x1p-140f, 448.0f,   0x1p120f,  0x1.8p-149f};
  for (int i = 0; i < 3000; ++i) numbers.push_back(from_bits(static_cast<uint32_t>(random.word())));
  auto const same = [](float got, float expected) {
    return std::isnan(expected) ? bits(got) == 0x7fffffffu : bits(got) == bits(expected);
  };
  for (float const x : numbers) {
    CAPTURE(x);
    CHECK(same(ratify::nvfp4_global_from_divisor(x), static_cast<float>(1.0 / static_cast<double>(x))));
    for (int code = 0; code < 256; ++code) {
      ratify::e4m3 const s{static_cast<uint8_t>(code)};
      // Exact in FP64, and rounded once.
      auto const product = static_cast<float>(static_cast<double>(ratify::to_float(s)) * static_cast<double>(x));
      CHECK(same(ratify::nvfp4_scale_fp32(s, x), product));
      CHECK(same(ratify::nvfp4_scale_fp16(s, x), ratify::to_float(ratify::convert<ratify::f16>(product))));
    }
  }
}

TEST_CASE("nvfp4: a packed row gives back what the format can hold") {
  random_source random(50);
  constexpr int k = 160;
  // Values that are codes times representable scales, each group's largest magnitude a 6.
  std::vector<float> row;
  std::vector<uint32_t> codes;
  std::vector<uint8_t> scales;
  float const global = 0.0625f;
  for (int group = 0; group < k / 16; ++group) {
    scales.push_back(static_cast<uint8_t>(random.integer(0x20, 0x70)));
    for (int i = 0; i < 16; ++i) {
      codes.push_back(i == 5 ? 15 : static_cast<uint32_t>(random.integer(0, 15)));
      row.push_back(static_cast<float>(value(codes.back())) * ratify::to_float(ratify::e4m3{scales.back()}) * global);
    }
  }
  std::vector<uint8_t> packed(k / 2);
  std::vector<ratify::e4m3> stored(k / 16);
  CHECK(ratify::nvfp4_pack_row(row.data(), k, global, packed.data(), stored.data()).is_clean());
  CHECK(ratify::nvfp4_inspect(packed.data(), stored.data(), global, 1, k).is_clean());
  for (int group = 0; group < k / 16; ++group) CHECK(stored[group].bits == scales[group]);
  for (int i = 0; i < k; ++i) {
    CHECK(ratify::nvfp4_code(packed.data(), i) == codes[i]);
    CHECK((packed[i / 2] >> (i % 2 * 4) & 15) == static_cast<int>(codes[i]));
  }
  CHECK(ratify::nvfp4_global_from_divisor(3.0f) == 1.0f / 3.0f);

  std::vector<float> const zeros(16, 0.0f);
  CHECK(ratify::nvfp4_pack_row(zeros.data(), 16, global, packed.data(), stored.data()).is_clean());
  CHECK(stored[0].bits == 0);
  for (int i = 0; i < 16; ++i) CHECK(ratify::nvfp4_code(packed.data(), i) == 0);
  CHECK(ratify::nvfp4_inspect(packed.data(), stored.data(), global, 1, 16).is_clean());
}

TEST_CASE("nvfp4: packing reports what it loses, and inspection sees it") {
  // Each loss by its name, and by no other.
  auto const counts = [](packed_group const& g) {
    auto const& l = g.loss;
    return std::vector<int64_t>{l.nan_values, l.infinite_values, l.clipped_values, l.zero_groups, l.unusable_globals};
  };
  using list = std::vector<int64_t>;
  for (float const global : {0.0f, -0.0f, INFINITY, -INFINITY, NAN})
    for (float const x : {0.0f, 1.0f}) {
      CAPTURE(global);
      auto const g = pack({x}, global);
      CHECK(counts(g) == list{0, 0, 0, 0, 1});
      CHECK(std::isnan(g.value_of(0)));
      CHECK(g.report.nan_scales == 1);
    }
  auto g = pack({NAN, 1.0f}, 1.0f);
  CHECK(counts(g) == list{1, 0, 0, 0, 0});
  CHECK(std::isnan(g.value_of(0)));
  CHECK(g.report.nan_scales == 1);
  g = pack({1.0f, -INFINITY, 2.0f}, 1.0f);
  CHECK(counts(g) == list{0, 1, 0, 0, 0});
  CHECK(std::isnan(g.value_of(1)));
  CHECK(g.report.nan_scales == 1);
  g = pack({8e4f, -8e4f, 1.0f}, 1.0f);
  CHECK(counts(g) == list{0, 0, 2, 0, 0});
  CHECK(std::isnan(g.value_of(0)));
  CHECK(g.report.nan_scales == 1);
  g = pack({8e-4f}, 1.0f);  // an eighth of the smallest scale, which holds 6 times itself
  CHECK(counts(g) == list{0, 0, 0, 1, 0});
  CHECK(g.report.zero_scales == 1);
  CHECK(g.report.stored_zero_scales == 1);
  CHECK(g.report.zero_weights == 16);
  g = pack({NAN, INFINITY, -9e4f, 1.0f}, 1.0f);
  CHECK(counts(g) == list{1, 1, 1, 0, 0});

  // The largest value that is held is rounded to 6 * 448; what rounding does to it is no clipping.
  for (float const x : {2688.0f, 2700.0f, 2784.0f}) {
    g = pack({x, -1.0f}, 1.0f);
    CHECK(counts(g) == list{0, 0, 0, 0, 0});
    CHECK(g.value_of(0) == 2688.0f);
    CHECK(g.report.is_clean());
  }
  CHECK(counts(pack({2785.0f}, 1.0f)) == list{0, 0, 16, 0, 0});
  // A negative global scale is one like another.
  g = pack({6.0f, -3.0f}, -1.0f);
  CHECK(counts(g) == list{0, 0, 0, 0, 0});
  CHECK(g.value_of(0) == 6.0f);
  CHECK(g.value_of(1) == -3.0f);
  // A sixth of the value is subnormal, its scale is not.
  g = pack({0x1p-147f}, 0x1p-149f);
  CHECK(counts(g) == list{0, 0, 0, 0, 0});
  CHECK(g.scale.bits == ratify::convert<ratify::e4m3>(4.0f / 6.0f).bits);

  // Counts of rows add up, groups of one row too.
  std::vector<float> row(48, 1.0f);
  row[3] = NAN;
  row[20] = row[40] = INFINITY;
  uint8_t codes[24];
  ratify::e4m3 scales[3];
  auto loss = ratify::nvfp4_pack_row(row.data(), 48, 1.0f, codes, scales);
  loss += loss;
  CHECK(loss.nan_values == 2);
  CHECK(loss.infinite_values == 4);
  CHECK_FALSE(loss.is_clean());
}

TEST_CASE("nvfp4: the report counts what FP16 loses") {
  // One row of one group: codes 0.5 and 6 in turn.
  std::vector<uint8_t> const packed(8, 0x71);
  auto const inspect = [&](uint8_t scale, float global) {
    ratify::e4m3 const s{scale};
    return ratify::nvfp4_inspect(packed.data(), &s, global, 1, 16);
  };
  auto r = inspect(0x38, 1.0f);  // scale 1
  CHECK(r.is_clean());
  CHECK(r.zero_scales + r.subnormal_scales + r.infinite_scales == 0);
  CHECK(r.zero_weights + r.subnormal_weights + r.infinite_weights == 0);
  r = inspect(0x38, 0x1p-14f);  // the smallest normal: halves of it are subnormal
  CHECK(r.subnormal_scales == 0);
  CHECK(r.subnormal_weights == 8);
  r = inspect(0x38, 0x1p-24f);  // the smallest subnormal: half of it is a tie, to zero
  CHECK(r.subnormal_scales == 1);
  CHECK(r.zero_weights == 8);
  CHECK(r.subnormal_weights == 8);
  r = inspect(0x38, 0x1p-26f);
  CHECK(r.zero_scales == 1);
  CHECK(r.stored_zero_scales == 0);
  CHECK(r.zero_weights == 16);
  r = inspect(0x38, 20000.0f);  // 6 times it is beyond
  CHECK(r.infinite_scales == 0);
  CHECK(r.infinite_weights == 8);
  CHECK(r.nan_weights == 0);
  r = inspect(0x38, 70000.0f);
  CHECK(r.infinite_scales == 1);
  CHECK(r.nan_scales == 0);
  CHECK(r.infinite_weights == 16);
  CHECK_FALSE(r.is_clean());
}

TEST_CASE("nvfp4: the report counts what cannot be right in a tensor") {
  // Two rows of two groups: codes 1 and 0 in turn; the last group holds zeros alone.
  std::vector<uint8_t> packed(32, 0x02);
  std::fill(packed.begin() + 24, packed.end(), uint8_t{0x80});  // -0 and 0
  auto const inspect = [&](std::vector<uint8_t> const& scales, float global) {
    std::vector<ratify::e4m3> s;
    for (uint8_t const b : scales) s.push_back({b});
    return ratify::nvfp4_inspect(packed.data(), s.data(), global, 2, 32);
  };
  CHECK(inspect({0x38, 0x38, 0x38, 0x00}, 1.0f).is_clean());  // a scale of 0 over zeros loses nothing
  auto r = inspect({0x38, 0x00, 0x80, 0x00}, 1.0f);
  CHECK(r.zero_scales == 2);
  CHECK(r.stored_zero_scales == 2);
  CHECK(r.zero_weights == 16);
  r = inspect({0x7f, 0x38, 0xff, 0x38}, 1.0f);
  CHECK(r.nan_scales == 2);
  CHECK(r.infinite_scales == 2);
  CHECK(r.nan_weights == 32);
  CHECK(r.infinite_weights == 32);
  r = inspect({0x38, 0x38, 0x38, 0x00}, NAN);
  CHECK(r.nan_globals == 1);
  CHECK(r.infinite_globals == 0);
  CHECK(r.nan_scales == 4);
  for (float const zero : {0.0f, -0.0f}) {
    r = inspect({0x38, 0x38, 0x38, 0x38}, zero);
    CHECK(r.zero_globals == 1);
    CHECK(r.zero_scales == 4);
    CHECK(r.stored_zero_scales == 4);
    CHECK(r.zero_weights == 24);
  }
  r = inspect({0x38, 0x00, 0x38, 0x38}, -INFINITY);
  CHECK(r.infinite_globals == 1);
  CHECK(r.nan_globals == 0);
  CHECK(r.infinite_scales == 4);
  CHECK(r.nan_scales == 1);  // 0 times infinity
  // Counts of tensors add up; one without weights is judged by its global scale.
  auto const none = ratify::nvfp4_inspect(nullptr, nullptr, NAN, 0, 32);
  CHECK(none.nan_globals == 1);
  r += none;
  r += r;
  CHECK(r.nan_globals == 2);
  CHECK(r.infinite_globals == 2);
  CHECK(r.infinite_scales == 8);
  CHECK_FALSE(r.is_clean());
}

// A program may call these functions anywhere, not only on an executor's threads.
TEST_CASE("nvfp4: no function depends on the caller's rounding mode or on how it treats subnormals") {
  // Quotients that lie next to halfway points: another rounding, or an operand taken for 0, is another code.
  auto const values_of = [](float global) {
    std::vector<float> v;
    for (int code = 0x10; code < 0x7e; ++code) {
      float const scale = ratify::nvfp4_scale_fp32({static_cast<uint8_t>(code)}, global);
      v.push_back(6 * scale);
      for (float const halfway : {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f})
        for (float const towards : {0.0f, INFINITY}) v.push_back(std::nextafter(halfway * scale, towards));
      v.push_back(-scale);
    }
    return v;
  };
  std::vector<float> const globals{1.2345f, 0x1.8p-130f, 1.1e35f};
  std::vector<std::vector<float>> values;
  for (float const global : globals) values.push_back(values_of(global));
  auto const everything = [&] {
    std::vector<uint32_t> all;
    for (size_t i = 0; i < globals.size(); ++i) {
      auto const k = static_cast<int64_t>(values[i].size());
      std::vector<uint8_t> packed(values[i].size() / 2);
      std::vector<ratify::e4m3> scales(values[i].size() / 16);
      auto const loss = ratify::nvfp4_pack_row(values[i].data(), k, globals[i], packed.data(), scales.data());
      all.push_back(static_cast<uint32_t>(loss.zero_groups + 100 * loss.clipped_values));
      for (uint8_t const b : packed) all.push_back(b);
      for (ratify::e4m3 const s : scales) all.push_back(s.bits);
      auto const r = ratify::nvfp4_inspect(packed.data(), scales.data(), globals[i], 1, k);
      all.push_back(static_cast<uint32_t>(r.subnormal_weights + 1000 * r.zero_weights + 100000 * r.infinite_weights));
      all.push_back(bits(ratify::nvfp4_global_from_divisor(globals[i])));
      for (int code = 0; code < 256; ++code) {
        ratify::e4m3 const s{static_cast<uint8_t>(code)};
        all.push_back(bits(ratify::nvfp4_scale_fp32(s, globals[i])));
        all.push_back(bits(ratify::nvfp4_weight(7, ratify::nvfp4_scale_fp16(s, globals[i]))));
      }
    }
    return all;
  };
  auto const expected = everything();
  for (int const mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    auto const got = everything();
    std::fesetround(FE_TONEAREST);
    CHECK(got == expected);
  }
#if defined(__SSE__)
  unsigned const before = _mm_getcsr();
  _mm_setcsr(before | 0x8040u);  // flush to zero, denormals are zero
  auto const got = everything();
  _mm_setcsr(before);
  CHECK(got == expected);
#endif
}
