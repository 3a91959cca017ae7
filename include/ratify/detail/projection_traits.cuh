// SPDX-License-Identifier: Apache-2.0
/// Launch rules and derived sizes of the NVFP4 projection.
#pragma once

#include <ratify/detail/extents.hpp>
#include <ratify/detail/projection_tuning.hpp>
#include <ratify/projection_params.hpp>
#include <ratify/status.hpp>

#define RATIFY_PROJECTION_SHAPE_RULES(INVALID, UNSUPPORTED)                                                       \
  INVALID(rows, (p.rows >= 0), "ratify::projection: rows must not be negative")                                   \
  INVALID(n, (p.n > 0), "ratify::projection: n must be at least 1 column")                                        \
  INVALID(k, (p.k > 0), "ratify::projection: k must be at least 1 column")                                        \
  UNSUPPORTED(extents, (p.n <= 1 << 30 && p.k <= 1 << 30), "ratify::projection: n and k must be at most 2^30")    \
  UNSUPPORTED(groups, (p.k % nvfp4_group == 0),                                                                   \
              "ratify::projection: k must be a multiple of 16, the columns that share a scale; pad x and W with " \
              "zeros")                                                                                            \
  INVALID(segments, (p.segments >= 1), "ratify::projection: segments must be at least 1")                         \
  INVALID(segment_end, (p.segments == 1 || p.segment_end != nullptr),                                             \
          "ratify::projection: segment_end must not be null if there is more than one segment")

#define RATIFY_PROJECTION_TENSOR_RULES(INVALID, UNSUPPORTED)                                                     \
  RATIFY_REQUIRED_VIEW(INVALID, "projection", x, p.rows, p.k)                                                    \
  RATIFY_GIVEN_RULE(INVALID, "projection", w_packed)                                                             \
  RATIFY_GIVEN_RULE(INVALID, "projection", w_scale)                                                              \
  RATIFY_REQUIRED_ARRAY(INVALID, "projection", w_global)                                                         \
  RATIFY_OPTIONAL_ARRAY(INVALID, "projection", segment_end)                                                      \
  RATIFY_OPTIONAL_ARRAY(INVALID, "projection", bias)                                                             \
  RATIFY_REQUIRED_VIEW(INVALID, "projection", y, p.rows, p.n)                                                    \
  INVALID(in_place,                                                                                              \
          (detail::are_apart({p.y.data}, {p.x.data, p.w_packed, p.w_scale, p.w_global, p.segment_end, p.bias})), \
          "ratify::projection: y must not be an input")                                                          \
  UNSUPPORTED(alignment, (detail::is_aligned(p.w_packed, 8)), "ratify::projection: w_packed must be aligned to 8 bytes")

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
RATIFY_HD status launch_rules(projection_params<Policy> const& p) {
  RATIFY_PROJECTION_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.rows == 0) return {};
  RATIFY_PROJECTION_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

/// Columns of K that are given to splits as a whole.
inline constexpr int projection_block = 64;
/// Columns of K whose codes are 16 bytes: what a thread sums at a time.
inline constexpr int projection_step = 2 * nvfp4_group;

/// Floats from one staged group of 16 columns of K to the next, for `rows` rows.
RATIFY_HD constexpr int projection_group_floats(int rows) { return nvfp4_group * rows + projection_stage_gap; }
/// Floats from the stage of one split to that of the next.
RATIFY_HD constexpr int projection_stage_floats(int columns, int rows) {
  return columns / nvfp4_group * projection_group_floats(rows) + projection_stage_gap;
}

/// Sizes of the kernel that takes `Rows` rows at a time.
template <class Policy, int Rows>
struct projection_traits {
  static constexpr int splits = Policy::split_k;
  static constexpr int thread_columns = projection_thread_columns(Rows);
  static constexpr int column_warps = Policy::column_warps > 0 ? Policy::column_warps
                                                               : projection_column_warps(splits, Rows);
  /// Threads that stage the activations of one split, and the most that have columns of it: a launch may take fewer.
  static constexpr int split_threads = 32 * column_warps;
  static constexpr int columns = split_threads * thread_columns;
  static constexpr int block_threads = split_threads * splits;

  /// Bytes of the stages of all splits.
  RATIFY_HD static constexpr int stages_bytes(int k) {
    return static_cast<int>(sizeof(float)) * splits * projection_stage_floats(k, Rows);
  }
  /// Whether one stage can be summed while the next one is stored to.
  RATIFY_HD static constexpr bool fits_twice(int k) { return 2 * stages_bytes(k) <= projection_stage_bytes; }
  /// Columns of K of a split that are staged at a time: `k`, or fewer if two stages of them do not fit; whole steps,
  /// and one at least.
  RATIFY_HD static constexpr int staged(int k) {
    return k > projection_step && !fits_twice(k) ? staged(max_of(k / 2 / projection_step, 1) * projection_step) : k;
  }
  static constexpr int stage_k = staged(projection_staged_columns(column_warps, Rows));
  static_assert(stage_k % projection_step == 0, "ratify: a stage is whole steps");
  static constexpr int stage_floats = projection_stage_floats(stage_k, Rows);
  static constexpr int stages = fits_twice(stage_k) ? 2 : 1;
  /// Activations; later the sums of the splits.
  static constexpr int storage_floats =
      max_of(stages * splits * stage_floats, splits > 1 ? splits * Rows * columns : 0);
};

}  // namespace detail
RATIFY_END_NAMESPACE
