// SPDX-License-Identifier: Apache-2.0
/// Typed, non-owning views of the caller's tensors. Strides are in elements and 64-bit; the innermost extent is dense.
#pragma once

#include <ratify/config.hpp>

RATIFY_BEGIN_NAMESPACE

/// [rows, columns] with `stride` elements from row to row.
template <class T>
struct rows_view {
  T* data = nullptr;
  int64_t stride = 0;
  RATIFY_HD T* row(int64_t r) const { return data + r * stride; }
};

/// [rows, heads, dim] with a stride from row to row and one from head to head.
template <class T>
struct heads_view {
  T* data = nullptr;
  int64_t row_stride = 0;
  int64_t head_stride = 0;
  RATIFY_HD T* at(int64_t row, int64_t head) const { return data + row * row_stride + head * head_stride; }
};

/// [pages, page_size, kv_heads, dim] with a stride each; K and V may interleave in one buffer.
template <class T>
struct pages_view {
  T* data = nullptr;
  int64_t page_stride = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
  RATIFY_HD T* at(int64_t page, int64_t token, int64_t head) const {
    return data + page * page_stride + token * token_stride + head * head_stride;
  }
};

/// Scratch memory of the caller, aligned to 16 bytes. What it must hold between launches is said by each operation;
/// most need nothing.
struct workspace {
  void* pointer = nullptr;
  size_t bytes = 0;
};

RATIFY_END_NAMESPACE
