// SPDX-License-Identifier: Apache-2.0
/// Parameters of one launch of each elementwise operation.
#pragma once

#include <ratify/activation_policy.hpp>
#include <ratify/views.hpp>

RATIFY_BEGIN_NAMESPACE

/// One launch of `gating`. Every pointer is the caller's memory that the executor can reach. All tensors are required.
/// Strides are in elements of the tensor, and no stride is smaller than what it steps over. Outputs must not overlap
/// inputs.
///
/// @tparam Policy `gating_policy<Knobs...>`
template <class Policy>
struct gating_params {
  rows_view<typename Policy::input_format const> a;  ///< [rows, value_heads]
  rows_view<typename Policy::input_format const> b;  ///< [rows, value_heads]
  float const* a_log = nullptr;                      ///< [value_heads]: log of the decay's rate
  float const* dt_bias = nullptr;                    ///< [value_heads], added to a
  float* g = nullptr;                                ///< [rows, value_heads] dense: log of the state's decay, <= 0
  float* beta = nullptr;                             ///< [rows, value_heads] dense: strength of the update, 0 to 1
  int rows = 0;
  int value_heads = 0;
};

/// One launch of `silu_and_mul`. Every pointer is the caller's memory that the executor can reach. All tensors are
/// required. Strides are in elements of the tensor, and no stride is smaller than what it steps over.
///
/// @tparam Policy `silu_and_mul_policy<Knobs...>`
template <class Policy>
struct silu_and_mul_params {
  rows_view<typename Policy::input_format const> x;  ///< [rows, 2 * columns]: the gates first, then what they multiply
  rows_view<typename Policy::output_format> out;     ///< [rows, columns]; must not overlap x
  int rows = 0;
  int columns = 0;  ///< of out
};

/// One launch of `sigmoid_gate`. Every pointer is the caller's memory that the executor can reach. All tensors are
/// required. Strides are in elements of the tensor, the elements of a head are dense, and no stride is smaller than
/// what it steps over.
///
/// @tparam Policy `sigmoid_gate_policy<Knobs...>`
template <class Policy>
struct sigmoid_gate_params {
  heads_view<typename Policy::input_format const> x;    ///< [rows, heads, head_dim]
  heads_view<typename Policy::gate_format const> gate;  ///< [rows, heads, head_dim]
  /// [rows, heads, head_dim]. May be x with its strides where input and output format are equal; overlaps no input
  /// otherwise.
  heads_view<typename Policy::output_format> out;
  int rows = 0;
  int heads = 0;
  int head_dim = 0;  ///< elements of a head; heads * head_dim is less than 2^31
};

RATIFY_END_NAMESPACE
