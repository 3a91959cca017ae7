// SPDX-License-Identifier: Apache-2.0
/// Measured choices of the acceptance kernels. None of them moves a token.
///
/// The figures are microseconds of one launch on an H200 and, unless other ones are said, of three of them: 8 rows of
/// 248320 FP32 logits of one request under rule coupled with top_k 20 and top_p 0.95, with top_k off, and with both
/// off, where the kernels as they are take 27.2, 37.2 and 29.1. `python3 bench/run.py build/bench/ratify-bench RESULT`
/// measures these launches. The alternatives were compared in one run of a throw-away program that replays a graph of
/// 16 launches over as many sets of logits.
#pragma once

#include <ratify/detail/meta.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

struct acceptance_tuning {
  /// Rows of up to this many entries are read by one warp each; longer ones are shared by blocks. With top_k off, rows
  /// of 512 entries take 47.7 by a warp and 16.5 shared, rows of 2048 entries 133 and 17.2; greedy rows of 512 entries
  /// 5.3 and 9.4. Fewer than 512 entries: not measured.
  static constexpr int short_row_entries = 256, short_row_threads = 32;

  /// Entries of one piece of a long row, and threads of the block that reads it. 4096 entries: 32.1, 40.5 and 31.1. 512
  /// threads: 29.9, 38.9 and 30.2.
  static constexpr int piece_ids = 8192, piece_threads = 256;
  /// Entries of a piece that a thread loads together where each is only compared. 16: 28.8, 39.0 and 31.0.
  static constexpr int scanned_at_once = 8;
  /// The same where each entry is given its mass. 4: 27.6, 37.8 and 29.6.
  static constexpr int weighed_at_once = 8;

  /// Threads of the block that draws a long row's token from the words that its pieces gathered. 256: 26.8, 38.1, 29.1.
  static constexpr int long_row_threads = 512;
  /// Candidates of a rejected draft up to which their shares are subtracted from the row's bins; with more, or with
  /// `draft_probs`, the row is summed once more. Rule rejection with 16 candidates and top_k off: 84.9, and 98.0 if the
  /// row is always summed.
  static constexpr int binned_candidates = 512;

  /// Threads of the block that summarises a row of a shard, unless the row is short. Not measured.
  static constexpr int summary_threads = 512;
  /// Threads of a block of which each one accepts the drafts of a request. Not measured: one request needs one.
  static constexpr int emission_threads = 32;
};

}  // namespace detail
RATIFY_END_NAMESPACE
