// SPDX-License-Identifier: Apache-2.0
/// Launch rules and derived sizes of acceptance and of the summary of a shard of logits.
#pragma once

#include <ratify/acceptance_params.hpp>
#include <ratify/detail/acceptance_tuning.hpp>
#include <ratify/detail/extents.hpp>
#include <ratify/status.hpp>

#define RATIFY_ACCEPTANCE_SHAPE_RULES(INVALID, UNSUPPORTED)                                                            \
  INVALID(rows, (p.rows >= 0 && p.requests >= 0), "ratify::acceptance: rows and requests must not be negative")        \
  INVALID(requests, (p.rows == 0 || p.requests > 0),                                                                   \
          "ratify::acceptance: requests must be at least 1 if there are rows")                                         \
  INVALID(vocab, (p.vocab >= 1), "ratify::acceptance: vocab must be at least 1 id")                                    \
  UNSUPPORTED(most_ids, (p.vocab <= acceptance_most_words),                                                            \
              "ratify::acceptance: vocab must be at most 4194304 ids, so that sums of masses stay below 2^63")         \
  INVALID(max_drafts, (p.max_drafts >= 0), "ratify::acceptance: max_drafts must not be negative")                      \
  UNSUPPORTED(most_drafts, (p.max_drafts <= 1 << 30), "ratify::acceptance: max_drafts must be at most 2^30")           \
  INVALID(end_count, (p.end_count >= 0), "ratify::acceptance: end_count must not be negative")                         \
  INVALID(shards, (p.shards >= 1), "ratify::acceptance: shards must be at least 1")                                    \
  INVALID(shard_vocab, (acceptance_traits<Policy>::shards_hold(p)),                                                    \
          "ratify::acceptance: shards of shard_vocab ids must hold exactly vocab ids, the last of them at least one")  \
  INVALID(summary_words, (!acceptance_traits<Policy>::is_summarised || p.shard_vocab >= 1),                            \
          "ratify::acceptance: of acceptance_word, shard_vocab must be the words of one summary")                      \
  UNSUPPORTED(most_places, (!acceptance_traits<Policy>::is_summarised || p.shard_vocab <= acceptance_most_places),     \
              "ratify::acceptance: of acceptance_word, shard_vocab must be at most 512 words")                         \
  INVALID(candidate_pair, ((p.draft_candidates.data == nullptr) == (p.draft_candidate_q.data == nullptr)),             \
          "ratify::acceptance: draft_candidates and draft_candidate_q must be given together")                         \
  INVALID(sources,                                                                                                     \
          (acceptance_traits<Policy>::is_rejection ||                                                                  \
           (p.draft_candidates.data == nullptr && p.draft_probs.data == nullptr)),                                     \
          "ratify::acceptance: draft_candidates and draft_probs have no effect under rule coupled")                    \
  INVALID(one_source, (p.draft_candidates.data == nullptr || p.draft_probs.data == nullptr),                           \
          "ratify::acceptance: at most one of draft_candidates and draft_probs may say what drafts were drawn from")   \
  INVALID(candidates, (p.draft_candidates.data == nullptr || p.candidates >= 1),                                       \
          "ratify::acceptance: candidates must be at least 1 if draft_candidates are given")                           \
  UNSUPPORTED(most_candidates, (p.draft_candidates.data == nullptr || p.candidates <= acceptance_most_words),          \
              "ratify::acceptance: candidates must be at most 4194304")                                                \
  INVALID(ring, ((p.cursors.ring_start == nullptr) == (p.cursors.ring_count == nullptr)),                              \
          "ratify::acceptance: cursors.ring_start and cursors.ring_count must be given together")                      \
  INVALID(flush, (p.cursors.ring_count != nullptr || (p.cursors.flush == nullptr && p.cursors.next_flush == nullptr)), \
          "ratify::acceptance: cursors.flush and cursors.next_flush need cursors.ring_start and cursors.ring_count")   \
  INVALID(ring_places_given, (p.cursors.ring_count == nullptr || p.cursors.ring_places > 0),                           \
          "ratify::acceptance: cursors.ring_places must be at least 1 if there are rings")                             \
  UNSUPPORTED(ring_places,                                                                                             \
              (p.cursors.ring_count == nullptr || p.cursors.ring_places == 16 || p.cursors.ring_places == 32 ||        \
               p.cursors.ring_places == 64),                                                                           \
              "ratify::acceptance: cursors.ring_places must be 16, 32 or 64, as in recurrence")                        \
  INVALID(round_rows,                                                                                                  \
          (p.cursors.ring_count == nullptr ||                                                                          \
           (p.cursors.round_rows >= 1 && p.cursors.round_rows <= p.cursors.ring_places / 2)),                          \
          "ratify::acceptance: cursors.round_rows must be 1 to ring_places / 2, so that a round finds room after a "   \
          "flush")                                                                                                     \
  INVALID(rows_of_a_round, (p.cursors.ring_count == nullptr || p.cursors.round_rows > p.max_drafts),                   \
          "ratify::acceptance: cursors.round_rows must be at least max_drafts + 1, the most rows of a round")

