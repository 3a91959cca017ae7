// SPDX-License-Identifier: Apache-2.0
/// decode against the definition of each format, every code by every decoder and packed width; and its launch rules.
#include <ratify/decoder.cuh>

#include "support/bits.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"
#include "support/refusal.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

using ratify::code_format;
using ratify::decoder;
using ratify::output_format;
using revision = ratify::decoder_revision;

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
std::vector<typename Policy::output_format> expected_values(std::vector<uint8_t> const& codes) {
  std::vector<typename Policy::output_format> table(256), out;
  for (int c = 0; c < 256; ++c) {
    uint32_t const u = expected_bits<typename Policy::code_format>(c);
    if constexpr (std::is_same_v<typename Policy::output_format, float>)
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
    typename Policy::output_format *x1, *x2, *x4;  ///< [65536, 4] each
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
    typename Policy::output_format low[2], high[2], four[4];
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
  using value = typename Policy::output_format;
  std::vector<uint8_t> codes;
  for (int pair = 0; pair < 65536; ++pair)
    for (int i = 0; i < 4; ++i) codes.push_back(static_cast<uint8_t>(widths_kernel<Policy>::word(pair) >> (8 * i)));
  auto const expected = expected_values<Policy>(codes);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    buffer<value, executor> x1(on, codes.size()), x2(on, codes.size()), x4(on, codes.size());
    ratify::stage<widths_kernel<Policy>> s{{65536 / 64}, {x1.data(), x2.data(), x4.data()}};
    auto const ran = on.run(s);
    REQUIRE_MESSAGE(ran, ran.reason());
    CHECK(bit_difference(x1.read(), expected) == "");
    CHECK(bit_difference(x2.read(), expected) == "");
    CHECK(bit_difference(x4.read(), expected) == "");
  });
}

template <class Operation>
void check_operation(int64_t count, int64_t offset) {
  using policy = typename Operation::policy;
  random_source random(static_cast<uint64_t>(count * 8 + offset));
  std::vector<uint8_t> bytes(static_cast<size_t>(count + offset));
  for (auto& b : bytes) b = static_cast<uint8_t>(random.integer(0, 255));
  std::vector<uint8_t> const codes(bytes.begin() + offset, bytes.end());
  auto const expected = expected_values<policy>(codes);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    buffer<uint8_t, executor> in(on, bytes);
    buffer<typename policy::output_format, executor> out(on, codes.size());
    typename Operation::params p;
    p.codes = in.data() + offset;
    p.values = out.data();
    p.count = count;
    auto const s = launch<Operation>(p, on);
    REQUIRE_MESSAGE(s, s.reason());
    CHECK(bit_difference(out.read(), expected) == "");
  });
}

}  // namespace

TEST_CASE_TEMPLATE("D1 all codes, every decoder and packed width", Value, float, ratify::f16) {
  using output = output_format<Value>;
  using ratify::decode_policy;
  check_widths<decode_policy<output, decoder<revision::reference>>>();
  check_widths<decode_policy<output, decoder<revision::bit_fields>>>();
  check_widths<decode_policy<output, decoder<revision::fp16_shift>>>();
  check_widths<decode_policy<output, decoder<revision::native>>>();
  check_widths<decode_policy<output, code_format<ratify::e5m2>>>();
  check_widths<decode_policy<output, code_format<ratify::e2m1x2>>>();
}

TEST_CASE("D1 formats other than E4M3 ignore the decoder") {
  check_widths<ratify::decode_policy<code_format<ratify::e5m2>, decoder<revision::fp16_shift>>>();
  check_widths<ratify::decode_policy<code_format<ratify::e5m2>, decoder<revision::bit_fields>>>();
  check_widths<ratify::decode_policy<code_format<ratify::e2m1x2>, decoder<revision::reference>>>();
}

