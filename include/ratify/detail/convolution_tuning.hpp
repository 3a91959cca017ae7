// SPDX-License-Identifier: Apache-2.0
/// Choices of the convolution kernel. None of them moves a bit of a result. A launch of 8 rows of 5120 channels
/// takes 4.1 us on an H200, far above its bytes; `python3 bench/run.py build/bench/ratify-bench RESULT -- convolution`
/// measures it.
#pragma once

#include <ratify/config.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

struct convolution_tuning {
  /// Threads per block, one per channel. Not measured.
  static constexpr int block_threads = 64;
  /// Rows of x that a thread loads before it uses the first. Not measured.
  static constexpr int rows_at_once = 8;
};

}  // namespace detail
RATIFY_END_NAMESPACE
