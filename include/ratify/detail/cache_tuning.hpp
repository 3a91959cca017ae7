// SPDX-License-Identifier: Apache-2.0
/// Measured choices of the cache operations' kernels. None of them moves a bit of a result.
#pragma once

#include <ratify/detail/meta.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

struct cache_tuning {
  /// Threads per block of append: one per element of a row. H200, 8 rows of 4 heads of 256 elements into E4M3: 2.78
  /// microseconds a launch, where one block per row took 10.7 (`python3 bench/run.py build/bench/ratify-bench RESULT`).
  /// Other numbers of threads: not measured.
  static constexpr int append_threads = 128;
};

}  // namespace detail
RATIFY_END_NAMESPACE
