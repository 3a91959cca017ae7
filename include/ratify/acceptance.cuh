// SPDX-License-Identifier: Apache-2.0
/// From the target's logits and the drafts to the emitted tokens. Decisions are exact integers: the same on every
/// executor, for any batch. docs/arithmetic.md states the formulas.
#pragma once

#include <ratify/detail/acceptance_kernels.cuh>
#include <ratify/detail/machine/launch.cuh>

RATIFY_BEGIN_NAMESPACE

template <class Policy>
inline constexpr bool is_supported_acceptance = detail::acceptance_support<Policy>::value;
template <class Policy>
inline constexpr bool is_supported_acceptance_summary = detail::acceptance_summary_support<Policy>::value;

#if !defined(__CUDACC_RTC__)

/// Accepts drafts against the target's distribution and emits tokens.
///
/// Rule coupled: the target's own token of each row is drawn with random bits that depend on seed and position alone
/// (Philox4x32-10); a draft is accepted if it equals that token, the first that differs is replaced by it, and after
/// the last draft the last row's own token follows. The text is the same, token by token, with or without drafts.
///
/// Rule rejection (Leviathan, Kalman, Matias, "Fast inference from transformers via speculative decoding", ICML 2023;
/// Chen et al., "Accelerating large language model decoding with speculative sampling", 2023): for drafts drawn from q.
/// A draft x is accepted with p(x) / q(x), the first that is not is replaced by a draw from max(0, p - q), and after
/// the last draft a token of the last row follows. What is emitted has the target's distribution.
///
/// A token is drawn from softmax(logits / temperature), cut to the top_k first entries in the order (stored logit
/// descending, id ascending), then to the shortest prefix that holds top_p of what is left. A row with a NaN, or with
/// nothing above -inf, is bad; +inf wins, of several the lowest id. All rows are judged, reached or not.
/// Emission ends after an end token, at the limit, or before a bad row.
///
/// Logits may lie in shards of the vocabulary, one after another in memory, as an all-gather leaves them: the same
/// decisions to the bit. `params::cursors` asks for what the next round's recurrence and convolution read, written on
/// the device.
///
/// @tparam Policy derives from `acceptance_policy`
/// Parameters: `acceptance_params`; outputs must not overlap inputs. A request without rows, or whose query_start is
/// out of range, is left untouched (rows of the latter get row_status 0). A temperature that is NaN, infinite or
/// negative, a top_p outside 0..1, or a top_k below -1, which only the device can see, makes all rows of its request
/// bad: nothing is emitted and finish is 3 (2 where the limit allows no token anyway). Under rejection a draft whose
/// distribution has a weight that is negative, infinite or NaN, or no weight at all, is replaced by a draw from p, and
/// is accepted if that draw gives it. Reads the logits once (greedy), twice (small top_k), or 4 to 14 times (what
/// reading does after the first time comes from cache); a rejected draft adds up to 8 times, and so often `draft_probs`
/// too. Where a shard (the whole row, without shards) has more than 8192 logits, a block reads each 8192 of it if top_k
/// is 1 to 64 or the row greedy; all else is read by a block a row. Workspace: 4 bytes a row, and 512 for each such
/// piece, a shard's last one included; may hold anything. Status: `unsupported` with the rule's text.
template <class Policy>
struct acceptance : detail::operation<acceptance<Policy>, acceptance_params<Policy>> {
  RATIFY_ACCEPTANCE_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(acceptance_params<Policy> const& p) {
    return detail::acceptance_support<Policy>::reason(p);
  }
  static size_t scratch_bytes(acceptance_params<Policy> const& p) {
    return piece_bytes(p) + static_cast<size_t>(p.rows) * sizeof(int32_t);
  }
  template <class Executor, class Visitor>
  static status stages(acceptance_params<Policy> const& p, workspace w, Executor const&, Visitor&& visit) {
    if (p.rows == 0 || p.requests == 0) return {};
    detail::acceptance_kernel_params<Policy> all{p, {}, detail::workspace_at<int32_t>(w, piece_bytes(p))};
    status s;
    if constexpr (!is_summarised) {
      if (piece_bytes(p) > 0) {
        int64_t const pieces = detail::pieces_of_row(p);
        all.pieces = {static_cast<acceptance_word*>(w.pointer), pieces * detail::acceptance_piece_places};
        s = visit(stage<detail::acceptance_piece_kernel<Policy>>{{p.rows, detail::grid_blocks(pieces)}, all});
      }
    }
    int64_t const entries = is_summarised ? int64_t{p.shards} * p.shard_vocab : p.vocab;
    if (s)
      s = entries <= detail::one_warp_entries ? visit(stage<detail::acceptance_row_kernel<Policy, 32>>{{p.rows}, all})
                                              : visit(stage<detail::acceptance_row_kernel<Policy, 512>>{{p.rows}, all});
    using kernel = detail::acceptance_kernel<Policy>;
    if (s) s = visit(stage<kernel>{{detail::elementwise_blocks<kernel>(p.requests)}, all});
    return s;
  }
 private:
  static constexpr bool is_summarised = std::is_same_v<typename Policy::logit_format, acceptance_word>;
  /// Of the summaries of pieces.
  static size_t piece_bytes(acceptance_params<Policy> const& p) {
    if (detail::pieces_of_shard(p) <= 1) return 0;
    return static_cast<size_t>(p.rows) * static_cast<size_t>(detail::pieces_of_row(p)) *
           detail::acceptance_piece_places * sizeof(acceptance_word);
  }
};

/// The first entries of each row of a shard of logits: what the other ranks need to know of it where top_k is set, so
/// that they exchange `places` words a row and not the shard. `acceptance` under a policy with `logit_format`
/// acceptance_word decides from the gathered words [shards, rows, places] as from the whole logits, to the bit: the
/// first top_k entries of the whole are among the first top_k of each shard, and nothing behind them is ever looked at.
///
/// A row whose top_k is off or above `places` (and above the shard's ids), unless it is greedy, is not summarised, for
/// its masses are those of the whole vocabulary: `acceptance` gives it row_status 2 and takes it for bad.
///
/// @tparam Policy derives from `acceptance_policy`; its rule does not matter
/// Parameters: `acceptance_summary_params`. Rows of no request, or of one whose query_start is out of range, get words
/// of 0. Reads the logits twice (small top_k) or up to 7 times. No workspace. Status: `unsupported` with the rule's
/// text.
template <class Policy>
struct acceptance_summary : detail::operation<acceptance_summary<Policy>, acceptance_summary_params<Policy>> {
  RATIFY_ACCEPTANCE_SUMMARY_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(acceptance_summary_params<Policy> const& p) {
    return detail::acceptance_summary_support<Policy>::reason(p);
  }
  static size_t scratch_bytes(acceptance_summary_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(acceptance_summary_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    if (p.rows == 0 || p.requests == 0) return {};
    return p.vocab <= detail::one_warp_entries
               ? visit(stage<detail::acceptance_summary_kernel<Policy, 32>>{{p.rows}, p})
               : visit(stage<detail::acceptance_summary_kernel<Policy, 512>>{{p.rows}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
