// SPDX-License-Identifier: Apache-2.0
/// The parts of the NVFP4 projection, for kernels of your own: sharing K out to splits, staging activations in shared
/// memory, reading weights ahead of their use, summing columns, and storing results.
///
/// A thread sums `Columns` columns of y for `Rows` rows over the part of K that its split has:
///
///   for each stage:  staged_activations::put (all threads of the split), barrier
///                    accumulate_columns(weights, stage, first, last, sum)
///   then:            store_column, or store_split_sums if K was split
///
/// docs/arithmetic.md states the order of the sums; detail/projection_kernels.cuh is the library's own kernel.
#pragma once

#include <ratify/detail/decode.cuh>
#include <ratify/detail/projection_traits.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// The global scale of column n: that of the first segment that ends past it, 0 where none does.
RATIFY_HD inline float global_scale(float const* w_global, int32_t const* segment_end, int segments, int n) {
  if (segment_end == nullptr) return w_global[0];
  for (int s = 0; s < segments; ++s)
    if (n < segment_end[s]) return w_global[s];
  return 0.0f;
}

/// The scale of a group of 16 weights as the policy rounds it: `nvfp4_scale_fp16` or `nvfp4_scale_fp32`, computed with
/// the fewest instructions.
template <projection_scale Scale>
RATIFY_HD inline float group_scale(e4m3 w_scale, float w_global) {
  float const scale = detail::mul_rn(detail::decode_x1<decoder_revision::fp16_shift, e4m3>(w_scale.bits), w_global);
  return Scale == projection_scale::fp16 ? detail::round_to_f16(scale) : scale;
}

/// Adds the 16 products of one group of each column to the sums of each row, k ascending.
///
/// @param codes  16 weights of each column, four bits each, the lowest first
/// @param scale  of the group of each column, from `group_scale`
/// @param x      [16][Rows] activations in FP32, aligned to 16 bytes if Rows is a multiple of 4
template <projection_scale Scale, int Columns, int Rows>
RATIFY_HD inline void accumulate_group(detail::vector8 const (&codes)[Columns], float const (&scale)[Columns],
                                       float const* x, float (&sum)[Columns][Rows]) {
  using namespace detail;
  constexpr bool matched = Scale == projection_scale::fp16;
  float w[Columns][nvfp4_group], part[Columns][Rows];
  RATIFY_UNROLL
  for (int c = 0; c < Columns; ++c) {
    scaled_e2m1_x16(codes[c], matched ? scale[c] : 1.0f, w[c]);
    RATIFY_UNROLL
    for (int r = 0; r < Rows; ++r) part[c][r] = matched ? sum[c][r] : 0.0f;
  }
  RATIFY_UNROLL
  for (int i = 0; i < nvfp4_group; ++i) {
    RATIFY_UNROLL
    for (int c = 0; c < Columns; ++c) {
      float registers[Rows];
      float const* const at = staged_floats(x + i * Rows, registers);
      RATIFY_UNROLL
      for (int r = 0; r < Rows; ++r) part[c][r] = fma_rn(at[r], w[c][i], part[c][r]);
    }
  }
  RATIFY_UNROLL
  for (int c = 0; c < Columns; ++c) {
    RATIFY_UNROLL
    for (int r = 0; r < Rows; ++r) sum[c][r] = matched ? part[c][r] : fma_rn(part[c][r], scale[c], sum[c][r]);
  }
}

/// The first column of K of a split; split number `splits` begins at k. A split has whole blocks of 64 columns, but for
/// the last block of K.
RATIFY_HD inline int split_begin(int k, int split, int splits) {
  int64_t const blocks = detail::ceil_div(k, detail::projection_block);
  return detail::min_of(static_cast<int>(split * blocks / splits) * detail::projection_block, k);
}
/// Columns of the longest split, the last block of K counted as a whole.
RATIFY_HD inline int longest_split(int k, int splits) {
  int64_t const blocks = detail::ceil_div(k, detail::projection_block);
  return static_cast<int>(detail::ceil_div(blocks, int64_t{splits})) * detail::projection_block;
}

/// The activations of one split on their way from memory to shared memory, where they lie in FP32 as [group][16][Rows]
/// with a gap after each group: the rows of one column of K are neighbours, as `accumulate_group` reads them.
///
/// `Threads` threads bring in `Columns` columns of K for `Rows` rows at a time. Each holds a few pieces of 16 bytes of
/// one row in registers between `fetch` and `put`, so that a stage is on its way while the one before it is summed.
template <class Input, int Rows, int Threads, int Columns>
class staged_activations {
 public:
  /// Of one stage, in shared memory, aligned to 16 bytes.
  static constexpr int floats = detail::projection_stage_floats(Columns, Rows);

  /// @param x           [rows, k]
  /// @param first_row   of x that is staged
  /// @param rows        that are there, at most `Rows`; rows past the last one repeat it
  /// @param begin, end  columns of K that the split has
  /// @param thread      0 to Threads - 1
  RATIFY_HD staged_activations(rows_view<Input const> const& x, int64_t first_row, int rows, int begin, int end,
                               uint32_t thread)
      : x_(x.row(first_row + detail::min_of(static_cast<int>(thread % Rows), rows - 1))),
        begin_(begin),
        end_(end),
        thread_(thread) {}

