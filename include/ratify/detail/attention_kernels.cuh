// SPDX-License-Identifier: Apache-2.0
/// Verify attention in two kernels: the partial softmax of each partition, then the partitions combined in order. And
/// the merge of partials that came from elsewhere.
#pragma once

#include <ratify/device/attention.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
struct attention_kernel_params {
  attention_params<Policy> call;
  attention_partials partials;
};

/// A persistent grid: its blocks divide the (request, partition, KV head, tile of query entries) among themselves,
/// whose number the lengths on the device decide.
template <class Policy>
struct attention_partial_kernel {
  using params = attention_kernel_params<Policy>;
  using traits = attention_traits<Policy>;
  using narrow_shape = typename traits::narrow_shape;
  using wide_shape = typename traits::wide_shape;
  static constexpr char const* name = "attention_partial_kernel";
  static constexpr int block_threads = traits::block_threads;
  static constexpr int minimum_blocks = traits::has_wide ? attention_tuning::minimum_blocks : 1;
  template <class Block>
  union shared_storage {
    device::attention_tile<Policy, narrow_shape> narrow;
    RATIFY_STD::conditional_t<traits::has_wide, device::attention_tile<Policy, wide_shape>, char> wide;
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& launch, shared_storage<Block>& storage) {
    attention_params<Policy> const& p = launch.call;
    bool const wide = traits::has_wide && fills_grid_with_wide_tiles(p, block.grid_x());
    device::attention_requests<Policy> requests(p);
    device::attention_request r;
    int64_t first_item = 0, next_item = block.block_x();
    while (requests.next(r)) {
      int32_t const* const table = p.block_table.row(requests.index());
      if constexpr (traits::has_wide) {
        if (wide && entries(p, r) >= attention_tuning::wide_entries) {
          share_out<wide_shape>(block, launch, r, table, first_item, next_item, storage.wide);
          continue;
        }
      }
      share_out<narrow_shape>(block, launch, r, table, first_item, next_item, storage.narrow);
    }
  }
 private:
  /// Query entries of one KV head.
  RATIFY_HD static int entries(attention_params<Policy> const& p, device::attention_request const& r) {
    return r.rows * (p.q_heads / p.kv_heads);
  }
  template <class Shape>
  RATIFY_HD static int64_t items(attention_params<Policy> const& p, device::attention_request const& r) {
    return int64_t{r.partitions} * p.kv_heads * ceil_div(entries(p, r), Shape::entries);
  }

  /// Wide tiles do more with each element that they load, but there are fewer of them: they are taken only where no
  /// block would be idle.
  RATIFY_HD static bool fills_grid_with_wide_tiles(attention_params<Policy> const& p, int blocks) {
    device::attention_requests<Policy> requests(p);
    device::attention_request r;
    int64_t wide = 0;
    while (requests.next(r))
      if (entries(p, r) >= attention_tuning::wide_entries) wide += items<wide_shape>(p, r);
    return wide >= blocks;
  }

  /// Does this block's items of a request. Items of all requests are numbered through: the request's are those from
  /// `first_item` on, and `next_item` is the block's next one.
  RATIFY_ANY_BLOCK
  template <class Shape, class Block>
  RATIFY_HD static void share_out(Block const& block, params const& launch, device::attention_request const& r,
                                  int32_t const* table, int64_t& first_item, int64_t& next_item,
                                  device::attention_tile<Policy, Shape>& tile) {
    attention_params<Policy> const& p = launch.call;
    int const tiles = ceil_div(entries(p, r), Shape::entries);
    int64_t const end = first_item + items<Shape>(p, r);
    for (; next_item < end; next_item += block.grid_x()) {
      int64_t const i = next_item - first_item;
      int const partition = static_cast<int>(i / tiles / p.kv_heads);
      auto const work = device::attention_work_of(p, r, table, partition, static_cast<int>(i / tiles % p.kv_heads),
                                                  static_cast<int>(i % tiles), Shape::entries);
      do_item(block, launch, r, work, r.partial + int64_t{partition} * r.rows, tile);
    }
    first_item = end;
  }

  /// One tile over one partition, whose partials of the request's rows begin at number `first_partial`.
  RATIFY_ANY_BLOCK
  template <class Shape, class Block>
  RATIFY_HD static void do_item(Block const& block, params const& launch, device::attention_request const& r,
                                device::attention_work const& work, int64_t first_partial,
                                device::attention_tile<Policy, Shape>& tile) {
    attention_params<Policy> const& p = launch.call;
    int const heads = p.q_heads / p.kv_heads, first_head = work.kv_head * heads;
    block.barrier();  // the tile before this one has been read
    device::stage_visible(block, p, r, work, tile);
    device::attention_scores(block, p, work, tile);
    block.barrier();
    device::attention_softmax(block, work, tile, [&](int e, float maximum, float sum) {
      int const entry = work.first_entry + e;
      int64_t const at = (first_partial + entry / heads) * p.q_heads + first_head + entry % heads;
      launch.partials.maximum[at] = maximum;
      launch.partials.sum[at] = sum;
    });
    float sum[Shape::columns][Shape::group_entries];
    device::attention_values(block, p, work, tile, sum);
    int const first = block.thread() / Shape::lanes * Shape::group_entries;
    int row = (work.first_entry + first) / heads, head = (work.first_entry + first) % heads;
    RATIFY_UNROLL
    for (int e = 0; e < Shape::group_entries; ++e) {
      if (first + e < work.entries) {
        float out[Shape::columns];
        RATIFY_UNROLL
        for (int c = 0; c < Shape::columns; ++c) out[c] = sum[c][e];
        int64_t const at = (first_partial + row) * p.q_heads + first_head + head;
        store_floats(launch.partials.out + at * traits::head_dim + block.thread() % Shape::lanes * Shape::columns, out);
      }
      if (++head == heads) ++row, head = 0;
    }
  }
};

