// SPDX-License-Identifier: Apache-2.0
/// The causal depthwise convolution: batch 1, 8 rows, width 4, SiLU.
#include <bench/card.hpp>
#include <bench/harness.hpp>
#include <bench/policies.hpp>
#include <ratify/convolution.cuh>

namespace bench {

void convolution(card const& on, options const& settings, report& to) {
  using type = ratify::convolution<>;
  ratify::cuda_executor gpu(on.stream, {settings.programmatic});
  constexpr int rows = 8, width = 4, places = width - 1 + rows;
  for (int channels : {5120, 10240}) {
    measurement m;
    m.operation = "convolution";
    m.shape = std::to_string(channels) + " channels";
    if (!settings.wants_shape(m.shape)) continue;
    // x, out, the window before the round, the window with the round's inputs after it, and the weights.
    m.bytes = 2.0 * channels * (rows + rows + width - 1 + places + width);
    int const sets = rotated_sets(on, m.bytes);
    m.rotated_bytes = m.bytes * sets;
    size_t const all = static_cast<size_t>(sets) * static_cast<size_t>(channels);
    buffer<ratify::f16> const x(on, all * rows, uniform<ratify::f16>{-1, 1});
    buffer<ratify::f16> const weight(on, all * width, uniform<ratify::f16>{-1, 1});
    buffer<ratify::f16> const pool(on, all * places, uniform<ratify::f16>{-1, 1});
    buffer<ratify::f16> const out(all * rows);
    buffer<int32_t> const zero(std::vector<int32_t>{0}), starts(std::vector<int32_t>{0, rows});
    auto const launch = [&](int set) {
      int64_t const at = int64_t{set} * channels;
      type::params p{};
      p.x = {x.data() + at * rows, channels};
      p.weight = weight.data() + at * width;
      p.window_pool = pool.data() + at * places;
      p.slot_stride = int64_t{places} * channels;
      p.pool_slots = 1;
      p.slot = p.kept = zero.data();
      p.query_start = starts.data();
      p.out = {out.data() + at * rows, channels};
      p.rows = rows;
      p.requests = 1;
      p.channels = channels;
      p.max_rows = rows;
      check(type::launch(p, {}, gpu));
    };
    measure(m, on, {{name_of<type>(), launch}}, sets, settings, to);
  }
}

}  // namespace bench
