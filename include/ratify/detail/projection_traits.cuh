// SPDX-License-Identifier: Apache-2.0
/// Parameters, support rules and derived sizes of the NVFP4 projection.
#pragma once

#include <ratify/nvfp4.hpp>
#include <ratify/projection_policy.hpp>
#include <ratify/status.hpp>
#include <ratify/views.hpp>

#define RATIFY_PROJECTION_RULES(RULE)                                                                             \
  RULE(policy, (RATIFY_STD::is_base_of_v<projection_policy, Policy>),                                             \
       "ratify::projection: the policy must derive from ratify::projection_policy")                               \
  RULE(input_format, (detail::is_one_of_v<typename Policy::input_format, float, f16, bf16>),                      \
       "ratify::projection: input_format must be float, f16 or bf16")                                             \
  RULE(output_format, (detail::is_one_of_v<typename Policy::output_format, float, f16, bf16>),                    \
       "ratify::projection: output_format must be float, f16 or bf16")                                            \
  RULE(split_k, (Policy::split_k >= 1 && Policy::split_k <= 32), "ratify::projection: split_k must be 1 to 32")   \
  RULE(effective_scale,                                                                                           \
       (RATIFY_STD::is_same_v<RATIFY_STD::remove_const_t<decltype(Policy::effective_scale)>, projection_scale> && \
        (static_cast<projection_scale>(Policy::effective_scale) == projection_scale::fp16 ||                      \
         static_cast<projection_scale>(Policy::effective_scale) == projection_scale::fp32)),                      \
       "ratify::projection: effective_scale must be projection_scale::fp16 or projection_scale::fp32")            \
  RULE(column_warps,                                                                                              \
       (Policy::column_warps >= 0 && Policy::column_warps <= 8 && Policy::column_warps * Policy::split_k <= 32),  \
       "ratify::projection: column_warps must be 0 (chosen) to 8, and column_warps * split_k at most 32 warps")
#define RATIFY_PROJECTION_LAUNCH_RULES(RULE)                                                                        \
  RULE(rows, (p.rows >= 0), "ratify::projection: rows must not be negative")                                        \
  RULE(n, (p.n > 0), "ratify::projection: n must be at least 1 column")                                             \
  RULE(extents, (p.n <= 1 << 30 && p.k <= 1 << 30), "ratify::projection: n and k must be at most 2^30")             \
  RULE(k, (p.k > 0 && p.k % nvfp4_group == 0),                                                                      \
       "ratify::projection: k must be a positive multiple of 16, the columns of one scale; pad with zero weights")  \
  RULE(segments, (p.segments >= 1), "ratify::projection: segments must be at least 1")                              \
  RULE(segment_end, (p.segments == 1 || p.segment_end != nullptr),                                                  \
       "ratify::projection: segment_end must point to the last column + 1 of each segment when segments is over 1") \
  RULE(w_packed, (detail::aligned_to(p.w_packed, 8)), "ratify::projection: w_packed must be aligned to 8 bytes")

RATIFY_BEGIN_NAMESPACE

/// One launch of `projection`. Every pointer is the caller's.
template <class Policy>
struct projection_params {
  rows_view<typename Policy::input_format const> x;  ///< [rows, k]
  uint8_t const* w_packed = nullptr;                 ///< [n, k / 2] dense; the low nibble is the even column
  e4m3 const* w_scale = nullptr;                     ///< [n, k / 16] dense
  float const* w_global = nullptr;                   ///< [segments]
  int32_t const* segment_end = nullptr;  ///< [segments], ascending, the last is n; read on the device. May be null
                                         ///< when segments is 1
  int segments = 1;
  float const* bias = nullptr;                  ///< [n] or null
  rows_view<typename Policy::output_format> y;  ///< [rows, n]
  int rows = 0;
  int n = 0;
  int k = 0;
};

namespace detail {

template <class T>
RATIFY_HD bool aligned_to(T const* p, size_t bytes) {
  return reinterpret_cast<RATIFY_STD::uintptr_t>(p) % bytes == 0;
}

template <class Policy>
struct projection_support {
  static constexpr bool value = true RATIFY_PROJECTION_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static char const* reason(projection_params<Policy> const& p) {
    RATIFY_PROJECTION_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

/// Columns that are given to splits as a whole.
inline constexpr int projection_block = 64;

/// Sizes of the kernel for `Rows` rows at a time.
template <class Policy, int Rows>
struct projection_traits {
  using input = typename Policy::input_format;
  static constexpr int splits = Policy::split_k;
  // Two columns a thread: two chains on a CPU, half the reads of activations on a card. Many rows are chains enough.
  static constexpr int thread_columns = Rows <= 8 ? 2 : 1;
  // Two warps leave room for the sums of many rows, and a thread enough registers.
  static constexpr int chosen_warps = splits == 1 ? 4 : splits <= 10 && Rows <= 16 ? 2 : 1;
  static constexpr int column_warps = Policy::column_warps > 0 ? Policy::column_warps : chosen_warps;
  /// Threads that stage a split's activations, and the most that have columns of it: a launch may take fewer.
  static constexpr int split_threads = 32 * column_warps;
  static constexpr int columns = split_threads * thread_columns;
  static constexpr int block_threads = split_threads * splits;

  /// The 8 floats between two groups let 32 threads that hold 8 columns of K each of 8 rows store one of them in as
  /// many banks; as many between two splits let the threads of a warp that has both read from both at once.
  static constexpr int group_floats = nvfp4_group * Rows + 8;
  RATIFY_HD static constexpr int stage_bytes(int k) {
    return static_cast<int>(sizeof(float)) * splits * (k / nvfp4_group * group_floats + 8);
  }
  /// Columns of K whose codes are 16 bytes: what a thread sums at a time.
  static constexpr int step = 2 * nvfp4_group;
  // Columns of K of a split that are staged at a time: as many as each thread has 16 bytes of, fewer where two buffers
  // of them exceed the 64 KiB that any card's block can have, whole steps and one at least.
  RATIFY_HD static constexpr int staged(int k) {
    return k > step && 2 * stage_bytes(k) > 65536 ? staged(max_of(k / 2 / step, 1) * step) : k;
  }
  static constexpr int stage_k = staged(projection_block * max_of(column_warps, 8 / Rows));
  static_assert(stage_k % step == 0, "ratify: a stage is whole steps");
  static constexpr int stage_floats = stage_bytes(stage_k) / static_cast<int>(sizeof(float)) / splits;
  /// One that is summed and one that is stored to, if there is room.
  static constexpr int buffers = 2 * stage_bytes(stage_k) <= 65536 ? 2 : 1;
  static constexpr int vector = 16 / static_cast<int>(sizeof(input));
  /// Vectors of activations that a thread stages at a time.
  static constexpr int vectors = ceil_div(stage_k / vector * Rows, split_threads);
  /// Activations; later the splits' sums.
  static constexpr int storage_floats =
      max_of(buffers * splits * stage_floats, splits > 1 ? splits * Rows * columns : 0);

  /// Threads of a split that get columns, so that so many multiprocessors have as much to do each; fewer than 8 would
  /// stage activations for next to nothing.
  RATIFY_HD static int lanes(int n, int multiprocessors) {
    int const each = ceil_div(n, max_of(multiprocessors, 1));
    int const tile = ceil_div(each, ceil_div(each, columns));
    return min_of(max_of(ceil_div(tile, thread_columns), 8), split_threads);
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
