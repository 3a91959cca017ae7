// SPDX-License-Identifier: Apache-2.0
#include "reference/acceptance.hpp"
#include "support/bits.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <ratify/device/masses.cuh>

namespace {

using namespace ratify_test;

}  // namespace

TEST_CASE("masses, targets and draw points are exact") {
  namespace device = ratify::device;
  random_source random(1);
  for (float e : {0.0f, 1.0f, 0x1p-17f, 0x1.fffffep-18f, 0x1.fffffep-41f, 0x1p-40f, 0x1.000002p-40f, 0x1p-41f,
                  0x1.000002p-41f, 0x1.fffffep-42f, 0x1.8p-40f, 0x1.4p-39f, 0x1.8p-41f, 1e-40f, 0x1p-149f})
    CHECK(device::mass_of_exponential(e) == reference::mass(e));
  CHECK(device::mass_of_exponential(0x1p-41f) == 0);  // halves go to even
  CHECK(device::mass_of_exponential(0x1.8p-40f) == 2);
  CHECK(device::mass_of_exponential(0x1.4p-39f) == 2);
  for (int i = 0; i < 20000; ++i) {
    float const e = std::ldexp(random.uniform(0.5f, 1.0f), -random.integer(0, 60));
    CHECK(device::mass_of_exponential(e) == reference::mass(e));

    uint64_t const total = (random.word() >> random.integer(1, 23)) | (uint64_t{1} << 40);
    float const top_p = std::ldexp(random.uniform(0.5f, 1.0f), -random.integer(0, random.integer(0, 148)));
    uint64_t const target = device::top_p_target(top_p, total);
    // The first integer that is not below top_p * total, as (target - 1) * 2^s < m * total <= target * 2^s.
    int exponent = 0;
    auto const m = static_cast<reference::uint128>(std::ldexp(std::frexp(top_p, &exponent), 24));
    int const s = 24 - exponent;
    if (s > 63) {
      CHECK(target == ((m * total) >> 64 >> (s - 64 < 63 ? s - 64 : 63)) + 1);  // never whole: total is below 2^64
    } else {
      CHECK((static_cast<reference::uint128>(target) << s) >= m * total);
      CHECK((static_cast<reference::uint128>(target - 1) << s) < m * total);
    }
    auto const word = static_cast<uint32_t>(random.word());
    CHECK(device::draw_point(word, total) ==
          static_cast<uint64_t>((static_cast<reference::uint128>(word) * total) >> 32));
  }
  for (uint64_t total : {uint64_t{1} << 40, (uint64_t{1} << 62) - 1}) {
    CHECK(device::top_p_target(0.0f, total) == 1);
    CHECK(device::top_p_target(-0.0f, total) == 1);
    CHECK(device::top_p_target(0x1p-149f, total) == 1);
    CHECK(device::top_p_target(1.0f, total) == total);
    CHECK(device::draw_point(0, total) == 0);
    CHECK(device::draw_point(0xffffffffu, total) < total);
  }
}

TEST_CASE("a mass is within its bound of FP64") {
  random_source random(8);
  std::vector<double> ratios;
  int different = 0;
  for (int i = 0; i < 200000; ++i) {
    float const temperature = random.one_of({1e-5f, 0.01f, 0.7f, 1.0f, 3.0f, 1000.0f}), maximum = random.normal(10.0f);
    float const logit = maximum - std::fabs(random.normal(12.0f)) * temperature;
    double const z = (static_cast<double>(logit) - maximum) / temperature, truth = std::ldexp(std::exp(z), 40);
    double const bound = truth * (2.0 * std::fabs(z) + 4.0) * 0x1p-24 * 1.01 + 0.5;
    uint64_t const mass = ratify::device::mass(logit, maximum, temperature);
    different += mass != reference::mass(reference::exponential(logit, maximum, temperature));
    auto const got = static_cast<double>(mass);
    ratios.push_back(std::fabs(got - truth) / bound);
  }
  CHECK(*std::max_element(ratios.begin(), ratios.end()) <= 1.0);
  CHECK(different == 0);
}

TEST_CASE("a mass is that of the exponential wherever that ends") {
  // Differences around 28.4, where masses become 0, around 80 and 104, where other steps take over, and none.
  for (float const z :
       {0.0f, 1e-30f, 28.41f, 28.4194f, 28.42f, 28.43f, 79.9999f, 80.0f, 80.0001f, 87.5f, 104.0f, 3e38f})
    for (float const temperature : {1e-5f, 0.7f, 1.0f, 3e38f})
      for (float const maximum : {0.0f, 5.0f, 3e38f}) {
        float const logit = maximum - z * temperature;
        CHECK(ratify::device::mass(logit, maximum, temperature) ==
              reference::mass(reference::exponential(logit, maximum, temperature)));
      }
  CHECK(ratify::device::mass(-INFINITY, 1.0f, 1.0f) == 0);
  CHECK(ratify::device::mass(1.0f, 1.0f, 0.3f) == ratify::device::largest_mass);
}

TEST_CASE("words order by logit descending, then id ascending, and -0 equals +0") {
  namespace device = ratify::device;
  std::vector<float> const descending{INFINITY, 3e38f, 1.0f, 0x1p-149f, 0.0f, -0x1p-149f, -1.0f, -3e38f, -INFINITY};
  for (size_t i = 0; i + 1 < descending.size(); ++i) {
    CHECK(device::order_word(descending[i], 4194303) > device::order_word(descending[i + 1], 0));
    CHECK(device::value_of_key(device::order_key(descending[i])) == descending[i]);
  }
  CHECK(device::order_word(2.0f, 4) > device::order_word(2.0f, 5));
  CHECK(device::order_word(-0.0f, 4) > device::order_word(0.0f, 5));
  CHECK(device::order_word(0.0f, 4) == device::order_word(-0.0f, 4));
  CHECK(device::order_key(from_bits(0xffc00000u)) == 0xffffffffu);
  CHECK(device::id_of_word(device::order_word(2.0f, 4194303)) == 4194303);
}

TEST_CASE("a quotient of a product and the accept test are exact") {
  namespace device = ratify::device;
  random_source random(10);
  for (int i = 0; i < 100000; ++i) {
    uint64_t const c = std::max<uint64_t>(random.word() >> random.integer(1, 63), 1);
    uint64_t a = std::min(random.word() >> random.integer(1, 63), c), b = random.word() >> random.integer(2, 63);
    if (i % 7 == 0) a = c;
    if (i % 11 == 0) b = (uint64_t{1} << random.integer(0, 62)) - 1;
    uint64_t divisor = c;
    int shift = 0;
    for (; divisor >> 63 == 0; ++shift) divisor <<= 1;
    CHECK(ratify::detail::multiply_divide(a, b, divisor, shift) ==
          static_cast<uint64_t>(static_cast<reference::uint128>(a) * b / c));
    auto const w = static_cast<uint32_t>(random.word());
    // p is where the test turns, and one off.
    auto const edge = static_cast<uint64_t>((static_cast<reference::uint128>(w) * b) >> 32);
    for (uint64_t p : {edge, edge + 1, edge - (edge > 0)})
      CHECK(device::is_accepted(w, b, p) ==
            (static_cast<reference::uint128>(w) * b < static_cast<reference::uint128>(p) << 32));
  }
  CHECK_FALSE(device::is_accepted(0, 0, 0));
  CHECK(device::is_accepted(0, 5, 1));
  CHECK(device::is_accepted(0xffffffffu, 5, 5));
  CHECK_FALSE(device::is_accepted(0x80000000u, 4, 2));  // equal: not accepted
}
