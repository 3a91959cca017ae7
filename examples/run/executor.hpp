// SPDX-License-Identifier: Apache-2.0
/// The executor a run was asked for, tensors in its memory, and launches that report as ratify-run does.
#pragma once

#include <common/memory.hpp>
#include <run/inputs.hpp>
#include <run/memory_limit.hpp>

#include <ratify/executor.hpp>
#include <ratify/host.hpp>
#if defined(__CUDACC__)
#include <run/module_executor.hpp>
#endif

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace ratify_run {

/// One of the executors.
class executor {
 public:
  /// @throws no_executor
  explicit executor(std::string const& name);
  ~executor();
  executor(executor const&) = delete;
  executor& operator=(executor const&) = delete;

  template <class F>
  void visit(F&& f) {
    if (host_) return f(*host_);
#if defined(__CUDACC__)
    if (modules_) return f(*modules_);
    f(*card_);
#endif
  }
 private:
  std::unique_ptr<ratify::host_executor> host_;
#if defined(__CUDACC__)
  std::unique_ptr<ratify::cuda_executor> card_;
  std::unique_ptr<module_executor> modules_;
#endif
};

/// An array in an executor's memory, seen through its strides.
template <class T, class Executor>
class resident {
 public:
  resident(Executor& on, array<T> const& a) : memory_(on, a.values), shape_(a.shape), strides_(a.strides) {}
  resident(Executor& on, std::vector<T> const& values) : memory_(on, values) {}

  T* data() const { return memory_.data(); }
  /// Elements from one entry of a dimension to the next.
  int64_t stride(size_t dimension) const { return strides_.at(dimension); }
  ratify::rows_view<T const> rows() const { return {data(), stride(0)}; }
  ratify::heads_view<T const> heads() const { return {data(), stride(0), stride(1)}; }
  ratify::pages_view<T const> pages() const { return {data(), stride(0), stride(1), stride(2)}; }
  ratify::pages_view<T> pages_to_write() const { return {data(), stride(0), stride(1), stride(2)}; }

  /// What it holds now, dense.
  std::vector<T> read(Executor& on) const {
    // What was loaded is read back as an output only now and then; room() has counted its own.
    if (!strides_.empty())
      memory_limit::of_run().count("an output of shape " + to_string(shape_), static_cast<int64_t>(memory_.size()),
                                   2 * sizeof(T));
    std::vector<T> values = memory_.read(on, 0, memory_.size());
    return strides_.empty() ? values : gather(array<T>{std::move(values), shape_, strides_});
  }
 private:
  example::buffer<T, Executor> memory_;
  shape_type shape_, strides_;
};

/// Room for a dense output, which starts with `fill` everywhere.
template <class T, class Executor>
resident<T, Executor> room(Executor& on, shape_type const& shape, std::string const& name, T fill) {
  int64_t const n = elements_of(shape, name);
  // Four times: what it starts with, the executor's memory, what is read back, and the output.
  memory_limit::of_run().count("tensor " + quote(name), n, 4 * sizeof(T));
  return {on, std::vector<T>(static_cast<size_t>(n), fill)};
}
/// Filled with NaN so that an element nobody writes is seen.
template <class Executor>
resident<float, Executor> room(Executor& on, shape_type const& shape, std::string const& name) {
  float nan;
  std::memset(&nan, 0xff, sizeof nan);
  return room(on, shape, name, nan);
}

/// Launches an operation and waits for it. @throws bad_input or unsupported with the library's words
template <class Operation, class Executor>
void launch(Executor& on, typename Operation::params const& p) {
  auto const require = [](ratify::status const& s) {
    if (s.code() == ratify::status_code::invalid_argument) throw bad_input(s.reason());
    if (!s) throw unsupported(s.reason());
  };
  require(Operation::can_launch(p, on));
  // Numbers that contradict the tensors are data to a kernel, which answers with zeros: said, but run.
  ratify::contents_report report;
  if (!Operation::check_contents(p, on, report)) std::fprintf(stderr, "ratify-run: note: %s\n", report.text);
  size_t const bytes = Operation::workspace_bytes(p, on);
  // Twice: what it starts with, and the executor's memory.
  memory_limit::of_run().count("the workspace", static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX)), 2);
  resident<unsigned char, Executor> scratch(on, std::vector<unsigned char>(bytes, 0xff));
  require(Operation::launch(p, {scratch.data(), bytes}, on));
  example::memory<Executor>::wait(on);
}

}  // namespace ratify_run
