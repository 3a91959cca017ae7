// SPDX-License-Identifier: Apache-2.0
/// Parameters of one launch of the drafter's operations.
#pragma once

#include <ratify/drafting_policy.hpp>
#include <ratify/views.hpp>

RATIFY_BEGIN_NAMESPACE

/// One launch of `draft_walk`. Every pointer is the caller's memory that the executor can reach, and its contents are
/// read by the kernel. All tensors are required unless called optional. Strides are in elements, the innermost extent
/// is dense, and no stride is smaller than what it steps over. Outputs must not overlap inputs.
///
/// @tparam Policy `draft_walk_policy<Knobs...>`
template <class Policy>
struct draft_walk_params {
  using pair_format = typename Policy::pair_format;
  heads_view<float const> unary;  ///< [requests, draft_slots, candidate_count]: the part of a score of its own
  /// [requests, draft_slots, candidate_count]: token ids. One that is outside 0 to vocab - 1 counts nothing.
  heads_view<int32_t const> candidates;
  rows_view<pair_format const> left;   ///< [vocab, rank]: by the token before
  rows_view<pair_format const> right;  ///< [vocab, rank]: by the candidate
  heads_view<float const> project;     ///< [requests, draft_slots, rank]
  int32_t const* anchor = nullptr;     ///< [requests]: the token before the first slot
  /// [requests]: finite and not negative; below 1e-5 the largest score wins. Mode sample requires it, argmax ignores
  /// it.
  float const* temperature = nullptr;
  int64_t const* seed = nullptr;  ///< [requests]: likewise
  /// [requests]: position in the sequence of the token of the first slot; likewise.
  int64_t const* position = nullptr;
  rows_view<int32_t> tokens;  ///< [requests, draft_slots]; may be `draft` of acceptance
  /// [requests, draft_slots, candidate_count], optional: the probability of each candidate; may be `draft_candidate_q`
  /// of acceptance.
  heads_view<float> q;
  int requests = 0;
  int draft_slots = 0;      ///< tokens that are drafted for each request
  int candidate_count = 0;  ///< candidates of each slot, 1 to 64
  int rank = 0;             ///< elements of a row of left, right and project, at least 1
  int vocab = 0;            ///< rows of left and right, 1 to 4194304
};

/// One launch of `draft_convolution`. Every pointer is the caller's memory that the executor can reach. All tensors are
/// required. Strides are in elements, the innermost extent is dense, and no stride is smaller than what it steps over.
/// `out` must not overlap the inputs.
///
/// @tparam Policy `draft_convolution_policy<Knobs...>`
template <class Policy>
struct draft_convolution_params {
  heads_view<typename Policy::input_format const> x;  ///< [requests, draft_slots, channels]
  /// [2, channels] dense: the weights of the slot itself, then those of the slot before it.
  typename Policy::base_format const* base = nullptr;
  /// [requests, draft_slots, 2, channels / 16], the last two extents dense: what is added to `base`, one number for 16
  /// channels of each weight.
  heads_view<typename Policy::delta_format const> delta;
  heads_view<typename Policy::output_format> out;  ///< [requests, draft_slots, channels]
  int requests = 0;
  int draft_slots = 0;
  int channels = 0;  ///< a multiple of 16
};

RATIFY_END_NAMESPACE
