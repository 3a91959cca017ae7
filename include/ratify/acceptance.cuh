// SPDX-License-Identifier: Apache-2.0
/// From the target's logits and the drafts to the emitted tokens. Decisions are exact integers: the same on every
/// executor, for any batch. docs/arithmetic.md states the formulas.
#pragma once

#include <ratify/cuda.cuh>
#include <ratify/detail/acceptance_contents.hpp>
#include <ratify/detail/acceptance_kernels.cuh>
#include <ratify/detail/acceptance_long_row_kernels.cuh>

RATIFY_BEGIN_NAMESPACE

/// Whether `acceptance<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_acceptance = acceptance_knobs::supports<Knobs...>;

template <class... Knobs>
inline constexpr bool is_supported_acceptance_summary = acceptance_summary_knobs::supports<Knobs...>;

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
/// A request that owns no rows of the launch (none are named, or query_start contradicts; see device/rows.cuh), or more
/// rows than max_drafts + 1, emits nothing: `emitted` and `accepted` become 0, and its tokens, its finish and its
/// cursors stay as they are. A request that owns rows and still emits nothing has finish 2 or 3, and `stalled` among
/// the cursors says so. Unowned rows get row_status 0.
///
/// Logits may lie in shards of the vocabulary, one after another in memory, as an all-gather leaves them: the decisions
/// are the same to the bit. `params::cursors` asks for what the next round's recurrence and convolution read, written
/// on the device.
///
/// A temperature that is NaN, infinite or negative, a top_p outside 0..1, or a top_k below -1, which only the device
/// can see, makes all rows of its request bad: nothing is emitted and finish is 3 (2 if the limit allows no token
/// anyway). Under rejection a draft whose distribution has a weight that is negative, infinite or NaN, or no weight at
/// all, is replaced by a draw from p, and is accepted if that draw gives it.
///
/// @tparam Knobs   knobs that differ from their defaults, in any order: acceptance_policy.hpp lists them
/// Parameters: `acceptance_params`. Limits: vocab 4194304 ids, max_drafts 2^30, 512 words of a summary.
/// Rows of more than 256 entries are shared by blocks, which read the logits three times: the first time from memory,
/// then from the card's cache if they fit. Rule rejection reads a row once or twice more if its draft is rejected and
/// top-k is off or large, and it reads `draft_probs` twice. If more than 2048 entries of a row lie in the bins, each a
/// 1000th to a 2000th of the row's range, in which top-k, top-p or the draw falls, as where all logits are equal, one
/// block reads that row about ten times more.
/// Workspace: 4 bytes per row and, for each row of more than 256 entries, 41 KB and 16 bytes per 8192 entries. Its
/// contents need no initialisation.
/// @return of `launch`: ok, invalid_argument, unsupported, workspace_too_small, no_device, launch_failed
template <class... Knobs>
struct acceptance : detail::operation<acceptance<Knobs...>, acceptance_params<acceptance_policy<Knobs...>>> {
  using policy = acceptance_policy<Knobs...>;
  using params = acceptance_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }

  static size_t scratch_bytes(params const& p) {
    return long_row_bytes(p) + extremes_bytes(p) + task_bytes(p) + static_cast<size_t>(p.rows) * sizeof(int32_t);
  }

  template <class Executor, class Visitor>
  static status stages(params const& p, workspace w, Executor const&, Visitor&& visit) {
    if (p.requests == 0) return {};
    size_t const rows = long_row_bytes(p), extremes = rows + extremes_bytes(p), tasks = extremes + task_bytes(p);
    detail::acceptance_kernel_params<policy> all{p,
                                                 detail::workspace_at<device::long_row>(w, 0),
                                                 detail::workspace_at<device::row_extremes>(w, rows),
                                                 detail::workspace_at<detail::row_task>(w, extremes),
                                                 detail::workspace_at<int32_t>(w, tasks),
                                                 detail::row_pass::draw};
    status s;
    if (p.rows > 0) {
      if (traits::is_short(p)) {
        s = visit(stage<acceptance_short_row_kernel<policy>>{{p.rows}, all});
      } else {
        grid_extent const pieces{p.rows, detail::grid_blocks(traits::pieces_of_row(p))};
        s = visit(stage<acceptance_extremes_kernel<policy>>{pieces, all});
        if (s) s = draw_long_rows(all, pieces, visit);
        all.pass = detail::row_pass::replace;
        if (s && traits::is_rejection) s = draw_long_rows(all, pieces, visit);
      }
    }
    using kernel = acceptance_emission_kernel<policy>;
    if (s) s = visit(stage<kernel>{{detail::elementwise_blocks<kernel>(p.requests)}, all});
    return s;
  }

  /// Row bounds, sampling parameters, and where each request's ring stands.
  template <class Checker>
  static void contents(params const& p, Checker& checker) {
    if (p.rows > 0) detail::check_contents(p, checker);
  }
 private:
  using traits = detail::acceptance_traits<policy>;

  template <class Visitor>
  static status draw_long_rows(detail::acceptance_kernel_params<policy> const& all, grid_extent pieces,
                               Visitor&& visit) {
    if (auto const s = visit(stage<acceptance_masses_kernel<policy>>{pieces, all}); !s) return s;
    if (auto const s = visit(stage<acceptance_gather_kernel<policy>>{pieces, all}); !s) return s;
    return visit(stage<acceptance_long_row_kernel<policy>>{{all.p.rows}, all});
  }
  /// Scratch of long rows, in the order in which it lies there; each is a multiple of 8 bytes.
  static size_t long_rows(params const& p) { return traits::is_short(p) ? 0 : static_cast<size_t>(p.rows); }
  static size_t long_row_bytes(params const& p) { return long_rows(p) * sizeof(device::long_row); }
  static size_t extremes_bytes(params const& p) {
    return long_rows(p) * static_cast<size_t>(traits::pieces_of_row(p)) * sizeof(device::row_extremes);
  }
  static size_t task_bytes(params const& p) { return (long_rows(p) * sizeof(detail::row_task) + 7) / 8 * 8; }
};

