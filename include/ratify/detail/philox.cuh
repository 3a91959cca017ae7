// SPDX-License-Identifier: Apache-2.0
/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a random number
/// is a function of key and counter, so that a token's draw depends on its seed and position and on nothing else.
#pragma once

#include <ratify/config.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// What a draw is for. Part of the counter, so that no two purposes share a number.
enum class random_purpose : uint32_t { coupled_draw = 0, accept_test = 1, residual_draw = 2, draft_walk = 3 };

struct philox_block {
  uint32_t x, y, z, w;
};

RATIFY_HD inline philox_block philox4x32_10(philox_block counter, uint32_t key_low, uint32_t key_high) {
  RATIFY_UNROLL
  for (int round = 0; round < 10; ++round) {
    uint64_t const a = uint64_t{0xd2511f53u} * counter.x, b = uint64_t{0xcd9e8d57u} * counter.z;
    counter = {static_cast<uint32_t>(b >> 32) ^ counter.y ^ key_low, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter.w ^ key_high, static_cast<uint32_t>(a)};
    key_low += 0x9e3779b9u;
    key_high += 0xbb67ae85u;
  }
  return counter;
}

/// The 32 random bits of one position of a sequence. `position` wraps modulo 2^64.
RATIFY_HD inline uint32_t random_bits(uint64_t seed, uint64_t position, random_purpose purpose) {
  philox_block const counter{static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
                             static_cast<uint32_t>(purpose), 0};
  return philox4x32_10(counter, static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)).x;
}

}  // namespace detail
RATIFY_END_NAMESPACE
