// SPDX-License-Identifier: Apache-2.0
/// Measured choices of the recurrence kernel. None of them moves a bit of a result.
///
/// On a card the figures are microseconds of one launch on an H200: 8 rows with a snapshot each, 8 key heads and 24
/// value heads of 128, layout kv. `python3 bench/run.py build/bench/ratify-bench RESULT -- recurrence` measures that
/// launch. On the host they are microseconds of 8 rows of 2 value heads on one CPU thread, taken when the host's way
/// was chosen.
#pragma once

#include <ratify/recurrence_policy.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

struct recurrence_tuning {
  // On a card.

  /// Threads that share a value column. Layout kv: 4, so that the eight neighbouring columns of a warp fill a sector,
  /// took 9.6; 8 took 14.8 (both with 8 columns per block). Layout vk: 8 neighbouring keys fill a sector. Not measured.
  RATIFY_HD static constexpr int column_threads(recurrence_layout layout) {
    return layout == recurrence_layout::kv ? 4 : 8;
  }
  // The columns of one block are the knob value_block. 16, its default, takes 7.6; 8 takes 9.3 and 2 takes 33.
  /// Rows whose q, k and v are in shared storage at a time. Not measured.
  static constexpr int staged_rows = 8;
  /// Vectors of q and k that a thread loads before it normalises the first. Requested together with the values, the
  /// gates and all indices they took 7.4, one after the other 8.8; how much of that is theirs was not measured.
  static constexpr int vectors_at_once = 2;
  /// Elements of kept keys, per thread, that are loaded while the ones before them are used. Not measured.
  static constexpr int ring_elements = 32;
  /// Kept rows in shared storage at a time, at most. Not measured.
  static constexpr int ring_rows = 8;

  // On the host, where one thread holds whole columns.

  /// Columns that it holds at a time, which the compiler turns into vectors: 87 with 32; about ten times that with 8 or
  /// 16 (g++ 12 at -O3); 9000 with a thread for each eighth of a column.
  static constexpr int host_columns = 32;
};

}  // namespace detail
RATIFY_END_NAMESPACE
