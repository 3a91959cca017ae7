// SPDX-License-Identifier: Apache-2.0
/// append in plain loops; the quotient and the rounding by definition.
#pragma once

#include "reference/formats.hpp"

#include <vector>

namespace reference {

/// Dense tensors of one append: rows [rows, heads, dim], pages [pages, page_size, heads, dim], table [requests,
/// max_pages], scales [1] or [heads].
template <class Input, class Stored>
struct append_case {
  int heads = 1, dim = 1, page_size = 1, max_pages = 0;
  int64_t pool_pages = 0;  ///< 0: unknown
  std::vector<Input> k, v;
  std::vector<Stored> k_pages, v_pages;
  std::vector<int32_t> table, context_len, query_start;
  std::vector<float> k_scale, v_scale;

  int requests() const { return static_cast<int>(context_len.size()); }
  int rows() const { return static_cast<int>(k.size()) / (heads * dim); }

  /// What the pages hold afterwards.
  void append() {
    int claimed = 0;  // rows before this one belong to earlier requests
    for (int r = 0; r < requests(); ++r) {
      int const begin = query_start[size_t(r)], end = query_start[size_t(r) + 1];
      if (begin < claimed || end > rows() || begin >= end) continue;
      int const n = end - begin;
      claimed = end;
      if (context_len[size_t(r)] < 0 || context_len[size_t(r)] > max_pages * page_size) continue;
      for (int i = 0; i < n; ++i) {
        int const position = context_len[size_t(r)] - n + i;
        if (position < 0) continue;
        int const page = table[size_t(r * max_pages + position / page_size)];
        if (page < 0 || (pool_pages > 0 && page >= pool_pages)) continue;
        for (int h = 0; h < heads; ++h)
          for (int d = 0; d < dim; ++d) {
            auto const from = size_t(((begin + i) * heads + h) * dim + d);
            auto const to = size_t(((page * page_size + position % page_size) * heads + h) * dim + d);
            k_pages[to] = stored(k[from], k_scale[k_scale.size() > 1 ? size_t(h) : 0]);
            v_pages[to] = stored(v[from], v_scale[v_scale.size() > 1 ? size_t(h) : 0]);
          }
      }
    }
  }

  /// FP64 rounded to FP32 is the correctly rounded FP32 quotient: 53 bits are more than twice 24 and two.
  static Stored stored(Input x, float scale) {
    return nearest<Stored>(static_cast<float>(value_of(x) / static_cast<double>(scale)));
  }
};

}  // namespace reference
