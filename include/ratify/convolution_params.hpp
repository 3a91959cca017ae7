// SPDX-License-Identifier: Apache-2.0
/// Parameters of one launch of the causal depthwise convolution.
#pragma once

#include <ratify/convolution_policy.hpp>
#include <ratify/views.hpp>

RATIFY_BEGIN_NAMESPACE

/// One launch of `convolution`. Every pointer is the caller's memory that the executor can reach; contents of all
/// tensors are read by the kernel, so that a captured graph replays with new slots and lengths. All tensors are
/// required unless called optional. Strides are in elements of the tensor. W is the policy's `width`, T is `max_rows`.
///
/// @tparam Policy `convolution_policy<Knobs...>`
template <class Policy>
struct convolution_params {
  using input_format = typename Policy::input_format;
  using weight_format = typename Policy::weight_format;

  /// [rows, channels]
  rows_view<input_format const> x;
  weight_format const* weight = nullptr;  ///< [channels, W] dense; the last tap is that of the current row
  weight_format const* bias = nullptr;    ///< [channels], optional: none is 0
  /// [pool_slots, W - 1 + T, channels], dense inside a slot: the W - 1 inputs before a round, then the round's own.
  input_format* window_pool = nullptr;
  int64_t slot_stride = 0;         ///< elements from slot to slot of window_pool
  int32_t const* slot = nullptr;   ///< [requests]: 0 to pool_slots - 1; -1 retires the request
  int32_t const* kept = nullptr;   ///< [requests]: 0 to T, how many rows of the previous round were kept
  int32_t const* fresh = nullptr;  ///< [requests], optional. 1: the window is zeros, and kept must be 0
  int32_t const* query_start =
      nullptr;  ///< [requests + 1]: request r has rows query_start[r] to query_start[r + 1] - 1
  /// [rows, channels]; must not overlap x.
  rows_view<typename Policy::output_format> out;
  int rows = 0;            ///< of all requests: the extent of x and out
  int requests = 0;        ///< at most 65535
  int channels = 0;        ///< at least 1
  int max_rows = 0;        ///< capacity T: most rows of one request, 1 to 2^30
  int64_t pool_slots = 0;  ///< slots that window_pool holds
};

RATIFY_END_NAMESPACE
