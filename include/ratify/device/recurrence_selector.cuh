// SPDX-License-Identifier: Apache-2.0
/// From one round of the recurrence to the next: which snapshot the next round starts from. For engines and for kernels
/// of your own.
#pragma once

#include <ratify/config.hpp>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// Of two sets of snapshot slots with `max_rows` slots each, the one that a round writes: the set that its selector
/// does not name, the first one (0) where the selector is 0.
RATIFY_HD constexpr int written_snapshot_set(int32_t selector, int max_rows) {
  return selector >= 1 && selector <= max_rows ? 1 : 0;
}

/// The selector that follows a round which started from `selector` and of which `kept` rows are kept.
///
/// With one set of snapshot slots it is `kept`; nothing kept leaves 0, which is `initial_slot`. With two sets a round
/// of which nothing is kept leaves the state that it started from in its place, and so the selector as it was.
///
/// @param max_rows slots of one set; not read with one set
RATIFY_HD constexpr int32_t next_selector(int32_t selector, int32_t kept, int max_rows, int snapshot_sets) {
  if (snapshot_sets != 2) return kept;
  if (kept == 0) return selector;
  return written_snapshot_set(selector, max_rows) * max_rows + kept;
}

}  // namespace device
RATIFY_END_NAMESPACE
