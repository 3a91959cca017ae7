// SPDX-License-Identifier: Apache-2.0
/// Kernels with one planted fault each in how they use asynchronous copies and barriers of groups, and correct variants
/// of them: `copies CASE wrong|right`. Built with ThreadSanitizer. The lines that a report must name carry a `planted`
/// comment.
#include <ratify/host.hpp>

#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr int n = 64, steps = 4;

enum class fault { none, early, too_few, unordered, refilled, group };

struct ring {
  int const* in;  ///< [steps, n]
  int* out;       ///< a word per thread
};

/// Each thread sums its neighbour's word of each step; two stages, each brought by a group of copies.
template <fault Fault>
struct ring_kernel {
  using params = ring;
  static constexpr char const* name = "ring_kernel";
  static constexpr int block_threads = n;
  template <class Block>
  struct shared_storage {
    int stage[2][n];
  };
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const t = block.thread(), other = (t + 32) % n;
    auto const ask = [&](int step) {
      int* const to = &storage.stage[step % 2][t];
      int const* const from = p.in + step * n + t;
      if (step < steps) block.template copy_async<4>(to, from);  // planted: early too_few unordered refilled
      block.commit_copies();
    };
    int sum = 0;
    ask(0);
    for (int step = 0; step < steps; ++step) {
      ask(step + 1);
      if (Fault == fault::early) {
      } else if (Fault == fault::too_few) {
        block.template wait_copies<2>();
      } else {
        block.template wait_copies<1>();
      }
      if (Fault != fault::unordered) block.barrier();
      int const* const stage = storage.stage[step % 2];
      sum += stage[other];  // planted: early too_few unordered refilled
      if (Fault != fault::refilled) block.barrier();
    }
    block.template wait_copies<0>();
    p.out[t] = sum;
  }
};

/// Each warp of a group of 64 threads reads the words of the other one.
template <fault Fault>
struct group_kernel {
  using params = ring;
  static constexpr char const* name = "group_kernel";
  static constexpr int block_threads = 2 * n;
  template <class Block>
  struct shared_storage {
    int word[2 * n];
  };
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const t = block.thread();
    storage.word[t] = p.in[t];  // planted: group
    if (Fault == fault::group)
      block.barrier(block.template group<32>());
    else
      block.barrier(block.template group<64>());
    int const other = storage.word[t ^ 32];  // planted: group
    p.out[t] = block.any(block.template group<64>(), other > 0);
  }
};

template <class Kernel>
int launch() {
  ratify::host_executor on(1);
  std::vector<int> in(steps * n, 1), out(2 * n);
  auto const s = on.run(ratify::stage<Kernel>{{1}, {in.data(), out.data()}});
  if (!s) return std::puts(s.reason()), 1;
  return 0;
}

template <fault Fault>
int both(bool right) {
  return right ? launch<ring_kernel<fault::none>>() : launch<ring_kernel<Fault>>();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::string const what = argv[1];
  bool const right = std::string(argv[2]) == "right";
  if (what == "early") return both<fault::early>(right);
  if (what == "too_few") return both<fault::too_few>(right);
  if (what == "unordered") return both<fault::unordered>(right);
  if (what == "refilled") return both<fault::refilled>(right);
  if (what == "group") return right ? launch<group_kernel<fault::none>>() : launch<group_kernel<fault::group>>();
  return 2;
}
