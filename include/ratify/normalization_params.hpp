// SPDX-License-Identifier: Apache-2.0
/// Parameters of one launch of each normalization.
#pragma once

#include <ratify/normalization_policy.hpp>
#include <ratify/views.hpp>

RATIFY_BEGIN_NAMESPACE

/// One launch of `rmsnorm`. Every pointer is the caller's memory that the executor can reach. All tensors are required
/// unless called optional. Strides are in elements of the tensor, columns are dense, and no stride is smaller than what
/// it steps over. Outputs must not overlap inputs except where said.
///
/// @tparam Policy `rmsnorm_policy<Knobs...>`
template <class Policy>
struct rmsnorm_params {
  rows_view<typename Policy::input_format const> x;  ///< [rows, columns]
  rows_view<float const> residual;                   ///< [rows, columns], optional: added to x before the norm
  /// [rows, columns], optional: residual + x, or x where there is no residual. May be residual with its stride.
  rows_view<float> residual_out;
  typename Policy::weight_format const* weight = nullptr;  ///< [columns]
  /// [rows, columns]. May be x with its stride where input and output format are equal.
  rows_view<typename Policy::output_format> out;
  int rows = 0;
  int columns = 0;    ///< 1 to 2^30
  float eps = 1e-6f;  ///< added to the mean of the squares: finite, at least 0
};

/// One launch of `gated_rmsnorm`. Every pointer is the caller's memory that the executor can reach. All tensors are
/// required. Strides are in elements of the tensor, the elements of a head are dense, and no stride is smaller than
/// what it steps over.
///
/// @tparam Policy `gated_rmsnorm_policy<Knobs...>`
template <class Policy>
struct gated_rmsnorm_params {
  heads_view<typename Policy::input_format const> x;       ///< [rows, heads, head_dim]
  heads_view<typename Policy::gate_format const> z;        ///< [rows, heads, head_dim]
  typename Policy::weight_format const* weight = nullptr;  ///< [head_dim], the same for every head
  /// [rows, heads, head_dim]. May be x, or z, with its strides where its format is the output format; overlaps no input
  /// otherwise.
  heads_view<typename Policy::output_format> out;
  int rows = 0;
  int heads = 0;
  int head_dim = 0;   ///< elements of a head, 1 to 2^30
  float eps = 1e-6f;  ///< added to the mean of the squares: finite, at least 0
};

/// One launch of `qk_norm_rotary`. Every pointer is the caller's memory that the executor can reach. All tensors are
/// required, but for the tables where nothing turns. Strides are in elements of the tensor, the elements of a head are
/// dense, and no stride is smaller than what it steps over.
///
/// @tparam Policy `qk_norm_rotary_policy<Knobs...>`
template <class Policy>
struct qk_norm_rotary_params {
  heads_view<typename Policy::input_format const> x;       ///< [rows, heads, head_dim]
  typename Policy::weight_format const* weight = nullptr;  ///< [head_dim], the same for every head
  float const* cos = nullptr;  ///< [max_position, rotary_dim / 2] dense: a row of cosines per position
  float const* sin = nullptr;  ///< [max_position, rotary_dim / 2] dense: a row of sines per position
  /// [rows]: the position of each row, a row of the tables. Read by the kernel; a row with a position that is none of 0
  /// to max_position - 1 becomes zeros.
  int32_t const* positions = nullptr;
  /// [rows, heads, head_dim]. May be x with its strides where input and output format are equal; overlaps no input
  /// otherwise.
  heads_view<typename Policy::output_format> out;
  int rows = 0;
  int heads = 0;
  int head_dim = 0;      ///< elements of a head, 1 to 2^30
  int rotary_dim = 0;    ///< leading elements of a head that turn: even, at most head_dim; 0 turns none
  int max_position = 0;  ///< rows of the tables, at least 1 if there are rows
  float eps = 1e-6f;     ///< added to the mean of the squares: finite, at least 0
};

RATIFY_END_NAMESPACE
