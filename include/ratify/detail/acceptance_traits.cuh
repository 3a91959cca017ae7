// SPDX-License-Identifier: Apache-2.0
/// Parameters and support rules of acceptance.
#pragma once

#include <ratify/acceptance_policy.hpp>
#include <ratify/status.hpp>
#include <ratify/views.hpp>

#define RATIFY_ACCEPTANCE_RULES(RULE)                                                                         \
  RULE(policy, (RATIFY_STD::is_base_of_v<acceptance_policy, Policy>),                                         \
       "ratify::acceptance: the policy must derive from ratify::acceptance_policy")                           \
  RULE(logit_format, (detail::is_one_of_v<typename Policy::logit_format, float, f16, bf16, acceptance_word>), \
       "ratify::acceptance: logit_format must be float, f16, bf16 or acceptance_word")                        \
  RULE(rule_type, (RATIFY_STD::is_same_v<RATIFY_STD::remove_cv_t<decltype(Policy::rule)>, acceptance_rule>),  \
       "ratify::acceptance: rule must be a ratify::acceptance_rule")                                          \
  RULE(rule,                                                                                                  \
       (static_cast<acceptance_rule>(Policy::rule) == acceptance_rule::coupled ||                             \
        static_cast<acceptance_rule>(Policy::rule) == acceptance_rule::rejection),                            \
       "ratify::acceptance: rule must be acceptance_rule::coupled or acceptance_rule::rejection")
#define RATIFY_ACCEPTANCE_LAUNCH_RULES(RULE)                                                                           \
  RULE(rows, (p.rows >= 0), "ratify::acceptance: rows must not be negative")                                           \
  RULE(requests, (p.requests >= 0), "ratify::acceptance: requests must not be negative")                               \
  RULE(vocab, (p.vocab >= 1 && p.vocab <= detail::acceptance_most_words),                                              \
       "ratify::acceptance: vocab must be 1 to 4194304, so that sums of masses stay below 2^63")                       \
  RULE(max_drafts, (p.max_drafts >= 0 && p.max_drafts <= 1 << 30), "ratify::acceptance: max_drafts must be 0 to 2^30") \
  RULE(end_count, (p.end_count >= 0), "ratify::acceptance: end_count must not be negative")                            \
  RULE(draft_candidate_q, ((p.draft_candidates.data == nullptr) == (p.draft_candidate_q.data == nullptr)),             \
       "ratify::acceptance: draft_candidates and draft_candidate_q must be given together")                            \
  RULE(draft_probs, (p.draft_candidates.data == nullptr || p.draft_probs.data == nullptr),                             \
       "ratify::acceptance: at most one of draft_candidates and draft_probs may say what drafts were drawn from")      \
  RULE(candidates,                                                                                                     \
       (p.draft_candidates.data == nullptr || (p.candidates >= 1 && p.candidates <= detail::acceptance_most_words)),   \
       "ratify::acceptance: candidates must be 1 to 4194304 where draft_candidates are given")                         \
  RULE(ring, ((p.cursors.ring_start == nullptr) == (p.cursors.ring_count == nullptr)),                                 \
       "ratify::acceptance: cursors.ring_start and cursors.ring_count must be given together")                         \
  RULE(flush, (p.cursors.ring_count != nullptr || (p.cursors.flush == nullptr && p.cursors.next_flush == nullptr)),    \
       "ratify::acceptance: cursors.flush and cursors.next_flush need cursors.ring_start and cursors.ring_count")      \
  RULE(ring_places,                                                                                                    \
       (p.cursors.ring_count == nullptr || p.cursors.ring_places == 16 || p.cursors.ring_places == 32 ||               \
        p.cursors.ring_places == 64),                                                                                  \
       "ratify::acceptance: cursors.ring_places must be 16, 32 or 64, as in recurrence")                               \
  RULE(                                                                                                                \
      round_rows,                                                                                                      \
      (p.cursors.ring_count == nullptr ||                                                                              \
       (p.cursors.round_rows >= 1 && p.cursors.round_rows <= p.cursors.ring_places / 2)),                              \
      "ratify::acceptance: cursors.round_rows must be 1 to ring_places / 2, so that a round finds room after a flush") \
  RULE(shards, (p.shards >= 1), "ratify::acceptance: shards must be at least 1")                                       \
  RULE(shard_vocab, (detail::shards_hold(p)),                                                                          \
       "ratify::acceptance: shards of shard_vocab ids must hold vocab ids, the last of them one or more; of "          \
       "acceptance_word, shard_vocab is the words of a summary, 1 to 512")
