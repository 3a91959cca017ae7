// SPDX-License-Identifier: Apache-2.0
/// Kernels with one planted fault each in how blocks and launches follow one another, and correct variants of them:
/// `launches CASE wrong|right`. The lines that a report must name carry a `planted` comment.
#include <ratify/host.hpp>

#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr int n = 64;

struct part_sums {
  int const* in;  ///< [blocks, n]
  int* sums;      ///< [blocks]
  uint32_t* counter;
  int* out;
  int blocks;
};

/// The last block reads what the others wrote. Counting with an atomic alone orders nothing.
template <bool Right>
struct last_block_kernel {
  using params = part_sums;
  static constexpr char const* name = "last_block_kernel";
  static constexpr int block_threads = n;
  template <class Block>
  struct shared_storage {
    int last;
  };
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const t = block.thread();
    if (t == 0) p.sums[block.block_x()] = p.in[block.block_x() * n];  // planted: unordered_partials
    bool last = false;
    if (Right) {
      last = block.arrive_last(p.counter, static_cast<uint32_t>(p.blocks));
    } else {
      block.barrier();
      if (t == 0) storage.last = block.atomic_add(p.counter, 1u) + 1 == static_cast<uint32_t>(p.blocks);
      block.barrier();
      last = storage.last != 0;
    }
    if (!last || t != 0) return;
    int sum = 0;
    for (int i = 0; i < p.blocks; ++i) sum += p.sums[i];  // planted: unordered_partials
    *p.out = sum;
  }
};

/// A tensor that the launch before writes, read before the wait.
template <bool Right>
struct early_kernel {
  struct constants {
    int const* weight;
    int const* in;
  };
  struct params : constants {
    int* out;
  };
  struct carried {
    int value;
  };
  static constexpr char const* name = "early_kernel";
  static constexpr int block_threads = n;
  template <class Block>
  struct shared_storage {};
  template <class Block>
  static carried prefetch(Block const& block, constants const& c, shared_storage<Block>&) {
    int const* const from = Right ? c.weight : c.in;
    return {from[block.thread()]};  // planted: not_constant
  }
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>&, carried& own) {
    p.out[block.thread()] = own.value + p.in[block.thread()];
  }
};

enum class peer_fault { none, has_ended, unordered };

/// Each block of a cluster reads the storage of the other one, which may have ended, or not have written it yet.
template <peer_fault Fault>
struct peer_kernel {
  struct params {
    int const* in;
    int* out;
  };
  static constexpr char const* name = "peer_kernel";
  static constexpr int block_threads = n;
  template <class Block>
  struct shared_storage {
    int word[n];
  };
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const t = block.thread(), rank = block.cluster_rank();
    storage.word[t] = p.in[t];  // planted: unordered_peer
    if (Fault == peer_fault::unordered)
      block.barrier();
    else
      block.cluster_barrier();
    if (Fault == peer_fault::has_ended && rank == 1) return;
    int const* const peer = block.cluster_map(storage.word, 1 - rank);
    block.barrier();
    p.out[rank * n + t] = peer[n - 1 - t];  // planted: peer_has_ended unordered_peer
    block.cluster_barrier();
  }
};

template <peer_fault Fault>
int pair_of_blocks() {
  ratify::host_executor on(1);
  std::vector<int> in(n, 1), out(2 * n);
  ratify::stage<peer_kernel<Fault>> s{{2}, {in.data(), out.data()}};
  s.cluster = 2;
  auto const done = on.run(s);
  if (!done) return std::puts(done.reason()), 1;
  return out[0] == 1 ? 0 : 1;
}

template <bool Right>
int last_block() {
  ratify::host_executor on(1);
  std::vector<int> in(4 * n, 1), sums(4), out(1);
  std::vector<uint32_t> counter(1);
  auto const s =
      on.run(ratify::stage<last_block_kernel<Right>>{{4}, {in.data(), sums.data(), counter.data(), out.data(), 4}});
  if (!s) return std::puts(s.reason()), 1;
  return out[0] == 4 ? 0 : 1;
}

template <bool Right>
int early() {
  std::vector<int> weight(n, 2), in(n, 1), out(n);
  ratify::host_options o;
  o.threads = 1;
  o.unsettled = {{in.data(), in.size() * sizeof(int)}, {out.data(), out.size() * sizeof(int)}};
  ratify::host_executor on(o);
  auto const s = on.run(ratify::stage<early_kernel<Right>>{{3}, {{weight.data(), in.data()}, out.data()}});
  if (!s) return std::puts(s.reason()), 1;
  return out[n - 1] == 3 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::string const what = argv[1];
  bool const right = std::string(argv[2]) == "right";
  if (what == "unordered_partials") return right ? last_block<true>() : last_block<false>();
  if (what == "not_constant") return right ? early<true>() : early<false>();
  if (right && (what == "peer_has_ended" || what == "unordered_peer")) return pair_of_blocks<peer_fault::none>();
  if (what == "peer_has_ended") return pair_of_blocks<peer_fault::has_ended>();
  if (what == "unordered_peer") return pair_of_blocks<peer_fault::unordered>();
  return 2;
}
