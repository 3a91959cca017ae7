// SPDX-License-Identifier: Apache-2.0
/// Kernels that access memory outside their shared storage or overflow their stack, and correct variants of them:
/// `bounds CASE wrong|right`. Built with AddressSanitizer. The line that the report must name carries a `planted`
/// comment.
#include <ratify/host.hpp>

#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr int n = 64;

/// Shared storage is as large as the kernel declares it, to the byte: it ends where `word` ends.
template <int First>
struct storage_kernel {
  struct params {
    int const* in;
    int* out;
  };
  static constexpr char const* name = "storage_kernel";
  static constexpr int block_threads = n;
  template <class Block>
  struct shared_storage {
    int word[n];
  };
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const t = block.thread();
    int* const word = storage.word;
    word[First + t] = p.in[t];  // planted: past_the_end before_the_start
    block.barrier();
    p.out[t] = storage.word[n - 1 - t];
  }
};

/// The stack of a thread ends at a guard page.
struct stack_kernel {
  struct params {
    int depth;
    int* out;
  };
  static constexpr char const* name = "stack_kernel";
  static constexpr int block_threads = n;
  template <class Block>
  struct shared_storage {};

  static int dive(int depth, int volatile* above) {
    int volatile here[64];  // makes each frame large
    here[0] = depth == 0 ? 1 : dive(depth - 1, here) + 1;
    above[1] = here[0];
    return here[0];
  }
  template <class Block>
  static void run(Block const& block, params const& p, shared_storage<Block>&) {
    int volatile top[2];
    p.out[block.thread()] = dive(block.thread() == 17 ? p.depth : 1, top);
  }
};

template <int First>
int leave_storage() {
  ratify::host_executor on(2);
  std::vector<int> in(n, 1), out(n);
  return on.run(ratify::stage<storage_kernel<First>>{{1}, {in.data(), out.data()}}) ? 0 : 1;
}

int leave_stack(bool right) {
  ratify::host_executor on(2);
  std::vector<int> out(n);
  return on.run(ratify::stage<stack_kernel>{{1}, {right ? 20 : 100000, out.data()}}) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::string const what = argv[1];
  bool const right = std::string(argv[2]) == "right";
  if (what == "past_the_end") return right ? leave_storage<0>() : leave_storage<1>();
  if (what == "before_the_start") return right ? leave_storage<0>() : leave_storage<-1>();
  if (what == "stack") return leave_stack(right);
  return 2;
}