  /// Whether `fetch` may be called: every row of x starts on 16 bytes. Otherwise `copy` stages them.
  RATIFY_HD static bool can_fetch(rows_view<Input const> const& x) {
    return detail::is_aligned(x.data, 16) && x.stride * static_cast<int64_t>(sizeof(Input)) % 16 == 0;
  }

  /// Reads the columns from begin + offset on; `put` stores them.
  RATIFY_HD void fetch(int offset) {
    RATIFY_UNROLL
    for (uint32_t i = 0; i < pieces; ++i) {
      int const k = begin_ + offset + static_cast<int>(column(i));
      if (is_piece(i) && k < end_) raw_[i] = detail::load_16_bytes(x_ + k);
    }
  }
  RATIFY_HD void put(float* stage) const {
    RATIFY_UNROLL
    for (uint32_t i = 0; i < pieces; ++i) {
      if (!is_piece(i)) continue;
      float* const to = stage + place(column(i)) + thread_ % Rows;
      RATIFY_UNROLL
      for (uint32_t e = 0; e < vector; ++e) to[e * Rows] = element(raw_[i], e);
    }
  }
  /// Reads and stores at once, one element at a time.
  RATIFY_HD void copy(int offset, float* stage) const {
    for (uint32_t column = thread_ / Rows; column < Columns; column += Threads / Rows)
      if (int const k = begin_ + offset + static_cast<int>(column); k < end_)
        stage[place(column) + thread_ % Rows] = to_float(x_[k]);
  }
 private:
  static_assert(Threads % Rows == 0, "ratify: each thread stages one row");
  static constexpr uint32_t vector = 16 / sizeof(Input);
  static constexpr uint32_t pieces = detail::ceil_div<uint32_t>(Columns / vector * Rows, Threads);

  /// The number of piece i in its row.
  RATIFY_HD uint32_t number(uint32_t i) const { return thread_ / Rows + i * (Threads / Rows); }
  /// Whether there is a piece i: few columns have fewer pieces than threads.
  RATIFY_HD bool is_piece(uint32_t i) const { return number(i) < Columns / vector; }
  /// Of piece i, counted from the first one of the stage. Neighbouring threads hold one row each, then one group each,
  /// so that the banks which they store to differ.
  RATIFY_HD uint32_t column(uint32_t i) const {
    constexpr uint32_t groups = Columns / nvfp4_group;
    return number(i) % groups * nvfp4_group + number(i) / groups * vector;
  }
  RATIFY_HD static uint32_t place(uint32_t column) {
    return column / nvfp4_group * detail::projection_group_floats(Rows) + column % nvfp4_group * Rows;
  }
  /// NaNs as they are: a sum that one of them joins is made canonical where it is stored.
  RATIFY_HD static float element(detail::vector16 const& v, uint32_t e) {
    if constexpr (RATIFY_STD::is_same_v<Input, f16>)
      return detail::widened_f16_bits(static_cast<uint16_t>(v.word[e / 2] >> e % 2 * 16));
    else
      return detail::vector_element<Input>(v, static_cast<int>(e));
  }

  Input const* x_;
  int begin_, end_;
  uint32_t thread_;
  detail::vector16 raw_[pieces];
};

/// The weights of a projection as they lie in memory; members as in `projection_params`.
struct projection_weights {
  uint8_t const* w_packed;
  e4m3 const* w_scale;
  float const* w_global;
  int32_t const* segment_end;
  int segments;
  int k;
};

/// The weights of `Columns` columns of y, read one step of 32 columns of K ahead of their use, their scales one block
/// of 64 columns ahead.
template <int Columns>
class weight_columns {
 public:
  /// `end`: of the columns of K that are read
  RATIFY_HD weight_columns(projection_weights const& w, int end)
      : end_(end),
        // All rows of weights start on the same boundary if k is a multiple of what a wide read takes.
        codes_in_16_bytes_(w.k % detail::projection_step == 0 && detail::is_aligned(w.w_packed, 16)),
        scales_in_4_bytes_(w.k % detail::projection_block == 0 && detail::is_aligned(w.w_scale, 4)) {}

  /// Makes column n of y the thread's column c, and starts to read it at column `begin` of K, a multiple of 64.
  RATIFY_HD void open(int c, projection_weights const& w, int n, int begin) {
    packed_[c] = w.w_packed + int64_t{n} * (w.k / 2);
    scale_[c] = w.w_scale + int64_t{n} * (w.k / nvfp4_group);
    w_global_[c] = global_scale(w.w_global, w.segment_end, w.segments, n);
    scales_[c] = next_scales_[c] = 0;
    if (begin >= end_) return;
    load_codes(c, begin);
    load_scales(c, begin);
  }

