// SPDX-License-Identifier: Apache-2.0
/// The tables of rotary position embeddings.
#pragma once

#include <cmath>
#include <vector>

namespace example {

/// cos and sin of the angle of each position and pair of elements, [positions, rotary_dim / 2] each.
struct rotary_tables {
  std::vector<float> cos, sin;
};

inline rotary_tables make_rotary_tables(int positions, int rotary_dim, double theta) {
  std::vector<double> frequencies;
  for (int i = 0; i < rotary_dim / 2; ++i) frequencies.push_back(std::pow(theta, -2.0 * i / rotary_dim));
  rotary_tables t;
  for (int position = 0; position < positions; ++position)
    for (double const frequency : frequencies) {
      t.cos.push_back(static_cast<float>(std::cos(position * frequency)));
      t.sin.push_back(static_cast<float>(std::sin(position * frequency)));
    }
  return t;
}

}  // namespace example