/// One block per (row, query head, 64 columns).
template <class Policy>
struct attention_combine_kernel {
  using params = attention_kernel_params<Policy>;
  using traits = attention_traits<Policy>;
  static constexpr char const* name = "attention_combine_kernel";
  static constexpr int block_threads = attention_tuning::combine_threads;
  template <class Block>
  struct shared_storage {
    device::combine_run<attention_tuning::combine_run> run;
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& launch, shared_storage<Block>& storage) {
    attention_params<Policy> const& p = launch.call;
    int const row = block.block_x(), head = block.block_y(), column = block.block_z() * block_threads + block.thread();
    device::attention_requests<Policy> requests(p);
    device::attention_request r{};
    bool owned = false;
    while (!owned && requests.next(r)) owned = row >= r.first_row && row - r.first_row < r.rows;
    float value = 0.0f, lse = from_bits(0xff800000u);
    if (owned && r.partitions > 0)
      combine(block, launch, r, p.block_table.row(requests.index()), row - r.first_row, head, column, storage, value,
              lse);
    p.out.at(row, head)[column] = convert<typename Policy::output_format>(value);
    if (p.lse != nullptr && column == 0) p.lse[int64_t{row} * p.q_heads + head] = lse;
  }
 private:
  /// Row `i` of a request that has partitions. Leaves `value` and `lse` as they are where the row sees no token, or one
  /// on a page outside the pool.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void combine(Block const& block, params const& launch, device::attention_request const& r,
                                int32_t const* table, int i, int head, int column, shared_storage<Block>& storage,
                                float& value, float& lse) {
    attention_params<Policy> const& p = launch.call;
    auto const seen = device::visible_tokens(i, r.rows, r.context, p.window, p.causal);
    if (seen.begin >= seen.end) return;
    auto const place = [&](int j) { return (r.partial + int64_t{j} * r.rows + i) * p.q_heads + head; };
    auto const maximum = [&](int j) { return launch.partials.maximum[place(j)]; };
    auto const sum = [&](int j) { return launch.partials.sum[place(j)]; };
    auto const out = [&](int j) { return launch.partials.out[place(j) * traits::head_dim + column]; };
    auto const combined = device::combine_partials<attention_tuning::combine_ahead>(
        block, seen.begin / traits::width - r.first_partition, ceil_div(seen.end, traits::width) - r.first_partition,
        maximum, sum, out, storage.run);
    if (bits(combined.maximum) == 0x7f800000u) return;
    float mean = combined.value();
    // Sums of E4M3 cannot overflow, and its NaN stays one.
    if constexpr (!RATIFY_STD::is_same_v<typename Policy::kv_format, e4m3>) {
      if (block.ballot(combined.needs_guard()) != 0)
        mean = device::guarded_attention_mean(block, p, r, table, i, head, column, combined, maximum, out);
    }
    value = mul_rn(p.v_scale[head / (p.q_heads / p.kv_heads) * p.scale_stride], mean);
    lse = combined.lse();
  }
};

/// One block per (row, query head, 64 columns).
template <class Policy>
struct merge_kernel {
  using params = merge_params<Policy>;
  static constexpr char const* name = "merge_kernel";
  static constexpr int block_threads = attention_tuning::combine_threads;
  template <class Block>
  struct shared_storage {
    device::combine_run<attention_tuning::combine_run> run;
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const row = block.block_x(), head = block.block_y(), column = block.block_z() * block_threads + block.thread();
    int const loaded = min_of(column, p.head_dim - 1);  // threads past the last column only help with the weights
    auto const lse = [&](int j) { return p.partial_lse.row(j)[int64_t{row} * p.q_heads + head]; };
    auto const is_empty = [&](int j) { return bits(lse(j)) == 0xff800000u; };
    auto const out = [&](int j) { return p.partial_out.at(j, row, head)[loaded]; };
    auto const combined = device::combine_partials<attention_tuning::combine_ahead>(
        block, 0, p.parts, lse, [&](int j) { return is_empty(j) ? 0.0f : 1.0f; }, out, storage.run);
    float value = combined.value();
    if (combined.needs_guard()) {
      device::guarded_sum sum;
      for (int j = 0; j < p.parts; ++j) {
        float const weight = exp_ordered(sub_rn(lse(j), combined.maximum));
        if (!is_empty(j)) sum.add(out(j), weight, bits(weight) != 0);
      }
      value = sum.mean(combined.total);
    }
    if (column < p.head_dim) p.out.at(row, head)[column] = convert<typename Policy::output_format>(value);
    if (p.lse != nullptr && column == 0) p.lse[int64_t{row} * p.q_heads + head] = combined.lse();
  }
};

}  // namespace detail

using detail::attention_combine_kernel;
using detail::attention_partial_kernel;
using detail::merge_kernel;

RATIFY_END_NAMESPACE
