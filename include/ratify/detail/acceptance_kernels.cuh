// SPDX-License-Identifier: Apache-2.0
/// Blocks summarise the pieces of long rows, a block a row draws the row's token or judges its draft, then a thread a
/// request accepts.
#pragma once

#include <ratify/detail/acceptance_traits.cuh>
#include <ratify/device/acceptance.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Up to here a warp reads the row in little time, and meeting it costs least.
inline constexpr int one_warp_entries = 2048;

/// A request's rows in a launch.
struct request_rows {
  int begin, count;  ///< count 0: not in this round, or its bounds are out of range
};

RATIFY_HD inline request_rows rows_of_request(int32_t const* query_start, int request, int rows, int64_t most) {
  int64_t const begin = query_start[request], end = query_start[request + 1];
  if (begin < 0 || end < begin || end > rows || end - begin > most) return {0, 0};
  return {static_cast<int>(begin), static_cast<int>(end - begin)};
}

/// The last request that begins at this row or before.
RATIFY_HD inline int request_of_row(int32_t const* query_start, int requests, int row) {
  int request = 0;
  for (int above = requests; above - request > 1;) {
    int const middle = request + (above - request) / 2;
    if (query_start[middle] <= row)
      request = middle;
    else
      above = middle;
  }
  return request;
}

/// A request's rows if the binary search finds it from each of them, which it does wherever bounds never decrease.
RATIFY_HD inline request_rows owned_rows(int32_t const* query_start, int requests, int request, int rows,
                                         int64_t most) {
  request_rows const own = rows_of_request(query_start, request, rows, most);
  for (int i = 0; i < own.count; ++i)
    if (request_of_row(query_start, requests, own.begin + i) != request) return {0, 0};
  return own;
}

/// Whose a row of a launch is.
struct row_owner {
  int request;
  request_rows rows;
  bool found;  ///< false: nobody's
};
template <class Params>
RATIFY_HD inline row_owner owner_of_row(Params const& p, int row) {
  int const request = request_of_row(p.query_start, p.requests, row);
  request_rows const own = rows_of_request(p.query_start, request, p.rows, int64_t{p.max_drafts} + 1);
  return {request, own, row >= own.begin && row < own.begin + own.count};
}

template <class Params>
RATIFY_HD inline device::sampling sampling_of(Params const& p, int request) {
  return {p.temperature[request], p.top_p[request], p.top_k[request]};
}

/// A row's logits, or what was summarised of them.
template <class Policy>
RATIFY_HD inline auto logits_of_row(acceptance_params<Policy> const& p, int row) {
  using format = typename Policy::logit_format;
  if constexpr (RATIFY_STD::is_same_v<format, acceptance_word>)
    return device::summarised_row{p.logits.row(row), p.vocab, p.shards, p.shard_vocab, p.shard_stride};
  else
    return device::logits_row<format>{p.logits.row(row), p.vocab, p.shards, ids_of_shard(p), p.shard_stride};
}

/// A block a piece of a row.
template <class Policy>
struct acceptance_piece_kernel {
  using params = acceptance_kernel_params<Policy>;
  static constexpr char const* name = "acceptance_piece_kernel";
  static constexpr int block_threads = 256;
  template <class Block>
  using shared_storage = device::draw_storage<Block>;

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& all, shared_storage<Block>& storage) {
    acceptance_params<Policy> const& p = all.p;
    int const row = block.block_x(), piece = block.block_y();
    row_owner const owner = owner_of_row(p, row);
    if (!owner.found) return;
    auto const shard = logits_of_row(p, row).shard(piece / pieces_of_shard(p));
    int const begin = piece % pieces_of_shard(p) * acceptance_piece_ids;
    // The last shard may have fewer pieces than the others.
    int const ids = min_of(acceptance_piece_ids, shard.count - begin);
    acceptance_word* const words = all.pieces.row(row) + int64_t{piece} * acceptance_piece_places;
    if (ids <= 0) {
      for (int i = block.thread(); i < acceptance_piece_places; i += block_threads) words[i].bits = 0;
      return;
    }
    device::summarise_row(block, shard.data + begin, ids, shard.begin + begin, sampling_of(p, owner.request), words,
                          acceptance_piece_places, storage);
  }
};

