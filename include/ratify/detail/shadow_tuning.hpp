// SPDX-License-Identifier: Apache-2.0
/// Constants of the shadow's kernels that are chosen for speed. None of them moves a count.
#pragma once

#include <ratify/config.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Threads of a block that compares, and elements that each of them compares before the block adds its counts to the
/// record, which takes up to five atomic operations in device memory. Not measured.
inline constexpr int shadow_compare_threads = 128;
inline constexpr int shadow_thread_elements = 16;

}  // namespace detail
RATIFY_END_NAMESPACE
