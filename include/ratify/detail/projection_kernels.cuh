// SPDX-License-Identifier: Apache-2.0
/// A thread owns one or two columns of one split for a tile of rows.
#pragma once

#include <ratify/device/projection.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Block: `columns` columns by `split_k` splits, a warp 32 or 64 columns of one split. Grid: column tiles, row tiles.
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

  /// Activations [first, last) of K to x[k - first][Rows]. Rows past the last one repeat it: they are not stored.
  RATIFY_HD static void stage_activations(params const& p, int64_t first_row, int rows, int first, int last, int member,
                                          bool aligned, float* x) {
    using input = typename Policy::input_format;
    if (!aligned) {
      for (int i = member; i < (last - first) * Rows; i += traits::split_threads)
        x[i] = to_float(p.x.row(first_row + min_of(i % Rows, rows - 1))[first + i / Rows]);
      return;
    }
    constexpr int vector = 16 / static_cast<int>(sizeof(input));
    constexpr int ahead = 4;  // loads under way together: everyone waits for them
    int const count = (last - first) / vector * Rows;
    for (int v0 = member; v0 < count; v0 += ahead * traits::split_threads) {
      vector16 raw[ahead];
      RATIFY_UNROLL
      for (int a = 0; a < ahead; ++a) {
        int const v = min_of(v0 + a * traits::split_threads, count - 1);
        raw[a] = load_16_bytes(p.x.row(first_row + min_of(v % Rows, rows - 1)) + first + v / Rows * vector);
      }
      RATIFY_UNROLL
      for (int a = 0; a < ahead; ++a) {
        int const v = v0 + a * traits::split_threads;
        if (v >= count) break;
        float* const to = x + v / Rows * vector * Rows + v % Rows;
        RATIFY_UNROLL
        for (int i = 0; i < vector; ++i) to[i * Rows] = vector_element<input>(raw[a], i);
      }
    }
  }

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    constexpr int splits = traits::splits, columns = traits::columns, stage_k = traits::stage_k;
    constexpr int mine = traits::thread_columns, split_threads = traits::split_threads;
    int const split = block.thread() / split_threads, member = block.thread() % split_threads;
    int const first_column = block.block_x() * columns;
    int64_t const first_row = int64_t{block.block_y()} * Rows;
    int const rows = min_of(static_cast<int>(p.rows - first_row), Rows);

    // Whole 64-blocks a split; the longest split decides how often everyone meets.
    int64_t const blocks = ceil_div(p.k, projection_block);
    int const begin = static_cast<int>(split * blocks / splits) * projection_block;
    int const end = min_of(static_cast<int>((split + 1) * blocks / splits) * projection_block, p.k);
    int const longest = static_cast<int>(ceil_div(blocks, int64_t{splits})) * projection_block;

    // A row of weights starts on 16 bytes if the first one does and K is a multiple of 32.
    bool const wide = p.k % 32 == 0 && aligned_to(p.w_packed, 16);
    bool const x_aligned =
        aligned_to(p.x.data, 16) && p.x.stride * static_cast<int64_t>(sizeof(typename Policy::input_format)) % 16 == 0;
    auto const groups_at = [&](int k) { return min_of((end - k) / nvfp4_group, 2); };
    uint8_t const* packed[mine];
    e4m3 const* scale[mine];
    float w_global[mine], sum[mine][Rows];
    weights next[mine];
    RATIFY_UNROLL
    for (int c = 0; c < mine; ++c) {
      // A column past the last one reads the last one's weights and is not stored.
      int const n = min_of(first_column + c * split_threads + member, p.n - 1);
      packed[c] = p.w_packed + int64_t{n} * (p.k / 2);
      scale[c] = p.w_scale + int64_t{n} * (p.k / nvfp4_group);
      w_global[c] = device::global_scale(p.w_global, p.segment_end, p.segments, n);
      next[c] = begin < end ? load(packed[c], scale[c], begin, groups_at(begin), wide) : weights{};
      RATIFY_UNROLL
      for (int r = 0; r < Rows; ++r) sum[c][r] = 0.0f;
    }

    float* const x = storage.values + split * stage_k * Rows;
    for (int offset = 0; offset < longest; offset += stage_k) {
      int const first = begin + offset, last = min_of(first + stage_k, end);
      if (offset > 0) block.barrier();
      stage_activations(p, first_row, rows, first, last, member, x_aligned, x);
      block.barrier();
      if (first_column + member >= p.n) continue;
      for (int k = first; k < last; k += 32) {
        weights now[mine];
        RATIFY_UNROLL
        for (int c = 0; c < mine; ++c) {
          now[c] = next[c];
          // The next load is under way while this one's products are summed.
          if (k + 32 < end) next[c] = load(packed[c], scale[c], k + 32, groups_at(k + 32), wide);
        }
        int const groups = groups_at(k);
        RATIFY_UNROLL
        for (int g = 0; g < 2; ++g) {
          if (g >= groups) break;
          vector8 codes[mine];
          float effective[mine];
          RATIFY_UNROLL
          for (int c = 0; c < mine; ++c) {
            codes[c] = now[c].codes[g];
            effective[c] = device::group_scale<Policy::effective_scale>(now[c].scale[g], w_global[c]);
          }
          device::accumulate_group<Policy::effective_scale>(codes, effective, x + (k - first + g * nvfp4_group) * Rows,
                                                            sum);
        }
      }
    }

    auto const store = [&](int r, int column, float y) {
      int const n = first_column + column;
      if (n >= p.n) return;
      if (p.bias != nullptr) y = add_rn(y, p.bias[n]);
      p.y.row(first_row + r)[n] = convert<typename Policy::output_format>(y);
    };
    if constexpr (splits > 1) block.barrier();
    RATIFY_UNROLL
    for (int c = 0; c < mine; ++c) {
      RATIFY_UNROLL
      for (int r = 0; r < Rows; ++r) {
        int const column = c * split_threads + member;
        if constexpr (splits > 1)
          storage.values[(split * Rows + r) * columns + column] = sum[c][r];
        else if (r < rows)
          store(r, column, sum[c][r]);
      }
    }
    if constexpr (splits > 1) {
      block.barrier();
      for (int i = block.thread(); i < rows * columns; i += block_threads) {
        float y = storage.values[i];
        for (int s = 1; s < splits; ++s) y = add_rn(y, storage.values[s * Rows * columns + i]);
        store(i / columns, i % columns, y);
      }
    }
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