// The cursors are arrays that may each be left out.
#define RATIFY_ACCEPTANCE_CURSOR_RULES(INVALID, op)                               \
  RATIFY_ALIGNED_RULE(INVALID, op, slot_cursor_aligned, cursors.slot)             \
  RATIFY_ALIGNED_RULE(INVALID, op, selector_cursor_aligned, cursors.selector)     \
  RATIFY_ALIGNED_RULE(INVALID, op, kept_cursor_aligned, cursors.kept)             \
  RATIFY_ALIGNED_RULE(INVALID, op, fresh_cursor_aligned, cursors.fresh)           \
  RATIFY_ALIGNED_RULE(INVALID, op, stalled_cursor_aligned, cursors.stalled)       \
  RATIFY_ALIGNED_RULE(INVALID, op, ring_start_cursor_aligned, cursors.ring_start) \
  RATIFY_ALIGNED_RULE(INVALID, op, ring_count_cursor_aligned, cursors.ring_count) \
  RATIFY_ALIGNED_RULE(INVALID, op, flush_cursor_aligned, cursors.flush)           \
  RATIFY_ALIGNED_RULE(INVALID, op, next_flush_cursor_aligned, cursors.next_flush)

/// Judged if there are requests, for even one without rows is told that it emitted nothing.
#define RATIFY_ACCEPTANCE_TENSOR_RULES(INVALID, UNSUPPORTED)                                                          \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance", query_start)                                                           \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance", temperature)                                                           \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance", top_p)                                                                 \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance", top_k)                                                                 \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance", seed)                                                                  \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance", position)                                                              \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance", limit)                                                                 \
  INVALID(end_tokens_given, (p.end_count == 0 || p.end_tokens != nullptr),                                            \
          "ratify::acceptance: end_tokens must not be null if there are any")                                         \
  INVALID(draft_given, (p.max_drafts == 0 || p.draft.data != nullptr),                                                \
          "ratify::acceptance: draft must not be null if max_drafts is above 0")                                      \
  RATIFY_OPTIONAL_ARRAY(INVALID, "acceptance", end_tokens)                                                            \
  RATIFY_OPTIONAL_ARRAY(INVALID, "acceptance", draft)                                                                 \
  INVALID(draft_strides, (acceptance_traits<Policy>::drafts_reach(p, p.draft)),                                       \
          "ratify::acceptance: a stride of draft is smaller than what it steps over")                                 \
  INVALID(draft_far, (acceptance_traits<Policy>::drafts_stay(p, p.draft)),                                            \
          "ratify::acceptance: the strides of draft reach over 2^63 bytes")                                           \
  RATIFY_OPTIONAL_ARRAY(INVALID, "acceptance", draft_candidates)                                                      \
  INVALID(draft_candidates_strides, (acceptance_traits<Policy>::drafts_reach(p, p.draft_candidates, p.candidates)),   \
          "ratify::acceptance: a stride of draft_candidates is smaller than what it steps over")                      \
  INVALID(draft_candidates_far, (acceptance_traits<Policy>::drafts_stay(p, p.draft_candidates, p.candidates)),        \
          "ratify::acceptance: the strides of draft_candidates reach over 2^63 bytes")                                \
  RATIFY_OPTIONAL_ARRAY(INVALID, "acceptance", draft_candidate_q)                                                     \
  INVALID(draft_candidate_q_strides, (acceptance_traits<Policy>::drafts_reach(p, p.draft_candidate_q, p.candidates)), \
          "ratify::acceptance: a stride of draft_candidate_q is smaller than what it steps over")                     \
  INVALID(draft_candidate_q_far, (acceptance_traits<Policy>::drafts_stay(p, p.draft_candidate_q, p.candidates)),      \
          "ratify::acceptance: the strides of draft_candidate_q reach over 2^63 bytes")                               \
  RATIFY_OPTIONAL_ARRAY(INVALID, "acceptance", draft_probs)                                                           \
  INVALID(draft_probs_strides, (acceptance_traits<Policy>::drafts_reach(p, p.draft_probs, p.vocab)),                  \
          "ratify::acceptance: a stride of draft_probs is smaller than what it steps over")                           \
  INVALID(draft_probs_far, (acceptance_traits<Policy>::drafts_stay(p, p.draft_probs, p.vocab)),                       \
          "ratify::acceptance: the strides of draft_probs reach over 2^63 bytes")                                     \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance", tokens)                                                                \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance", emitted)                                                               \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance", accepted)                                                              \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance", finish)                                                                \
  RATIFY_ACCEPTANCE_CURSOR_RULES(INVALID, "acceptance")                                                               \
  INVALID(in_place, (acceptance_traits<Policy>::outputs_apart(p)),                                                    \
          "ratify::acceptance: tokens, emitted, accepted, finish and row_status must not be each other or an input")

