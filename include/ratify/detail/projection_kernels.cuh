// SPDX-License-Identifier: Apache-2.0
/// A thread owns a few columns of one split for a tile of rows.
#pragma once

#include <ratify/device/projection.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
struct projection_kernel_params {
  projection_params<Policy> call;
  int lanes;  ///< threads of a split that have columns, 1 to `split_threads`; moves no bit
};

/// Block: `lanes * thread_columns` columns by `split_k` splits, a thread `thread_columns` columns of one split; threads
/// past `lanes * split_k` only help to stage activations. Grid: column tiles, row tiles.
template <class Policy, int Rows>
struct projection_kernel {
  using params = projection_kernel_params<Policy>;
  using traits = projection_traits<Policy, Rows>;
  static constexpr char const* name = "projection_kernel";
  static constexpr int block_threads = traits::block_threads;
  template <class Block>
  struct shared_storage {
    // Activations [buffers][splits][stage_k / 16][16][Rows] with gaps between groups and splits, so that the rows of
    // one k lie together; at the end the splits' sums [splits][Rows][columns].
    alignas(16) float values[traits::storage_floats];
  };
  static constexpr int step = traits::step;
  static constexpr int block_groups = projection_block / nvfp4_group;

  /// How rows of weights may be read, the same for all of them.
  struct alignment {
    bool codes_16, scales_4;
  };

  /// The codes of a step at k, of which `groups` (2 or more: both) lie before the end of K.
  RATIFY_HD static void load_codes(vector8 (&codes)[2], uint8_t const* packed, int k, int groups, alignment by) {
    if (by.codes_16) {
      vector16 const v = load_16_bytes(packed + k / 2);
      codes[0] = {{v.word[0], v.word[1]}};
      codes[1] = {{v.word[2], v.word[3]}};
    } else {
      codes[0] = load_8_bytes(packed + k / 2);
      if (groups > 1) codes[1] = load_8_bytes(packed + k / 2 + 8);
    }
  }

  /// The scales of a 64-block at k, a byte each, of which `groups` (4 or more: all) lie before the end of K.
  RATIFY_HD static uint32_t load_scales(e4m3 const* scale, int k, int groups, alignment by) {
    if (by.scales_4) return load_bytes<4>(scale + k / nvfp4_group);
    uint32_t scales = 0;
    RATIFY_UNROLL
    for (int g = 0; g < block_groups; ++g)
      if (g < groups) scales |= uint32_t{scale[k / nvfp4_group + g].bits} << 8 * g;
    return scales;
  }

  /// A split's activations of a stage on their way from memory to shared storage: a thread holds `vectors` pieces of 16
  /// bytes of one row. Rows past the last one repeat it: they are not stored.
  class staging {
   public:
    /// For thread `member` of those that stage the columns [begin, end) of K.
    RATIFY_HD staging(projection_params<Policy> const& p, int64_t first_row, int rows, int begin, int end,
                      uint32_t member)
        : x_(p.x.row(first_row + min_of(static_cast<int>(member % Rows), rows - 1))),
          begin_(begin),
          end_(end),
          member_(member) {}

    /// @param offset of the stage from `begin`
    RATIFY_HD void fetch(int offset) {
      RATIFY_UNROLL
      for (uint32_t i = 0; i < vectors; ++i) {
        int const k = begin_ + offset + static_cast<int>(column(i));
        if (is_piece(i) && k < end_) raw_[i] = load_16_bytes(x_ + k);
      }
    }
    RATIFY_HD void put(float* stage) const {
      RATIFY_UNROLL
      for (uint32_t i = 0; i < vectors; ++i) {
        if (!is_piece(i)) continue;
        float* const to = stage + place(column(i)) + member_ % Rows;
        RATIFY_UNROLL
        for (int e = 0; e < traits::vector; ++e) to[e * Rows] = element(raw_[i], e);
      }
    }
    /// Both, of elements that do not lie on 16 bytes.
    RATIFY_HD void copy(int offset, float* stage) const {
      for (uint32_t column = member_ / Rows; column < traits::stage_k; column += threads / Rows)
        if (int const k = begin_ + offset + static_cast<int>(column); k < end_)
          stage[place(column) + member_ % Rows] = to_float(x_[k]);
    }
   private:
    using input = typename Policy::input_format;
    static constexpr uint32_t threads = traits::split_threads, vector = traits::vector, vectors = traits::vectors;
    static_assert(threads % Rows == 0, "ratify: a thread stages one row");

    /// The number of piece i in its row.
    RATIFY_HD uint32_t number(uint32_t i) const { return member_ / Rows + i * (threads / Rows); }
    /// Whether there is a piece i: few columns have fewer pieces than threads.
    RATIFY_HD bool is_piece(uint32_t i) const { return number(i) < traits::stage_k / vector; }
    /// Of piece i, counted from the stage's first. Neighbours hold a row each, then a group each: the banks they store
    /// to differ.
    RATIFY_HD uint32_t column(uint32_t i) const {
      constexpr uint32_t groups = traits::stage_k / nvfp4_group;
      return number(i) % groups * nvfp4_group + number(i) / groups * vector;
    }
    RATIFY_HD static uint32_t place(uint32_t column) {
      return column / nvfp4_group * traits::group_floats + column % nvfp4_group * Rows;
    }
    /// NaNs as they are: a sum that one joins is made canonical where it is stored.
    RATIFY_HD static float element(vector16 const& v, int e) {
      if constexpr (RATIFY_STD::is_same_v<input, f16>)
        return widened_f16_bits(static_cast<uint16_t>(v.word[e / 2] >> e % 2 * 16));
      else
        return vector_element<input>(v, e);
    }

