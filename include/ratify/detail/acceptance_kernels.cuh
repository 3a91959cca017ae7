// SPDX-License-Identifier: Apache-2.0
/// The kernels of acceptance, but for those of long rows: a warp draws the token of a short row, or judges its draft;
/// after that one thread per request accepts. And the summary of a shard.
#pragma once

#include <ratify/detail/acceptance_traits.cuh>
#include <ratify/detail/philox.cuh>
#include <ratify/device/acceptance.cuh>
#include <ratify/device/long_rows.cuh>
#include <ratify/device/rejection.cuh>
#include <ratify/device/rows.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// The first pass over long rows draws from their distribution; the second one replaces rejected drafts.
enum class row_pass { draw, replace };

/// What a row of the launch is about.
struct row_task {
  int request = -1;  ///< -1: the row is unowned
  int t = 0;         ///< the row is its request's t-th
  int drafts = 0;    ///< of the request, which owns one row more
  device::sampling how{};
  uint32_t draw_bits = 0;    ///< random bits of the draw
  uint32_t accept_bits = 0;  ///< random bits of the accept test
  bool is_bad = false;       ///< the sampling parameters are invalid

  RATIFY_HD bool is_drawn() const { return request >= 0 && !is_bad; }
  RATIFY_HD bool has_draft() const { return t < drafts; }
};

/// What the kernels get: the launch, and its scratch.
template <class Policy>
struct acceptance_kernel_params {
  acceptance_params<Policy> p;
  device::long_row* long_rows;     ///< [rows]; null if rows are short
  device::row_extremes* extremes;  ///< [rows, pieces_of_row]; null if rows are short
  row_task* tasks;                 ///< [rows]; null if rows are short
  int32_t* row_token;  ///< [rows]: what each row gives, which is its draft if that is accepted; -1 for a bad row
  row_pass pass;
};

/// The row's request and its place there.
RATIFY_ANY_BLOCK
template <class Block, class Params>
RATIFY_HD inline row_task place_of_row(Block const& block, Params const& p, int row) {
  device::row_owner const owner = device::judge_rows(block, {p.query_start, p.requests, p.rows}).owner_of(row);
  row_task task;
  if (owner.request < 0 || owner.rows.count() > int64_t{p.max_drafts} + 1) return task;
  task.request = owner.request;
  task.t = row - owner.rows.begin;
  task.drafts = owner.rows.count() - 1;
  task.how = {p.temperature[task.request], p.top_p[task.request], p.top_k[task.request]};
  task.is_bad = !device::is_valid(task.how);
  return task;
}

/// Gives a row its random bits.
template <class Policy>
RATIFY_HD inline void add_bits(acceptance_params<Policy> const& p, row_task& task) {
  constexpr bool rejects = acceptance_traits<Policy>::is_rejection;
  auto const seed = static_cast<uint64_t>(p.seed[task.request]);
  uint64_t const position = static_cast<uint64_t>(p.position[task.request]) + static_cast<uint64_t>(task.t);
  task.draw_bits = random_bits(seed, position, rejects ? random_purpose::residual_draw : random_purpose::coupled_draw);
  if (rejects) task.accept_bits = random_bits(seed, position, random_purpose::accept_test);
}

/// A row's logits, or what was summarised of them.
template <class Policy>
RATIFY_HD inline auto logits_of_row(acceptance_params<Policy> const& p, int row) {
  if constexpr (acceptance_traits<Policy>::is_summarised)
    return device::summarised_row{p.logits.row(row), p.vocab, p.shards, p.shard_vocab, p.shard_stride};
  else
    return device::logits_row<typename Policy::logit_format>{
        p.logits.row(row), p.vocab, p.shards, acceptance_traits<Policy>::entries_of_shard(p), p.shard_stride};
}

/// What row t < drafts of a request compares its draft with.
template <class Policy>
RATIFY_HD inline device::draft_shares shares_of_draft(acceptance_params<Policy> const& p, row_task const& task) {
  device::draft_shares shares;
  shares.draft = p.draft.row(task.request)[task.t];
  if (p.draft_candidates.data != nullptr) {
    shares.q = {p.draft_candidates.at(task.request, task.t), p.draft_candidate_q.at(task.request, task.t), p.candidates,
                nullptr};
  } else if (p.draft_probs.data != nullptr) {
    shares.q.probs = p.draft_probs.at(task.request, task.t);
  }
  return shares;
}

