// SPDX-License-Identifier: Apache-2.0
/// Parameters of one launch of the two operations that a shadow is made of, and the record that a comparison adds to.
#pragma once

#include <ratify/shadow_policy.hpp>
#include <ratify/views.hpp>

RATIFY_BEGIN_NAMESPACE

/// What is known of one place of a program, such as an operation of a layer. It lies in memory that the executor can
/// reach, and the caller sets it to zeros before the first launch; every launch that is compared adds to it.
struct shadow_record {
  uint64_t calls;               ///< launches that were compared
  uint64_t elements;            ///< that were compared, of all tensors and launches
  uint64_t differing_elements;  ///< those of them whose bits differ
  uint64_t differing_bits;      ///< of those elements
  /// The largest |driver - shadow| as the bits of an FP32, correctly rounded; those of +inf if one of the two is NaN or
  /// the difference exceeds FP32.
  uint32_t largest_error;
  uint32_t unused;
};

/// One launch of `shadow_copy`. Every pointer is the caller's memory that the executor can reach. Strides are in
/// elements, rows are dense, and no stride is smaller than what it steps over. The tensors must not overlap.
///
/// @tparam Policy `shadow_copy_policy<Knobs...>`
template <class Policy>
struct shadow_copy_params {
  rows_view<typename Policy::element_format const> from;  ///< [rows, columns]
  rows_view<typename Policy::element_format> to;          ///< [rows, columns]
  int rows = 0;
  int64_t columns = 0;  ///< elements of one row; rows * columns is at most 2^37
};

/// One launch of `shadow_compare`. Every pointer is the caller's memory that the executor can reach. Strides are in
/// elements, rows are dense, and no stride is smaller than what it steps over.
///
/// @tparam Policy `shadow_compare_policy<Knobs...>`
template <class Policy>
struct shadow_compare_params {
  rows_view<typename Policy::element_format const> driver;  ///< [rows, columns]
  rows_view<typename Policy::element_format const> shadow;  ///< [rows, columns]
  shadow_record* record = nullptr;                          ///< [1]: read and written
  int calls = 1;  ///< what is added to the calls of the record: 0 if another tensor of the same launch was counted
  int rows = 0;
  int64_t columns = 0;  ///< elements of one row; rows * columns is at most 2^37
};

RATIFY_END_NAMESPACE
