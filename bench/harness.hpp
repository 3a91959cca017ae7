// SPDX-License-Identifier: Apache-2.0
/// Paired measurement on a card: arms named by policy alternate inside one process, each sample a replay of a captured
/// graph of launches over operand sets that together exceed the card's L2 cache twice over. bench/run.py starts such a
/// process several times and makes the table.
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
  std::string name;
  std::string policy;  ///< the knobs in words
  std::function<void(int)> launch;
};

/// Launches captured once; a replay is timed by events around it.
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
  /// Microseconds of one replay, alone on the card.
  double replay() {
    check(cudaEventRecord(begin_, stream_));
    check(cudaGraphLaunch(ready_, stream_));
    check(cudaEventRecord(end_, stream_));
    check(cudaEventSynchronize(end_));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return 1e3 * static_cast<double>(milliseconds);
  }
  /// Replays for at least so long, three times at least; the last one's microseconds.
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

/// How many operand sets of so many bytes exceed twice the L2 cache.
inline int rotated_sets(card const& on, double bytes_of_a_set) {
  return std::max(2, static_cast<int>(std::ceil(2.2 * static_cast<double>(on.l2_bytes) / bytes_of_a_set)));
}

/// Alternates two graphs: control first in even pairs, second in odd ones. Fewer pairs where they would take longer
/// than the options allow, 5 at least.
inline comparison alternate(graph& control, graph& candidate, int launches, options const& how) {
  double const warm = 1e3 * how.warm_up_ms;
  double const pair = control.warm(warm) + candidate.warm(warm);
  int const pairs = std::max(5, std::min(how.pairs, static_cast<int>(1e6 * how.case_seconds / pair)));
  comparison c;
  for (int i = 0; i < pairs; ++i) {
    double const early = i % 2 == 0 ? control.replay() : candidate.replay();
    double const late = i % 2 == 0 ? candidate.replay() : control.replay();
    c.control_us.push_back((i % 2 == 0 ? early : late) / launches);
    c.candidate_us.push_back((i % 2 == 0 ? late : early) / launches);
  }
  return c;
}

/// Measures one case: the first arm is the control, each other arm is paired with it; a single arm is timed alone.
/// @param sets operand sets that the launches go through in turn
/// @param bytes that one launch has to move
inline void measure(measurement m, card const& on, std::vector<arm> const& arms, int sets, options const& how,
                    report& to) {
  m.sets = sets;
  auto const capture = [&](arm const& a, int launches) {
    a.launch(0);  // loads its code, which a capture must not do
    on.wait();
    return std::make_unique<graph>(on.stream, [&] {
      for (int i = 0; i < launches; ++i) a.launch(i % sets);
    });
  };
  // Every set once, and so often that a sample takes half a millisecond.
  double const once = capture(arms[0], sets)->warm(0);
  m.launches = sets * std::max(1, static_cast<int>(std::ceil(500 / once)));
  auto const control = capture(arms[0], m.launches);
  m.control = {arms[0].name, arms[0].policy};
  if (arms.size() == 1) {
    double const warm = control->warm(1e3 * how.warm_up_ms);
    comparison alone;
    int const samples = std::max(5, std::min(how.pairs, static_cast<int>(1e6 * how.case_seconds / warm)));
    for (int i = 0; i < samples; ++i) alone.control_us.push_back(control->replay() / m.launches);
    m.comparisons.push_back(std::move(alone));
  }
  for (size_t i = 1; i < arms.size(); ++i) {
    auto const candidate = capture(arms[i], m.launches);
    m.comparisons.push_back(alternate(*control, *candidate, m.launches, how));
    m.comparisons.back().candidate = {arms[i].name, arms[i].policy};
  }
  to.add(std::move(m));
}

}  // namespace bench
