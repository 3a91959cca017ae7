// SPDX-License-Identifier: Apache-2.0
#include <ratify/detail/philox.cuh>

#include <doctest/doctest.h>

#include <cstdint>

namespace {

using ratify::detail::philox_block;

bool operator==(philox_block a, philox_block b) { return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w; }

}  // namespace

// The known-answer vectors of the authors' library Random123 (kat_vectors, philox4x32 with 10 rounds).
TEST_CASE("philox4x32_10 gives the known answers") {
  using ratify::detail::philox4x32_10;
  CHECK(philox4x32_10({0, 0, 0, 0}, 0, 0) == philox_block{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  uint32_t const ones = 0xffffffffu;
  CHECK(philox4x32_10({ones, ones, ones, ones}, ones, ones) ==
        philox_block{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  CHECK(philox4x32_10({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, 0xa4093822u, 0x299f31d0u) ==
        philox_block{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("random_bits puts seed, position and purpose where the counter and the key have them") {
  using namespace ratify::detail;
  uint64_t const seed = 0x299f31d0a4093822ull, position = 0x85a308d3243f6a88ull;
  for (auto purpose : {random_purpose::coupled_draw, random_purpose::accept_test, random_purpose::residual_draw,
                       random_purpose::draft_walk})
    CHECK(random_bits(seed, position, purpose) ==
          philox4x32_10({0x243f6a88u, 0x85a308d3u, static_cast<uint32_t>(purpose), 0}, 0xa4093822u, 0x299f31d0u).x);
  CHECK(random_bits(0, 0, random_purpose::coupled_draw) == 0x6627e8d5u);
}
