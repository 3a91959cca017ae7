// SPDX-License-Identifier: Apache-2.0
#include <ratify/numeric.hpp>

#include "reference/formats.hpp"
#include "support/bits.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/map.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

#include <cfenv>
#include <limits>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace {

using namespace ratify_test;

template <class To>
struct conversion {
  template <class From>
  RATIFY_HD static To apply(From x) {
    return ratify::convert<To>(ratify::to_float(x));
  }
};

template <class From, class To>
void check_conversion(std::vector<From> const& in, std::vector<To> const& expected) {
  check_map<conversion<To>>(in, expected);
}

float canonical_float(double x) { return std::isnan(x) ? from_bits(0x7fffffffu) : static_cast<float>(x); }

template <class Format>
std::vector<Format> all_codes() {
  std::vector<Format> codes(size_t{1} << (8 * sizeof(Format)));
  for (size_t c = 0; c < codes.size(); ++c) codes[c] = {static_cast<decltype(Format::bits)>(c)};
  return codes;
}

/// Every value of a format, every midpoint of two neighbours, the FP32 next to each, both signs; what lies beyond the
/// largest value; NaNs; and a stride through all FP32.
template <class Format>
std::vector<float> critical_inputs() {
  constexpr auto f = reference::fields_of<Format>();
  std::vector<float> v;
  auto const add = [&](double x) {
    auto const single = static_cast<float>(x);
    for (float y : {single, std::nextafter(single, 0.0f), std::nextafter(single, INFINITY)}) {
      v.push_back(y);
      v.push_back(-y);
    }
  };
  for (uint32_t c = 0; c < f.infinity; ++c) {
    double const value = reference::value_of_code(f, c);
    // Above the largest value as if one more followed.
    double const next =
        c + 1 < f.infinity ? reference::value_of_code(f, c + 1) : 2 * value - reference::value_of_code(f, c - 1);
    add(value);
    add((value + next) / 2);
    if (c + 1 == f.infinity) add(next);
  }
  for (float x : {1e9f, 3.4e38f, std::numeric_limits<float>::max(), INFINITY, 1e-30f, 0x1p-149f, 0x1p-126f}) add(x);
  for (uint32_t nan : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffc00000u, 0xffffffffu})
    v.push_back(from_bits(nan));
  for (uint64_t u = 0; u < uint64_t{1} << 32; u += 20011) v.push_back(from_bits(static_cast<uint32_t>(u)));
  return v;
}

/// What a calling thread may have set before it calls a free function.
struct caller_mode {
  char const* name;
  int rounding;
  bool flushes;
};
std::vector<caller_mode> caller_modes() {
  std::vector<caller_mode> modes{{"to nearest", FE_TONEAREST, false},
                                 {"upward", FE_UPWARD, false},
                                 {"downward", FE_DOWNWARD, false},
                                 {"toward zero", FE_TOWARDZERO, false}};
#if defined(__SSE__)
  modes.push_back({"subnormals flushed to zero", FE_TONEAREST, true});
#endif
  return modes;
}
/// Sets a mode for its lifetime.
class changed_environment {
 public:
  explicit changed_environment(caller_mode const& mode) {
    std::fegetenv(&saved_);
    std::fesetround(mode.rounding);
#if defined(__SSE__)
    if (mode.flushes) _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
  }
  ~changed_environment() { std::fesetenv(&saved_); }
  changed_environment(changed_environment const&) = delete;
  changed_environment& operator=(changed_environment const&) = delete;
 private:
  std::fenv_t saved_;
};

}  // namespace

TEST_CASE_TEMPLATE("every code to FP32 by the definition of its format", Format, ratify::f16, ratify::bf16,
                   ratify::e4m3, ratify::e5m2) {
  auto const codes = all_codes<Format>();
  std::vector<float> expected;
  for (auto c : codes) expected.push_back(canonical_float(reference::value_of(c)));
  check_conversion(codes, expected);
}

TEST_CASE("every E2M1 code to FP32") {
  for (uint32_t c = 0; c < 16; ++c) {
    auto const expected = static_cast<float>(reference::value_of_code({2, 1, 8, 8, 7, false}, c));
    CHECK(bits(ratify::e2m1_to_float(c)) == bits(expected));
    CHECK(bits(ratify::e2m1_to_float(c | 0xa50u)) == bits(expected));  // only the low 4 bits count
  }
}

TEST_CASE_TEMPLATE("FP32 to each format: every midpoint and neighbour against FP64", Format, ratify::f16, ratify::bf16,
                   ratify::e4m3, ratify::e5m2) {
  auto const inputs = critical_inputs<Format>();
  std::vector<Format> expected;
  for (float x : inputs) expected.push_back(reference::nearest<Format>(x));
  check_conversion(inputs, expected);
}

TEST_CASE_TEMPLATE("a stored value comes back", Format, ratify::f16, ratify::bf16, ratify::e4m3, ratify::e5m2) {
  std::vector<Format> codes;
  for (auto c : all_codes<Format>())
    if (std::isfinite(reference::value_of(c))) codes.push_back(c);
  check_conversion(codes, codes);
}

TEST_CASE("FP32 to FP32 changes nothing but NaNs") {
  std::vector<float> in, expected;
  for (uint64_t u = 0; u < uint64_t{1} << 32; u += 40009) {
    in.push_back(from_bits(static_cast<uint32_t>(u)));
    expected.push_back(std::isnan(in.back()) ? from_bits(0x7fffffffu) : in.back());
  }
  check_conversion(in, expected);
}

TEST_CASE("storage formats have the size of their bits") {
  static_assert(ratify::is_fp8_v<ratify::e4m3> && ratify::is_fp8_v<ratify::e5m2> && !ratify::is_fp8_v<ratify::f16>);
  static_assert(sizeof(ratify::f16) == 2 && sizeof(ratify::bf16) == 2 && sizeof(ratify::e4m3) == 1 &&
                sizeof(ratify::e5m2) == 1 && sizeof(ratify::e2m1x2) == 1);
}

TEST_CASE_TEMPLATE("conversions do not depend on the caller's rounding mode, nor on subnormals flushed to zero", Format,
                   ratify::f16, ratify::bf16, ratify::e4m3, ratify::e5m2) {
  auto const inputs = critical_inputs<Format>();
  std::vector<Format> expected;
  for (float x : inputs) expected.push_back(reference::nearest<Format>(x));
  auto const codes = all_codes<Format>();
  std::vector<float> values;
  for (auto c : codes) values.push_back(canonical_float(reference::value_of(c)));
  for (caller_mode const mode : caller_modes()) {
    CAPTURE(mode.name);
    std::vector<Format> got(inputs.size());
    std::vector<float> back(codes.size());
    {
      changed_environment const environment(mode);
      for (size_t i = 0; i < inputs.size(); ++i) got[i] = ratify::convert<Format>(inputs[i]);
      for (size_t i = 0; i < codes.size(); ++i) back[i] = ratify::to_float(codes[i]);
    }
    CHECK(bit_difference(got, expected) == "");
    CHECK(bit_difference(back, values) == "");
  }
}
