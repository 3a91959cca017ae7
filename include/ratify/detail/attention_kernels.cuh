// SPDX-License-Identifier: Apache-2.0
/// Verify attention in two kernels: partial softmax of each partition, then the ordered combine. And the merge of
/// partials that came from elsewhere.
#pragma once

#include <ratify/device/attention.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
struct attention_kernel_params {
  attention_params<Policy> call;
  attention_partials partials;
};

/// A persistent grid: blocks share out (request, partition, KV head, tile of query entries) by the device-side lengths.
template <class Policy>
struct attention_partial_kernel {
  using params = attention_kernel_params<Policy>;
  using traits = attention_traits<Policy>;
  using narrow_shape = typename traits::narrow_shape;
  using wide_shape = typename traits::wide_shape;
  static constexpr char const* name = "attention_partial_kernel";
  static constexpr int block_threads = traits::block_threads;
  /// The registers that three blocks leave hold the sums of a wide tile; fewer blocks would not hide the cache's
  /// latency.
  static constexpr int minimum_blocks = traits::has_wide ? 3 : 1;
  template <class Block>
  union shared_storage {
    device::attention_tile<Policy, narrow_shape> narrow;
    RATIFY_STD::conditional_t<traits::has_wide, device::attention_tile<Policy, wide_shape>, char> wide;
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& all, shared_storage<Block>& storage) {
    attention_params<Policy> const& p = all.call;
    int const heads = p.q_heads / p.kv_heads;
    bool const wide = traits::has_wide && fills_grid_with_wide_tiles(p, block.grid_x());
    device::attention_requests<Policy> requests(p);
    device::attention_request r;
    int64_t base = 0, item = block.block_x();
    while (requests.next(r)) {
      int32_t const* const table = p.block_table.row(requests.index());
      if constexpr (traits::has_wide) {
        if (wide && r.rows * heads >= traits::wide_entries) {
          share_out<wide_shape>(block, all, r, table, base, item, storage.wide);
          continue;
        }
      }
      share_out<narrow_shape>(block, all, r, table, base, item, storage.narrow);
    }
  }
 private:
  template <class Shape>
  RATIFY_HD static int64_t items(attention_params<Policy> const& p, device::attention_request const& r) {
    return int64_t{r.partitions} * p.kv_heads * ceil_div(r.rows * (p.q_heads / p.kv_heads), Shape::entries);
  }

  /// Wide tiles do more with what they load, but there are fewer of them: only where no block would be idle.
  RATIFY_HD static bool fills_grid_with_wide_tiles(attention_params<Policy> const& p, int blocks) {
    device::attention_requests<Policy> requests(p);
    device::attention_request r;
    int64_t wide = 0;
    while (requests.next(r))
      if (r.rows * (p.q_heads / p.kv_heads) >= traits::wide_entries) wide += items<wide_shape>(p, r);
    return wide >= blocks;
  }

  /// The block's items of a request; `base` is the number of the request's first one, `item` of the block's next one.
  RATIFY_ANY_BLOCK
  template <class Shape, class Block>
  RATIFY_HD static void share_out(Block const& block, params const& all, device::attention_request const& r,
                                  int32_t const* table, int64_t& base, int64_t& item,
                                  device::attention_tile<Policy, Shape>& tile) {
    attention_params<Policy> const& p = all.call;
    int const tiles = ceil_div(r.rows * (p.q_heads / p.kv_heads), Shape::entries);
    int64_t const end = base + items<Shape>(p, r);
    for (; item < end; item += block.grid_x()) {
      int64_t const i = item - base;
      work(block, all, r, table, static_cast<int>(i / tiles / p.kv_heads), static_cast<int>(i / tiles % p.kv_heads),
           static_cast<int>(i % tiles) * Shape::entries, tile);
    }
    base = end;
  }