/// Writes what a row gives. All threads of a block call it.
RATIFY_ANY_BLOCK
template <class Block, class Policy>
RATIFY_HD inline void store_row(Block const& block, acceptance_kernel_params<Policy> const& all, int row,
                                device::drawn const& out) {
  if (block.thread() != 0) return;
  acceptance_params<Policy> const& p = all.p;
  int status = out.bad ? 1 : 0;
  if constexpr (acceptance_traits<Policy>::is_summarised)
    for (int s = 0; out.bad && s < p.shards; ++s)
      if (p.logits.row(row)[s * p.shard_stride].bits == device::no_summary) status = 2;
  all.row_token[row] = out.token;
  p.row_status[row] = status;
}

/// One warp per row.
template <class Policy>
struct acceptance_short_row_kernel {
  using params = acceptance_kernel_params<Policy>;
  static constexpr char const* name = "acceptance_short_row_kernel";
  static constexpr int block_threads = acceptance_tuning::short_row_threads;
  template <class Block>
  using shared_storage = device::draw_storage<Block>;

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& all, shared_storage<Block>& storage) {
    int const row = block.block_x();
    row_task task = place_of_row(block, all.p, row);
    device::drawn out{-1, task.is_bad};
    if (task.is_drawn()) {
      add_bits(all.p, task);
      out = draw(block, all.p, task, row, storage);
    }
    store_row(block, all, row, out);
  }
 private:
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static device::drawn draw(Block const& block, acceptance_params<Policy> const& p, row_task const& task,
                                      int row, shared_storage<Block>& storage) {
    auto const logits = logits_of_row(p, row);
    if constexpr (acceptance_traits<Policy>::is_rejection) {
      // The last row has no draft; an id that is no token is replaced without a test.
      device::draft_shares shares;
      shares.draft = -1;
      if (task.has_draft()) shares = shares_of_draft(p, task);
      return device::judge_draft(block, logits, task.how, shares.draft, shares.q, task.accept_bits, task.draw_bits,
                                 storage);
    } else {
      return device::draw_token(block, logits, task.how, task.draw_bits, storage);
    }
  }
};

/// One thread per request: what it emits, and its cursors.
template <class Policy>
struct acceptance_emission_kernel {
  using params = acceptance_kernel_params<Policy>;
  static constexpr char const* name = "acceptance_emission_kernel";
  static constexpr int block_threads = acceptance_tuning::emission_threads;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& all, shared_storage<Block>&) {
    acceptance_params<Policy> const& p = all.p;
    device::row_bounds const bounds{p.query_start, p.requests, p.rows};
    int64_t const request = int64_t{block.block_x()} * block_threads + block.thread();
    bool const exists = request < p.requests;
    // Loaded before the bounds are judged, so that all loads are under way together.
    device::row_range const named = exists ? bounds.named_by(static_cast<int>(request)) : device::row_range{};
    int32_t const limit = exists ? p.limit[request] : 0;
    device::row_owners const owners = device::judge_rows(block, bounds);
    if (!exists) return;
    device::row_range const own = owners.rows_of(static_cast<int>(request), named);
    int64_t const capacity = int64_t{p.max_drafts} + 1;
    if (own.count() == 0 || own.count() > capacity) {
      p.emitted[request] = p.accepted[request] = 0;
      return;
    }
    device::outcome const out = device::accept_rows(
        all.row_token + own.begin, p.row_status + own.begin, own.count() > 1 ? p.draft.row(request) : nullptr,
        own.count() - 1, p.end_tokens, p.end_count, limit, p.tokens + request * capacity, static_cast<int>(capacity));
    p.emitted[request] = out.emitted;
    p.accepted[request] = out.accepted;
    p.finish[request] = static_cast<int32_t>(out.finish);
    device::advance_cursors(p.cursors, request, out.emitted);
  }
};

/// One block per row of a shard.
template <class Policy, int Threads>
struct summary_kernel {
  using params = acceptance_summary_params<Policy>;
  static constexpr char const* name = "acceptance_summary_kernel";
  static constexpr int block_threads = Threads;
  template <class Block>
  using shared_storage = device::draw_storage<Block>;

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const row = block.block_x();
    row_task const task = place_of_row(block, p, row);
    acceptance_word* const words = p.words.row(row);
    if (task.request >= 0)
      device::summarise_row(block, p.logits.row(row), p.vocab, p.first_id, task.how, words, p.places, storage);
    else
      for (int i = block.thread(); i < p.places; i += block_threads) words[i].bits = 0;
  }
};
template <class Policy>
struct acceptance_summary_kernel : summary_kernel<Policy, acceptance_tuning::summary_threads> {};
template <class Policy>
struct acceptance_short_summary_kernel : summary_kernel<Policy, acceptance_tuning::short_row_threads> {
  static constexpr char const* name = "acceptance_short_summary_kernel";
};

}  // namespace detail

using detail::acceptance_emission_kernel;
using detail::acceptance_short_row_kernel;
using detail::acceptance_short_summary_kernel;
using detail::acceptance_summary_kernel;

RATIFY_END_NAMESPACE
