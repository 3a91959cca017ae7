// SPDX-License-Identifier: Apache-2.0
/// Measured choices of acceptance's kernels. None of them moves a token.
#pragma once

#include <ratify/detail/meta.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

struct acceptance_tuning {
  /// Rows of up to so many entries are read by one warp each; longer ones are shared by blocks.
  static constexpr int short_row_entries = 2048, short_row_threads = 32;
  /// Ids of a piece of a long row, and threads of the block that reads it.
  static constexpr int piece_ids = 8192, piece_threads = 256;
  /// Entries of a piece that a thread loads together.
  static constexpr int entries_at_once = 4;
  /// Threads of the block that draws a long row's token from what its pieces gathered.
  static constexpr int long_row_threads = 512;
  /// Threads of the block that summarises a row of a shard which is not short.
  static constexpr int summary_threads = 512;
  /// Threads of a block in which each accepts the drafts of one request.
  static constexpr int emission_threads = 32;
};

}  // namespace detail
RATIFY_END_NAMESPACE