  /// One tile over the request's partition number `partition`, counted from the first that it sees.
  RATIFY_ANY_BLOCK
  template <class Shape, class Block>
  RATIFY_HD static void work(Block const& block, params const& all, device::attention_request const& r,
                             int32_t const* table, int partition, int kv_head, int first_entry,
                             device::attention_tile<Policy, Shape>& tile) {
    attention_params<Policy> const& p = all.call;
    int const heads = p.q_heads / p.kv_heads;
    int const entries = min_of(Shape::entries, r.rows * heads - first_entry);
    int const partition_begin = (r.first_partition + partition) * traits::width;
    int const partition_end = partition_begin + traits::width;
    device::token_range seen{partition_end, partition_begin}, common{partition_begin, partition_end};
    for (int i = first_entry / heads; i <= (first_entry + entries - 1) / heads; ++i) {
      auto const v = device::visible_tokens(i, r.rows, r.context, p.window, p.causal);
      int const begin = max_of(v.begin, partition_begin), end = min_of(v.end, partition_end);
      common = {max_of(common.begin, begin), min_of(common.end, end)};
      if (begin < end) seen = {min_of(seen.begin, begin), max_of(seen.end, end)};
    }
    block.barrier();  // the tile before this one has been read
    for (int e = block.thread(); e < Shape::entries; e += Block::threads)
      tile.visible[e] = e < entries
                            ? device::visible_tokens((first_entry + e) / heads, r.rows, r.context, p.window, p.causal)
                            : device::token_range{0, 0};
    device::attention_scores(block, p, r, table, kv_head, first_entry, entries, seen, partition_begin, tile);
    block.barrier();
    int64_t const row0 = r.partial + int64_t{partition} * r.rows;
    auto const place = [&](int e) {
      int const entry = first_entry + e;
      return (row0 + entry / heads) * p.q_heads + kv_head * heads + entry % heads;
    };
    device::attention_softmax(block, entries, partition_begin, tile, [&](int e, float maximum, float sum) {
      all.partials.maximum[place(e)] = maximum;
      all.partials.sum[place(e)] = sum;
    });
    float sum[Shape::columns][Shape::group_entries];
    device::attention_values(block, p, table, kv_head, entries, seen, common, partition_begin, tile, sum);
    int const first = block.thread() / Shape::lanes * Shape::group_entries;
    int row = (first_entry + first) / heads, head = (first_entry + first) % heads;
    RATIFY_UNROLL
    for (int e = 0; e < Shape::group_entries; ++e) {
      if (first + e < entries) {
        float out[Shape::columns];
        RATIFY_UNROLL
        for (int c = 0; c < Shape::columns; ++c) out[c] = sum[c][e];
        int64_t const at = (row0 + row) * p.q_heads + kv_head * heads + head;
        store_floats(all.partials.out + at * traits::head_dim + block.thread() % Shape::lanes * Shape::columns, out);
      }
      if (++head == heads) ++row, head = 0;
    }
  }
};

/// One block a (row, query head) and 64 columns.
template <class Policy>
struct attention_combine_kernel {
  using params = attention_kernel_params<Policy>;
  using traits = attention_traits<Policy>;
  static constexpr char const* name = "attention_combine_kernel";
  static constexpr int block_threads = 64;
  template <class Block>
  struct shared_storage {
    device::combine_run run;
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& all, shared_storage<Block>& storage) {
    attention_params<Policy> const& p = all.call;
    int const row = block.block_x(), head = block.block_y(), column = block.block_z() * block_threads + block.thread();
    device::attention_requests<Policy> requests(p);
    device::attention_request r{};
    bool found = false;
    while (!found && requests.next(r)) found = row >= r.first_row && row < r.first_row + r.rows;
    int const i = row - r.first_row;
    auto const seen = found && r.partitions > 0 ? device::visible_tokens(i, r.rows, r.context, p.window, p.causal)
                                                : device::token_range{0, 0};
    auto const place = [&](int j) { return (r.partial + int64_t{j} * r.rows + i) * p.q_heads + head; };
    int begin = 0, end = 0;
    if (seen.begin < seen.end) {
      begin = seen.begin / traits::width - r.first_partition;
      end = ceil_div(seen.end, traits::width) - r.first_partition;
    }
    float lse;
    float const value = device::combine_partials(
        block, begin, end, [&](int j) { return all.partials.maximum[place(j)]; },
        [&](int j) { return all.partials.sum[place(j)]; },
        [&](int j) { return all.partials.out[place(j) * traits::head_dim + column]; }, storage.run, lse);
    float const v_scale = p.v_scale[head / (p.q_heads / p.kv_heads) * p.scale_stride];
    // A row that sees no token is 0 whatever the scale.
    p.out.at(row, head)[column] = convert<typename Policy::out_format>(begin < end ? mul_rn(v_scale, value) : 0.0f);
    if (p.lse != nullptr && column == 0) p.lse[int64_t{row} * p.q_heads + head] = lse;
  }
};

/// One block a (row, query head) and 64 columns.
template <class Policy>
struct merge_kernel {
  using params = merge_params<Policy>;
  static constexpr char const* name = "merge_kernel";
  static constexpr int block_threads = 64;
  template <class Block>
  struct shared_storage {
    device::combine_run run;
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const row = block.block_x(), head = block.block_y(), column = block.block_z() * block_threads + block.thread();
    int const loaded = min_of(column, p.head_dim - 1);  // threads past the last column only help with the weights
    auto const part_lse = [&](int j) { return p.partial_lse.row(j)[int64_t{row} * p.q_heads + head]; };
    float lse;
    float const value = device::combine_partials(
        block, 0, p.parts, part_lse, [&](int j) { return bits(part_lse(j)) == 0xff800000u ? 0.0f : 1.0f; },
        [&](int j) { return p.partial_out.at(j, row, head)[loaded]; }, storage.run, lse);
    if (column < p.head_dim) p.out.at(row, head)[column] = convert<typename Policy::out_format>(value);
    if (p.lse != nullptr && column == 0) p.lse[int64_t{row} * p.q_heads + head] = lse;
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