#define RATIFY_ACCEPTANCE_SUMMARY_RULES(RULE)                                                \
  RULE(policy, (RATIFY_STD::is_base_of_v<acceptance_policy, Policy>),                        \
       "ratify::acceptance_summary: the policy must derive from ratify::acceptance_policy")  \
  RULE(logit_format, (detail::is_one_of_v<typename Policy::logit_format, float, f16, bf16>), \
       "ratify::acceptance_summary: logit_format must be float, f16 or bf16")
#define RATIFY_ACCEPTANCE_SUMMARY_LAUNCH_RULES(RULE)                                                                 \
  RULE(rows, (p.rows >= 0), "ratify::acceptance_summary: rows must not be negative")                                 \
  RULE(requests, (p.requests >= 0), "ratify::acceptance_summary: requests must not be negative")                     \
  RULE(vocab, (p.first_id >= 0 && p.vocab >= 1 && p.vocab <= detail::acceptance_most_words - p.first_id),            \
       "ratify::acceptance_summary: first_id must not be negative, vocab at least 1, and their sum at most 4194304") \
  RULE(max_drafts, (p.max_drafts >= 0 && p.max_drafts <= 1 << 30),                                                   \
       "ratify::acceptance_summary: max_drafts must be 0 to 2^30")                                                   \
  RULE(places, (p.places >= 1 && p.places <= detail::acceptance_most_places),                                        \
       "ratify::acceptance_summary: places must be 1 to 512")

RATIFY_BEGIN_NAMESPACE

namespace detail {
/// Bits of a token id, and the largest vocabulary.
inline constexpr int acceptance_id_bits = 22;
inline constexpr int acceptance_most_words = 1 << acceptance_id_bits;
/// Entries a list in shared memory holds, and a summary.
inline constexpr int acceptance_most_places = 512;
}  // namespace detail

/// Where each request stands between rounds, as recurrence and convolution read it, kept on the device: a round keeps
/// as many rows as tokens were emitted. Each array is [requests] and the caller's, written in place, and may be
/// nullptr: not asked for. Requests without rows in the launch and retired ones keep theirs.
///
/// A request that emitted nothing (limit <= 0, or a bad first row) has kept nothing: `selector` and `kept` are 0,
/// `fresh` stays, no row joins the ring. Convolution and replay then go on as though the round had not been; from
/// snapshots it can only if initial_slot still holds what the round started from.
struct acceptance_cursors {
  int32_t const* slot = nullptr;   ///< -1: retired; nullptr: none is
  int32_t* selector = nullptr;     ///< of recurrence over snapshots: becomes `emitted`
  int32_t* kept = nullptr;         ///< of convolution: becomes `emitted`
  int32_t* fresh = nullptr;        ///< becomes 0 where something was emitted
  int32_t* ring_start = nullptr;   ///< of recurrence by replay: moves past what a flush folded in, modulo ring_places
  int32_t* ring_count = nullptr;   ///< becomes 0 after a flush, then grows by `emitted`
  int32_t const* flush = nullptr;  ///< what the round's recurrence was launched with; nullptr: all 0
  int32_t* next_flush = nullptr;   ///< becomes 1 where the next round must flush, else 0; may be `flush` itself
  int ring_places = 0;             ///< places of a ring: 16, 32 or 64
  int round_rows = 0;  ///< most rows of a round; the next one flushes from ring_places - 2 * round_rows + 1 up
};

/// One launch of `acceptance`. Every pointer is the caller's and is read or written on the device.
template <class Policy>
struct acceptance_params {
  using logit_format = typename Policy::logit_format;
  rows_view<logit_format const> logits;  ///< [rows, vocab]; row t of a request is p for its draft t, the last
                                         ///< for the token after all drafts
  int32_t const* query_start = nullptr;  ///< [requests + 1]: first row of each request; n + 1 rows for n drafts
  rows_view<int32_t const> draft;        ///< [requests, max_drafts]; places past n are not read
  float const* temperature = nullptr;    ///< [requests], below 1e-5 greedy
  float const* top_p = nullptr;          ///< [requests], 0 to 1; 1 is off
  int32_t const* top_k = nullptr;        ///< [requests]; 0, -1 or >= vocab is off
  int64_t const* seed = nullptr;         ///< [requests]
  int64_t const* position = nullptr;     ///< [requests]: position of the token that row 0 gives, in the sequence
  int32_t const* end_tokens = nullptr;   ///< [end_count], may be nullptr if there are none
  int end_count = 0;
  int32_t const* limit = nullptr;  ///< [requests]: most tokens to emit
  /// What drafts were drawn from, for rule rejection: weights of `candidates` tokens each, or of the whole
  /// vocabulary. Both nullptr: drafts were chosen. A candidate that is no token counts nothing, one that is
  /// there twice counts both.
  heads_view<int32_t const> draft_candidates;  ///< [requests, max_drafts, candidates]
  heads_view<float const> draft_candidate_q;   ///< [requests, max_drafts, candidates], of any sum
  heads_view<float const> draft_probs;         ///< [requests, max_drafts, vocab], of any sum
  int32_t* tokens = nullptr;                   ///< [requests, max_drafts + 1], -1 after the emitted run
  int32_t* emitted = nullptr;                  ///< [requests]
  int32_t* accepted = nullptr;                 ///< [requests]: emitted tokens that were drafts
  int32_t* finish = nullptr;                   ///< [requests]: an `acceptance_finish`
  int32_t* row_status =
      nullptr;  ///< [rows]: 0; 1 for a bad row; 2, which counts as one, where the summary lacks top_k entries
  acceptance_cursors cursors;  ///< what the next round's operations read
  int rows = 0;
  int requests = 0;
  int vocab = 0;             ///< of all shards
  int shards = 1;            ///< shard s holds ids s * shard_vocab up of every row; the last one may hold fewer
  int shard_vocab = 0;       ///< not read where shards is 1; of acceptance_word: the words of a summary
  int64_t shard_stride = 0;  ///< elements from a row in a shard to the row in the next one
  int max_drafts = 0;
  int candidates = 0;
};

