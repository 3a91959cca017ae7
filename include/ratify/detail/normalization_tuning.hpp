// SPDX-License-Identifier: Apache-2.0
/// Constants of the normalizations that no result depends on.
#pragma once

#include <ratify/config.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Warps of a block in which every warp has a row or head of its own. Not measured.
inline constexpr int normalization_warps = 4;

/// Columns from which on rmsnorm gives a row a block of its own. H200, 8 rows of 5120 with a residual: 6.2 us with a
/// block per row, 183 us with a warp per row (across runs; `bench/run.py --only rmsnorm`). Where the two meet: not
/// measured.
inline constexpr int rmsnorm_long_row = 1024;

/// Threads of a block that has one row. Not measured against other sizes.
inline constexpr int rmsnorm_row_threads = 512;

/// Loads that a thread of such a block has under way together. Not measured against other numbers.
inline constexpr int rmsnorm_row_loads = 4;

}  // namespace detail
RATIFY_END_NAMESPACE
