// SPDX-License-Identifier: Apache-2.0
/// One thread per channel of a request: it takes the channel's window from the pool, then writes the pool and the rows.
#pragma once

#include <ratify/device/convolution.cuh>
#include <ratify/device/rows.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
struct convolution_kernel {
  using params = convolution_params<Policy>;
  static constexpr char const* name = "convolution_kernel";
  static constexpr int block_threads = convolution_tuning::block_threads;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    constexpr int at_once = convolution_tuning::rows_at_once;
    int const request = block.block_y();
    int64_t const channel = int64_t{block.block_x()} * block_threads + block.thread();
    device::row_bounds const bounds{p.query_start, p.requests, p.rows};
    device::row_range const named = bounds.named_by(request);
    int const slot = p.slot[request], kept = p.kept[request], fresh = p.fresh != nullptr ? p.fresh[request] : 0;
    device::row_owners const owners = device::judge_rows(block, bounds);
    if (channel >= p.channels) return;
    auto const write_zero = [&](int row) { p.out.row(row)[channel] = convert<typename Policy::output_format>(0.0f); };
    owners.each_unowned(request, p.requests, write_zero);
    device::row_range const rows = owners.rows_of(request, named);
    if (rows.count() == 0) return;
    bool const valid = rows.count() <= p.max_rows && slot >= 0 && slot < p.pool_slots && kept >= 0 &&
                       kept <= p.max_rows && (fresh == 0 || (fresh == 1 && kept == 0));
    if (!valid) {
      RATIFY_NO_UNROLL
      for (int row = rows.begin; row < rows.end; ++row) write_zero(row);
      return;
    }
    device::convolution_channel<Policy> line(p, channel);
    line.take_window(p, slot, kept, fresh == 1);
    for (int row = rows.begin; row < rows.end; row += at_once) line.template run_rows<at_once>(p, row, rows.end - row);
  }
};

}  // namespace detail

using detail::convolution_kernel;

RATIFY_END_NAMESPACE
