// SPDX-License-Identifier: Apache-2.0
#include <ratify/dispatch.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace {

enum class mode { plain, fast, exact };
enum class narrow_mode : unsigned char { first, last = 255 };

/// The number that dispatch calls with, or "unsupported".
template <class Value, auto... Values>
std::string called(Value value, ratify::values<Values...> list) {
  std::string with = "unsupported";
  auto const s = ratify::dispatch(value, list, "not in the list", [&](auto constant) {
    static_assert(std::is_same_v<typename decltype(constant)::value_type, Value>);
    with = std::to_string(static_cast<long long>(constant()));
    return ratify::status{};
  });
  CHECK(static_cast<bool>(s) == (with != "unsupported"));
  if (!s) CHECK(std::string(s.reason()) == "not in the list");
  return with;
}

}  // namespace

TEST_CASE("dispatch finds the value of the list, and nothing near it") {
  using sizes = ratify::values<8, 16, 64, 256>;
  for (int value : {-8, 0, 7, 8, 9, 16, 63, 64, 65, 255, 256, 257, 264}) {
    std::vector<int> calls;
    auto const s = ratify::dispatch(value, sizes{}, "size must be 8, 16, 64 or 256", [&](auto constant) {
      constexpr int compiled = decltype(constant)::value;  // usable as a constant
      calls.push_back(compiled);
      return ratify::status{};
    });
    bool const listed = value == 8 || value == 16 || value == 64 || value == 256;
    CHECK(static_cast<bool>(s) == listed);
    CHECK(calls == (listed ? std::vector<int>{value} : std::vector<int>{}));
    if (!listed) {
      CHECK(s.code() == ratify::status_code::unsupported);
      CHECK(std::string(s.reason()) == "size must be 8, 16, 64 or 256");
    }
  }
}

TEST_CASE("dispatch over an enumeration and over bool") {
  auto const s = ratify::dispatch(mode::exact, ratify::values<mode::plain, mode::exact>{}, "mode", [](auto constant) {
    static_assert(std::is_same_v<typename decltype(constant)::value_type, mode>);
    return constant.value == mode::exact ? ratify::status{}
                                         : ratify::status{ratify::status_code::launch_failed, "other"};
  });
  CHECK(s);
  CHECK(!ratify::dispatch(mode::fast, ratify::values<mode::plain, mode::exact>{}, "mode",
                          [](auto) { return ratify::status{}; }));
  CHECK(ratify::dispatch(true, ratify::values<false, true>{}, "flag", [](auto) { return ratify::status{}; }));
}

TEST_CASE("dispatch compares numbers, whatever their types: the low bits of another number are not it") {
  using ratify::values;
  CHECK(called(uint8_t{0}, values<64, 128, 256>{}) == "unsupported");
  CHECK(called(uint8_t{64}, values<320>{}) == "unsupported");
  CHECK(called(uint8_t{64}, values<320, 64>{}) == "64");
  CHECK(called(true, values<2>{}) == "unsupported");
  CHECK(called(true, values<1>{}) == "1");
  CHECK(called(false, values<256, 0>{}) == "0");
  CHECK(called(2, values<true, 2>{}) == "2");
  CHECK(called(int8_t{-1}, values<255>{}) == "unsupported");
  CHECK(called(int8_t{-1}, values<255u, -1>{}) == "-1");
  CHECK(called(4294967295u, values<-1>{}) == "unsupported");
  CHECK(called(-1, values<4294967295u>{}) == "unsupported");
  CHECK(called(-1, values<0xffffffffffffffffull>{}) == "unsupported");
  CHECK(called(0xffffffffffffffffull, values<-1>{}) == "unsupported");
  CHECK(called((int64_t{1} << 32) + 64, values<64>{}) == "unsupported");
  CHECK(called(int64_t{64}, values<64>{}) == "64");
  CHECK(called(INT64_MIN, values<INT64_MIN>{}) == std::to_string(INT64_MIN));
  CHECK(called(int64_t{INT32_MIN}, values<int64_t{1} << 31, INT32_MIN>{}) == std::to_string(INT32_MIN));
  CHECK(called(mode::exact, values<0, 2>{}) == "2");
  CHECK(called(2, values<mode::fast, mode::exact>{}) == "2");
  CHECK(called(narrow_mode::first, values<256>{}) == "unsupported");
  CHECK(called(narrow_mode::last, values<-1, 255>{}) == "255");
}

TEST_CASE("a value of the list that the type cannot hold is not compiled") {
  // The function has no meaning for 0, which 256 is in 8 bits.
  auto const s = ratify::dispatch(uint8_t{64}, ratify::values<256, 64>{}, "no", [](auto constant) {
    static_assert(constant() == 64);
    return ratify::status{};
  });
  CHECK(s);
}

TEST_CASE("what the function returns is returned, and the first of equal values wins") {
  int calls = 0;
  auto const s = ratify::dispatch(3, ratify::values<3, 3>{}, "no", [&](auto) {
    ++calls;
    return ratify::status{ratify::status_code::launch_failed, "mine"};
  });
  CHECK(calls == 1);
  CHECK(s.code() == ratify::status_code::launch_failed);
  CHECK(std::string(s.reason()) == "mine");
}
