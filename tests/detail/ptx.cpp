// SPDX-License-Identifier: Apache-2.0
#include <ratify/detail/machine/ptx.cuh>

#include "reference/formats.hpp"
#include "support/bits.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/map.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

#include <limits>

namespace {

using namespace ratify_test;

struct operands {
  float a, b, c;
};
struct results {
  float fma, mul, add, sub, div, sqrt, max, canonical, negate, magnitude;
  uint32_t less, is_nan, is_finite, round_trip;
};

struct all_operations {
  RATIFY_HD static results apply(operands x) {
    using namespace ratify::detail;
    return {canonical(fma_rn(x.a, x.b, x.c)),
            canonical(mul_rn(x.a, x.b)),
            canonical(add_rn(x.a, x.b)),
            canonical(sub_rn(x.a, x.b)),
            canonical(div_rn(x.a, x.b)),
            canonical(sqrt_rn(x.a)),
            max_rn(x.a, x.b),
            canonical(x.a),
            negate(x.a),
            magnitude(x.a),
            less(x.a, x.b),
            is_nan(x.a),
            is_finite(x.a),
            ratify::detail::bits(ratify::detail::from_bits(ratify::detail::bits(x.a)))};
  }
};

float one_nan(float x) { return std::isnan(x) ? from_bits(0x7fffffffu) : x; }

/// By definition: an FP64 result of FP32 operands rounds to the FP32 result (53 >= 2 * 24 + 2), and libm's fma is
/// exact.
results expected_results(operands x) {
  double const a = x.a, b = x.b;
  float larger = one_nan(std::isnan(a) ? x.b : x.a);
  if (!std::isnan(a) && !std::isnan(b)) larger = a == b ? (std::signbit(a) ? x.b : x.a) : (a < b ? x.b : x.a);
  float flipped = x.a, positive = x.a;
  uint32_t u = 0;
  std::memcpy(&u, &x.a, sizeof u);
  uint32_t const f = u ^ 0x80000000u, p = u & 0x7fffffffu;
  std::memcpy(&flipped, &f, sizeof f);
  std::memcpy(&positive, &p, sizeof p);
  return {one_nan(std::fmaf(x.a, x.b, x.c)),
          one_nan(static_cast<float>(a * b)),
          one_nan(static_cast<float>(a + b)),
          one_nan(static_cast<float>(a - b)),
          one_nan(static_cast<float>(a / b)),
          one_nan(static_cast<float>(std::sqrt(a))),
          larger,
          one_nan(x.a),
          flipped,
          positive,
          a < b,
          std::isnan(a),
          std::isfinite(a),
          u};
}

struct multiply_accumulate {
  RATIFY_HD static float apply(operands x) { return ratify::detail::add_rn(ratify::detail::mul_rn(x.a, x.b), x.c); }
};
struct multiply_subtract {
  RATIFY_HD static float apply(operands x) { return ratify::detail::sub_rn(ratify::detail::mul_rn(x.a, x.b), x.c); }
};

struct f16_to_f32 {
  RATIFY_HD static float apply(uint16_t h) { return ratify::detail::f32_from_f16_bits(h); }
};
struct f16_to_f32_times_256 {
  RATIFY_HD static float apply(uint16_t h) { return ratify::detail::f32_from_f16_bits_times_256(h); }
};
struct f16x2_times_256 {
  RATIFY_HD static uint32_t apply(uint32_t h) { return ratify::detail::f16x2_times_256(h); }
};
struct f32_to_f16 {
  RATIFY_HD static uint16_t apply(float x) { return ratify::detail::f16_bits_rn(x); }
};
struct rounded_to_f16 {
  RATIFY_HD static float apply(float x) { return ratify::detail::round_to_f16(x); }
};
struct from_int {
  RATIFY_HD static float apply(int32_t x) { return ratify::detail::float_from_int(x); }
};

struct words {
  uint64_t a, b;
};
struct high_product {
  RATIFY_HD static uint64_t apply(words x) { return ratify::detail::multiply_high(x.a, x.b); }
};

/// High word of a product, bit by bit.
uint64_t long_multiplication(words x) {
  uint64_t high = 0, low = 0;
  for (int i = 63; i >= 0; --i) {
    high = high << 1 | low >> 63;
    low <<= 1;
    if (x.b >> i & 1) {
      low += x.a;
      high += low < x.a;
    }
  }
  return high;
}

std::vector<float> special_values() {
  std::vector<float> v;
  for (uint32_t u : {0x00000000u, 0x00000001u, 0x00000002u, 0x007fffffu, 0x00800000u, 0x00800001u, 0x33000000u,
                     0x3f7fffffu, 0x3f800000u, 0x3f800001u, 0x3fc00000u, 0x40490fdbu, 0x4b000000u, 0x4b7fffffu,
                     0x7e800000u, 0x7f7fffffu, 0x7f800000u, 0x7f800001u, 0x7fc00000u, 0x7fffffffu}) {
    v.push_back(from_bits(u));
    v.push_back(from_bits(u | 0x80000000u));
  }
  return v;
}

}  // namespace

