// SPDX-License-Identifier: Apache-2.0
/// One thread four codes.
#pragma once

#include <ratify/detail/decoder_traits.cuh>
#include <ratify/device/decoder.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
struct decode_kernel {
  using params = decode_params<Policy>;
  static constexpr char const* name = "decode_kernel";
  static constexpr int block_threads = 128;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    int64_t const first = (int64_t{block.block_x()} * block_threads + block.thread()) * 4;
    int const n = static_cast<int>(min_of(p.count - first, int64_t{4}));
    if (n <= 0) return;
    uint32_t word = 0;
    for (int i = 0; i < n; ++i) word |= static_cast<uint32_t>(p.codes[first + i]) << (8 * i);
    typename Policy::to out[4];
    device::decode_x4<Policy>(word, out);
    RATIFY_UNROLL
    for (int i = 0; i < 4; ++i)
      if (i < n) p.values[first + i] = out[i];
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