/// Judged if there are rows.
#define RATIFY_ACCEPTANCE_ROW_TENSOR_RULES(INVALID, UNSUPPORTED)                                            \
  INVALID(logits_given, (p.logits.data != nullptr), "ratify::acceptance: logits must not be null")          \
  RATIFY_OPTIONAL_ARRAY(INVALID, "acceptance", logits)                                                      \
  INVALID(logits_strides, (acceptance_traits<Policy>::logits_span(p) >= 0),                                 \
          "ratify::acceptance: a stride of logits, or shard_stride, is smaller than what it steps over")    \
  INVALID(logits_far,                                                                                       \
          (detail::is_in_memory<typename Policy::logit_format>(acceptance_traits<Policy>::logits_span(p))), \
          "ratify::acceptance: the strides of logits reach over 2^63 bytes")                                \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance", row_status)

#define RATIFY_ACCEPTANCE_SUMMARY_SHAPE_RULES(INVALID, UNSUPPORTED)                                                  \
  INVALID(rows, (p.rows >= 0 && p.requests >= 0),                                                                    \
          "ratify::acceptance_summary: rows and requests must not be negative")                                      \
  INVALID(requests, (p.rows == 0 || p.requests > 0),                                                                 \
          "ratify::acceptance_summary: requests must be at least 1 if there are rows")                               \
  INVALID(vocab, (p.first_id >= 0 && p.vocab >= 1),                                                                  \
          "ratify::acceptance_summary: first_id must not be negative and vocab must be at least 1 id")               \
  UNSUPPORTED(most_ids, (int64_t{p.first_id} + p.vocab <= acceptance_most_words),                                    \
              "ratify::acceptance_summary: first_id + vocab must be at most 4194304 ids")                            \
  INVALID(max_drafts, (p.max_drafts >= 0), "ratify::acceptance_summary: max_drafts must not be negative")            \
  UNSUPPORTED(most_drafts, (p.max_drafts <= 1 << 30), "ratify::acceptance_summary: max_drafts must be at most 2^30") \
  INVALID(places, (p.places >= 1), "ratify::acceptance_summary: places must be at least 1 word")                     \
  UNSUPPORTED(most_places, (p.places <= acceptance_most_places),                                                     \
              "ratify::acceptance_summary: places must be at most 512 words")

