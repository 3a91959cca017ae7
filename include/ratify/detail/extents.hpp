// SPDX-License-Identifier: Apache-2.0
/// What launch rules of several operations ask: whether strides reach over what they step over and stay in memory,
/// whether pointers may point at their elements, and whether outputs begin where inputs do.
#pragma once

#include <ratify/detail/machine/ptx.cuh>
#include <ratify/detail/meta.hpp>
#include <ratify/views.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// One dimension of a view, in elements.
struct strided_extent {
  int64_t stride, extent;
};

/// The largest number of elements, and of bytes, that is told from a larger one.
inline constexpr int64_t most_elements = 0x7fffffffffffffff;

/// The elements from the first to the last one of a tensor; `most_elements` if there are that many or more; -1 if two
/// elements share a place. Taken from the smallest stride to the largest, each one must be at least what the dimensions
/// inside it occupy. `dense` is the innermost extent. A dimension of one entry is not stepped over, so its stride may
/// hold anything.
template <int Count>
RATIFY_HD constexpr int64_t span_of(int64_t dense, strided_extent const (&dimensions)[Count]) {
  strided_extent sorted[Count] = {};
  for (int i = 0; i < Count; ++i) {
    int place = i;
    for (; place > 0 && sorted[place - 1].stride > dimensions[i].stride; --place) sorted[place] = sorted[place - 1];
    sorted[place] = dimensions[i];
  }
  int64_t occupied = dense;
  for (int i = 0; i < Count; ++i) {
    if (sorted[i].extent <= 1) continue;
    if (sorted[i].stride < occupied || sorted[i].stride < 1) return -1;
    int64_t const steps = sorted[i].extent - 1;
    occupied =
        steps > (most_elements - occupied) / sorted[i].stride ? most_elements : steps * sorted[i].stride + occupied;
  }
  return occupied;
}

template <class Element>
RATIFY_HD constexpr int64_t span_of(rows_view<Element> const& view, int64_t rows, int64_t columns) {
  strided_extent const dimensions[] = {{view.stride, rows}};
  return span_of(columns, dimensions);
}
template <class Element>
RATIFY_HD constexpr int64_t span_of(heads_view<Element> const& view, int64_t rows, int64_t heads, int64_t dim) {
  strided_extent const dimensions[] = {{view.row_stride, rows}, {view.head_stride, heads}};
  return span_of(dim, dimensions);
}
template <class Element>
RATIFY_HD constexpr int64_t span_of(pages_view<Element> const& view, int64_t pages, int64_t tokens, int64_t heads,
                                    int64_t dim) {
  strided_extent const dimensions[] = {
      {view.page_stride, pages}, {view.token_stride, tokens}, {view.head_stride, heads}};
  return span_of(dim, dimensions);
}

/// Whether no two elements of a view share a place.
template <class View, class... Extents>
RATIFY_HD constexpr bool strides_reach(View const& view, Extents... extents) {
  return span_of(view, extents...) >= 0;
}

/// Whether a span of elements has less than 2^63 bytes, so that no address in it overflows.
template <class Element>
RATIFY_HD constexpr bool is_in_memory(int64_t span) {
  return span < most_elements / static_cast<int64_t>(sizeof(Element));
}
template <class View, class... Extents>
RATIFY_HD constexpr bool strides_stay(View const& view, Extents... extents) {
  return is_in_memory<RATIFY_STD::remove_pointer_t<decltype(view.data)>>(span_of(view, extents...));
}

template <class Element>
RATIFY_HD bool is_aligned(Element const* p, size_t bytes) {
  return reinterpret_cast<RATIFY_STD::uintptr_t>(p) % bytes == 0;
}

// Whether a pointer, or that of a view, may point at its elements. Null may.
template <class Element>
RATIFY_HD bool is_at_elements(Element const* p) {
  return is_aligned(p, alignof(Element));
}
template <class Element>
RATIFY_HD bool is_at_elements(rows_view<Element> const& view) {
  return is_at_elements(view.data);
}
template <class Element>
RATIFY_HD bool is_at_elements(heads_view<Element> const& view) {
  return is_at_elements(view.data);
}
template <class Element>
RATIFY_HD bool is_at_elements(pages_view<Element> const& view) {
  return is_at_elements(view.data);
}

