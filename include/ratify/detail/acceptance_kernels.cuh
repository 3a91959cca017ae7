// SPDX-License-Identifier: Apache-2.0
/// The kernels of acceptance. A warp draws the token of a short row, or judges its draft. A long row is shared by
/// blocks in four steps (device/long_rows.cuh); under rule rejection the last three run once more for rows whose draft
/// was rejected. Then one thread per request accepts.
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

/// A piece of a row; it is empty if the last shard has fewer pieces than the others.
template <class Policy>
RATIFY_HD inline auto piece_of_row(acceptance_params<Policy> const& p, int row, int piece) {
  int const of_shard = acceptance_traits<Policy>::pieces_of_shard(p);
  auto shard = logits_of_row(p, row).shard(piece / of_shard);
  int const begin = piece % of_shard * acceptance_tuning::piece_ids;
  shard.data += begin;
  shard.begin += begin;
  shard.count = min_of(acceptance_tuning::piece_ids, shard.count - begin);
  return shard;
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

/// Step 1, one block per piece of a row: its extremes, and the scratch of the row made ready.
template <class Policy>
struct acceptance_extremes_kernel {
  using params = acceptance_kernel_params<Policy>;
  static constexpr char const* name = "acceptance_extremes_kernel";
  static constexpr int block_threads = acceptance_tuning::piece_threads;
  template <class Block>
  using shared_storage = collective_storage<Block>;

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& all, shared_storage<Block>& storage) {
    acceptance_params<Policy> const& p = all.p;
    int const row = block.block_x(), piece = block.block_y();
    auto const pieces = static_cast<int>(acceptance_traits<Policy>::pieces_of_row(p));
    device::long_row& scratch = all.long_rows[row];
    row_task task = place_of_row(block, p, row);
    if (piece == 0 && block.thread() == 0) {
      if (task.is_drawn()) add_bits(p, task);
      all.tasks[row] = task;
    }
    if (!task.is_drawn()) return;
    device::clear_bins(block, scratch, piece, pieces);
    auto const part = piece_of_row(p, row, piece);
    device::row_extremes own = device::extremes_of_piece(block, part, storage);
    if constexpr (acceptance_traits<Policy>::is_rejection) {
      if (p.draft_probs.data != nullptr && task.has_draft()) {
        float const* const probs = p.draft_probs.at(task.request, task.t);
        own.draft_weight = device::largest_pattern(
            block, part.count, [&](int i) { return probs[part.begin + i]; }, storage);
      }
      if (piece == 0 && block.thread() == 0) {
        scratch.rejected.pending = 0;
        scratch.draft_total = 0;
      }
    }
    if (block.thread() == 0) all.extremes[int64_t{row} * pieces + piece] = own;
  }
};

/// What replaces a draft that the first pass rejected.
template <class Policy>
RATIFY_HD inline device::entry_weights<device::draft_shares> residual_weights(acceptance_params<Policy> const& p,
                                                                              row_task const& task,
                                                                              device::long_row const& scratch) {
  device::entry_weights<device::draft_shares> weights;
  weights.bins = scratch.bins;
  weights.temperature = task.how.temperature;
  weights.lowest = scratch.rejected.lowest;
  weights.kind = device::entry_weight::residual;
  weights.shares = shares_of_draft(p, task);
  weights.shares.largest = scratch.rejected.largest;
  weights.shares.shift = scratch.rejected.shift;
  weights.shares.divisor = scratch.rejected.divisor;
  weights.shares.p_total = scratch.rejected.p_total;
  return weights;
}

