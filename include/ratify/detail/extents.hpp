// SPDX-License-Identifier: Apache-2.0
/// Whether the strides of a view reach over what they step over, for the launch rules.
#pragma once

#include <ratify/detail/meta.hpp>
#include <ratify/views.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// One dimension of a view, in elements.
struct strided_extent {
  int64_t stride, extent;
};

/// Whether no two elements of a tensor share a place: taken from the smallest stride to the largest, each one is at
/// least what the dimensions inside it occupy. `dense` is the innermost extent. A dimension of one entry is not stepped
/// over, so its stride may hold anything.
template <int Count>
RATIFY_HD constexpr bool strides_reach(int64_t dense, strided_extent const (&dimensions)[Count]) {
  constexpr int64_t most = 0x7fffffffffffffff;
  strided_extent sorted[Count] = {};
  for (int i = 0; i < Count; ++i) {
    int place = i;
    for (; place > 0 && sorted[place - 1].stride > dimensions[i].stride; --place) sorted[place] = sorted[place - 1];
    sorted[place] = dimensions[i];
  }
  int64_t occupied = dense;
  for (int i = 0; i < Count; ++i) {
    if (sorted[i].extent <= 1) continue;
    if (sorted[i].stride < occupied || sorted[i].stride < 1) return false;
    int64_t const steps = sorted[i].extent - 1;
    occupied = steps > (most - occupied) / sorted[i].stride ? most : steps * sorted[i].stride + occupied;
  }
  return true;
}

template <class Element>
RATIFY_HD constexpr bool strides_reach(rows_view<Element> const& view, int64_t rows, int64_t columns) {
  strided_extent const dimensions[] = {{view.stride, rows}};
  return strides_reach(columns, dimensions);
}
template <class Element>
RATIFY_HD constexpr bool strides_reach(heads_view<Element> const& view, int64_t rows, int64_t heads, int64_t dim) {
  strided_extent const dimensions[] = {{view.row_stride, rows}, {view.head_stride, heads}};
  return strides_reach(dim, dimensions);
}
template <class Element>
RATIFY_HD constexpr bool strides_reach(pages_view<Element> const& view, int64_t pages, int64_t tokens, int64_t heads,
                                       int64_t dim) {
  strided_extent const dimensions[] = {
      {view.page_stride, pages}, {view.token_stride, tokens}, {view.head_stride, heads}};
  return strides_reach(dim, dimensions);
}

/// The extent of a pool of pages. 0 stands for one whose size the caller did not say: it may hold many, so that their
/// stride counts.
RATIFY_HD constexpr int64_t pages_or_many(int64_t pages) { return pages > 0 ? pages : 2; }

}  // namespace detail
RATIFY_END_NAMESPACE

// Two launch rules per tensor that must be there: it is not null, and its strides reach over the extents after it. And
// one for a dense array.
#define RATIFY_REQUIRED_VIEW(INVALID, op, name, ...)                                            \
  INVALID(name##_given, (p.name.data != nullptr), "ratify::" op ": " #name " must not be null") \
  INVALID(name##_strides, (detail::strides_reach(p.name, __VA_ARGS__)),                         \
          "ratify::" op ": a stride of " #name " is smaller than what it steps over")
#define RATIFY_REQUIRED_ARRAY(INVALID, op, name) \
  INVALID(name##_given, (p.name != nullptr), "ratify::" op ": " #name " must not be null")
// One for a view that may be left out.
#define RATIFY_OPTIONAL_VIEW(INVALID, op, name, ...)                                              \
  INVALID(name##_strides, (p.name.data == nullptr || detail::strides_reach(p.name, __VA_ARGS__)), \
          "ratify::" op ": a stride of " #name " is smaller than what it steps over")
