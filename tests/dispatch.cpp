// SPDX-License-Identifier: Apache-2.0
#include <ratify/dispatch.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace {
enum class mode { plain, fast, exact };
}

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
