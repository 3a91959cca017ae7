// SPDX-License-Identifier: Apache-2.0
/// Bounds of requests as no caller should give them.
#pragma once

#include <cstdint>
#include <vector>

namespace ratify_test {

/// Bounds that leave the launch, run backwards, overlap or hold more rows than a request may; beside them bounds in
/// order that give the same once some requests are retired.
struct ill_formed_range {
  std::vector<int32_t> given, meant;
  std::vector<int> retired;
};

/// Of three requests in 9 rows, of which each may have 4.
inline std::vector<ill_formed_range> ill_formed_ranges() {
  return {
      {{0, 2, 12, 9}, {0, 2, 9, 9}, {1}},        {{0, 2, 9, 7}, {0, 2, 9, 9}, {1}}, {{-3, 2, 6, 9}, {0, 2, 6, 9}, {0}},
      {{0, 0, 9, 9}, {0, 0, 9, 9}, {1}},         {{0, 4, 2, 9}, {0, 4, 4, 9}, {2}},  // the last two of the first one's
                                                                                     // rows, and the rest
      {{2, 6, 0, 9}, {2, 6, 9, 9}, {1}},   // rows on both sides of the first one's
      {{0, 12, 5, 9}, {0, 5, 5, 9}, {0}},  // too many rows before those of one that is right
      {{0, 9, 1, 4}, {0, 9, 9, 9}, {0}},   // too many for one, and yet they are its own
      {{5, INT32_MIN, 5, 9}, {0, 0, 5, 9}, {1}},
  };
}

}  // namespace ratify_test
