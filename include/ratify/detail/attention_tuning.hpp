// SPDX-License-Identifier: Apache-2.0
/// Measured choices of the attention kernels. None of them moves a bit of a result.
///
/// The figures are microseconds of one launch on an H200: 8 rows, 12 query heads on 2 KV heads of 256 elements, E4M3 in
/// pages of 64 tokens, partition width 256, the `native` decoder, 262144 tokens unless another length is said, where
/// the kernels as they are take 905. `python3 bench/run.py build/bench/ratify-bench RESULT` measures that launch;
/// docs/performance.md, "Tried, and what it gave", lists the arrangements that were compared with it.
#pragma once

#include <ratify/detail/meta.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

struct attention_tuning {
  /// Threads per block of the partial kernel. Not measured.
  static constexpr int block_threads = 128;

  // Narrow tiles, for requests with few query entries.

  /// Query entries per narrow tile, and the floats (32 KB) that the scores of a partition may take: a wide partition
  /// gets a tile of fewer entries. Not measured.
  static constexpr int narrow_entries = 8, narrow_score_floats = 8192;
  /// Groups of threads among which a narrow tile's entries are divided. Not measured.
  RATIFY_HD static constexpr int narrow_groups(int head_dim) { return head_dim < 128 ? 2 : 1; }

  // Wide tiles: 96 sums per thread, so that one decoded element of K or V, and one shared element of q or one weight,
  // feed enough multiply-adds.

  /// Groups of threads and query entries per group. Two groups of 24: 905; three of 16: 1065; four of 12, with 8 tokens
  /// per thread: 1020.
  static constexpr int wide_groups = 2, wide_group_entries = 24;
  /// Tokens whose scores a thread computes together. Compared only as part of the arrangements above.
  static constexpr int wide_tokens = 4;
  /// The widest partition that has wide tiles: the scores of a wider one would leave room for too few blocks. At width
  /// 1024, with narrow tiles: 1595; the next line is the comparison of the tiles themselves.
  static constexpr int widest_for_wide = 256;
  /// The fewest query entries of a request that takes wide tiles. Wide and narrow: 24 entries 396 and 441, 16 entries
  /// 381 and 313 (another program at commit 8a881e1, which forced either; events around 7 launches).
  static constexpr int wide_entries = 17;
  /// Blocks of a multiprocessor that bound the registers where there are wide tiles. Three, of 168 registers with a few
  /// of them spilt: 905; two, of 255 without a spill: 995.
  static constexpr int minimum_blocks = 3;

  // Loads.

  /// Bytes of K that a thread loads from one token at a time: fewer where it works on several tokens, so that the next
  /// load of each can be under way in registers. Not measured.
  RATIFY_HD static constexpr int key_bytes(int tokens) { return tokens > 1 ? 8 : 16; }
  /// Rows of q per warp whose loads are under way together while a tile is staged. Loads that waited for one another
  /// took 50 more per tile of 48 entries.
  static constexpr int query_rows = 4;
  /// Tokens whose V addresses are computed at a time. Not measured.
  static constexpr int value_chunk = 256;

  // The combine kernel, which takes 5 % of the time at 262144 tokens, and merge, which is built like it.

  /// Threads per block: one per output column. Not measured.
  static constexpr int combine_threads = 64;
  /// Partial results whose weights a block shares at a time, and how many a thread loads ahead of their use. Not
  /// measured.
  static constexpr int combine_run = 256, combine_ahead = 32;
};

}  // namespace detail
RATIFY_END_NAMESPACE