  /// The codes of all columns at column k of K, a multiple of 32 that follows the one asked for before; groups past the
  /// end are undefined.
  RATIFY_HD void take_codes(int k, detail::vector8 (&codes)[2][Columns]) {
    RATIFY_UNROLL
    for (int c = 0; c < Columns; ++c) {
      codes[0][c] = next_codes_[c][0];
      codes[1][c] = next_codes_[c][1];
      if (k + detail::projection_step < end_) load_codes(c, k + detail::projection_step);
    }
    if (static_cast<uint32_t>(k) % detail::projection_block != 0) return;
    int const next_block = k + detail::projection_block;
    RATIFY_UNROLL
    for (int c = 0; c < Columns; ++c) {
      scales_[c] = next_scales_[c];
      if (next_block < end_) load_scales(c, next_block);
    }
  }
  /// The scales of the next group of 16 columns of K.
  template <projection_scale Scale>
  RATIFY_HD void take_scales(float (&scale)[Columns]) {
    RATIFY_UNROLL
    for (int c = 0; c < Columns; ++c) {
      scale[c] = group_scale<Scale>(e4m3{static_cast<uint8_t>(scales_[c])}, w_global_[c]);
      scales_[c] >>= 8;
    }
  }
 private:
  RATIFY_HD int groups_at(int k) const { return (end_ - k) / nvfp4_group; }

  RATIFY_HD void load_codes(int c, int k) {
    uint8_t const* const from = packed_[c] + k / 2;
    if (codes_in_16_bytes_) {
      detail::vector16 const v = detail::load_16_bytes(from);
      next_codes_[c][0] = {{v.word[0], v.word[1]}};
      next_codes_[c][1] = {{v.word[2], v.word[3]}};
    } else {
      next_codes_[c][0] = detail::load_8_bytes(from);
      if (groups_at(k) > 1) next_codes_[c][1] = detail::load_8_bytes(from + 8);
    }
  }
  RATIFY_HD void load_scales(int c, int k) {
    e4m3 const* const from = scale_[c] + k / nvfp4_group;
    if (scales_in_4_bytes_) {
      next_scales_[c] = detail::load_bytes<4>(from);
      return;
    }
    uint32_t scales = 0;
    RATIFY_UNROLL
    for (int g = 0; g < detail::projection_block / nvfp4_group; ++g)
      if (g < groups_at(k)) scales |= uint32_t{from[g].bits} << 8 * g;
    next_scales_[c] = scales;
  }

  int end_;
  bool codes_in_16_bytes_, scales_in_4_bytes_;
  uint8_t const* packed_[Columns];
  e4m3 const* scale_[Columns];
  float w_global_[Columns];
  detail::vector8 next_codes_[Columns][2];
  uint32_t scales_[Columns], next_scales_[Columns];  ///< of a block, one byte each, the lowest first
};

/// Adds the products of the columns [first, last) of K to the sums of `Columns` columns of y for `Rows` rows.
///
/// @param weights  opened at the first column of the split; `first` follows the `last` of the call before
/// @param x        the stage that begins at column `first`, a multiple of 32
template <projection_scale Scale, int Columns, int Rows>
RATIFY_HD inline void accumulate_columns(weight_columns<Columns>& weights, float const* x, int first, int last,
                                         float (&sum)[Columns][Rows]) {
  RATIFY_NO_UNROLL
  for (int k = first; k < last; k += detail::projection_step) {
    detail::vector8 codes[2][Columns];
    weights.take_codes(k, codes);
    RATIFY_UNROLL
    for (int g = 0; g < 2; ++g, x += detail::projection_group_floats(Rows)) {
      if (k + g * nvfp4_group >= last) break;
      float scale[Columns];
      weights.template take_scales<Scale>(scale);
      accumulate_group<Scale>(codes[g], scale, x, sum);
    }
  }
}

/// The rows and columns of y that a block computes, and where they go.
template <class Output>
struct projection_tile {
  rows_view<Output> y;
  float const* bias;  ///< [n], or nullptr
  int n;              ///< columns of y
  int64_t first_row;
  int rows;
  int first_column;
  int columns;  ///< of the tile; those past n are not stored

  /// Stores one sum; row and column are counted within the tile.
  RATIFY_HD void store(int row, int column, float sum) const {
    int const at = first_column + column;
    if (at >= n) return;
    if (bias != nullptr) sum = detail::add_rn(sum, bias[at]);
    y.row(first_row + row)[at] = convert<Output>(sum);
  }
};

/// Adds the sums of `Splits` splits in ascending order and stores them. Called by all threads of a block, after a
/// barrier that follows the last of the sums.
///
/// @param sums  [Splits][Rows][Pitch] in shared memory, with the columns of the tile first in each row
RATIFY_ANY_BLOCK
template <int Splits, int Rows, int Pitch, class Block, class Output>
RATIFY_HD inline void store_split_sums(Block const& block, float const* sums, projection_tile<Output> const& tile) {
  for (int i = block.thread(); i < tile.rows * tile.columns; i += Block::threads) {
    int const row = i / tile.columns, column = i % tile.columns;
    float const* const at = sums + row * Pitch + column;
    float y = at[0];
    for (int s = 1; s < Splits; ++s) y = detail::add_rn(y, at[s * Rows * Pitch]);
    tile.store(row, column, y);
  }
}

}  // namespace device
RATIFY_END_NAMESPACE
