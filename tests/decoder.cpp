// SPDX-License-Identifier: Apache-2.0
#include <ratify/decoder.cuh>

#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

template <class Format, class To, ratify::decoder_revision Revision>
struct policy_of : ratify::decode_policy {
  using format = Format;
  using to = To;
  static constexpr auto revision = Revision;
};

/// The value of a code by the definition of its format, in FP64.
double value_of(int code, int exponent_bits, int mantissa_bits) {
  int const m = code & ((1 << mantissa_bits) - 1);
  int const e = code >> mantissa_bits & ((1 << exponent_bits) - 1);
  int const bias = (1 << (exponent_bits - 1)) - 1;
  double const magnitude =
      e == 0 ? std::ldexp(m, 1 - bias - mantissa_bits) : std::ldexp(m + (1 << mantissa_bits), e - bias - mantissa_bits);
  return code >> (exponent_bits + mantissa_bits) & 1 ? -magnitude : magnitude;
}

template <class Format>
uint32_t expected_bits(int code) {
  double value = 0;
  if constexpr (std::is_same_v<Format, ratify::e4m3>) {
    if ((code & 0x7f) == 0x7f) return 0x7fffffffu;
    value = value_of(code, 4, 3);
  } else if constexpr (std::is_same_v<Format, ratify::e5m2>) {
    if ((code & 0x7f) > 0x7c) return 0x7fffffffu;
    value = (code & 0x7f) == 0x7c ? (code & 0x80 ? -INFINITY : INFINITY) : value_of(code, 5, 2);
  } else {
    value = value_of(code & 15, 2, 1);
  }
  auto const single = static_cast<float>(value);
  uint32_t u = 0;
  std::memcpy(&u, &single, sizeof u);
  return u;
}

/// The FP16 that holds an FP32 exactly.
uint16_t exact_half(uint32_t u) {
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  float x = 0;
  std::memcpy(&x, &u, sizeof x);
  for (uint32_t h = 0; h < 0x7c01; ++h) {
    double const magnitude = h == 0x7c00 ? INFINITY
                             : h < 0x400 ? std::ldexp(h, -24)
                                         : std::ldexp((h & 0x3ff) + 0x400, static_cast<int>(h >> 10) - 25);
    if (magnitude == std::fabs(static_cast<double>(x))) return static_cast<uint16_t>(h | (u >> 16 & 0x8000u));
  }
  FAIL("an FP8 value that FP16 does not hold");
  return 0;
}

template <class Policy>
std::vector<typename Policy::to> expected_values(std::vector<uint8_t> const& codes) {
  std::vector<typename Policy::to> table(256), out;
  for (int c = 0; c < 256; ++c) {
    uint32_t const u = expected_bits<typename Policy::format>(c);
    if constexpr (std::is_same_v<typename Policy::to, float>)
      std::memcpy(&table[static_cast<size_t>(c)], &u, sizeof u);
    else
      table[static_cast<size_t>(c)] = {exact_half(u)};
  }
  for (uint8_t c : codes) out.push_back(table[c]);
  return out;
}

/// Every pair of codes as the low and the high half of a word of 4, by each packed width.
template <class Policy>
struct widths_kernel {
  struct params {
    typename Policy::to *x1, *x2, *x4;  ///< [65536, 4] each
  };
  static constexpr char const* name = "widths_kernel";
  static constexpr int block_threads = 64;
  template <class Block>
  struct shared_storage {};

  RATIFY_HD static uint32_t word(int pair) {
    uint32_t const w = static_cast<uint32_t>(pair);
    return w | (w ^ 0x5aa5u) << 16;
  }

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    namespace device = ratify::device;
    int const pair = block.block_x() * block_threads + block.thread();
    uint32_t const w = word(pair);
    typename Policy::to low[2], high[2], four[4];
    device::decode_x2<Policy>(static_cast<uint16_t>(w), low);
    device::decode_x2<Policy>(static_cast<uint16_t>(w >> 16), high);
    device::decode_x4<Policy>(w, four);
    for (int i = 0; i < 4; ++i) {
      p.x1[pair * 4 + i] = device::decode_x1<Policy>(static_cast<uint8_t>(w >> (8 * i)));
      p.x2[pair * 4 + i] = i < 2 ? low[i & 1] : high[i & 1];
      p.x4[pair * 4 + i] = four[i];
    }
  }
};

template <class Policy>
void check_widths() {
  using to = typename Policy::to;
  std::vector<uint8_t> codes;
  for (int pair = 0; pair < 65536; ++pair)
    for (int i = 0; i < 4; ++i) codes.push_back(static_cast<uint8_t>(widths_kernel<Policy>::word(pair) >> (8 * i)));
  auto const expected = expected_values<Policy>(codes);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    buffer<to, executor> x1(on, codes.size()), x2(on, codes.size()), x4(on, codes.size());
    ratify::stage<widths_kernel<Policy>> s{{65536 / 64}, {x1.data(), x2.data(), x4.data()}};
    auto const ran = on.run(s);
    REQUIRE_MESSAGE(ran, ran.reason());
    CHECK(bit_difference(x1.read(), expected) == "");
    CHECK(bit_difference(x2.read(), expected) == "");
    CHECK(bit_difference(x4.read(), expected) == "");
  });
}

