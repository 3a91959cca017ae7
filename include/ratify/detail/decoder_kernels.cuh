// SPDX-License-Identifier: Apache-2.0
/// The kernel of decode: one thread per four codes.
#pragma once

#include <ratify/detail/decoder_traits.cuh>
#include <ratify/detail/elementwise.cuh>
#include <ratify/detail/meta.hpp>
#include <ratify/device/decoder.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
struct decode_kernel : elementwise_kernel<decode_kernel<Policy>, decode_params<Policy>> {
  using params = decode_params<Policy>;
  static constexpr char const* name = "decode_kernel";
  RATIFY_HD static int64_t count(params const& p) { return ceil_div(p.count, int64_t{4}); }
  RATIFY_HD static void element(params const& p, int64_t i) {
    int64_t const first = 4 * i;
    int const n = static_cast<int>(min_of(p.count - first, int64_t{4}));
    uint32_t word = 0;
    for (int j = 0; j < n; ++j) word |= static_cast<uint32_t>(p.codes[first + j]) << (8 * j);
    typename Policy::output_format out[4];
    device::decode_x4<Policy>(word, out);
    RATIFY_UNROLL
    for (int j = 0; j < 4; ++j)
      if (j < n) p.values[first + j] = out[j];
  }
};

}  // namespace detail

using detail::decode_kernel;

RATIFY_END_NAMESPACE
