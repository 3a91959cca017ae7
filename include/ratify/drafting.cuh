// SPDX-License-Identifier: Apache-2.0
/// What a drafter needs beside attention and projections: the walk over its candidates, and its two-tap convolution.
/// FP32 inside, ordered: the same bits on every executor. docs/arithmetic.md states the formulas.
#pragma once

#include <ratify/detail/drafting_kernels.cuh>
#include <ratify/detail/machine/launch.cuh>

RATIFY_BEGIN_NAMESPACE

template <class Policy>
inline constexpr bool is_supported_draft_walk = detail::draft_walk_support<Policy>::value;
template <class Policy>
inline constexpr bool is_supported_draft_convolution = detail::draft_convolution_support<Policy>::value;

#if !defined(__CUDACC_RTC__)

/// Chooses the tokens of a block of drafts, slot after slot from the verified anchor. Candidate c of slot s after token
/// t has the score unary[s][c] + dot(left[t] * project[s], right[c]).
///
/// Mode argmax takes the largest score, of equal ones the lowest id. Mode sample draws from softmax(scores /
/// temperature) by inverse CDF in the order (score descending, id ascending), with random bits that depend on seed and
/// position alone (Philox4x32-10, purpose 3; slot s at position + s); below temperature 1e-5 it is argmax. Masses and
/// draw are exact integers, those of acceptance. A candidate that is there twice is drawn by either entry.
///
/// `q` is each candidate's probability, 1 for the chosen one where nothing is drawn: `tokens`, `candidates` and `q` are
/// what acceptance by rejection takes as `draft`, `draft_candidates` and `draft_candidate_q`, in place, with the same
/// seed and position. What is then emitted has the target's distribution.
///
/// @tparam Policy derives from `draft_walk_policy`
/// Parameters: `draft_walk_params`; outputs must not overlap inputs. A candidate outside 0..vocab - 1 (-1 among them),
/// or one whose score is NaN or -inf, counts nothing and has q 0; of the former nothing is read. +inf wins, of several
/// the lowest id. Where no candidate counts the token is -1 with q 0, and so are all slots after it, for the pair score
/// needs a token; likewise all slots of a request whose anchor is no token, or whose temperature is NaN, infinite or
/// negative. Acceptance rejects a draft of -1 and all after it, so such a request goes on from the target alone. Reads
/// unary, candidates and project once, and for each slot a row of left and one of right for each candidate. No
/// workspace. Status: `unsupported` with the rule's text.
template <class Policy>
struct draft_walk : detail::operation<draft_walk<Policy>, draft_walk_params<Policy>> {
  RATIFY_DRAFT_WALK_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(draft_walk_params<Policy> const& p) {
    return detail::draft_walk_support<Policy>::reason(p);
  }
  static size_t scratch_bytes(draft_walk_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(draft_walk_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    if (p.requests == 0 || p.slots == 0) return {};
    return visit(stage<detail::draft_walk_kernel<Policy>>{{p.requests}, p});
  }
};

/// out[i][c] = sum over t of (base[t][c] + delta[i][t][c / 16]) * x[i - t][c] for t = 0, 1: a depthwise convolution of
/// two taps within the block of slots, whose weights are made for each slot, one for 16 channels. Slot 0 has no slot
/// before it: its second tap is not read.
///
/// @tparam Policy derives from `draft_convolution_policy`
/// Parameters: `draft_convolution_params`; out must not be x. Reads x and base twice, the rest once. No workspace.
/// Status: `unsupported` with the rule's text.
template <class Policy>
struct draft_convolution : detail::operation<draft_convolution<Policy>, draft_convolution_params<Policy>> {
  RATIFY_DRAFT_CONVOLUTION_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(draft_convolution_params<Policy> const& p) {
    return detail::draft_convolution_support<Policy>::reason(p);
  }
  static size_t scratch_bytes(draft_convolution_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(draft_convolution_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = detail::draft_convolution_kernel<Policy>;
    if (p.requests == 0 || p.slots == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(kernel::count(p))}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