TEST_CASE_TEMPLATE("D1 the codes that decoders get wrong", Decoder, decoder<revision::reference>,
                   decoder<revision::bit_fields>, decoder<revision::fp16_shift>, decoder<revision::native>) {
  using e4m3 = ratify::decode_policy<Decoder>;
  using e5m2 = ratify::decode_policy<Decoder, code_format<ratify::e5m2>>;
  using ratify::device::decode_x1;
  CHECK(bits(decode_x1<e4m3>(0x7f)) == 0x7fffffffu);
  CHECK(bits(decode_x1<e4m3>(0xff)) == 0x7fffffffu);
  CHECK(decode_x1<e4m3>(0x7e) == 448.0f);
  CHECK(decode_x1<e4m3>(0x01) == 0x1p-9f);
  CHECK(bits(decode_x1<e4m3>(0x80)) == 0x80000000u);
  CHECK(bits(decode_x1<e5m2>(0x7c)) == 0x7f800000u);
  CHECK(bits(decode_x1<e5m2>(0x7d)) == 0x7fffffffu);
  CHECK(decode_x1<e5m2>(0x7b) == 57344.0f);
  CHECK(decode_x1<e5m2>(0x01) == 0x1p-16f);
}

TEST_CASE("decode of any count and alignment") {
  for (int64_t count : {0, 1, 3, 4, 5, 511, 512, 513, 10007})
    for (int64_t offset : {0, 1, 3}) {
      check_operation<ratify::decode<decoder<revision::fp16_shift>>>(count, offset);
      check_operation<ratify::decode<output_format<ratify::f16>>>(count, offset);
      check_operation<ratify::decode<code_format<ratify::e2m1x2>>>(count, offset);
    }
}

TEST_CASE("decode equals its table for random counts") {
  random_source random(2);
  for (int round = 0; round < scaled(10); ++round) {
    int64_t const count = random.one_of({random.integer(0, 40), random.integer(0, 6000)}),
                  offset = random.integer(0, 15);
    CAPTURE(count);
    CAPTURE(offset);
    check_operation<ratify::decode<decoder<revision::fp16_shift>>>(count, offset);
    check_operation<ratify::decode<code_format<ratify::e2m1x2>>>(count, offset);
    count_shape();
  }
}

TEST_CASE("decode refuses wrong launches, with the reason") {
  using op = ratify::decode<>;
  uint8_t codes[4] = {};
  float values[4];
  op::params good;
  good.codes = codes;
  good.values = values;
  good.count = 4;
  CHECK(op::can_launch(good, host()));
  invalid<op>(good, "ratify::decode: count must not be negative", [](auto& p) { p.count = -1; });
  unsupported<op>(good, "ratify::decode: count must be at most 2^40 - 512",
                  [](auto& p) { p.count = (int64_t{1} << 40) - 511; });
  invalid<op>(good, "ratify::decode: codes must not be null", [](auto& p) { p.codes = nullptr; });
  invalid<op>(good, "ratify::decode: values must not be null", [](auto& p) { p.values = nullptr; });
  misaligned<op>(
      good, "ratify::decode: values must be aligned to its elements", [](auto& q) -> auto& { return q.values; });
  invalid<op>(good, "ratify::decode: values must not be codes",
              [&](auto& p) { p.codes = reinterpret_cast<uint8_t*>(values); });
  CHECK(op::launch({}, {}, host()));
  good.count = (int64_t{1} << 40) - 512;
  CHECK(op::can_launch(good, host()));
}

TEST_CASE("which policies of decode are supported") {
  using ratify::is_supported_decode;
  CHECK(is_supported_decode<code_format<ratify::e5m2>>);
  CHECK(is_supported_decode<code_format<ratify::e5m2>, decoder<revision::fp16_shift>>);
  CHECK(!is_supported_decode<output_format<double>>);
  CHECK(!is_supported_decode<code_format<ratify::f16>>);
  CHECK(!is_supported_decode<ratify::kv_format<ratify::e5m2>>);
}
