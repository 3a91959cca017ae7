// SPDX-License-Identifier: Apache-2.0
/// One launch of any operation, prepared so that it can be repeated with outputs and scratch poisoned.
#pragma once

#include "executors.hpp"

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ratify_test {

/// An operation with its operands in the memory of an executor, ready to be launched again and again.
template <class Executor>
class prepared {
 public:
  prepared(Executor& on, std::string name) : name(std::move(name)), on_(on) {}
  prepared(prepared const&) = delete;
  prepared& operator=(prepared const&) = delete;

  std::string const name;
  std::function<ratify::status()> launch;
  int stages = 0;  ///< kernels of a launch

  template <class T>
  T const* input(std::vector<T> const& v) {
    return add<T>(v, false, false, false);
  }
  /// Changed in place: `reset` restores these values.
  template <class T>
  T* changed(std::vector<T> const& v) {
    return add<T>(v, true, true, false);
  }
  /// Only written. Holds 0xFF bytes at first.
  template <class T>
  T* output(size_t n) {
    return add<T>(std::vector<unsigned char>(n * sizeof(T), 0xff), true, true, true);
  }

  template <class Operation>
  void operation(typename Operation::params const& p) {
    if (auto const s = Operation::can_launch(p, on_); !s) throw std::runtime_error(name + ": " + s.reason());
    size_t const bytes = Operation::workspace_bytes(p, on_);
    unsigned char* const scratch = add<unsigned char>(std::vector<unsigned char>(bytes, 0xff), true, false, true);
    launch = [p, scratch, bytes, this] { return Operation::launch(p, {scratch, bytes}, on_); };
    (void)Operation::stages(p, {scratch, bytes}, on_, [&](auto const&) { return ++stages, ratify::status{}; });
  }

  /// Fills outputs and scratch with the byte `poison`, and restores what is changed in place.
  void reset(unsigned char poison) {
    for (piece& m : pieces_)
      if (m.reset) m.memory.write(m.poisoned ? std::vector<unsigned char>(m.first.size(), poison) : m.first);
  }
  /// The bytes of everything that a launch writes except scratch.
  std::vector<unsigned char> results() const {
    std::vector<unsigned char> all;
    for (piece const& m : pieces_) {
      if (!m.result) continue;
      auto const bytes = m.memory.read();
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }
 private:
  struct piece {
    std::vector<unsigned char> first;
    buffer<unsigned char, Executor> memory;
    bool reset, result, poisoned;
  };
  template <class T, class From>
  T* add(std::vector<From> const& v, bool reset, bool result, bool poisoned) {
    auto const* const begin = reinterpret_cast<unsigned char const*>(v.data());
    std::vector<unsigned char> bytes(begin, begin + v.size() * sizeof(From));
    pieces_.push_back({bytes, {on_, bytes}, reset, result, poisoned});
    return reinterpret_cast<T*>(pieces_.back().memory.data());
  }
  Executor& on_;
  std::vector<piece> pieces_;
};

}  // namespace ratify_test