/// Whether none of the outputs begins where another one or an input does. Null counts as none.
template <int Outputs, int Inputs>
RATIFY_HD constexpr bool are_apart(void const* const (&outputs)[Outputs], void const* const (&inputs)[Inputs]) {
  for (int i = 0; i < Outputs; ++i) {
    if (outputs[i] == nullptr) continue;
    for (int j = 0; j < i; ++j)
      if (outputs[i] == outputs[j]) return false;
    for (int j = 0; j < Inputs; ++j)
      if (outputs[i] == inputs[j]) return false;
  }
  return true;
}

template <class Output, class Input>
RATIFY_HD constexpr bool begin_apart(Output const* out, Input const* in) {
  return out == nullptr || static_cast<void const*>(out) != static_cast<void const*>(in);
}

// Whether an output that begins where an input does is that input: in its format, and with those of its strides that
// are stepped over.
template <class Output, class Input>
RATIFY_HD constexpr bool is_apart_or_same(rows_view<Output> const& out, rows_view<Input> const& in, int64_t rows) {
  return begin_apart(out.data, in.data) ||
         (RATIFY_STD::is_same_v<Output const, Input> && (rows <= 1 || out.stride == in.stride));
}
template <class Output, class Input>
RATIFY_HD constexpr bool is_apart_or_same(heads_view<Output> const& out, heads_view<Input> const& in, int64_t rows,
                                          int64_t heads) {
  return begin_apart(out.data, in.data) ||
         (RATIFY_STD::is_same_v<Output const, Input> && (rows <= 1 || out.row_stride == in.row_stride) &&
          (heads <= 1 || out.head_stride == in.head_stride));
}

/// Whether a factor is finite and not 0, by its bits, so that no flag of the compiler can turn it around.
RATIFY_HD inline bool is_finite_scale(float scale) { return is_finite(scale) && bits(magnitude(scale)) != 0; }

/// The extent of a pool of pages. 0 stands for one whose size the caller did not say: it may hold many, so that their
/// stride counts.
RATIFY_HD constexpr int64_t pages_or_many(int64_t pages) { return pages > 0 ? pages : 2; }

}  // namespace detail
RATIFY_END_NAMESPACE

// Launch rules that a tensor has wherever it is named. Of a pointer: it is not null; it may point at its elements.
#define RATIFY_GIVEN_RULE(INVALID, op, name) \
  INVALID(name##_given, (p.name != nullptr), "ratify::" op ": " #name " must not be null")
#define RATIFY_ALIGNED_RULE(INVALID, op, rule, name) \
  INVALID(rule, (detail::is_at_elements(p.name)), "ratify::" op ": " #name " must be aligned to its elements")
// Of a view: its strides reach over the extents after it, and stay in memory.
#define RATIFY_STRIDE_RULES(INVALID, op, name, ...)                                               \
  INVALID(name##_strides, (p.name.data == nullptr || detail::strides_reach(p.name, __VA_ARGS__)), \
          "ratify::" op ": a stride of " #name " is smaller than what it steps over")             \
  INVALID(name##_far, (p.name.data == nullptr || detail::strides_stay(p.name, __VA_ARGS__)),      \
          "ratify::" op ": the strides of " #name " reach over 2^63 bytes")

// All of them, for dense arrays and for views that must be there or may be left out.
#define RATIFY_OPTIONAL_ARRAY(INVALID, op, name) RATIFY_ALIGNED_RULE(INVALID, op, name##_aligned, name)
#define RATIFY_REQUIRED_ARRAY(INVALID, op, name) \
  RATIFY_GIVEN_RULE(INVALID, op, name)           \
  RATIFY_OPTIONAL_ARRAY(INVALID, op, name)
#define RATIFY_OPTIONAL_VIEW(INVALID, op, name, ...)     \
  RATIFY_ALIGNED_RULE(INVALID, op, name##_aligned, name) \
  RATIFY_STRIDE_RULES(INVALID, op, name, __VA_ARGS__)
#define RATIFY_REQUIRED_VIEW(INVALID, op, name, ...)                                            \
  INVALID(name##_given, (p.name.data != nullptr), "ratify::" op ": " #name " must not be null") \
  RATIFY_OPTIONAL_VIEW(INVALID, op, name, __VA_ARGS__)
