// SPDX-License-Identifier: Apache-2.0
/// Verify attention in two kernels: partial softmax of each partition, then the ordered combine.
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
  static constexpr char const* name = "attention_partial_kernel";
  static constexpr int block_threads = traits::block_threads;
  template <class Block>
  struct shared_storage {
    device::attention_tile<Policy> tile;
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& all, shared_storage<Block>& storage) {
    attention_params<Policy> const& p = all.call;
    int const group = p.q_heads / p.kv_heads;
    device::attention_requests<Policy> requests(p);
    device::attention_request r;
    int64_t base = 0, item = block.block_x();
    while (requests.next(r)) {
      int const tiles = ceil_div(r.rows * group, traits::row_tile);
      int64_t const items = int64_t{r.partitions} * p.kv_heads * tiles;
      for (; item < base + items; item += block.grid_x()) {
        int64_t const i = item - base;
        work(block, all, r, p.block_table.row(requests.index()), static_cast<int>(i / tiles / p.kv_heads),
             static_cast<int>(i / tiles % p.kv_heads), static_cast<int>(i % tiles) * traits::row_tile, storage.tile);
      }
      base += items;
    }
  }
 private:
  /// One tile over the request's partition number `partition`, counted from the first that it sees.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void work(Block const& block, params const& all, device::attention_request const& r,
                             int32_t const* table, int partition, int kv_head, int first_entry,
                             device::attention_tile<Policy>& tile) {
    attention_params<Policy> const& p = all.call;
    int const group = p.q_heads / p.kv_heads;
    int const entries = min_of(traits::row_tile, r.rows * group - first_entry);
    int const partition_begin = (r.first_partition + partition) * traits::width;
    int const partition_end = partition_begin + traits::width;
    device::token_range seen{partition_end, partition_begin}, common{partition_begin, partition_end};
    for (int e = 0; e < entries; ++e) {
      auto const v = device::visible_tokens((first_entry + e) / group, r.rows, r.context, p.window, p.causal);
      int const begin = max_of(v.begin, partition_begin), end = min_of(v.end, partition_end);
      common = {max_of(common.begin, begin), min_of(common.end, end)};
      if (begin < end) seen = {min_of(seen.begin, begin), max_of(seen.end, end)};
    }
    block.barrier();  // the tile before this one has been read
    if (block.thread() < traits::row_tile) {
      int const e = block.thread();
      tile.visible[e] = e < entries
                            ? device::visible_tokens((first_entry + e) / group, r.rows, r.context, p.window, p.causal)
                            : device::token_range{0, 0};
    }
    device::attention_scores(block, p, r, table, kv_head, first_entry, entries, seen, partition_begin, tile);
    block.barrier();
    int64_t const row0 = r.partial + int64_t{partition} * r.rows;
    auto const place = [&](int e) {
      int const entry = first_entry + e;
      return (row0 + entry / group) * p.q_heads + kv_head * group + entry % group;
    };
    device::attention_softmax(block, entries, partition_begin, tile, [&](int e, float maximum, float sum) {
      all.partials.maximum[place(e)] = maximum;
      all.partials.sum[place(e)] = sum;
    });
    float sum[traits::columns][traits::row_tile];
    device::attention_values(block, p, table, kv_head, seen, common, partition_begin, tile, sum);
    RATIFY_UNROLL
    for (int e = 0; e < traits::row_tile; ++e) {
      if (e >= entries) continue;
      float* const out = all.partials.out + place(e) * traits::head_dim + block.thread() * traits::columns;
      RATIFY_UNROLL
      for (int c = 0; c < traits::columns; ++c) out[c] = sum[c][e];
    }
  }
};

/// One block a (row, query head).
template <class Policy>
struct attention_combine_kernel {
  using params = attention_kernel_params<Policy>;
  using traits = attention_traits<Policy>;
  static constexpr char const* name = "attention_combine_kernel";
  static constexpr int block_threads = traits::block_threads;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& all, shared_storage<Block>&) {
    attention_params<Policy> const& p = all.call;
    int const row = block.block_x(), head = block.block_y();
    device::attention_requests<Policy> requests(p);
    device::attention_request r{};
    bool found = false;
    while (!found && requests.next(r)) found = row >= r.first_row && row < r.first_row + r.rows;
    int const i = row - r.first_row;
    auto const seen = found && r.partitions > 0 ? device::visible_tokens(i, r.rows, r.context, p.window, p.causal)
                                                : device::token_range{0, 0};
    int const column = block.thread() * traits::columns;
    auto* const out = p.out.at(row, head) + column;
    if (seen.end <= seen.begin) {
      RATIFY_UNROLL
      for (int c = 0; c < traits::columns; ++c) out[c] = convert<typename Policy::out_format>(0.0f);
      if (p.lse != nullptr && block.thread() == 0) p.lse[int64_t{row} * p.q_heads + head] = from_bits(0xff800000u);
      return;
    }
    auto const place = [&](int j) { return (r.partial + int64_t{j} * r.rows + i) * p.q_heads + head; };
    int const begin = seen.begin / traits::width - r.first_partition;
    int const end = ceil_div(seen.end, traits::width) - r.first_partition;
    float const v_scale = p.v_scale[head / (p.q_heads / p.kv_heads) * p.scale_stride];
    float top = 0.0f, total = 0.0f;
    RATIFY_UNROLL
    for (int c = 0; c < traits::columns; ++c) {
      float const value = device::combine_partials(
          begin, end, [&](int j) { return all.partials.maximum[place(j)]; },
          [&](int j) { return all.partials.sum[place(j)]; },
          [&](int j) { return all.partials.out[place(j) * traits::head_dim + column + c]; }, top, total);
      out[c] = convert<typename Policy::out_format>(mul_rn(v_scale, value));
    }
    if (p.lse != nullptr && block.thread() == 0)
      p.lse[int64_t{row} * p.q_heads + head] = canonical(add_rn(top, log_ordered(total)));
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
