// SPDX-License-Identifier: Apache-2.0
#include <bench/card.hpp>
#include <bench/harness.hpp>

namespace bench {
namespace {

/// Reads everything once, with `Unroll` loads of 16 bytes in flight per thread. The sum keeps the compiler from
/// removing the loads.
template <int Unroll>
__global__ void __launch_bounds__(512) read_kernel(uint4 const* from, size_t n, uint32_t* sink) {
  uint32_t sum = 0;
  size_t const step = size_t{gridDim.x} * blockDim.x;
  size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + (Unroll - 1) * step < n; i += Unroll * step) {
    uint4 v[Unroll];
#pragma unroll
    for (int j = 0; j < Unroll; ++j) v[j] = __ldcs(from + i + j * step);
#pragma unroll
    for (int j = 0; j < Unroll; ++j) sum += v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
  }
  for (; i < n; i += step) sum += from[i].x;
  if (sum == 0x12345678u) *sink = sum;
}

/// For one block of one warp: shows what a dependent launch that does nothing costs in a graph.
__global__ void empty_kernel() {}

}  // namespace

report first_report(card const& on) {
  auto const version = [](int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); };
  report r({{"card", on.name},
            {"cuda_driver_api", version(on.driver)},
            {"cuda_runtime", version(on.runtime)},
            {"multiprocessors", std::to_string(on.multiprocessors)},
            {"l2_bytes", std::to_string(on.l2_bytes)}});

  // More than any cache holds. The best of several grids and unrolls is taken for what the card can do.
  size_t const bytes = std::min<size_t>(size_t{4} << 30, on.free_bytes / 4);
  buffer<uint4> data(bytes / sizeof(uint4));
  check(cudaMemsetAsync(data.data(), 0x5a, data.bytes(), on.stream));
  buffer<uint32_t> sink(1);
  double best = 0;
  auto const try_one = [&](int blocks, auto kernel) {
    graph g(on.stream,
            [&] { kernel<<<on.multiprocessors * blocks, 512, 0, on.stream>>>(data.data(), data.size(), sink.data()); });
    g.warm(0);
    std::vector<double> us;
    for (int i = 0; i < 7; ++i) us.push_back(g.replay());
    best = std::max(best, static_cast<double>(bytes) / median(us) / 1e3);
  };
  for (int blocks : {2, 4, 8}) {
    try_one(blocks, read_kernel<4>);
    try_one(blocks, read_kernel<8>);
  }
  r.number("read_gb_per_s", best);

  graph nodes(on.stream, [&] {
    for (int i = 0; i < 1000; ++i) empty_kernel<<<1, 32, 0, on.stream>>>();
  });
  nodes.warm(2e3);
  std::vector<double> us;
  for (int i = 0; i < 7; ++i) us.push_back(nodes.replay() / 1000);
  r.number("dependent_node_us", median(us));
  std::printf("%s: reads %.0f GB/s; a dependent launch that does nothing %.2f us in a graph\n", on.name.c_str(), best,
              median(us));
  return r;
}

}  // namespace bench
