// SPDX-License-Identifier: Apache-2.0
/// A float as its bits and back, for tests that compare or make numbers exactly.
#pragma once

#include <cstdint>
#include <cstring>

namespace ratify_test {

inline uint32_t bits(float value) {
  uint32_t u;
  std::memcpy(&u, &value, sizeof u);
  return u;
}

inline float from_bits(uint32_t u) {
  float value;
  std::memcpy(&value, &u, sizeof value);
  return value;
}

}  // namespace ratify_test
