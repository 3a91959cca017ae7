// SPDX-License-Identifier: Apache-2.0
/// A thread owns one column of one split for a tile of rows.
#pragma once

#include <ratify/device/projection.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Block: `columns` columns by `split_k` splits, a warp 32 columns of one split. Grid: column tiles, row tiles.
template <class Policy, int Rows>
struct projection_kernel {
  using params = projection_params<Policy>;
  using traits = projection_traits<Policy, Rows>;
  static constexpr char const* name = "projection_kernel";
  static constexpr int block_threads = traits::block_threads;
  template <class Block>
  struct shared_storage {
    // Activations [splits][stage_k][Rows], so that the rows of one k lie together; at the end the splits' sums
    // [splits][Rows][columns].
    alignas(16) float values[traits::storage_floats];
  };

  /// 32 columns of K of one row of weights: codes of two groups and their scales.
  struct weights {
    vector8 codes[2];
    e4m3 scale[2];
  };

  /// `groups` is 1 at the end of a K that is not a multiple of 32.
  RATIFY_HD static weights load(uint8_t const* packed, e4m3 const* scale, int k, int groups, bool wide) {
    weights w{};
    if (wide) {
      vector16 const v = load_16_bytes(packed + k / 2);
      w.codes[0] = {{v.word[0], v.word[1]}};
      w.codes[1] = {{v.word[2], v.word[3]}};
    } else {
      w.codes[0] = load_8_bytes(packed + k / 2);
      if (groups > 1) w.codes[1] = load_8_bytes(packed + k / 2 + 8);
    }
    w.scale[0] = scale[k / nvfp4_group];
    if (groups > 1) w.scale[1] = scale[k / nvfp4_group + 1];
    return w;
  }

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    constexpr int splits = traits::splits, columns = traits::columns, stage_k = traits::stage_k;
    int const split = block.thread() / columns, column = block.thread() % columns;
    int const n = block.block_x() * columns + column;
    bool const inside = n < p.n;
    int64_t const first_row = int64_t{block.block_y()} * Rows;
    int const rows = min_of(static_cast<int>(p.rows - first_row), Rows);

    // Whole 64-blocks a split; the longest split decides how often everyone meets.
    int64_t const blocks = ceil_div(p.k, projection_block);
    int const begin = static_cast<int>(split * blocks / splits) * projection_block;
    int const end = min_of(static_cast<int>((split + 1) * blocks / splits) * projection_block, p.k);
    int const longest = static_cast<int>(ceil_div(blocks, int64_t{splits})) * projection_block;

    // A row of weights starts on 16 bytes if the first one does and K is a multiple of 32.
    bool const wide = p.k % 32 == 0 && aligned_to(p.w_packed, 16);
    uint8_t const* const packed = p.w_packed + int64_t{n} * (p.k / 2);
    e4m3 const* const scale = p.w_scale + int64_t{n} * (p.k / nvfp4_group);
    float const w_global = inside ? device::global_scale(p.w_global, p.segment_end, p.segments, n) : 0.0f;
    auto const groups_at = [&](int k) { return min_of((end - k) / nvfp4_group, 2); };

    float sum[Rows];
    RATIFY_UNROLL
    for (int r = 0; r < Rows; ++r) sum[r] = 0.0f;

    float* const x = storage.values + split * stage_k * Rows;
    weights next{};
    if (inside && begin < end) next = load(packed, scale, begin, groups_at(begin), wide);
    for (int offset = 0; offset < longest; offset += stage_k) {
      int const first = begin + offset, last = min_of(first + stage_k, end);
      if (offset > 0) block.barrier();
      for (int i = column; i < (last - first) * Rows; i += columns) {
        int const r = i % Rows, k = first + i / Rows;
        x[i] = r < rows ? to_float(p.x.row(first_row + r)[k]) : 0.0f;
      }
      block.barrier();
      if (!inside) continue;
      for (int k = first; k < last; k += 32) {
        weights const w = next;
        // The next load is under way while this one's products are summed.
        if (k + 32 < end) next = load(packed, scale, k + 32, groups_at(k + 32), wide);
        float const* const at = x + (k - first) * Rows;
        device::accumulate_group<Policy::effective_scale>(w.codes[0], w.scale[0], w_global, at, sum);
        if (groups_at(k) > 1)
          device::accumulate_group<Policy::effective_scale>(w.codes[1], w.scale[1], w_global, at + nvfp4_group * Rows,
                                                            sum);
      }
    }

    auto const store = [&](int r, int c, float y) {
      int const out = block.block_x() * columns + c;
      if (p.bias != nullptr) y = add_rn(y, p.bias[out]);
      p.y.row(first_row + r)[out] = convert<typename Policy::output_format>(y);
    };
    if constexpr (splits == 1) {
      if (!inside) return;
      RATIFY_UNROLL
      for (int r = 0; r < Rows; ++r)
        if (r < rows) store(r, column, sum[r]);
    } else {
      block.barrier();
      RATIFY_UNROLL
      for (int r = 0; r < Rows; ++r) storage.values[(split * Rows + r) * columns + column] = sum[r];
      block.barrier();
      for (int i = block.thread(); i < rows * columns; i += block_threads) {
        if (block.block_x() * columns + i % columns >= p.n) continue;
        float y = storage.values[i];
        for (int s = 1; s < splits; ++s) y = add_rn(y, storage.values[s * Rows * columns + i]);
        store(i / columns, i % columns, y);
      }
    }
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