template <class Policy>
void check_operation(int64_t count, int64_t offset) {
  random_source random(static_cast<uint64_t>(count * 8 + offset));
  std::vector<uint8_t> bytes(static_cast<size_t>(count + offset));
  for (auto& b : bytes) b = static_cast<uint8_t>(random.integer(0, 255));
  std::vector<uint8_t> const codes(bytes.begin() + offset, bytes.end());
  auto const expected = expected_values<Policy>(codes);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    buffer<uint8_t, executor> in(on, bytes);
    buffer<typename Policy::to, executor> out(on, codes.size());
    typename ratify::decode<Policy>::params p;
    p.codes = in.data() + offset;
    p.values = out.data();
    p.count = count;
    auto const s = launch<ratify::decode<Policy>>(p, on);
    REQUIRE_MESSAGE(s, s.reason());
    CHECK(bit_difference(out.read(), expected) == "");
  });
}

using revision = ratify::decoder_revision;
template <class Format, class To>
using plain = policy_of<Format, To, revision::reference>;

}  // namespace

TEST_CASE_TEMPLATE("D1 all codes, every revision and packed width", To, float, ratify::f16) {
  check_widths<plain<ratify::e4m3, To>>();
  check_widths<policy_of<ratify::e4m3, To, revision::bit_fields>>();
  check_widths<policy_of<ratify::e4m3, To, revision::fp16_shift>>();
  check_widths<policy_of<ratify::e4m3, To, revision::native>>();
  check_widths<plain<ratify::e5m2, To>>();
  check_widths<plain<ratify::e2m1x2, To>>();
}

TEST_CASE("D1 the codes that decoders get wrong") {
  using ratify::detail::bits;
  using ratify::detail::decode_x1;
  CHECK(bits(decode_x1<revision::fp16_shift, ratify::e4m3>(0x7f)) == 0x7fffffffu);
  CHECK(bits(decode_x1<revision::fp16_shift, ratify::e4m3>(0xff)) == 0x7fffffffu);
  CHECK(decode_x1<revision::fp16_shift, ratify::e4m3>(0x7e) == 448.0f);
  CHECK(decode_x1<revision::fp16_shift, ratify::e4m3>(0x01) == 0x1p-9f);
  CHECK(bits(decode_x1<revision::fp16_shift, ratify::e4m3>(0x80)) == 0x80000000u);
  CHECK(bits(decode_x1<revision::reference, ratify::e5m2>(0x7c)) == 0x7f800000u);
  CHECK(bits(decode_x1<revision::reference, ratify::e5m2>(0x7d)) == 0x7fffffffu);
  CHECK(decode_x1<revision::reference, ratify::e5m2>(0x7b) == 57344.0f);
  CHECK(decode_x1<revision::reference, ratify::e5m2>(0x01) == 0x1p-16f);
}

TEST_CASE("decode of any count and alignment") {
  for (int64_t count : {0, 1, 3, 4, 5, 511, 512, 513, 10007})
    for (int64_t offset : {0, 1, 3}) {
      check_operation<policy_of<ratify::e4m3, float, revision::fp16_shift>>(count, offset);
      check_operation<policy_of<ratify::e4m3, ratify::f16, revision::native>>(count, offset);
      check_operation<plain<ratify::e2m1x2, float>>(count, offset);
    }
}

TEST_CASE("decode equals its table for random counts") {
  random_source random(2);
  for (int round = 0; round < scaled(10); ++round) {
    int64_t const count = random.one_of({random.integer(0, 40), random.integer(0, 6000)}),
                  offset = random.integer(0, 15);
    CAPTURE(count);
    CAPTURE(offset);
    check_operation<policy_of<ratify::e4m3, float, revision::fp16_shift>>(count, offset);
    check_operation<plain<ratify::e2m1x2, float>>(count, offset);
    count_shape();
  }
}

TEST_CASE("decode refuses by name") {
  using operation = ratify::decode<ratify::decode_policy>;
  operation::params p;
  p.count = -1;
  auto const s = operation::can_launch(p, host());
  CHECK(s.code() == ratify::status_code::unsupported);
  CHECK(std::string(s.reason()) == "ratify::decode: count must not be negative");
  CHECK(!ratify::is_supported_decode<policy_of<ratify::e5m2, float, revision::fp16_shift>>);
  CHECK(!ratify::is_supported_decode<policy_of<ratify::e4m3, double, revision::reference>>);
  CHECK(!ratify::is_supported_decode<policy_of<ratify::f16, float, revision::reference>>);
}
