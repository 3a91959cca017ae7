// SPDX-License-Identifier: Apache-2.0
/// Parameters of one launch of the NVFP4 projection.
#pragma once

#include <ratify/nvfp4.hpp>
#include <ratify/projection_policy.hpp>
#include <ratify/views.hpp>

RATIFY_BEGIN_NAMESPACE

/// One launch of `projection`: y [rows, n] = x [rows, k] W^T, W [n, k] in NVFP4. Every pointer is the caller's memory
/// that the executor can reach, and is only read except for y. All tensors are required unless called optional. Strides
/// are in elements, the innermost extent is dense, and no stride is smaller than what it steps over.
///
/// @tparam Policy `projection_policy<Knobs...>`
template <class Policy>
struct projection_params {
  rows_view<typename Policy::input_format const>
      x;  ///< [rows, k]; fastest if pointer and stride are multiples of 16 bytes
  /// [n, k / 2] dense: two E2M1 codes per byte, the low nibble is the even column. Aligned to 8 bytes; fastest if
  /// aligned to 16 bytes with a k that is a multiple of 32.
  uint8_t const* w_packed = nullptr;
  e4m3 const* w_scale = nullptr;    ///< [n, k / 16] dense: the scale of each group of 16 columns of k
  float const* w_global = nullptr;  ///< [segments]: the factor of all scales of a segment
  /// [segments] in ascending order, optional if segments is 1: segment s has the columns of y from segment_end[s - 1]
  /// (0 for the first one) to segment_end[s] - 1. Columns past the last end have w_global 0.
  int32_t const* segment_end = nullptr;
  int segments = 1;                             ///< runs of columns of y that have a w_global each, at least 1
  float const* bias = nullptr;                  ///< [n], optional: added to each row
  rows_view<typename Policy::output_format> y;  ///< [rows, n]; must not overlap the inputs
  int rows = 0;                                 ///< of x and y
  int n = 0;                                    ///< columns of y, 1 to 2^30
  int k = 0;                                    ///< columns of x: a multiple of 16, up to 2^30
};

RATIFY_END_NAMESPACE