    input const* x_;
    int begin_, end_;
    uint32_t member_;
    vector16 raw_[vectors];
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& all, shared_storage<Block>& storage) {
    constexpr int splits = traits::splits, stage_k = traits::stage_k, mine = traits::thread_columns;
    projection_params<Policy> const& p = all.call;
    int const columns = all.lanes * mine;
    int const split = min_of(block.thread() / all.lanes, splits), member = block.thread() % all.lanes;
    int const first_column = block.block_x() * columns;
    int64_t const first_row = int64_t{block.block_y()} * Rows;
    int const rows = min_of(static_cast<int>(p.rows - first_row), Rows);

    // Whole 64-blocks a split; the longest split decides how often everyone meets. Split number `splits` has none.
    int64_t const blocks = ceil_div(p.k, projection_block);
    auto const split_begin = [&](int s) {
      return min_of(static_cast<int>(s * blocks / splits) * projection_block, p.k);
    };
    int const begin = split_begin(split), end = split_begin(min_of(split + 1, splits));
    int const longest = static_cast<int>(ceil_div(blocks, int64_t{splits})) * projection_block;

    int const staged_split = block.thread() / traits::split_threads;
    staging next(p, first_row, rows, split_begin(staged_split), split_begin(staged_split + 1),
                 static_cast<uint32_t>(block.thread()) % traits::split_threads);

    // A row of weights starts as the first one does if K is a multiple of what a wide read takes.
    alignment const by{p.k % step == 0 && aligned_to(p.w_packed, 16),
                       p.k % projection_block == 0 && aligned_to(p.w_scale, 4)};
    bool const x_aligned =
        aligned_to(p.x.data, 16) && p.x.stride * static_cast<int64_t>(sizeof(typename Policy::input_format)) % 16 == 0;
    auto const groups_at = [end](int k) { return (end - k) / nvfp4_group; };
    uint8_t const* packed[mine];
    e4m3 const* scale[mine];
    float w_global[mine], sum[mine][Rows];
    // What is summed next is on its way while this is summed.
    vector8 next_codes[mine][2];
    uint32_t scales[mine], next_scales[mine];
    RATIFY_UNROLL
    for (int c = 0; c < mine; ++c) {
      // A column past the last one reads the last one's weights and is not stored.
      int const n = min_of(first_column + c * all.lanes + member, p.n - 1);
      packed[c] = p.w_packed + int64_t{n} * (p.k / 2);
      scale[c] = p.w_scale + int64_t{n} * (p.k / nvfp4_group);
      w_global[c] = device::global_scale(p.w_global, p.segment_end, p.segments, n);
      scales[c] = next_scales[c] = 0;
      if (begin < end) {
        load_codes(next_codes[c], packed[c], begin, groups_at(begin), by);
        next_scales[c] = load_scales(scale[c], begin, groups_at(begin), by);
      }
      RATIFY_UNROLL
      for (int r = 0; r < Rows; ++r) sum[c][r] = 0.0f;
    }

    if (x_aligned) next.fetch(0);
    for (int offset = 0; offset < longest; offset += stage_k) {
      if (traits::buffers == 1 && offset > 0) block.barrier();
      float* const buffer = storage.values + offset / stage_k % traits::buffers * splits * traits::stage_floats;
      if (x_aligned)
        next.put(buffer + staged_split * traits::stage_floats);
      else
        next.copy(offset, buffer + staged_split * traits::stage_floats);
      block.barrier();
      if (x_aligned) next.fetch(offset + stage_k);
      float const* x = buffer + split * traits::stage_floats;
      int const first = begin + offset, last = min_of(first + stage_k, end);
      RATIFY_NO_UNROLL
      for (int k = first; k < last; k += step) {
        vector8 codes[2][mine];
        RATIFY_UNROLL
        for (int c = 0; c < mine; ++c) {
          codes[0][c] = next_codes[c][0];
          codes[1][c] = next_codes[c][1];
          if (k + step < end) load_codes(next_codes[c], packed[c], k + step, groups_at(k + step), by);
        }
        if (static_cast<uint32_t>(k) % projection_block == 0) {
          int const next_block = k + projection_block;
          RATIFY_UNROLL
          for (int c = 0; c < mine; ++c) {
            scales[c] = next_scales[c];
            if (next_block < end) next_scales[c] = load_scales(scale[c], next_block, groups_at(next_block), by);
          }
        }
        RATIFY_UNROLL
        for (int g = 0; g < 2; ++g, x += traits::group_floats) {
          if (k + g * nvfp4_group >= last) break;
          float effective[mine];
          RATIFY_UNROLL
          for (int c = 0; c < mine; ++c) {
            effective[c] =
                device::group_scale<Policy::effective_scale>(e4m3{static_cast<uint8_t>(scales[c])}, w_global[c]);
            scales[c] >>= 8;
          }
          device::accumulate_group<Policy::effective_scale>(codes[g], effective, x, sum);
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
    if (split < splits) {
      RATIFY_UNROLL
      for (int c = 0; c < mine; ++c) {
        RATIFY_UNROLL
        for (int r = 0; r < Rows; ++r) {
          int const column = c * all.lanes + member;
          if constexpr (splits > 1)
            storage.values[(split * Rows + r) * traits::columns + column] = sum[c][r];
          else if (r < rows)
            store(r, column, sum[c][r]);
        }
      }
    }
    if constexpr (splits > 1) {
      block.barrier();
      for (int i = block.thread(); i < rows * columns; i += block_threads) {
        int const r = i / columns, column = i % columns;
        float const* const sums = storage.values + r * traits::columns + column;
        float y = sums[0];
        for (int s = 1; s < splits; ++s) y = add_rn(y, sums[s * Rows * traits::columns]);
        store(r, column, y);
      }
    }
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