/// Step 2, one block per piece of a row: its masses by bin.
template <class Policy>
struct acceptance_masses_kernel {
  using params = acceptance_kernel_params<Policy>;
  static constexpr char const* name = "acceptance_masses_kernel";
  static constexpr int block_threads = acceptance_tuning::piece_threads;
  template <class Block>
  using shared_storage = device::masses_storage<Block>;

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& all, shared_storage<Block>& storage) {
    acceptance_params<Policy> const& p = all.p;
    int const row = block.block_x(), piece = block.block_y();
    device::long_row& scratch = all.long_rows[row];
    row_task const task = all.tasks[row];
    if (!task.is_drawn()) return;
    auto const part = piece_of_row(p, row, piece);
    if constexpr (acceptance_traits<Policy>::is_rejection) {
      if (all.pass == row_pass::replace) {
        if (scratch.rejected.pending == 0) return;
        return device::add_weights(block, part, residual_weights(p, task, scratch), scratch, storage);
      }
    }
    auto const pieces = static_cast<int>(acceptance_traits<Policy>::pieces_of_row(p));
    device::row_extremes const* const of_pieces = all.extremes + int64_t{row} * pieces;
    device::row_extremes extremes = device::extremes_of_row(block, of_pieces, pieces, storage.collective);
    if constexpr (acceptance_traits<Policy>::is_rejection)
      if (p.draft_probs.data != nullptr && task.has_draft())
        extremes.draft_weight = add_draft_weights(block, p, task, of_pieces, pieces, part, scratch, storage);
    device::logit_bins const bins = device::bins_of_row(extremes, task.how.temperature);
    if (piece == 0 && block.thread() == 0) {
      scratch.extremes = extremes;
      scratch.bins = bins;
    }
    if (device::decide(extremes.first, task.how).decided) return;
    bool const counts = device::cuts_by_count(task.how, p.vocab);
    float lowest = device::value_of_key(device::minus_infinity_key);
    if (counts) lowest = device::bound_of_row(block, of_pieces, pieces, task.how.top_k, storage);
    device::add_masses(block, part, bins, task.how.temperature, counts, lowest, scratch, storage);
  }
 private:
  /// A piece's part of the measure of a draft distribution over the vocabulary. @return its largest pattern
  RATIFY_ANY_BLOCK
  template <class Block, class Piece>
  RATIFY_HD static uint32_t add_draft_weights(Block const& block, acceptance_params<Policy> const& p,
                                              row_task const& task, device::row_extremes const* of_pieces, int pieces,
                                              Piece const& part, device::long_row& scratch,
                                              shared_storage<Block>& storage) {
    uint32_t own = 0;
    for (int i = block.thread(); i < pieces; i += block_threads) own = max_of(own, of_pieces[i].draft_weight);
    auto const largest = static_cast<uint32_t>(block_max(block, uint64_t{own}, storage.collective));
    block.barrier();
    device::draft_shares shares = shares_of_draft(p, task);
    if (!shares.set_largest(largest)) return largest;
    float const* const probs = shares.q.probs;
    uint64_t const sum = device::sum_integers(
        block, shares, part.count, [&](int i) { return probs[part.begin + i]; }, storage.collective);
    if (block.thread() == 0 && sum != 0) (void)block.atomic_add(&scratch.draft_total, sum);
    return largest;
  }
};

/// Step 3, one block per piece of a row: the words that the row's searches end at.
template <class Policy>
struct acceptance_gather_kernel {
  using params = acceptance_kernel_params<Policy>;
  static constexpr char const* name = "acceptance_gather_kernel";
  static constexpr int block_threads = acceptance_tuning::piece_threads;
  template <class Block>
  using shared_storage = device::gather_storage<Block>;

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& all, shared_storage<Block>& storage) {
    acceptance_params<Policy> const& p = all.p;
    int const row = block.block_x(), piece = block.block_y();
    device::long_row& scratch = all.long_rows[row];
    row_task const task = all.tasks[row];
    if (!task.is_drawn()) return;
    device::sampling how = task.how;
    if (acceptance_traits<Policy>::is_rejection && all.pass == row_pass::replace) {
      if (scratch.rejected.pending == 0) return;
      how = {how.temperature, 1.0f, 0};  // what is drawn from has been cut already
    } else if (device::decide(scratch.extremes.first, how).decided) {
      return;
    }
    // What replaces a draft is drawn at once if all that top-k keeps fits into the list.
    int const whole = acceptance_traits<Policy>::is_rejection ? device::selection_places : 0;
    device::draw_plan const plan = device::plan_draw(block, scratch, how, p.vocab, task.draw_bits, whole, storage);
    if (piece == 0 && block.thread() == 0) scratch.plan = plan;
    device::gather_words(block, piece_of_row(p, row, piece), scratch.bins, plan, scratch, storage);
  }
};

/// What the last step draws from under rule rejection. In the first pass: the row's masses, unless the draft is
/// accepted, or rejected, which the second pass deals with unless the list holds all that is kept of the row. In the
/// second: what the row has over the draft's distribution.
struct judge_long_row {
  int vocab;
  uint32_t random;  ///< of the accept test
  row_pass pass;
  bool is_whole;  ///< the list holds all that is kept
  device::long_row* scratch;