#define RATIFY_ACCEPTANCE_SUMMARY_TENSOR_RULES(INVALID, UNSUPPORTED)                                            \
  RATIFY_REQUIRED_VIEW(INVALID, "acceptance_summary", logits, p.rows, p.vocab)                                  \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance_summary", query_start)                                             \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance_summary", temperature)                                             \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance_summary", top_p)                                                   \
  RATIFY_REQUIRED_ARRAY(INVALID, "acceptance_summary", top_k)                                                   \
  RATIFY_REQUIRED_VIEW(INVALID, "acceptance_summary", words, p.rows, p.places)                                  \
  INVALID(in_place,                                                                                             \
          (detail::are_apart({p.words.data}, {p.logits.data, p.query_start, p.temperature, p.top_p, p.top_k})), \
          "ratify::acceptance_summary: words must not be an input")

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Most words of one summary.
inline constexpr int acceptance_most_places = 512;

template <class Policy>
struct acceptance_traits {
  static constexpr bool is_summarised = RATIFY_STD::is_same_v<typename Policy::logit_format, acceptance_word>;
  static constexpr bool is_rejection = Policy::rule == acceptance_rule::rejection;

  RATIFY_HD static constexpr bool shards_hold(acceptance_params<Policy> const& p) {
    return is_summarised || p.shards == 1 ||
           (p.shard_vocab >= 1 && (p.shards - int64_t{1}) * p.shard_vocab < p.vocab &&
            int64_t{p.shards} * p.shard_vocab >= p.vocab);
  }
  /// Entries of a row in one shard: in every one but the last.
  RATIFY_HD static constexpr int entries_of_shard(acceptance_params<Policy> const& p) {
    return is_summarised || p.shards > 1 ? p.shard_vocab : p.vocab;
  }
  /// Elements from the first to the last one of the logits, see `span_of`.
  RATIFY_HD static constexpr int64_t logits_span(acceptance_params<Policy> const& p) {
    strided_extent const dimensions[] = {{p.logits.stride, p.rows}, {p.shard_stride, p.shards}};
    return span_of(entries_of_shard(p), dimensions);
  }
  /// Whether the strides of a tensor [requests, max_drafts, ...] reach, if it is given and not empty.
  template <class View, class... Extents>
  RATIFY_HD static constexpr bool drafts_reach(acceptance_params<Policy> const& p, View const& view,
                                               Extents... extents) {
    return p.max_drafts == 0 || view.data == nullptr || strides_reach(view, p.requests, p.max_drafts, extents...);
  }
  /// And whether they stay in memory.
  template <class View, class... Extents>
  RATIFY_HD static constexpr bool drafts_stay(acceptance_params<Policy> const& p, View const& view,
                                              Extents... extents) {
    return p.max_drafts == 0 || view.data == nullptr || strides_stay(view, p.requests, p.max_drafts, extents...);
  }
  RATIFY_HD static constexpr bool outputs_apart(acceptance_params<Policy> const& p) {
    return are_apart({p.tokens, p.emitted, p.accepted, p.finish, p.row_status},
                     {p.logits.data, p.query_start, p.draft.data, p.temperature, p.top_p, p.top_k, p.seed, p.position,
                      p.limit, p.end_tokens, p.draft_candidates.data, p.draft_candidate_q.data, p.draft_probs.data});
  }
  /// Whether one warp reads a row; otherwise blocks share it.
  RATIFY_HD static constexpr bool is_short(acceptance_params<Policy> const& p) {
    return (is_summarised ? int64_t{p.shards} * p.shard_vocab : p.vocab) <= acceptance_tuning::short_row_entries;
  }
  RATIFY_HD static constexpr int pieces_of_shard(acceptance_params<Policy> const& p) {
    return ceil_div(entries_of_shard(p), acceptance_tuning::piece_ids);
  }
  RATIFY_HD static constexpr int64_t pieces_of_row(acceptance_params<Policy> const& p) {
    return int64_t{p.shards} * pieces_of_shard(p);
  }
};

template <class Policy>
RATIFY_HD status launch_rules(acceptance_params<Policy> const& p) {
  RATIFY_ACCEPTANCE_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.requests == 0) return {};
  RATIFY_ACCEPTANCE_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_ACCEPTANCE_ROW_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

template <class Policy>
RATIFY_HD status launch_rules(acceptance_summary_params<Policy> const& p) {
  RATIFY_ACCEPTANCE_SUMMARY_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_ACCEPTANCE_SUMMARY_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

}  // namespace detail
RATIFY_END_NAMESPACE
