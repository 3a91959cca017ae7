// SPDX-License-Identifier: Apache-2.0
/// What a launch is told about one request: the state that its rows start from, and where the states after them go. For
/// kernels of your own too.
#pragma once

#include <ratify/detail/recurrence_traits.cuh>
#include <ratify/device/recurrence_selector.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// Where the rows of a request start from.
struct recurrence_start {
  int64_t slot = -1;   ///< of the pool; -1: the request is retired or contradicts, and its rows are zeros
  bool zero = false;   ///< from a zero state, whatever the slot holds
  bool flush = false;  ///< mode replay: the state after the kept rows goes to the slot
  int ring_start = 0;  ///< mode replay: the place of the first kept row
  int kept = 0;        ///< mode replay: how many rows are kept
};

/// Whether a slot is one of the pool.
template <class Policy>
RATIFY_HD inline bool is_pool_slot(recurrence_params<Policy> const& p, int32_t slot) {
  return slot >= 0 && slot < p.pool_slots;
}

/// One request as the device's memory describes it. The constructor loads all of it, so that the latencies overlap;
/// `start` judges it.
template <class Schedule, recurrence_mode Mode = Schedule::policy::mode>
class recurrence_request;

template <class Schedule>
class recurrence_request<Schedule, recurrence_mode::read> {
 public:
  using params = recurrence_params<typename Schedule::policy>;

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD recurrence_request(Block const&, params const& p, int request)
      : initial_(p.initial_slot[request]), fresh_(p.fresh != nullptr ? p.fresh[request] : 0) {}

  /// `rows`: how many the request has
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD recurrence_start start(Block const&, params const& p, int /*rows*/, int32_t* /*snapshot*/) const {
    recurrence_start from;
    if (!is_pool_slot(p, initial_) || fresh_ < 0 || fresh_ > 1) return from;
    from.slot = initial_;
    from.zero = fresh_ == 1;
    return from;
  }
 private:
  int32_t initial_, fresh_;
};

template <class Schedule>
class recurrence_request<Schedule, recurrence_mode::replay> {
 public:
  using params = recurrence_params<typename Schedule::policy>;

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD recurrence_request(Block const&, params const& p, int request)
      : slot_(p.slot[request]),
        ring_start_(p.ring_start[request]),
        ring_count_(p.ring_count[request]),
        flush_(p.flush[request]),
        fresh_(p.fresh != nullptr ? p.fresh[request] : 0) {}

  /// `rows`: how many the request has
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD recurrence_start start(Block const&, params const& p, int rows, int32_t* /*snapshot*/) const {
    if (!is_pool_slot(p, slot_) || ring_start_ < 0 || ring_start_ >= p.ring_places || ring_count_ < 0 ||
        ring_count_ > p.ring_places - rows || flush_ < 0 || flush_ > 1 || fresh_ < 0 || fresh_ > 1 ||
        (fresh_ == 1 && ring_count_ != 0))
      return {};
    return {slot_, fresh_ == 1, flush_ == 1 || fresh_ == 1, ring_start_, ring_count_};
  }
 private:
  int32_t slot_, ring_start_, ring_count_, flush_, fresh_;
};

/// Mode snapshots. Each lane of a warp holds the snapshot slots of a few rows.
template <class Schedule>
class recurrence_request<Schedule, recurrence_mode::snapshots> {
 public:
  using params = recurrence_params<typename Schedule::policy>;
  static constexpr int capacity = 32;  ///< rows of a request

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD recurrence_request(Block const& block, params const& p, int request)
      : initial_(p.initial_slot[request]),
        selector_(p.selector[request]),
        fresh_(p.fresh != nullptr ? p.fresh[request] : 0),
        slots_(p.snapshot_slot.row(request)) {
    RATIFY_UNROLL
    for (int i = 0; i < per_lane; ++i) {
      int const t = i * Schedule::warp_threads + block.lane();
      first_set_[i] = t < p.max_rows ? slots_[t] : -1;
      second_set_[i] = t < p.max_rows && p.snapshot_sets == 2 ? slots_[p.max_rows + t] : -1;
    }
  }

  /// Puts the slots for the states after the request's rows into `snapshot` [capacity], in shared storage: a barrier
  /// must stand before they are used. All threads of the block call it.
  /// `rows`: how many the request has
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD recurrence_start start(Block const& block, params const& p, int rows, int32_t* snapshot) const {
    bool const second = p.snapshot_sets == 2 && written_snapshot_set(selector_, p.max_rows) == 1;
    bool bad = false;
    RATIFY_UNROLL
    for (int i = 0; i < per_lane; ++i) {
      int const t = i * Schedule::warp_threads + block.lane();
      int32_t const slot = second ? second_set_[i] : first_set_[i];
      bad = bad || (t < rows && (slot < -1 || slot >= p.pool_slots));
      if (block.warp() == 0) snapshot[t] = slot;
    }
    recurrence_start const from = starting_state(p);
    return block.ballot(bad) == 0 ? from : recurrence_start{};
  }
 private:
  static constexpr int per_lane = capacity / Schedule::warp_threads;

  RATIFY_HD recurrence_start starting_state(params const& p) const {
    if (!is_pool_slot(p, initial_) || selector_ < 0 || selector_ > p.snapshot_sets * p.max_rows || fresh_ < 0 ||
        fresh_ > 1 || (fresh_ == 1 && selector_ != 0))
      return {};
    recurrence_start from;
    int32_t const slot = selector_ == 0 ? initial_ : slots_[selector_ - 1];
    if (!is_pool_slot(p, slot)) return {};
    from.slot = slot;
    from.zero = fresh_ == 1;
    return from;
  }

  int32_t initial_, selector_, fresh_;
  int32_t const* slots_;
  int32_t first_set_[per_lane], second_set_[per_lane];
};

}  // namespace device
RATIFY_END_NAMESPACE