/// One launch of `acceptance_summary`: a shard of the logits, and what `acceptance` is told of the requests.
template <class Policy>
struct acceptance_summary_params {
  using logit_format = typename Policy::logit_format;
  rows_view<logit_format const> logits;  ///< [rows, vocab] of the shard
  int32_t const* query_start = nullptr;  ///< [requests + 1]
  float const* temperature = nullptr;    ///< [requests]
  float const* top_p = nullptr;          ///< [requests]
  int32_t const* top_k = nullptr;        ///< [requests]
  rows_view<acceptance_word> words;      ///< [rows, places]
  int rows = 0;
  int requests = 0;
  int max_drafts = 0;
  int first_id = 0;  ///< of the shard
  int vocab = 0;     ///< ids of the shard
  int places = 0;    ///< 1 to 512: the largest top_k that can be asked for
};

namespace detail {

template <class Policy>
RATIFY_HD constexpr bool shards_hold(acceptance_params<Policy> const& p) {
  if constexpr (RATIFY_STD::is_same_v<typename Policy::logit_format, acceptance_word>)
    return p.shard_vocab >= 1 && p.shard_vocab <= acceptance_most_places;
  else
    return p.shards == 1 || (p.shard_vocab >= 1 && (p.shards - int64_t{1}) * p.shard_vocab < p.vocab &&
                             int64_t{p.shards} * p.shard_vocab >= p.vocab);
}

/// A long row is read by several blocks, a piece of a shard each: ids of a piece, and words of its summary, which is
/// what decides where top_k is at most so many. Pieces of other sizes were not measured.
inline constexpr int acceptance_piece_ids = 8192;
inline constexpr int acceptance_piece_places = 64;

/// Ids of a shard of the logits: of all but the last one.
template <class Policy>
RATIFY_HD constexpr int ids_of_shard(acceptance_params<Policy> const& p) {
  return p.shards > 1 ? p.shard_vocab : p.vocab;
}

/// Pieces of a shard of the logits; a row that is not long, or is summarised already, has one.
template <class Policy>
RATIFY_HD constexpr int pieces_of_shard(acceptance_params<Policy> const& p) {
  if constexpr (RATIFY_STD::is_same_v<typename Policy::logit_format, acceptance_word>) return 1;
  return ceil_div(ids_of_shard(p), acceptance_piece_ids);
}
template <class Policy>
RATIFY_HD constexpr int64_t pieces_of_row(acceptance_params<Policy> const& p) {
  return int64_t{p.shards} * pieces_of_shard(p);
}

/// What the kernels get.
template <class Policy>
struct acceptance_kernel_params {
  acceptance_params<Policy> p;
  rows_view<acceptance_word> pieces;  ///< [rows, pieces_of_row, acceptance_piece_places] of scratch; null
                                      ///< where a shard is one piece
  int32_t* row_token;  ///< [rows] of scratch: what each row gives, which is its draft if accepted; -1 for a bad row
};

template <class Policy>
struct acceptance_support {
  static constexpr bool value = true RATIFY_ACCEPTANCE_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static constexpr char const* reason(acceptance_params<Policy> const& p) {
    RATIFY_ACCEPTANCE_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

template <class Policy>
struct acceptance_summary_support {
  static constexpr bool value = true RATIFY_ACCEPTANCE_SUMMARY_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static constexpr char const* reason(acceptance_summary_params<Policy> const& p) {
    RATIFY_ACCEPTANCE_SUMMARY_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

}  // namespace detail

RATIFY_END_NAMESPACE
