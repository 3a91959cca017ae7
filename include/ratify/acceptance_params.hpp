// SPDX-License-Identifier: Apache-2.0
/// Parameters of one launch of acceptance, and of the summary of a shard of logits.
#pragma once

#include <ratify/acceptance_policy.hpp>
#include <ratify/views.hpp>

RATIFY_BEGIN_NAMESPACE

/// Why a request's emission stopped.
enum class acceptance_finish : int32_t {
  none = 0,    ///< a draft was rejected, or all were accepted and the token after them was emitted
  end = 1,     ///< an end token was emitted
  limit = 2,   ///< as many tokens as `limit` allows were emitted
  bad_row = 3  ///< the next row holds a NaN or nothing above -inf, or the request's sampling parameters are invalid
};

/// Where each request stands between rounds, as recurrence and convolution read it. Acceptance moves these cursors on
/// the device: a round keeps as many rows as tokens were emitted. Each array is [requests], the caller's, written in
/// place, and optional. The cursors of a request that owns no rows of the launch, or that is retired, stay as they are.
///
/// A request that owns rows but emitted nothing (its limit is 0 or less, or its first row is bad) has kept nothing:
/// `selector` and `kept` become 0, `fresh` stays, and no row joins the ring. Convolution and recurrence by replay then
/// continue as if the round had not been. Recurrence over snapshots cannot: the round's snapshots have overwritten the
/// one that the round started from, unless the caller alternates between two sets of snapshot slots. Such a request is
/// reported in `stalled`.
struct acceptance_cursors {
  int32_t const* slot = nullptr;   ///< -1: the request is retired. Null: none is
  int32_t* selector = nullptr;     ///< of recurrence over snapshots: becomes `emitted`
  int32_t* kept = nullptr;         ///< of convolution: becomes `emitted`
  int32_t* fresh = nullptr;        ///< becomes 0 if something was emitted
  int32_t* stalled = nullptr;      ///< becomes 1 if the request owns rows and nothing was emitted, else 0
  int32_t* ring_start = nullptr;   ///< of recurrence by replay: moves past what a flush folded in, modulo ring_places
  int32_t* ring_count = nullptr;   ///< becomes 0 after a flush, then grows by `emitted`
  int32_t const* flush = nullptr;  ///< what the round's recurrence was launched with. Null: all 0
  int32_t* next_flush = nullptr;   ///< becomes 1 if the next round must flush, else 0; may be `flush` itself
  int ring_places = 0;             ///< places of a ring: 16, 32 or 64
  /// Most rows of a round: at least max_drafts + 1, at most ring_places / 2. The next round is told to flush if the
  /// ring holds more than ring_places - 2 * round_rows rows, because the round after that one might then find no room.
  int round_rows = 0;
};

/// One launch of `acceptance`. Every pointer is the caller's memory that the executor can reach; contents of all
/// tensors are read by the kernels, so that a captured graph replays with new ones. All tensors are required unless
/// called optional. Strides are in elements of the tensor, the innermost extent is dense, and no stride is smaller than
/// what it steps over. Outputs must not overlap inputs.
///
/// @tparam Policy `acceptance_policy<Knobs...>`
template <class Policy>
struct acceptance_params {
  using logit_format = typename Policy::logit_format;

  /// [rows, vocab], or [shards, rows, shard_vocab]: row t of a request is the target's distribution for its draft t,
  /// and its last row that for the token after all drafts.
  rows_view<logit_format const> logits;
  int32_t const* query_start =
      nullptr;  ///< [requests + 1]: request r has rows query_start[r] to query_start[r + 1] - 1; n + 1 for n drafts
  /// [requests, max_drafts]; not needed if max_drafts is 0. Places past a request's n drafts are not read.
  rows_view<int32_t const> draft;
  float const* temperature = nullptr;   ///< [requests], finite and not negative; below 1e-5 is greedy
  float const* top_p = nullptr;         ///< [requests], 0 to 1; 1 is off
  int32_t const* top_k = nullptr;       ///< [requests]; 0, -1 or at least vocab is off
  int64_t const* seed = nullptr;        ///< [requests]
  int64_t const* position = nullptr;    ///< [requests]: the position in the sequence of the token that row 0 gives
  int32_t const* limit = nullptr;       ///< [requests]: most tokens to emit
  int32_t const* end_tokens = nullptr;  ///< [end_count]; not needed if end_count is 0
  int end_count = 0;
  /// Optional, for rule rejection alone: what each draft was drawn from, as weights of any sum over `candidates`
  /// tokens. A candidate that is no token counts nothing; one that is there twice counts both weights. With neither
  /// these nor draft_probs, drafts were chosen: their distribution is that one token. [requests, max_drafts,
  /// candidates]
  heads_view<int32_t const> draft_candidates;
  heads_view<float const> draft_candidate_q;  ///< [requests, max_drafts, candidates], given with draft_candidates
  /// Optional, in place of draft_candidates: weights of any sum over the vocabulary. [requests, max_drafts, vocab]
  heads_view<float const> draft_probs;
  int32_t* tokens = nullptr;    ///< [requests, max_drafts + 1] dense: the emitted tokens, then -1
  int32_t* emitted = nullptr;   ///< [requests]: how many
  int32_t* accepted = nullptr;  ///< [requests]: how many of them were drafts
  int32_t* finish = nullptr;    ///< [requests]: an `acceptance_finish`
  /// [rows]: 0; 1 for a bad row; 2, which counts as bad, if the summaries lack entries that the row's top_k asks for.
  int32_t* row_status = nullptr;
  acceptance_cursors cursors;  ///< what the next round's recurrence and convolution read
  int rows = 0;                ///< of all requests: the extent of logits and row_status
  int requests = 0;
  int vocab = 0;        ///< ids of all shards together, 1 to 4194304
  int shards = 1;       ///< shard s holds the ids from s * shard_vocab up of every row; the last one may hold fewer
  int shard_vocab = 0;  ///< ids of a shard; not read if shards is 1. Of acceptance_word: words of one summary
  int64_t shard_stride = 0;  ///< elements from a row in a shard to the same row in the next one
  int max_drafts = 0;        ///< capacity: most drafts of one request, at most 2^30
  int candidates = 0;        ///< extent of draft_candidates, 1 to 4194304 if they are given
};

/// One launch of `acceptance_summary`: the logits of one shard, and what `acceptance` is told about the requests.
/// Pointers and strides are as in `acceptance_params`.
///
/// @tparam Policy `acceptance_summary_policy<Knobs...>`
template <class Policy>
struct acceptance_summary_params {
  using logit_format = typename Policy::logit_format;

  rows_view<logit_format const> logits;  ///< [rows, vocab] of the shard
  int32_t const* query_start =
      nullptr;                         ///< [requests + 1]: request r has rows query_start[r] to query_start[r + 1] - 1
  float const* temperature = nullptr;  ///< [requests]
  float const* top_p = nullptr;        ///< [requests]
  int32_t const* top_k = nullptr;      ///< [requests]
  rows_view<acceptance_word> words;    ///< [rows, places]: the summaries
  int rows = 0;
  int requests = 0;
  int max_drafts = 0;  ///< capacity: most drafts of one request, at most 2^30
  int first_id = 0;    ///< token id of the shard's first column
  int vocab = 0;       ///< ids of the shard; first_id + vocab is at most 4194304
  int places = 0;      ///< words of one summary, 1 to 512: the largest top_k that can be asked for
};

RATIFY_END_NAMESPACE
