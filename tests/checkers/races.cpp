// SPDX-License-Identifier: Apache-2.0
/// Kernels with one planted race each, and correct variants of them: `races CASE wrong|right`, where CASE is one of the
/// names in `main`. Built with ThreadSanitizer. The lines that a report must name carry a `planted` comment.
#include <ratify/host.hpp>

#include <cstdio>
#include <cstring>
#include <vector>

namespace {

constexpr int n = 64;

struct block_sums {
  int const* in;
  int* out;
};

/// Each thread writes a word of shared storage and reads its neighbour's in the other warp.
template <bool Right>
struct block_barrier_kernel {
  using params = block_sums;
  static constexpr char const* name = "block_barrier_kernel";
  static constexpr int block_threads = n;
  template <class Block>
  struct shared_storage {
    int word[n];
  };
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const t = block.thread();
    storage.word[t] = p.in[t];  // planted: missing_barrier
    if (Right) block.barrier();
    int const other = storage.word[(t + 32) % n];  // planted: missing_barrier
    p.out[block.block_x() * n + t] = other;
  }
};

/// Two rounds over one word per thread. There is a barrier between write and read, but none between the read and the
/// write of the next round.
template <bool Right>
struct reuse_kernel {
  using params = block_sums;
  static constexpr char const* name = "reuse_kernel";
  static constexpr int block_threads = n;
  template <class Block>
  struct shared_storage {
    int word[n];
  };
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const t = block.thread();
    int sum = 0;
    for (int round = 0; round < 2; ++round) {
      storage.word[t] = p.in[t] + round;  // planted: missing_second_barrier
      block.barrier();
      sum += storage.word[(t + 1) % n];  // planted: missing_second_barrier
      if (Right) block.barrier();
    }
    p.out[block.block_x() * n + t] = sum;
  }
};

/// A tree over the lanes of each warp in shared storage.
template <bool Right>
struct warp_barrier_kernel {
  using params = block_sums;
  static constexpr char const* name = "warp_barrier_kernel";
  static constexpr int block_threads = n;
  template <class Block>
  struct shared_storage {
    int word[n];
  };
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const t = block.thread(), lane = block.lane();
    storage.word[t] = p.in[t];
    block.warp_barrier();
    for (int o = 16; o > 0; o /= 2) {
      int const sum = storage.word[t] + storage.word[t - lane + (lane + o) % 32];  // planted: missing_warp_barrier
      if (Right) block.warp_barrier();
      storage.word[t] = sum;  // planted: missing_warp_barrier
      block.warp_barrier();
    }
    p.out[block.block_x() * n + t] = storage.word[t];
  }
};

/// A warp barrier orders only the lanes of its mask: here the lower half writes and the upper half reads.
template <bool Right>
struct half_warp_kernel {
  using params = block_sums;
  static constexpr char const* name = "half_warp_kernel";
  static constexpr int block_threads = 32;
  template <class Block>
  struct shared_storage {
    int word[16];
  };
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const t = block.thread();
    if (t < 16) storage.word[t] = p.in[t];  // planted: half_warp
    if (Right)
      block.warp_barrier();
    else
      block.warp_barrier(t < 16 ? 0xffffu : 0xffff0000u);
    p.out[block.block_x() * 32 + t] = storage.word[t % 16];  // planted: half_warp
  }
};

/// A shuffle moves a value between lanes and orders no memory accesses.
template <bool Right>
struct shuffle_kernel {
  using params = block_sums;
  static constexpr char const* name = "shuffle_kernel";
  static constexpr int block_threads = 32;
  template <class Block>
  struct shared_storage {
    int word[32];
  };
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const t = block.thread();
    storage.word[t] = p.in[t];  // planted: shuffle_is_no_barrier
    if (Right) block.warp_barrier();
    int const from = static_cast<int>(block.shuffle(static_cast<uint32_t>(t), t ^ 1));
    p.out[block.block_x() * 32 + t] = storage.word[from];  // planted: shuffle_is_no_barrier
  }
};

