// SPDX-License-Identifier: Apache-2.0
/// Constants of the drafter's kernels that are chosen for speed. None of them moves a bit.
#pragma once

#include <ratify/config.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Threads of the block that walks the slots of one request: 8 of them score one candidate, so that 16 candidates, as
/// many as a drafter usually offers, are scored at a time. Not measured.
inline constexpr int draft_walk_threads = 128;

/// Candidates of one slot that a block's shared memory has room for; a limit of the operation. Not measured: 64 take
/// 3 KB.
inline constexpr int draft_walk_most_candidates = 64;

}  // namespace detail
RATIFY_END_NAMESPACE
