// SPDX-License-Identifier: Apache-2.0
/// Embedding: the twin. A copy has no rounding of its own, so it is its truth too.
#pragma once

#include <ratify/numeric.hpp>

#include <vector>

namespace reference {

template <class Format>
std::vector<float> embedding(std::vector<Format> const& table, std::vector<int32_t> const& tokens, size_t columns) {
  std::vector<float> out;
  for (int64_t const token : tokens)
    for (size_t c = 0; c < columns; ++c) {
      bool const known = token >= 0 && static_cast<size_t>(token) < table.size() / columns;
      out.push_back(known ? ratify::to_float(table[static_cast<size_t>(token) * columns + c]) : 0.0f);
    }
  return out;
}

}  // namespace reference