  RATIFY_ANY_BLOCK
  template <class Block, class Row>
  RATIFY_HD device::draw_source operator()(Block const& block, Row const& row,
                                           device::entry_weights<device::draft_shares>& weights, uint64_t total,
                                           int listed, device::draw_storage<Block>& storage) const {
    device::draft_shares& shares = weights.shares;
    device::draw_source const from_all{false, -1, device::entry_weight::mass, total};
    if (pass == row_pass::replace)
      return scratch->plan.total != 0 ? device::draw_source{false, -1, device::entry_weight::residual, total}
                                      : from_all;
    if (shares.draft < 0 || shares.draft >= vocab) return from_all;
    if (shares.q.probs != nullptr) {
      if (!shares.set_largest(scratch->extremes.draft_weight)) return from_all;
      shares.set_total(scratch->draft_total);
    } else if (!device::measure(block, shares, vocab, storage)) {
      return from_all;
    }
    if (device::accepts(row, weights, random, total)) return {true, shares.draft, device::entry_weight::mass, 0};
    if (is_whole) return device::draw_from_rest(block, row, weights, total, listed, storage);
    block.barrier();  // the list's count has been read by all threads
    if (block.thread() == 0)
      scratch->rejected = {1, shares.largest, shares.shift, shares.divisor, shares.p_total, weights.lowest};
    device::clear_bins(block, *scratch, 0, 1);
    return {true, -1, device::entry_weight::mass, 0};
  }
};

/// Step 4, one block per row: the row's token, out of the words that were gathered.
template <class Policy>
struct acceptance_long_row_kernel {
  using params = acceptance_kernel_params<Policy>;
  static constexpr char const* name = "acceptance_long_row_kernel";
  static constexpr int block_threads = acceptance_tuning::long_row_threads;
  template <class Block>
  using shared_storage = device::draw_storage<Block>;

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& all, shared_storage<Block>& storage) {
    int const row = block.block_x();
    row_task task = all.tasks[row];
    device::drawn out{-1, task.is_bad};
    if (all.pass == row_pass::replace) {
      if (!task.is_drawn() || all.long_rows[row].rejected.pending == 0) return;
      task.how = {task.how.temperature, 1.0f, 0};  // what is drawn from has been cut already
      out.token = draw(block, all, task, row, storage);
    } else if (task.is_drawn()) {
      device::row_decision const decision = device::decide(all.long_rows[row].extremes.first, task.how);
      out = decision.token;
      if (!decision.decided) out.token = draw(block, all, task, row, storage);
    }
    store_row(block, all, row, out);
  }
 private:
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static int32_t draw(Block const& block, params const& all, row_task const& task, int row,
                                shared_storage<Block>& storage) {
    acceptance_params<Policy> const& p = all.p;
    device::long_row& scratch = all.long_rows[row];
    auto source = device::gathered(logits_of_row(p, row), scratch);
    device::draw_plan plan = scratch.plan;
    if constexpr (acceptance_traits<Policy>::is_rejection) {
      device::entry_weights<device::draft_shares> weights;
      if (all.pass == row_pass::replace) {
        weights = residual_weights(p, task, scratch);
        if (plan.total == 0) {  // nothing is left over the draft's distribution: from the row's, which is rare
          plan = {};
          plan.total = weights.shares.p_total;
          source.words = nullptr;
        }
      } else {
        weights.shares.draft = -1;
        if (task.has_draft()) weights.shares = shares_of_draft(p, task);
        weights.bins = scratch.bins;
        weights.temperature = task.how.temperature;
      }
      int const listed = device::list_gathered(block, source, storage);
      judge_long_row const judge{p.vocab, task.accept_bits, all.pass, plan.is_whole, &scratch};
      return device::choose_token(block, source, weights, task.how, task.draw_bits, plan, judge, listed, storage);
    } else {
      device::entry_weights<device::no_shares> weights;
      weights.bins = scratch.bins;
      weights.temperature = task.how.temperature;
      int const listed = device::list_gathered(block, source, storage);
      return device::choose_token(block, source, weights, task.how, task.draw_bits, plan, device::draw_from_masses{},
                                  listed, storage);
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
using detail::acceptance_extremes_kernel;
using detail::acceptance_gather_kernel;
using detail::acceptance_long_row_kernel;
using detail::acceptance_masses_kernel;
using detail::acceptance_short_row_kernel;
using detail::acceptance_short_summary_kernel;
using detail::acceptance_summary_kernel;

RATIFY_END_NAMESPACE
