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
      {{0, 2, 12, 9}, {0, 2, 9, 9}, {1}},         // past the launch
      {{0, 2, 9, 7}, {0, 2, 9, 9}, {1}},          // too many rows
      {{-3, 2, 6, 9}, {0, 2, 6, 9}, {0}},         // before the launch
      {{0, 0, 9, 9}, {0, 0, 9, 9}, {1}},          // too many rows, all in order
      {{0, 4, 2, 9}, {0, 4, 4, 9}, {2}},          // the last two rows of the first request, and all after them
      {{2, 6, 0, 9}, {2, 6, 9, 9}, {1}},          // rows on both sides of the first request's
      {{0, 12, 5, 9}, {0, 5, 5, 9}, {0}},         // past the launch, over the rows of one that is right
      {{0, 9, 1, 4}, {0, 9, 9, 9}, {0}},          // too many rows, and yet they are its own
      {{5, INT32_MIN, 5, 9}, {0, 0, 5, 9}, {1}},  // differences beyond an int
  };
}

}  // namespace ratify_test
