// SPDX-License-Identifier: Apache-2.0
/// One thread a channel of a request: it takes the channel's window from the pool, then writes the pool and the rows.
#pragma once

#include <ratify/detail/convolution_traits.cuh>
#include <ratify/detail/requests.cuh>
#include <ratify/device/convolution.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
struct convolution_kernel {
  using params = convolution_params<Policy>;
  using input_format = typename Policy::input_format;
  using output_format = typename Policy::output_format;
  static constexpr char const* name = "convolution_kernel";
  static constexpr int block_threads = 64;
  static constexpr int width = Policy::width;
  static constexpr int chunk_rows = 8;  ///< rows requested from memory at a time
  static constexpr int few_requests = 16;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    int const request = block.block_y();
    int64_t const c = int64_t{block.block_x()} * block_threads + block.thread();
    // On the host, meeting the other lanes costs more than the bounds of a few requests.
    bool const all_claim =
        p.requests <= few_requests
            ? all_claim_rows(p.query_start, p.requests, p.rows, 0, 1)
            : block.ballot(!all_claim_rows(p.query_start, p.requests, p.rows, block.lane(), 32)) == 0;
    if (c >= p.channels) return;
    int const first = p.query_start[request], last = p.query_start[request + 1];
    int const begin = max_of(first, 0), end = min_of(last, p.rows);
    if (begin >= end) return;
    int const rows = end - begin;
    int const slot = p.slot[request], kept = p.kept[request], fresh = p.fresh != nullptr ? p.fresh[request] : 0;
    auto const write_zeros = [&](int from_row, int to_row) {
      for (int row = from_row; row < to_row; ++row) p.out.row(row)[c] = convert<output_format>(0.0f);
    };
    if (!all_claim && !claims_rows(p.query_start, request, p.rows)) {
      unclaimed_rows gaps(p.query_start, p.requests, p.rows, {begin, end});
      for (row_range gap; gaps.next(gap);) write_zeros(gap.begin, gap.end);
      return;
    }
    bool const valid = rows <= p.max_rows && slot >= 0 && slot < p.slots && kept >= 0 && kept <= p.max_rows &&
                       (fresh == 0 || (fresh == 1 && kept == 0));
    if (!valid) {
      write_zeros(begin, end);
      return;
    }

    float weight[width], window[width];
    RATIFY_UNROLL
    for (int j = 0; j < width; ++j) weight[j] = to_float(p.weight[c * width + j]);
    float const bias = p.bias != nullptr ? to_float(p.bias[c]) : 0.0f;

    // The old window may lie where the new one goes: all of it is read before any of it is written.
    input_format* const pool = p.window_pool + slot * p.slot_stride + c;
    input_format before[width - 1];
    RATIFY_UNROLL
    for (int j = 0; j < width - 1; ++j)
      before[j] = fresh != 0 ? input_format{} : pool[(int64_t{kept} + j) * p.channels];
    RATIFY_UNROLL
    for (int j = 0; j < width - 1; ++j) {
      pool[int64_t{j} * p.channels] = before[j];
      window[j + 1] = to_float(before[j]);
    }

    for (int chunk = 0; chunk < rows; chunk += chunk_rows) {
      input_format x[chunk_rows];
      RATIFY_UNROLL
      for (int t = 0; t < chunk_rows; ++t)
        if (chunk + t < rows) x[t] = p.x.row(begin + chunk + t)[c];
      RATIFY_UNROLL
      for (int t = 0; t < chunk_rows; ++t) {
        if (chunk + t >= rows) continue;
        RATIFY_UNROLL
        for (int j = 0; j < width - 1; ++j) window[j] = window[j + 1];
        window[width - 1] = to_float(x[t]);
        pool[(int64_t{width} - 1 + chunk + t) * p.channels] = x[t];
        p.out.row(begin + chunk + t)[c] =
            convert<output_format>(device::convolution<Policy::silu>(bias, weight, window));
      }
    }
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
