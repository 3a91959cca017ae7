// SPDX-License-Identifier: Apache-2.0
/// The kernels of rows that blocks share, in the four steps of device/long_rows.cuh. Under rule rejection the last
/// three run once more for rows whose draft was rejected.
#pragma once

#include <ratify/detail/acceptance_kernels.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

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

/// The ids whose draft weights one piece of a row measures, where the draft's distribution covers the vocabulary. They
/// are an even split of the ids over the row's pieces and not the ids of the piece's logits, because the words of a
/// summary stand for any ids.
template <class Policy>
struct measured_ids {
  float const* probs;
  int count;

  RATIFY_HD measured_ids(acceptance_params<Policy> const& p, row_task const& task, int piece, int pieces) {
    int64_t const each = ceil_div(p.vocab, pieces);
    int64_t const begin = min_of<int64_t>(piece * each, p.vocab);
    probs = p.draft_probs.at(task.request, task.t) + begin;
    count = static_cast<int>(min_of<int64_t>(each, p.vocab - begin));
  }
  RATIFY_HD float operator()(int i) const { return probs[i]; }
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
        measured_ids<Policy> const ids(p, task, piece, pieces);
        own.draft_weight = device::largest_pattern(block, ids.count, ids, storage);
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
        if (scratch.rejected.pending == 0 || scratch.rejected.is_binned != 0) return;
        return device::add_weights(block, part, residual_weights(p, task, scratch), scratch, storage);
      }
    }
    auto const pieces = static_cast<int>(acceptance_traits<Policy>::pieces_of_row(p));
    device::row_extremes const* const of_pieces = all.extremes + int64_t{row} * pieces;
    device::row_extremes extremes = device::extremes_of_row(block, of_pieces, pieces, storage.collective);
    if constexpr (acceptance_traits<Policy>::is_rejection)
      if (p.draft_probs.data != nullptr && task.has_draft())
        extremes.draft_weight = add_draft_weights(block, p, task, of_pieces, pieces, piece, scratch, storage);
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
  template <class Block>
  RATIFY_HD static uint32_t add_draft_weights(Block const& block, acceptance_params<Policy> const& p,
                                              row_task const& task, device::row_extremes const* of_pieces, int pieces,
                                              int piece, device::long_row& scratch, shared_storage<Block>& storage) {
    uint32_t own = 0;
    for (int i = block.thread(); i < pieces; i += block_threads) own = max_of(own, of_pieces[i].draft_weight);
    auto const largest = static_cast<uint32_t>(block_max(block, uint64_t{own}, storage.collective));
    block.barrier();
    device::draft_shares shares = shares_of_draft(p, task);
    if (!shares.set_largest(largest)) return largest;
    measured_ids<Policy> const ids(p, task, piece, pieces);
    uint64_t const sum = device::sum_integers(block, shares, ids.count, ids, storage.collective);
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
    uint64_t total = 0;
    if (acceptance_traits<Policy>::is_rejection && all.pass == row_pass::replace) {
      if (scratch.rejected.pending == 0) return;
      if (scratch.rejected.is_binned != 0) total = scratch.rejected.rest;
      if (scratch.rejected.is_binned != 0 && total == 0) {  // there is nothing to draw from
        if (piece == 0 && block.thread() == 0) scratch.plan = {};
        return;
      }
      how = device::without_cuts(how.temperature);  // what is drawn from has been cut already
    } else if (device::decide(scratch.extremes.first, how).decided) {
      return;
    }
    // What replaces a draft is drawn at once if all that top-k keeps fits into the list.
    int const whole = acceptance_traits<Policy>::is_rejection ? device::selection_places : 0;
    device::draw_plan const plan =
        device::plan_draw(block, scratch, how, p.vocab, task.draw_bits, total, whole, storage);
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
    device::rejected_draft rejected{1, 0, 0, shares.largest, shares.shift, shares.divisor, total, weights.lowest};
    if (shares.tokens() <= acceptance_tuning::binned_candidates) {
      rejected.is_binned = 1;
      rejected.rest = total - take_off_bins(block, row, weights, storage);
    } else {
      device::clear_bins(block, *scratch, 0, 1);
    }
    if (block.thread() == 0) {
      scratch->rejected = rejected;
      scratch->gathered = 0;
    }
    return {true, -1, device::entry_weight::mass, 0};
  }
 private:
  /// Takes what the draft's distribution has of its few tokens off the row's masses by bin. @return the sum of it
  RATIFY_ANY_BLOCK
  template <class Block, class Row>
  RATIFY_HD uint64_t take_off_bins(Block const& block, Row const& row,
                                   device::entry_weights<device::draft_shares> const& weights,
                                   device::draw_storage<Block>& storage) const {
    uint64_t own = 0;
    RATIFY_NO_UNROLL
    for (int i = block.thread(); i < weights.shares.tokens(); i += Block::threads) {
      int32_t const id = weights.shares.token(i);
      if (id < 0 || id >= vocab || !weights.shares.is_first(i)) continue;
      uint64_t const word = row.word_of(id), mass = word != 0 ? weights.of(word) : 0;
      uint64_t const share = min_of(mass, weights.shares.of(id));
      if (share == 0) continue;
      int const bin = weights.bins.of(device::value_of_key(device::key_of_word(word)));
      (void)block.atomic_add(&scratch->mass[bin], ~share + 1u);  // less, modulo 2^64
      own += share;
    }
    uint64_t const sum = block_sum(block, own, storage.collective);
    block.barrier();
    return sum;
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
      task.how = device::without_cuts(task.how.temperature);  // what is drawn from has been cut already
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

}  // namespace detail

using detail::acceptance_extremes_kernel;
using detail::acceptance_gather_kernel;
using detail::acceptance_long_row_kernel;
using detail::acceptance_masses_kernel;

RATIFY_END_NAMESPACE
