// SPDX-License-Identifier: Apache-2.0
/// Kernels whose threads do not all reach the same barrier, and correct variants of them: `divergence CASE
/// wrong|right`. The status of the launch names kernel and block, without any sanitizer. It is built with each
/// sanitizer all the same, because the fibers that are left waiting must be ended cleanly under them too.
#include <ratify/host.hpp>

#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr int n = 96;

enum class what {
  barrier_in_one_branch,
  returned_before_barrier,
  barrier_and_vote,
  lanes_missing,
  masks_differ,
  kinds_differ
};

template <what What>
struct meeting_kernel {
  struct params {
    bool wrong;
    int* out;
  };
  static constexpr char const* name = "meeting_kernel";
  static constexpr int block_threads = n;
  template <class Block>
  struct shared_storage {
    int word[n];
  };
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    bool const wrong = p.wrong && block.block_x() == 2;
    int const t = block.thread(), lane = block.lane();
    storage.word[t] = t;
    block.barrier();
    if constexpr (What == what::barrier_in_one_branch) {
      if (!wrong || t < 32) block.barrier();
    } else if constexpr (What == what::returned_before_barrier) {
      if (wrong && t == n - 1) return;
      block.barrier();
    } else if constexpr (What == what::barrier_and_vote) {
      if (wrong && lane < 16)
        block.barrier();
      else
        (void)block.ballot(true);
    } else if constexpr (What == what::lanes_missing) {
      if (wrong && lane == 7) return;
      (void)block.shuffle(static_cast<uint32_t>(t), 0);
    } else if constexpr (What == what::masks_differ) {
      block.warp_barrier(wrong && lane == 7 ? 0xffu : 0xffffffffu);
    } else {
      if (wrong && lane == 7)
        block.warp_barrier();
      else
        (void)block.shuffle(static_cast<uint32_t>(t), 0);
    }
    p.out[block.block_x() * n + t] = storage.word[n - 1 - t];
  }
};

template <what What>
int launch(bool wrong) {
  ratify::host_executor on(2);
  std::vector<int> out(5 * n);
  auto const s = on.run(ratify::stage<meeting_kernel<What>>{{5}, {wrong, out.data()}});
  if (!s) std::puts(s.reason());
  // The executor can be used afterwards.
  if (!on.run(ratify::stage<meeting_kernel<What>>{{5}, {false, out.data()}})) return 3;
  return s ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::string const name = argv[1];
  bool const wrong = std::string(argv[2]) == "wrong";
  if (name == "barrier_in_one_branch") return launch<what::barrier_in_one_branch>(wrong);
  if (name == "returned_before_barrier") return launch<what::returned_before_barrier>(wrong);
  if (name == "barrier_and_vote") return launch<what::barrier_and_vote>(wrong);
  if (name == "lanes_missing") return launch<what::lanes_missing>(wrong);
  if (name == "masks_differ") return launch<what::masks_differ>(wrong);
  if (name == "kinds_differ") return launch<what::kinds_differ>(wrong);
  return 2;
}
