// SPDX-License-Identifier: Apache-2.0
/// Typed, non-owning views of the caller's tensors. Strides are in elements and 64-bit; the innermost extent is dense.
#pragma once

#include <ratify/config.hpp>

RATIFY_BEGIN_NAMESPACE

/// [rows, columns] with `stride` elements from row to row.
template <class Element>
struct rows_view {
  Element* data = nullptr;
  int64_t stride = 0;
  RATIFY_HD Element* row(int64_t r) const { return data + r * stride; }
};

/// [rows, heads, dim] with a stride from row to row and one from head to head.
template <class Element>
struct heads_view {
  Element* data = nullptr;
  int64_t row_stride = 0;
  int64_t head_stride = 0;
  RATIFY_HD Element* at(int64_t row, int64_t head) const { return data + row * row_stride + head * head_stride; }
};

/// [pages, page_size, kv_heads, dim] with a stride each; K and V may interleave in one buffer.
template <class Element>
struct pages_view {
  Element* data = nullptr;
  int64_t page_stride = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
  RATIFY_HD Element* at(int64_t page, int64_t token, int64_t head) const {
    return data + page * page_stride + token * token_stride + head * head_stride;
  }
};

// Views of tensors without gaps between rows, heads or tokens.

template <class Element>
RATIFY_HD constexpr rows_view<Element> dense_rows(Element* data, int64_t columns) {
  return {data, columns};
}
template <class Element>
RATIFY_HD constexpr heads_view<Element> dense_heads(Element* data, int64_t heads, int64_t dim) {
  return {data, heads * dim, dim};
}
template <class Element>
RATIFY_HD constexpr pages_view<Element> dense_pages(Element* data, int64_t page_size, int64_t kv_heads, int64_t dim) {
  return {data, page_size * kv_heads * dim, kv_heads * dim, dim};
}

/// Scratch memory of the caller, aligned to 16 bytes. What it must hold between launches is said by each operation;
/// most need nothing.
struct workspace {
  void* pointer = nullptr;
  size_t bytes = 0;
};

RATIFY_END_NAMESPACE
