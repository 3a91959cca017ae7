// SPDX-License-Identifier: Apache-2.0
/// One object of the test that every object launches its own kernel: the same kernel, compiled for one architecture.
/// RATIFY_PART names the function.
#include <ratify/activation.cuh>

#include "linkage/launched.hpp"

namespace linkage_test {

/// Says for which architecture it was compiled: what ran, whatever an object calls its own.
template <class Policy>
struct architecture_kernel {
  struct params {
    int* out;
  };
  static constexpr char const* name = "architecture_kernel";
  static constexpr int block_threads = 32;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
#if defined(__CUDA_ARCH__)
    if (block.thread() == 0) *p.out = __CUDA_ARCH__;
#else
    *p.out = block.thread();
#endif
  }
};

}  // namespace linkage_test

namespace {

using policy = ratify::gating_policy<>;
using kernel = linkage_test::architecture_kernel<policy>;
using operation = ratify::gating<>;
using operation_kernel = ratify::gating_kernel<policy>;

char const* text_of(cudaError_t e) { return cudaGetErrorString(e); }

char const* run(launched& l) {
  ratify::cuda_executor on(nullptr);
  if (auto const s = on.can_run<operation_kernel>(); !s) return s.reason();
  if (auto const s = on.can_run<kernel>(); !s) return s.reason();
  int* out = nullptr;
  if (auto const e = cudaMalloc(&out, sizeof *out); e != cudaSuccess) return text_of(e);
  auto const s = on.run(ratify::stage<kernel>{{1}, {out}});
  auto const copied = cudaMemcpy(&l.ran, out, sizeof *out, cudaMemcpyDeviceToHost);
  (void)cudaFree(out);
  if (!s) return s.reason();
  return copied == cudaSuccess ? "" : text_of(copied);
}

}  // namespace

launched RATIFY_PART() {
  launched l;
  l.kernel = reinterpret_cast<void const*>(&ratify::entry<kernel>);
  l.launch = reinterpret_cast<void const*>(&operation::launch<ratify::cuda_executor&>);
  int cards = 0;
  l.card = cudaGetDeviceCount(&cards) == cudaSuccess && cards > 0;
  if (l.card) l.reason = run(l);
  return l;
}
