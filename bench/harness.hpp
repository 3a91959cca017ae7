// SPDX-License-Identifier: Apache-2.0
/// Paired measurement on a card: the arms of a case, each with a policy of its own, alternate inside one process. A
/// sample is one replay of a captured graph of launches over operand sets that together hold more than twice what the
/// card's L2 cache does. bench/run.py starts such a process several times and makes the table.
#pragma once

#include <bench/device.hpp>
#include <bench/report.hpp>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// One way to do the work of a case. `launch(set)` enqueues it once over the operands of that set.
struct arm {
  named_policy name;
  std::function<void(int)> launch;
};

/// Launches that are captured once and replayed; events around a replay time it.
class graph {
 public:
  template <class Enqueue>
  graph(cudaStream_t stream, Enqueue&& enqueue) : stream_(stream) {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    enqueue();
    cudaGraph_t recorded = nullptr;
    check(cudaStreamEndCapture(stream_, &recorded));
    check(cudaGraphGetNodes(recorded, nullptr, &nodes_));
    auto const made = cudaGraphInstantiate(&ready_, recorded, 0);
    check(cudaGraphDestroy(recorded));
    check(made);
    check(cudaGraphUpload(ready_, stream_));
    check(cudaEventCreate(&begin_));
    check(cudaEventCreate(&end_));
  }
  graph(graph const&) = delete;
  graph& operator=(graph const&) = delete;
  ~graph() {
    (void)cudaGraphExecDestroy(ready_);
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
  }

  size_t nodes() const { return nodes_; }
  /// Replays once and waits. @return microseconds
  double replay() {
    check(cudaEventRecord(begin_, stream_));
    check(cudaGraphLaunch(ready_, stream_));
    check(cudaEventRecord(end_, stream_));
    check(cudaEventSynchronize(end_));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return 1e3 * static_cast<double>(milliseconds);
  }
  /// Replays for at least `microseconds`, and at least three times. @return microseconds of the last replay
  double warm(double microseconds) {
    double last = 0, sum = 0;
    for (int i = 0; i < 3 || sum < microseconds; ++i) sum += last = replay();
    return last;
  }
 private:
  cudaStream_t stream_;
  size_t nodes_ = 0;
  cudaGraphExec_t ready_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

/// The number of operand sets, of this many bytes each, that together hold more than twice what the L2 cache does.
inline int rotated_sets(card const& on, double bytes_of_a_set) {
  return std::max(2, static_cast<int>(std::ceil(2.2 * static_cast<double>(on.l2_bytes) / bytes_of_a_set)));
}

/// Alternates two graphs: the control runs first in even pairs and second in odd ones. Takes fewer pairs, but at least
/// 5, if all of them would take longer than the options allow.
inline comparison alternate(graph& control, graph& candidate, int launches, options const& settings) {
  double const warm = 1e3 * settings.warm_up_ms;
  double const pair = control.warm(warm) + candidate.warm(warm);
  int const pairs = std::max(5, std::min(settings.pairs, static_cast<int>(1e6 * settings.case_seconds / pair)));
  comparison c;
  for (int i = 0; i < pairs; ++i) {
    double const early = i % 2 == 0 ? control.replay() : candidate.replay();
    double const late = i % 2 == 0 ? candidate.replay() : control.replay();
    c.control_us.push_back((i % 2 == 0 ? early : late) / launches);
    c.candidate_us.push_back((i % 2 == 0 ? late : early) / launches);
  }
  return c;
}

/// Measures one case: the first arm is the control, and each other arm is paired with it. A single arm is timed alone.
/// @param sets operand sets that the launches go through in turn
inline void measure(measurement m, card const& on, std::vector<arm> const& arms, int sets, options const& settings,
                    report& to) {
  m.sets = sets;
  auto const capture = [&](arm const& a, int launches) {
    a.launch(0);  // loads the code, which must not happen during a capture
    on.wait();
    return std::make_unique<graph>(on.stream, [&] {
      for (int i = 0; i < launches; ++i) a.launch(i % sets);
    });
  };
  // Every set the same number of times, so that a sample takes at least half a millisecond.
  double const once = capture(arms[0], sets)->warm(0);
  m.launches = sets * std::max(1, static_cast<int>(std::ceil(500 / once)));
  auto const control = capture(arms[0], m.launches);
  m.control = arms[0].name;
  if (arms.size() == 1) {
    double const warm = control->warm(1e3 * settings.warm_up_ms);
    comparison alone;
    int const samples = std::max(5, std::min(settings.pairs, static_cast<int>(1e6 * settings.case_seconds / warm)));
    for (int i = 0; i < samples; ++i) alone.control_us.push_back(control->replay() / m.launches);
    m.comparisons.push_back(std::move(alone));
  }
  for (size_t i = 1; i < arms.size(); ++i) {
    auto const candidate = capture(arms[i], m.launches);
    m.comparisons.push_back(alternate(*control, *candidate, m.launches, settings));
    m.comparisons.back().candidate = arms[i].name;
  }
  to.add(std::move(m));
}

}  // namespace bench
