// SPDX-License-Identifier: Apache-2.0
#include <ratify/nvfp4.hpp>

#include "support/random.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace {

using namespace ratify_test;
constexpr double magnitudes[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

double value(uint32_t code) { return code < 8 ? magnitudes[code] : -magnitudes[code - 8]; }

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
  CHECK(ratify::e2m1_from_float(-0.0f) == 8);
  CHECK(ratify::e2m1_from_float(1e30f) == 7);
  CHECK(ratify::e2m1_from_float(-INFINITY) == 15);
  CHECK(ratify::e2m1_from_float(NAN) == 0);
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
  ratify::nvfp4_pack_row(row.data(), k, global, packed.data(), stored.data());
  for (int group = 0; group < k / 16; ++group) CHECK(stored[group].bits == scales[group]);
  for (int i = 0; i < k; ++i) {
    CHECK(ratify::nvfp4_code(packed.data(), i) == codes[i]);
    CHECK((packed[i / 2] >> (i % 2 * 4) & 15) == static_cast<int>(codes[i]));
  }
  CHECK(ratify::nvfp4_global_from_divisor(3.0f) == 1.0f / 3.0f);

  std::vector<float> const zeros(16, 0.0f);
  ratify::nvfp4_pack_row(zeros.data(), 16, global, packed.data(), stored.data());
  CHECK(stored[0].bits == 0);
  for (int i = 0; i < 16; ++i) CHECK(ratify::nvfp4_code(packed.data(), i) == 0);
}

TEST_CASE("nvfp4: the report counts what FP16 loses") {
  // One group a row: codes 0.5 and 6 in turn.
  std::vector<uint8_t> const packed(8, 0x71);
  auto const inspect = [&](uint8_t scale, float global) {
    ratify::e4m3 const s{scale};
    return ratify::nvfp4_inspect(packed.data(), &s, global, 1, 16);
  };
  auto r = inspect(0x38, 1.0f);  // scale 1
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
  CHECK(r.zero_weights == 16);
  r = inspect(0x38, 20000.0f);  // 6 times it is beyond
  CHECK(r.infinite_scales == 0);
  CHECK(r.infinite_weights == 8);
  r = inspect(0x38, 70000.0f);
  CHECK(r.infinite_scales == 1);
  CHECK(r.infinite_weights == 16);
  r = inspect(0x00, 1.0f);  // a scale of 0 loses nothing
  CHECK(r.zero_scales == 0);
  CHECK(r.zero_weights == 0);
}
