// SPDX-License-Identifier: Apache-2.0
/// Where a round's time goes: seconds and launches of each operation.
#pragma once

#include <common/memory.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace generate {

enum class operation {
  embedding,
  rmsnorm,
  projection,
  convolution,
  gating,
  recurrence,
  gated_rmsnorm,
  qk_norm_rotary,
  append,
  attention,
  sigmoid_gate,
  silu_and_mul,
  acceptance,
  count
};

inline constexpr int operation_count = static_cast<int>(operation::count);
inline constexpr char const* operation_names[operation_count] = {
    "embedding",      "rmsnorm", "projection", "convolution",  "gating",       "recurrence", "gated_rmsnorm",
    "qk_norm_rotary", "append",  "attention",  "sigmoid_gate", "silu_and_mul", "acceptance"};

struct operation_times {
  std::array<double, operation_count> seconds{};
  std::array<int64_t, operation_count> launches{};
};

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Times launches. `start` and `stop` stand around each; `collect` follows once the executor has been waited for.
template <class Executor>
class stopwatch;

template <>
class stopwatch<ratify::host_executor> {
 public:
  explicit stopwatch(bool on) : on_(on) {}
  void start(ratify::host_executor&) {
    if (on_) start_ = std::chrono::steady_clock::now();
  }
  void stop(ratify::host_executor&, operation op) {
    if (!on_) return;
    times_.seconds[static_cast<size_t>(op)] += seconds_since(start_);
    ++times_.launches[static_cast<size_t>(op)];
  }
  void collect() {}
  operation_times const& times() const { return times_; }
 private:
  bool on_;
  std::chrono::steady_clock::time_point start_;
  operation_times times_;
};

#if defined(__CUDACC__)

/// Events on the stream, read after the round: nothing waits for them, but recording them costs the launching thread
/// time.
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
  void stop(ratify::cuda_executor& on, operation op) {
    if (!on_) return;
    record(on);
    pending_.push_back(op);
  }
  void collect() {
    for (size_t i = 0; i < pending_.size(); ++i) {
      float milliseconds = 0;
      example::require_success(cudaEventElapsedTime(&milliseconds, events_[2 * i], events_[2 * i + 1]));
      times_.seconds[static_cast<size_t>(pending_[i])] += 1e-3 * static_cast<double>(milliseconds);
      ++times_.launches[static_cast<size_t>(pending_[i])];
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
  std::vector<operation> pending_;
  operation_times times_;
};

#endif

}  // namespace generate