/// The first entries of each row of a shard of logits: what the other ranks need to know of it if top_k is set, so that
/// they exchange `places` words a row and not the shard. `acceptance` under `logit_format<acceptance_word>` decides
/// from the gathered words [shards, rows, places] as from the whole logits, to the bit: the first top_k entries of the
/// whole are among the first top_k of each shard, and nothing behind them is ever looked at.
///
/// A row whose top_k is off or above `places` (and above the shard's ids), unless it is greedy, is not summarised,
/// because its masses are those of the whole vocabulary: `acceptance` gives it row_status 2 and takes it for bad.
/// Unowned rows get words of 0.
///
/// @tparam Knobs   knobs that differ from their defaults: acceptance_policy.hpp lists them
/// Parameters: `acceptance_summary_params`. Reads the logits about 3 times if top_k is at most 64 and few entries tie,
/// up to 12 times otherwise. No workspace.
/// @return of `launch`: ok, invalid_argument, unsupported, no_device, launch_failed
template <class... Knobs>
struct acceptance_summary
    : detail::operation<acceptance_summary<Knobs...>, acceptance_summary_params<acceptance_summary_policy<Knobs...>>> {
  using policy = acceptance_summary_policy<Knobs...>;
  using params = acceptance_summary_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  static size_t scratch_bytes(params const&) { return 0; }

  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    if (p.rows == 0) return {};
    return p.vocab <= detail::acceptance_tuning::short_row_entries
               ? visit(stage<acceptance_short_summary_kernel<policy>>{{p.rows}, p})
               : visit(stage<acceptance_summary_kernel<policy>>{{p.rows}, p});
  }

  /// Row bounds and sampling parameters.
  template <class Checker>
  static void contents(params const& p, Checker& checker) {
    if (p.rows > 0) detail::check_contents(p, checker);
  }
};

#endif

RATIFY_END_NAMESPACE
