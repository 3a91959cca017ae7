// SPDX-License-Identifier: Apache-2.0
/// From the tokens of rows to what a request emits, and to the cursors of its next round, for kernels of your own.
#pragma once

#include <ratify/detail/acceptance_traits.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// What a request's round came to.
struct outcome {
  int32_t emitted, accepted;
  acceptance_finish finish;
};

/// Emits the tokens that the rows of one request of `drafts` drafts give, up to and including the first that differs
/// from its draft. One thread calls it. `token` and `bad` [drafts + 1] are what `draw_token` or `judge_draft` gave for
/// each row (bad: not 0). `draft` is [drafts]; one that is no token of the vocabulary equals none. `tokens` [capacity],
/// more than drafts, becomes the emitted tokens, then -1.
RATIFY_HD inline outcome accept_rows(int32_t const* token, int32_t const* bad, int32_t const* draft, int drafts,
                                     int32_t const* end_tokens, int end_count, int32_t limit, int32_t* tokens,
                                     int capacity) {
  // How many rows in turn are good and give their draft: 8 rows at a time, so that their loads are under way together.
  constexpr int at_once = 8;
  int run = 0;
  bool goes_on = true;
  for (int begin = 0; goes_on && begin < drafts; begin += at_once) {
    int32_t own[at_once], status[at_once], drafted[at_once];
    RATIFY_UNROLL
    for (int i = 0; i < at_once; ++i) {
      int const t = detail::min_of(begin + i, drafts - 1);
      own[i] = token[t];
      status[i] = bad[t];
      drafted[i] = draft[t];
    }
    RATIFY_UNROLL
    for (int i = 0; i < at_once; ++i) {
      goes_on = goes_on && begin + i < drafts && status[i] == 0 && own[i] == drafted[i];
      run += goes_on ? 1 : 0;
    }
  }
  outcome out{0, 0, acceptance_finish::none};
  RATIFY_NO_UNROLL
  for (int t = 0; t <= run && out.finish == acceptance_finish::none && out.emitted < limit; ++t) {
    if (bad[t] != 0) {
      out.finish = acceptance_finish::bad_row;
      break;
    }
    int32_t const own = token[t];
    tokens[out.emitted++] = own;
    if (t < run) ++out.accepted;
    RATIFY_NO_UNROLL
    for (int e = 0; e < end_count; ++e)
      if (end_tokens[e] == own) out.finish = acceptance_finish::end;
  }
  if (out.finish == acceptance_finish::none && out.emitted >= limit) out.finish = acceptance_finish::limit;
  RATIFY_NO_UNROLL
  for (int i = out.emitted; i < capacity; ++i) tokens[i] = -1;
  return out;
}

/// A request's part of a ring of `places` rows: `count` of them from place `start` on.
struct ring_part {
  int32_t start, count;
};

/// After a round of which `kept` rows stay; a flush before it folded in all that the ring held.
RATIFY_HD inline ring_part advance_ring(ring_part ring, bool flushed, int32_t kept, int32_t places) {
  if (!flushed) return {ring.start, ring.count + kept};
  return {(ring.start + ring.count) % places, kept};
}

/// Whether the next round, of up to `round_rows` rows, must flush so that the one after it finds room.
RATIFY_HD inline bool must_flush(ring_part ring, int32_t places, int32_t round_rows) {
  return ring.count > places - 2 * round_rows;
}

/// Moves one request's cursors past a round that emitted `emitted` tokens. A ring part that cannot be one (start
/// outside 0..ring_places - 1, count outside 0..ring_places before or after) stays as it is.
RATIFY_HD inline void advance_cursors(acceptance_cursors const& c, int64_t request, int32_t emitted) {
  if (c.slot != nullptr && c.slot[request] < 0) return;
  if (c.selector != nullptr) c.selector[request] = emitted;
  if (c.kept != nullptr) c.kept[request] = emitted;
  if (c.fresh != nullptr && emitted > 0) c.fresh[request] = 0;
  if (c.stalled != nullptr) c.stalled[request] = emitted > 0 ? 0 : 1;
  if (c.ring_count == nullptr) return;
  ring_part ring{c.ring_start[request], c.ring_count[request]};
  if (ring.start < 0 || ring.start >= c.ring_places || ring.count < 0 || ring.count > c.ring_places) return;
  ring = advance_ring(ring, c.flush != nullptr && c.flush[request] == 1, emitted, c.ring_places);
  if (ring.count > c.ring_places) return;
  c.ring_start[request] = ring.start;
  c.ring_count[request] = ring.count;
  if (c.next_flush != nullptr) c.next_flush[request] = must_flush(ring, c.ring_places, c.round_rows) ? 1 : 0;
}

}  // namespace device
RATIFY_END_NAMESPACE
