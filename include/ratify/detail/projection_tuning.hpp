// SPDX-License-Identifier: Apache-2.0
/// Constants of the NVFP4 projection's kernel that are chosen for speed. None of them moves a bit.
///
/// Each one says on which card and shape it was measured, what it gained, and by which command. The times are those of
/// docs/performance.md ("Tried, and what it gave"): an H200, 17408x5120, 8 rows, split_k 7, FP16 scale,
/// `ratify-bench projection --shape 17408x5120`. "Not measured" means that the value follows from the reasoning
/// beside it alone.
#pragma once

#include <ratify/detail/meta.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Columns of y that one thread sums. More columns let a thread use an activation that it has read more often.
/// H200, 8 rows: 2 columns in 33 threads 85 us, 1 column in 44 threads 103 us, 4 columns in 17 threads 93 us. 16 and 32
/// rows: not measured; the sums of one column take as many registers there as those of two columns of 8 rows.
RATIFY_HD constexpr int projection_thread_columns(int rows) { return rows <= 8 ? 2 : 1; }

/// Warps of a block that share the activations of one split, if the knob `column_warps` is 0.
/// H200, 8 rows, 7 splits: 2 warps, of which the launch uses 33 threads, 85 us; 1 warp of 32 threads 107 us. One split
/// (4 warps, so that a block has enough threads), 16 and 32 rows, and more than 10 splits (1 warp, because a block has
/// at most 32): not measured.
RATIFY_HD constexpr int projection_column_warps(int splits, int rows) {
  return splits == 1 ? 4 : splits <= 10 && rows <= 16 ? 2 : 1;
}

/// The fewest threads per split that get columns; fewer would stage activations for next to no sums. Not measured.
inline constexpr int projection_fewest_lanes = 8;

/// Threads of a split that get columns, so that every multiprocessor has as many columns to sum as the others.
/// H200: 33 threads per split, which this gives for 17408 columns and 132 multiprocessors, 85 us; whole warps 107 us.
/// @param most     threads of a split that there are
/// @param columns  that one of them sums
RATIFY_HD constexpr int projection_lanes(int n, int multiprocessors, int most, int columns) {
  int const each = ceil_div(n, max_of(multiprocessors, 1));
  int const tile = ceil_div(each, ceil_div(each, most * columns));
  return min_of(max_of(ceil_div(tile, columns), projection_fewest_lanes), most);
}

/// Floats between two groups of 16 staged columns, and between the stages of two splits, beyond what they hold. They
/// let 32 threads that hold 8 columns each of 8 rows store to as many banks of shared memory, and the threads of a warp
/// that has two splits read from both at once. Not measured on its own.
inline constexpr int projection_stage_gap = 8;

/// Bytes of shared memory that the staged activations of a block may take: what a block of every card from sm_70 on can
/// have. Two stages are kept, one that is summed and one that is stored to, if both fit. Not measured.
inline constexpr int projection_stage_bytes = 65536;

/// Columns of K of one split that are staged at a time: 16 bytes of activations for each thread that stages, if there
/// is room. Not measured.
RATIFY_HD constexpr int projection_staged_columns(int column_warps, int rows) {
  return 64 * max_of(column_warps, 8 / rows);
}

}  // namespace detail
RATIFY_END_NAMESPACE
