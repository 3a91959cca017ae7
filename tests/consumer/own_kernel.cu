// SPDX-License-Identifier: Apache-2.0
// A kernel of a user's own in an anonymous namespace. Two objects of this file have one of the same name each, and each
// must launch its own. RATIFY_PART names the object's function, RATIFY_VALUE what its kernel writes.
#include <ratify/cuda.cuh>
#include <ratify/host.hpp>

#include <cstdio>

namespace {

struct write_kernel {
  struct params {
    int* out;
  };
  static constexpr char const* name = "write_kernel";
  static constexpr int block_threads = 32;
  template <class Block>
  struct shared_storage {
    int value;
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    if (block.thread() == 0) storage.value = RATIFY_VALUE;
    block.barrier();
    p.out[block.thread()] = storage.value;
  }
};

bool wrote(char const* what, int const* out) {
  for (int i = 0; i < 32; ++i)
    if (out[i] != RATIFY_VALUE) return std::printf("%s wrote %d instead of %d\n", what, out[i], RATIFY_VALUE), false;
  return true;
}

}  // namespace

/// Whether both executors run this object's kernel; without a card, whether the CUDA executor says that there is none.
bool RATIFY_PART() {
  int out[32] = {};
  ratify::host_executor cpu(1);
  if (auto const s = cpu.run(ratify::stage<write_kernel>{{1}, {out}}); !s) return std::puts(s.reason()), false;
  if (!wrote("the host executor", out)) return false;

  ratify::cuda_executor const card(nullptr);
  int* memory = nullptr;
  bool const there = cudaMalloc(&memory, sizeof out) == cudaSuccess;
  auto const s = card.run(ratify::stage<write_kernel>{{1}, {memory}});
  if (!there) return std::puts(s.reason()), s.code() == ratify::status_code::no_device;
  bool const copied = cudaMemcpy(out, memory, sizeof out, cudaMemcpyDeviceToHost) == cudaSuccess;
  (void)cudaFree(memory);
  if (!s) return std::puts(s.reason()), false;
  return copied && wrote("the CUDA executor", out);
}