/// Thread 0 of each block writes one element after the block's barrier.
template <bool Right>
struct two_blocks_kernel {
  using params = block_sums;
  static constexpr char const* name = "two_blocks_kernel";
  static constexpr int block_threads = n;
  template <class Block>
  struct shared_storage {};
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>&) {
    block.barrier();
    if (block.thread() == 0) p.out[Right ? block.block_x() : block.block_x() / 2] = p.in[0];  // planted: two_blocks
    block.barrier();
  }
};

/// One block reads what the other writes.
template <bool Right>
struct reading_block_kernel {
  using params = block_sums;
  static constexpr char const* name = "reading_block_kernel";
  static constexpr int block_threads = 32;
  template <class Block>
  struct shared_storage {};
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>&) {
    int const t = block.thread();
    if (block.block_x() == 0)
      p.out[t] = p.in[t];  // planted: reading_block
    else
      p.out[32 * block.block_x() + t] = Right ? p.in[t] : p.out[t];  // planted: reading_block
  }
};

/// What must not be reported: shared storage and stacks that one block uses after another, atomics, launches that
/// follow one another on the same memory, and warps that diverge and meet at barriers of their own.
struct clean_kernel {
  using params = block_sums;
  static constexpr char const* name = "clean_kernel";
  static constexpr int block_threads = 96;
  template <class Block>
  struct shared_storage {
    int word[96];
    int sum;
    int unused[1000];
  };
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const t = block.thread(), lane = block.lane();
    int own[8];
    for (int i = 0; i < 8; ++i) own[i] = p.in[(t + i) % n];
    if (t == 0) storage.sum = 0;
    block.barrier();
    block.atomic_add(&storage.sum, own[t % 8]);
    for (int i = 0; i < block.warp() + 1; ++i) {
      storage.word[t] = i;
      block.warp_barrier(lane < 8 ? 0xffu : 0xffffff00u);
      if (lane < 8) own[i] += storage.word[t - lane + (lane + 1) % 8];
      block.warp_barrier();
    }
    block.barrier();
    p.out[block.block_x() * 96 + t] += storage.sum + own[0] + storage.word[95 - t];
  }
};

template <class Kernel>
int launch(int blocks, int threads, int repeats = 1) {
  ratify::host_executor on(threads);
  std::vector<int> in(static_cast<size_t>(n)), out(static_cast<size_t>(blocks * 96));
  for (int i = 0; i < n; ++i) in[static_cast<size_t>(i)] = i;
  for (int r = 0; r < repeats; ++r) {
    in[0] = r;
    auto const s = on.run(ratify::stage<Kernel>{{blocks}, {in.data(), out.data()}});
    if (!s) return std::puts(s.reason()), 1;
    for (auto& x : out) x += in[0];
  }
  return 0;
}

template <template <bool> class Kernel>
int both(bool right, int blocks, int threads) {
  return right ? launch<Kernel<true>>(blocks, threads, 3) : launch<Kernel<false>>(blocks, threads);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::string const what = argv[1];
  bool const right = std::string(argv[2]) == "right";
  if (what == "missing_barrier") return both<block_barrier_kernel>(right, 1, 1);
  if (what == "missing_second_barrier") return both<reuse_kernel>(right, 1, 1);
  if (what == "missing_warp_barrier") return both<warp_barrier_kernel>(right, 1, 1);
  if (what == "half_warp") return both<half_warp_kernel>(right, 1, 1);
  if (what == "shuffle_is_no_barrier") return both<shuffle_kernel>(right, 1, 1);
  // On one CPU thread, where one block runs after the other: the race must be found all the same.
  if (what == "two_blocks") return both<two_blocks_kernel>(right, 2, 1);
  if (what == "reading_block") return both<reading_block_kernel>(right, 3, 1);
  if (what == "clean") return launch<clean_kernel>(40, 1, 3) + launch<clean_kernel>(40, 3, 10);
  return 2;
}
