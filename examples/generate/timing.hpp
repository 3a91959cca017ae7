// SPDX-License-Identifier: Apache-2.0
/// Where the time of a round goes: seconds and launches of each operation.
#pragma once

#include <common/memory.hpp>
#include <common/round_operations.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace generate {

/// By part of a round.
struct operation_times {
  std::array<double, example::part_count> seconds{};
  std::array<int64_t, example::part_count> launches{};

  void add(example::part id, double more_seconds) {
    seconds[static_cast<size_t>(id)] += more_seconds;
    ++launches[static_cast<size_t>(id)];
  }
};

/// All launches of one operation.
struct operation_total {
  std::string operation;
  double seconds = 0;
  int64_t launches = 0;
};

/// The parts of each operation added up, in the order of their first parts.
inline std::vector<operation_total> by_operation(operation_times const& times) {
  std::vector<operation_total> totals;
  for (size_t i = 0; i < example::part_count; ++i) {
    std::string const name = example::part_names[i].operation;
    auto found = std::find_if(totals.begin(), totals.end(), [&](auto const& t) { return t.operation == name; });
    if (found == totals.end()) found = totals.insert(totals.end(), {name});
    found->seconds += times.seconds[i];
    found->launches += times.launches[i];
  }
  return totals;
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Times launches: `start` is called before each and `stop` after it, `collect` once the executor has been waited for.
template <class Executor>
class stopwatch;

template <>
class stopwatch<ratify::host_executor> {
 public:
  explicit stopwatch(bool on) : on_(on) {}
  void start(ratify::host_executor&) {
    if (on_) start_ = std::chrono::steady_clock::now();
  }
  void stop(ratify::host_executor&, example::part id) {
    if (on_) times_.add(id, seconds_since(start_));
  }
  void collect() {}
  operation_times const& times() const { return times_; }
 private:
  bool on_;
  std::chrono::steady_clock::time_point start_;
  operation_times times_;
};

#if defined(__CUDACC__)

/// Records events on the stream and reads them after the round. Nothing waits for an event, but recording them takes
/// the launching thread time.
template <>
class stopwatch<ratify::cuda_executor> {
 public:
  explicit stopwatch(bool on) : on_(on) {}
  stopwatch(stopwatch const&) = delete;
  stopwatch& operator=(stopwatch const&) = delete;
  ~stopwatch() {
    for (auto e : events_) (void)cudaEventDestroy(e);
  }
  void start(ratify::cuda_executor& on) {
    if (on_) record(on);
  }
  void stop(ratify::cuda_executor& on, example::part id) {
    if (!on_) return;
    record(on);
    pending_.push_back(id);
  }
  void collect() {
    for (size_t i = 0; i < pending_.size(); ++i) {
      float milliseconds = 0;
      example::require_success(cudaEventElapsedTime(&milliseconds, events_[2 * i], events_[2 * i + 1]));
      times_.add(pending_[i], 1e-3 * static_cast<double>(milliseconds));
    }
    pending_.clear();
    used_ = 0;
  }
  operation_times const& times() const { return times_; }
 private:
  void record(ratify::cuda_executor& on) {
    if (used_ == events_.size()) {
      events_.emplace_back();
      example::require_success(cudaEventCreate(&events_.back()));
    }
    example::require_success(cudaEventRecord(events_[used_++], on.stream()));
  }
  bool on_;
  size_t used_ = 0;
  std::vector<cudaEvent_t> events_;
  std::vector<example::part> pending_;
  operation_times times_;
};

#endif

}  // namespace generate