/// `Threads` is no arithmetic: any number gives the same tokens.
template <class Policy, int Threads>
struct acceptance_row_kernel {
  using params = acceptance_kernel_params<Policy>;
  static constexpr char const* name = "acceptance_row_kernel";
  static constexpr int block_threads = Threads;
  template <class Block>
  using shared_storage = device::draw_storage<Block>;

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& all, shared_storage<Block>& storage) {
    acceptance_params<Policy> const& p = all.p;
    int const row = block.block_x();
    row_owner const owner = owner_of_row(p, row);
    device::drawn out{-1, false};
    if (owner.found) {
      device::sampling const how = sampling_of(p, owner.request);
      if (device::is_valid(how))
        out = row_token(block, all, owner, row, how, storage);
      else
        out.bad = true;
    }
    if (block.thread() != 0) return;
    all.row_token[row] = out.token;
    int status = out.bad ? 1 : 0;
    if constexpr (is_summarised)
      for (int s = 0; out.bad && s < p.shards; ++s)
        if (p.logits.row(row)[s * p.shard_stride].bits == device::no_summary) status = 2;
    p.row_status[row] = status;
  }
 private:
  static constexpr bool is_summarised = RATIFY_STD::is_same_v<typename Policy::logit_format, acceptance_word>;

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static device::drawn row_token(Block const& block, params const& all, row_owner const& owner, int row,
                                           device::sampling const& how, shared_storage<Block>& storage) {
    acceptance_params<Policy> const& p = all.p;
    int const t = row - owner.rows.begin, n = owner.rows.count - 1;
    auto const logits = logits_of_row(p, row);
    if constexpr (!is_summarised) {
      // The first piece is a whole one: it says whether top_k lets pieces be summarised.
      if (acceptance_word const* const words = all.pieces.row(row);
          all.pieces.data != nullptr && words->bits != device::no_summary)
        return draw_or_judge(block, p, owner.request, t, n,
                             device::pieced_row<typename Policy::logit_format>{
                                 logits, words, static_cast<int>(pieces_of_row(p)) * acceptance_piece_places, p.vocab},
                             how, storage);
    }
    return draw_or_judge(block, p, owner.request, t, n, logits, how, storage);
  }

  /// Row t of a request of n drafts.
  RATIFY_ANY_BLOCK
  template <class Block, class Row>
  RATIFY_HD static device::drawn draw_or_judge(Block const& block, acceptance_params<Policy> const& p, int request,
                                               int t, int n, Row const& logits, device::sampling const& how,
                                               shared_storage<Block>& storage) {
    auto const seed = static_cast<uint64_t>(p.seed[request]);
    uint64_t const position = static_cast<uint64_t>(p.position[request]) + static_cast<uint64_t>(t);
    if constexpr (static_cast<acceptance_rule>(Policy::rule) == acceptance_rule::coupled) {
      return device::draw_token(block, logits, how, random_bits(seed, position, random_purpose::coupled_draw), storage);
    } else {
      uint32_t const redraw = random_bits(seed, position, random_purpose::residual_draw);
      if (t == n) return device::draw_token(block, logits, how, redraw, storage);
      device::draft_distribution q{nullptr, nullptr, 0, nullptr};
      if (p.draft_candidates.data != nullptr) {
        q.candidates = p.draft_candidates.at(request, t);
        q.candidate_q = p.draft_candidate_q.at(request, t);
        q.count = p.candidates;
      } else if (p.draft_probs.data != nullptr) {
        q.probs = p.draft_probs.at(request, t);
      }
      return device::judge_draft(block, logits, how, p.draft.row(request)[t], q,
                                 random_bits(seed, position, random_purpose::accept_test), redraw, storage);
    }
  }
};

template <class Policy>
struct acceptance_kernel {
  using params = acceptance_kernel_params<Policy>;
  static constexpr char const* name = "acceptance_kernel";
  static constexpr int block_threads = 32;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& all, shared_storage<Block>&) {
    acceptance_params<Policy> const& p = all.p;
    int64_t const request = int64_t{block.block_x()} * block_threads + block.thread();
    if (request >= p.requests) return;
    request_rows const own =
        owned_rows(p.query_start, p.requests, static_cast<int>(request), p.rows, int64_t{p.max_drafts} + 1);
    if (own.count == 0) return;
    int64_t const capacity = int64_t{p.max_drafts} + 1;
    device::outcome const out =
        device::accept_rows(all.row_token + own.begin, p.row_status + own.begin,
                            own.count > 1 ? p.draft.row(request) : nullptr, own.count - 1, p.end_tokens, p.end_count,
                            p.limit[request], p.tokens + request * capacity, static_cast<int>(capacity));
    p.emitted[request] = out.emitted;
    p.accepted[request] = out.accepted;
    p.finish[request] = static_cast<int32_t>(out.finish);
    device::advance_cursors(p.cursors, request, out.emitted);
  }
};

template <class Policy, int Threads>
struct acceptance_summary_kernel {
  using params = acceptance_summary_params<Policy>;
  static constexpr char const* name = "acceptance_summary_kernel";
  static constexpr int block_threads = Threads;
  template <class Block>
  using shared_storage = device::draw_storage<Block>;

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const row = block.block_x();
    row_owner const owner = owner_of_row(p, row);
    acceptance_word* const words = p.words.row(row);
    if (owner.found)
      device::summarise_row(block, p.logits.row(row), p.vocab, p.first_id, sampling_of(p, owner.request), words,
                            p.places, storage);
    else
      for (int i = block.thread(); i < p.places; i += block_threads) words[i].bits = 0;
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
