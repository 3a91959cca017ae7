// SPDX-License-Identifier: Apache-2.0
/// How much memory a run may ask for. A file of a few hundred bytes can describe tensors of gigabytes: through strides
/// of 0, or through an output that is the product of two inputs.
#pragma once

#include <run/inputs.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace ratify_run {

/// The memory that the program and its executor ask for in one run, together. Nothing is counted back: the limit is on
/// the sum, so that it does not depend on what an operation happens to hold at one time.
class memory_limit {
 public:
  static constexpr int64_t standard = int64_t{4} << 30;

  /// The one of this program.
  static memory_limit& of_run() {
    static memory_limit limit;
    return limit;
  }

  /// Sets the most bytes of a run that has asked for none yet.
  void set(int64_t most) { most_ = most; }

  /// Counts memory before it is asked for: `count` elements, with `bytes` for each of them in all the copies that are
  /// made. @param what stands in the message, such as "tensor 'out'" @throws bad_input when the run asks for too much
  void count(std::string const& what, int64_t count, size_t bytes) {
    int64_t const each = static_cast<int64_t>(std::max<size_t>(bytes, 1));
    int64_t const asked = count > INT64_MAX / each ? INT64_MAX : count * each;
    if (asked > most_ - counted_)
      throw bad_input(what + ": needs " + std::to_string(asked) + " bytes of memory beside the " +
                      std::to_string(counted_) + " that the run needs already, more than --max-bytes " +
                      std::to_string(most_));
    counted_ += asked;
  }
 private:
  int64_t most_ = standard, counted_ = 0;
};

}  // namespace ratify_run
