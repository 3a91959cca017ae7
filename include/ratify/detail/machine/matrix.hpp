// SPDX-License-Identifier: Apache-2.0
/// Fragments: the parts of a matrix product of 16 x 16 by 16 x 8 that each lane of a warp holds. Lane l has g = l / 4
/// and t = l % 4; the layouts are those of the PTX instruction mma.m16n8k16.
#pragma once

#include <ratify/config.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Of A, 16 x 16 in FP16 or BF16: pairs (row g, columns 2t and 2t + 1), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8); the
/// first of a pair is the lower half of its word.
struct fragment_a {
  uint32_t word[4];
};
/// Of B, 16 x 8 in FP16 or BF16: pairs (rows 2t and 2t + 1, column g), (rows 2t + 8 and 2t + 9, column g).
struct fragment_b {
  uint32_t word[2];
};
/// Of C, 16 x 8 in FP32: (row g, column 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
struct fragment_c {
  float value[4];
};

}  // namespace detail
RATIFY_END_NAMESPACE