TEST_CASE("arithmetic is IEEE: signed zeros, subnormals, infinities, NaN") {
  std::vector<operands> in;
  auto const special = special_values();
  for (float a : special)
    for (float b : special)
      for (float c : {0.0f, -0.0f, 1.0f, -1.0f, from_bits(1), -INFINITY, from_bits(0xffc00000u)})
        in.push_back({a, b, c});
  random_source random(1);
  for (int i = 0; i < 200000; ++i) {
    auto const any = [&] { return from_bits(static_cast<uint32_t>(random.word())); };
    auto const near_one = [&] { return from_bits(0x3f000000u + static_cast<uint32_t>(random.word() & 0x1ffffffu)); };
    if (i % 2 == 0)
      in.push_back({any(), any(), any()});
    else
      in.push_back({near_one(), near_one(), ratify::detail::negate(near_one())});
  }
  std::vector<results> expected;
  for (auto const& x : in) expected.push_back(expected_results(x));
  check_map<all_operations>(in, expected);
}

TEST_CASE("max: +0 above -0, a NaN loses, two NaN give one") {
  using ratify::detail::max_rn;
  CHECK(bits(max_rn(0.0f, -0.0f)) == 0u);
  CHECK(bits(max_rn(-0.0f, 0.0f)) == 0u);
  CHECK(bits(max_rn(-0.0f, -0.0f)) == 0x80000000u);
  CHECK(max_rn(from_bits(0xffc00000u), -INFINITY) == -INFINITY);
  CHECK(max_rn(-INFINITY, from_bits(0x7f800001u)) == -INFINITY);
  CHECK(bits(max_rn(from_bits(0xffc00000u), from_bits(0x7f800001u))) == 0x7fffffffu);
}

TEST_CASE("a product is not contracted into a sum") {
  float const x = 1.0f + 0x1p-12f, square = 1.0f + 0x1p-11f;  // x * x = square + 2^-24
  std::vector<operands> const in(64, {x, x, -square}), minus(64, {x, x, square});
  check_map<multiply_accumulate>(in, std::vector<float>(64, 0.0f));
  check_map<multiply_subtract>(minus, std::vector<float>(64, 0.0f));
}

TEST_CASE("FP16 to FP32: all 65536") {
  std::vector<uint16_t> codes, small_codes;
  std::vector<uint32_t> pairs, products;
  std::vector<float> expected, times_256;
  for (uint32_t c = 0; c < 65536; ++c) {
    codes.push_back(static_cast<uint16_t>(c));
    double const value = reference::value_of(ratify::f16{static_cast<uint16_t>(c)});
    expected.push_back(one_nan(static_cast<float>(value)));
    if (std::fabs(value) >= 256) continue;  // NaN is kept
    small_codes.push_back(static_cast<uint16_t>(c));
    times_256.push_back(one_nan(static_cast<float>(value * 256)));
    uint32_t const other = c * 7919u & 0x5bffu;
    double const other_value = reference::value_of(ratify::f16{static_cast<uint16_t>(other)});
    pairs.push_back(c | other << 16);
    products.push_back(reference::nearest<ratify::f16>(value * 256).bits |
                       static_cast<uint32_t>(reference::nearest<ratify::f16>(other_value * 256).bits) << 16);
  }
  check_map<f16_to_f32>(codes, expected);
  check_map<f16_to_f32_times_256>(small_codes, times_256);
  check_map<f16x2_times_256>(pairs, products);
}

TEST_CASE("FP32 to FP16 and back: around every FP16, every midpoint, and a stride through all FP32") {
  std::vector<float> in;
  for (uint32_t h = 0; h <= 0x7c00; ++h)
    for (double half : {0.0, 0.5}) {
      double const low = reference::value_of(ratify::f16{static_cast<uint16_t>(h)});
      double const high = h < 0x7bff ? reference::value_of(ratify::f16{static_cast<uint16_t>(h + 1)}) : 65536.0;
      auto const x = static_cast<float>(h == 0x7c00 ? 65536.0 : low + half * (high - low));
      for (float y : {x, std::nextafter(x, 0.0f), std::nextafter(x, INFINITY)}) {
        in.push_back(y);
        in.push_back(-y);
      }
    }
  for (uint64_t u = 0; u < uint64_t{1} << 32; u += 6011) in.push_back(from_bits(static_cast<uint32_t>(u)));
  std::vector<uint16_t> codes;
  std::vector<float> rounded;
  for (float x : in) {
    auto const h = reference::nearest<ratify::f16>(x);
    codes.push_back(h.bits);
    rounded.push_back(one_nan(static_cast<float>(reference::value_of(h))));
  }
  check_map<f32_to_f16>(in, codes);
  check_map<rounded_to_f16>(in, rounded);
}

TEST_CASE("integers to FP32 round to nearest even") {
  std::vector<int32_t> in{0,
                          1,
                          -1,
                          16777216,
                          16777217,
                          16777218,
                          16777219,
                          -16777217,
                          -16777219,
                          std::numeric_limits<int32_t>::max(),
                          std::numeric_limits<int32_t>::min()};
  random_source random(2);
  for (int i = 0; i < 10000; ++i) in.push_back(static_cast<int32_t>(random.word()));
  std::vector<float> expected;
  for (int32_t x : in) expected.push_back(static_cast<float>(static_cast<double>(x)));
  check_map<from_int>(in, expected);
}

TEST_CASE("high word of a 64-bit product") {
  std::vector<words> in;
  std::vector<uint64_t> const special{
      0, 1, 2, 0xffffffffull, 0x100000000ull, 0x8000000000000000ull, 0xfffffffffffffffeull, 0xffffffffffffffffull};
  for (uint64_t a : special)
    for (uint64_t b : special) in.push_back({a, b});
  random_source random(3);
  for (int i = 0; i < 20000; ++i) in.push_back({random.word() >> random.integer(0, 63), random.word()});
  std::vector<uint64_t> expected;
  for (auto const& x : in) expected.push_back(long_multiplication(x));
  check_map<high_product>(in, expected);
}
