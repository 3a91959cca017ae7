// SPDX-License-Identifier: Apache-2.0
/// A block owns some value columns of one value head of one request: it reads them and takes them through the request's
/// rows. In mode snapshots it writes them after each row; it reads its columns before it writes any, so the slot that a
/// request starts from may be among those it writes. In mode replay it first takes them over the kept rows of the ring,
/// and puts what each new row does at the places after them, where no block of the launch reads.
#pragma once

#include <ratify/device/recurrence_request.cuh>
#include <ratify/device/recurrence_ring.cuh>
#include <ratify/device/rows.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// @tparam ColumnThreads threads that share a value column: what a card takes, unless it is said
template <class Policy, int ColumnThreads = recurrence_card_threads<Policy>>
struct recurrence_kernel {
  using params = recurrence_params<Policy>;
  using schedule = device::recurrence_schedule<Policy, ColumnThreads>;
  static constexpr char const* name = "recurrence_kernel";
  static constexpr int block_threads = schedule::block_threads;

  template <class Block>
  struct shared_storage {
    device::recurrence_staged_rows<schedule> rows;
    int32_t snapshot[schedule::keeps_snapshots ? 32 : 1];
    float kept_decay[schedule::replays && schedule::alone ? 64 : 1];
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const request = block.block_z();
    device::row_bounds const bounds{p.query_start, p.requests, p.rows};
    device::row_range const named = bounds.named_by(request);
    device::recurrence_request<schedule> const asked(block, p, request);
    device::row_owners const owners = device::judge_rows(block, bounds);
    device::row_range const rows = owners.rows_of(request, named);
    device::recurrence_start const from = asked.start(block, p, rows.count(), storage.snapshot);
    owners.each_unowned(request, p.requests, [&](int row) { write_zeros(block, p, {row, row + 1}); });
    if (rows.count() == 0) return;
    if (rows.count() > p.max_rows || from.slot < 0) {
      write_zeros(block, p, rows);
      return;
    }
    for (int tile = 0; tile < schedule::tiles; ++tile) run_tile(block, p, storage, rows, from, tile);
  }
 private:
  using tile_type = device::recurrence_tile<schedule>;
  using ring_type = device::recurrence_ring<Policy>;
  static constexpr int columns = schedule::thread_columns;

  /// Zeros in the block's columns of some rows.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void write_zeros(Block const& block, params const& p, device::row_range rows) {
    constexpr int width = schedule::columns * schedule::tiles;
    int const first_column = block.block_x() * width;
    // A request may own more rows than it may have, so that their elements exceed an int.
    RATIFY_NO_UNROLL
    for (int64_t i = block.thread(); i < int64_t{rows.count()} * width; i += block_threads)
      p.out.at(rows.begin + i / width, block.block_y())[first_column + i % width] =
          convert<typename Policy::output_format>(0.0f);
  }

  /// Takes the block's tile number `number` over the rows of its request.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run_tile(Block const& block, params const& p, shared_storage<Block>& storage,
                                 device::row_range rows, device::recurrence_start const& from, int number) {
    int const head = block.block_y();
    ring_type const ring(p, from.slot, from.ring_start, from.kept, head);
    tile_type tile(block, block.block_x() * schedule::tiles + number);
    start_tile(block, p, storage, from, ring, tile);
    for (int first = 0; first < rows.count(); first += schedule::staged_rows) {
      int const count = min_of(rows.count() - first, schedule::staged_rows);
      if (first > 0 || number > 0 || from.kept > 0) block.barrier();
      stage(block, p, storage, rows.begin + first, count, number, tile, ring, from.kept + first);
      block.barrier();
      if constexpr (schedule::replays) {
        // Every block of a key head has its keys; one of them keeps them.
        if (number == 0 && block.block_x() == 0 && head % (p.value_heads / p.key_heads) == 0)
          device::keep_keys(block, storage.rows, count, ring, from.kept + first);
      }
      device::run_recurrence_rows(block, storage.rows, count, tile,
                                  [&](int t, float const(&u)[columns], float const(&o)[columns]) {
                                    if constexpr (schedule::keeps_snapshots)
                                      write_snapshot(p, storage.snapshot[first + t], head, tile);
                                    if (tile.part() != 0) return;
                                    if constexpr (schedule::replays) keep_update(ring, from.kept + first + t, tile, u);
                                    write_row(p, rows.begin + first + t, head, tile, o);
                                  });
    }
  }

  /// The state before the request's first row.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void start_tile(Block const& block, params const& p, shared_storage<Block>& storage,
                                   device::recurrence_start const& from, ring_type const& ring, tile_type& tile) {
    float* const in_pool = head_state(p, from.slot, block.block_y());
    if (from.zero)
      tile.clear();
    else
      tile.read(in_pool);
    if constexpr (schedule::replays) {
      if constexpr (schedule::alone)
        device::replay_kept_rows_alone(ring, storage.kept_decay, tile);
      else
        device::replay_kept_rows(block, ring, storage.rows, tile);
      if (from.flush) tile.write(head_state(p, from.slot, block.block_y()));
    } else {
      (void)storage, (void)ring;
    }
  }

  /// The next rows of the request, from row `begin` of the launch and row `kept` of the ring on.
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void stage(Block const& block, params const& p, shared_storage<Block>& storage, int begin, int count,
                              int number, tile_type const& tile, ring_type const& ring, int kept) {
    int const head = block.block_y();
    bool const keeps = block.block_x() == 0;  // every block of a head has its gates; one of them keeps them
    auto const keep_rate = [&](int t, float g) {
      if constexpr (schedule::replays) {
        if (keeps) ring.rate(kept + t) = canonical(g);
      } else {
        (void)t, (void)g, (void)ring, (void)kept, (void)keeps;
      }
    };
    if constexpr (schedule::alone) {
      // All rows of a request are staged at once, so the first tile's q and k serve all tiles.
      if (number == 0) device::stage_recurrence_keys_alone(block, p, begin, count, head, storage.rows, keep_rate);
      device::stage_recurrence_values_alone(p, begin, count, head, tile.first_column(), storage.rows);
    } else {
      (void)number;
      device::stage_recurrence_rows(block, p, begin, count, head, tile.first_column(), storage.rows, keep_rate);
    }
  }

  RATIFY_HD static float* head_state(params const& p, int64_t slot, int head) {
    return p.state_pool + slot * p.slot_stride + int64_t{head} * schedule::key_dim * schedule::value_dim;
  }
  RATIFY_HD static void write_snapshot(params const& p, int64_t slot, int head, tile_type const& tile) {
    if (slot >= 0) tile.write(head_state(p, slot, head));
  }
  RATIFY_HD static void keep_update(ring_type const& ring, int row, tile_type const& tile, float const (&u)[columns]) {
    float* const to = ring.updates(row) + tile.head_column();
    RATIFY_UNROLL
    for (int c = 0; c < columns; ++c) to[c] = device::canonical_result<schedule>(u[c]);
  }
  RATIFY_HD static void write_row(params const& p, int row, int head, tile_type const& tile,
                                  float const (&o)[columns]) {
    auto* const out = p.out.at(row, head) + tile.head_column();
    RATIFY_UNROLL
    for (int c = 0; c < columns; ++c) out[c] = convert<typename Policy::output_format>(mul_rn(p.scale, o[c]));
  }
};

}  // namespace detail

using detail::recurrence_kernel;

RATIFY_END_NAMESPACE
