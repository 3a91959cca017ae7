// SPDX-License-Identifier: Apache-2.0
/// What a drafter needs beside attention and projections: the walk over its candidates, and its convolution of two
/// taps. FP32 inside and ordered: the same bits on every executor. docs/arithmetic.md states the formulas.
#pragma once

#include <ratify/cuda.cuh>
#include <ratify/detail/drafting_contents.hpp>
#include <ratify/detail/drafting_kernels.cuh>

RATIFY_BEGIN_NAMESPACE

/// Whether `draft_walk<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_draft_walk = draft_walk_knobs::supports<Knobs...>;

/// Whether `draft_convolution<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_draft_convolution = draft_convolution_knobs::supports<Knobs...>;

#if !defined(__CUDACC_RTC__)

/// Chooses the tokens of a block of drafts, slot after slot, beginning at the verified anchor. Candidate c of slot s
/// after token t has the score unary[s][c] + dot(left[t] * project[s], right[c]).
///
/// Mode argmax takes the candidate with the largest score, and the lowest id among equal ones. Mode sample draws from
/// softmax(scores / temperature) by inverse CDF in the order (score descending, id ascending), with random bits that
/// depend on seed and position alone (Philox4x32-10, purpose 3; slot s at position + s). Below a temperature of 1e-5 it
/// is argmax. Masses and the draw are exact integers, computed as in acceptance. A candidate that is listed twice is
/// drawn by either entry.
///
/// `q` is the probability of each candidate, and 1 for the chosen one where nothing is drawn. Acceptance by rejection
/// takes `tokens`, `candidates` and `q` as its `draft`, `draft_candidates` and `draft_candidate_q`, in place, with the
/// same seed and position; what it then emits has the target's distribution.
///
/// A candidate outside 0 to vocab - 1, such as -1, or one whose score is NaN or -inf, counts nothing and has q 0; of
/// the former, nothing is read. A score of +inf wins, of several the lowest id. Where no candidate counts, the token is
/// -1 with q 0, and so are those of all slots after it, because their pair scores need a token; likewise all slots of a
/// request whose anchor is no token, or whose temperature is NaN, infinite or negative. Acceptance rejects a draft of
/// -1 and all after it, so that such a request goes on from the target alone.
///
/// Ordered: no knob but `mode` changes a bit. Order, error bound and range: docs/arithmetic.md.
///
/// @tparam Knobs   knobs that differ from their defaults, in any order: drafting_policy.hpp lists them
/// Parameters: `draft_walk_params`.
/// Limits: 64 candidates per slot, a vocabulary of 4194304.
/// Reads unary, candidates and project once, and per slot one row of left and one row of right for each candidate. No
/// workspace.
/// @return of `launch`: ok, invalid_argument, unsupported, no_device, launch_failed
template <class... Knobs>
struct draft_walk : detail::operation<draft_walk<Knobs...>, draft_walk_params<draft_walk_policy<Knobs...>>> {
  using policy = draft_walk_policy<Knobs...>;
  using params = draft_walk_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  static size_t scratch_bytes(params const&) { return 0; }

  /// Anchors and temperatures.
  template <class Checker>
  static void contents(params const& p, Checker& checker) {
    if (p.draft_slots > 0) detail::check_contents(p, checker);
  }

  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    if (p.requests == 0 || p.draft_slots == 0) return {};
    return visit(stage<draft_walk_kernel<policy>>{{p.requests}, p});
  }
};

/// out[i][c] = sum over t of (base[t][c] + delta[i][t][c / 16]) * x[i - t][c] for t = 0, 1: a depthwise convolution of
/// two taps within the slots of a request. The weights are made for each slot: `delta` has one number for 16 channels.
/// The first slot has no slot before it, so its second tap is not read.
///
/// Ordered: no knob changes a bit. Order, error bound and range: docs/arithmetic.md.
///
/// @tparam Knobs   knobs that differ from their defaults, in any order: drafting_policy.hpp lists them
/// Parameters: `draft_convolution_params`.
/// Limits: channels a multiple of 16; requests * draft_slots * channels up to 2^37.
/// Reads x and base twice and delta once. No workspace.
/// @return of `launch`: ok, invalid_argument, unsupported, no_device, launch_failed
template <class... Knobs>
struct draft_convolution
    : detail::operation<draft_convolution<Knobs...>, draft_convolution_params<draft_convolution_policy<Knobs...>>> {
  using policy = draft_convolution_policy<Knobs...>;
  using params = draft_convolution_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  static size_t scratch_bytes(params const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = draft_convolution_kernel<policy>;
    if (p.requests == 0 || p.draft_slots == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(kernel::count(p))}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
