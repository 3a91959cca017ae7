// SPDX-License-Identifier: Apache-2.0
/// The kernel of the NVFP4 projection: each thread sums a few columns of one split for a tile of rows.
#pragma once

#include <ratify/device/projection.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
struct projection_kernel_params {
  projection_params<Policy> call;
  int lanes;  ///< threads of a split that have columns, 1 to `split_threads`; moves no bit
};

/// Block: `lanes * thread_columns` columns by `split_k` splits. Each thread has `thread_columns` columns of one split;
/// threads past `lanes * split_k` only help to stage activations. Grid: column tiles, row tiles.
template <class Policy, int Rows>
struct projection_kernel {
  using params = projection_kernel_params<Policy>;
  using traits = projection_traits<Policy, Rows>;
  static constexpr char const* name = "projection_kernel";
  static constexpr int block_threads = traits::block_threads;
  template <class Block>
  struct shared_storage {
    // Activations as `stages` buffers of a stage for each split; at the end the sums [splits][Rows][columns].
    alignas(16) float values[traits::storage_floats];
  };
  using activations =
      device::staged_activations<typename Policy::input_format, Rows, traits::split_threads, traits::stage_k>;
  using output_tile = device::projection_tile<typename Policy::output_format>;
  using sums = float[traits::thread_columns][Rows];

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& all, shared_storage<Block>& storage) {
    // Split number `splits` has no columns of K.
    int const split = min_of(block.thread() / all.lanes, traits::splits), lane = block.thread() % all.lanes;
    sums sum;
    accumulate(block, all, split, lane, storage.values, sum);
    store(block, all, split, lane, sum, storage.values);
  }
 private:
  /// The rows and columns of y that the block computes.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static output_tile tile_of(Block const& block, params const& all) {
    projection_params<Policy> const& p = all.call;
    int const columns = all.lanes * traits::thread_columns;
    int64_t const first_row = int64_t{block.block_y()} * Rows;
    int const rows = min_of(static_cast<int>(p.rows - first_row), Rows);
    return {p.y, p.bias, p.n, first_row, rows, block.block_x() * columns, columns};
  }

  /// The sums of the thread's columns over the columns of K that its split has.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void accumulate(Block const& block, params const& all, int split, int lane, float* values,
                                   sums& sum) {
    constexpr int splits = traits::splits, stage_k = traits::stage_k, stage_floats = traits::stage_floats;
    projection_params<Policy> const& p = all.call;
    output_tile const tile = tile_of(block, all);
    int const begin = device::split_begin(p.k, split, splits),
              end = device::split_begin(p.k, min_of(split + 1, splits), splits);
    int const staged_split = block.thread() / traits::split_threads;
    activations next(p.x, tile.first_row, tile.rows, device::split_begin(p.k, staged_split, splits),
                     device::split_begin(p.k, staged_split + 1, splits),
                     static_cast<uint32_t>(block.thread()) % traits::split_threads);
    bool const fetches = activations::can_fetch(p.x);

    device::projection_weights const w{p.w_packed, p.w_scale, p.w_global, p.segment_end, p.segments, p.k};
    device::weight_columns<traits::thread_columns> weights(w, end);
    RATIFY_UNROLL
    for (int c = 0; c < traits::thread_columns; ++c) {
      // A column past the last one reads the weights of the last one and is not stored.
      weights.open(c, w, min_of(tile.first_column + c * all.lanes + lane, p.n - 1), begin);
      RATIFY_UNROLL
      for (int r = 0; r < Rows; ++r) sum[c][r] = 0.0f;
    }

    // The longest split decides how often all threads meet.
    int const longest = device::longest_split(p.k, splits);
    if (fetches) next.fetch(0);
    for (int offset = 0; offset < longest; offset += stage_k) {
      if (traits::stages == 1 && offset > 0) block.barrier();
      float* const stage = values + offset / stage_k % traits::stages * splits * stage_floats;
      if (fetches)
        next.put(stage + staged_split * stage_floats);
      else
        next.copy(offset, stage + staged_split * stage_floats);
      block.barrier();
      if (fetches) next.fetch(offset + stage_k);
      int const first = begin + offset;
      device::accumulate_columns<Policy::effective_scale>(weights, stage + split * stage_floats, first,
                                                          min_of(first + stage_k, end), sum);
    }
  }

  /// Stores the thread's sums, or those of all splits added up.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void store(Block const& block, params const& all, int split, int lane, sums const& sum,
                              float* values) {
    constexpr int splits = traits::splits;
    output_tile const tile = tile_of(block, all);
    if constexpr (splits > 1) block.barrier();  // no thread reads activations any more
    if (split < splits) {
      RATIFY_UNROLL
      for (int c = 0; c < traits::thread_columns; ++c) {
        RATIFY_UNROLL
        for (int r = 0; r < Rows; ++r) {
          int const column = c * all.lanes + lane;
          if constexpr (splits > 1)
            values[(split * Rows + r) * traits::columns + column] = sum[c][r];
          else if (r < tile.rows)
            tile.store(r, column, sum[c][r]);
        }
      }
    }
    if constexpr (splits > 1) {
      block.barrier();
      device::store_split_sums<splits, Rows, traits::columns>(block, values, tile);
    }
  }
};

}  // namespace detail

using detail::projection_kernel;

RATIFY_END_NAMESPACE
