// SPDX-License-Identifier: Apache-2.0
/// What every executor and every operation speak: grids, stages, and the four calls an operation has.
#pragma once

#include <ratify/status.hpp>
#include <ratify/views.hpp>

RATIFY_BEGIN_NAMESPACE

/// Blocks of one launch.
struct grid_extent {
  int x = 1, y = 1, z = 1;
};

namespace detail {

/// Stands for a block where only the size of shared storage is asked for: the layout depends on the thread count alone.
template <int Threads>
struct sizing_block {
  static constexpr int threads = Threads;
};

}  // namespace detail

/// What a kernel needs of a card. A kernel that needs more than the least card of the library says so:
///   static constexpr kernel_needs needs{800};
struct kernel_needs {
  int architecture = 700;  ///< the least compute capability: 800 is sm_80
};

namespace detail {

template <class Kernel, class = void>
inline constexpr kernel_needs needs_of{};
template <class Kernel>
inline constexpr kernel_needs needs_of<Kernel, RATIFY_STD::void_t<decltype(Kernel::needs)>> = Kernel::needs;

/// Whether a kernel has a part that runs before the launches before it have ended: its `prefetch`.
template <class Kernel, class = void>
inline constexpr bool has_prefetch = false;
template <class Kernel>
inline constexpr bool has_prefetch<Kernel, RATIFY_STD::void_t<typename Kernel::constants>> = true;

/// Runs a kernel's code in one thread; `wait` returns when the launches before this one have ended. A kernel cannot
/// forget to wait, because what comes before is given its constants alone.
RATIFY_ANY_BLOCK
template <class Kernel, class Block, class Wait>
RATIFY_HD void run_kernel(Block const& block, typename Kernel::params const& p,
                          typename Kernel::template shared_storage<Block>& storage, Wait&& wait) {
  if constexpr (has_prefetch<Kernel>) {
    typename Kernel::carried carried =
        Kernel::prefetch(block, static_cast<typename Kernel::constants const&>(p), storage);
    wait();
    Kernel::run(block, p, storage, carried);
  } else {
    wait();
    Kernel::run(block, p, storage);
  }
}

}  // namespace detail

/// One launch of a kernel, of the library's or of your own: `on.run(stage<Kernel>{grid, params})` runs it on the
/// executor `on`. docs/integration.md shows a complete kernel. A kernel is a class with these static members:
///
/// - `params`: type of the kernel's only argument, which is copied to the card byte by byte.
/// - `name`: a `char const*`, what the reports of the host executor call the kernel.
/// - `block_threads`: an `int`, the threads of a block. Fewer than 32, or a multiple of 32.
/// - `shared_storage<Block>`: type of the block's shared memory, which is neither constructed nor set to zero. Its size
///   may depend on `Block::threads` but on nothing else of the block.
/// - `run`: `template <class Block> static void run(Block const&, params const&, shared_storage<Block>&)`, what each
///   thread does. It is marked RATIFY_HD and has RATIFY_ANY_BLOCK on the line before `template`.
/// - `minimum_blocks`: optional, an `int`. Blocks that a multiprocessor must be able to hold at once, which limits the
///   registers of a thread: the second argument of `__launch_bounds__`.
/// - `needs`: optional, a `kernel_needs`.
/// - `prefetch`: optional. What a kernel reads before the launches before it have ended, in a programmatic launch. Such
/// a
///   kernel has a type `constants`, which `params` derives from and which holds numbers and pointers to const whose
///   memory the launch right before this one does not write; a type `carried`; and
///   `static carried prefetch(Block const&, constants const&, shared_storage<Block>&)`. Its `run` has one more
///   argument, `carried&`: what the thread's `prefetch` has returned.
///
/// `Block` is `cuda_block<block_threads>` on a card and `host_block<block_threads>` on the host. Both have the members
///
/// - `threads`: static, the threads of the block.
/// - `warp_mask`: static, a mask of all lanes of a warp. It is the default of every `mask` below.
/// - `thread()`: number of this thread in the block.
/// - `warp()`, `lane()`: number of its warp in the block, and of the thread in that warp.
/// - `block_x()`, `block_y()`, `block_z()`: number of this block in the grid.
/// - `grid_x()`: blocks of the grid in x.
/// - `barrier()`: waits for every thread of the block, and orders their accesses to shared and global memory.
/// - `warp_barrier(mask)`: the same for the lanes of a mask.
/// - `shuffle(value, lane, mask)`: the value that another lane passes, a `uint32_t` or a `float`. Orders no memory.
/// - `shuffle_xor(value, bits, mask)`: the value of the lane whose number is this lane's, exclusive-or `bits`.
/// - `ballot(predicate, mask)`: a mask of the lanes whose predicate is true. Orders no memory.
/// - `atomic_add(pointer, value)`: adds to a `uint32_t` or `uint64_t` of shared or global memory and returns what it
///   held before. Orders no other memory.
/// - `atomic_max(pointer, value)`: the same for the maximum of two `uint32_t`.
/// - `group<T>()`: the group of T threads, whole warps, that the thread belongs to; for the next two.
/// - `barrier(group)`: waits for every thread of the group, and orders their accesses to memory.
/// - `any(group, predicate)`: a barrier of the group that returns whether the predicate is true in one of its threads.
/// - `copy_async<Bytes>(shared, global, present)`: copies 4, 8 or 16 bytes without waiting, or zeros if not `present`.
/// - `commit_copies()`, `wait_copies<Pending>()`: makes a group of the thread's copies since the last one; waits for
/// all
///   groups of the thread but the newest `Pending`. What other threads copied may be read after a barrier that follows.
/// - `multiply<Format>(c, a, b)`, `load_matrices(words, row)`, `load_matrices_transposed(words, row)`,
///   `store_matrices(row, words)`: matrix products of a warp and their fragments, as in detail/machine/matrix.hpp.
/// - `cluster_rank()`, `cluster_size()`, `cluster_arrive()`, `cluster_wait()`, `cluster_barrier()`,
///   `cluster_map(pointer, rank)`: blocks that run together and read one another's shared memory.
/// - `arrive_last(counter, arrivals)`, `cluster_arrive_last(counter, arrivals, flag)`: whether this block, or cluster,
/// is
///   the last of `arrivals` to come here.
template <class Kernel>
struct stage {
  using kernel = Kernel;
  /// Of dynamic shared memory a block needs.
  static constexpr size_t shared_bytes =
      sizeof(typename Kernel::template shared_storage<detail::sizing_block<Kernel::block_threads>>);
  grid_extent grid;
  typename Kernel::params params;
  /// Blocks along x that are a cluster, at most 8; a kernel of clusters needs sm_90.
  int cluster = 1;
};

#if !defined(__CUDACC_RTC__)

/// Runs kernels on CPU threads: ratify/host.hpp.
class host_executor;
/// Launches kernels on a CUDA stream: ratify/cuda.cuh. Defined for CUDA compilers alone, incomplete in plain C++.
class cuda_executor;

/// Where a check of device contents puts the contradiction it found: the caller's memory, so that the text outlives the
/// call. Empty if there was none.
struct contents_report {
  char text[256] = "";
};

namespace detail {

template <class Executor>
class contents_checker;

/// Where an executor wants the contents of device tensors checked before each launch; nullptr if it does not, which is
/// the rule. `can_be` is false for an executor that knows nothing of it, and need not be able to `read`.
template <class Executor, class = void>
struct contents_wanted {
  static constexpr bool can_be = false;
};
template <class Executor>
struct contents_wanted<Executor, std::void_t<decltype(std::declval<Executor const&>().contents())>> {
  static constexpr bool can_be = true;
  static contents_report* of(Executor const& on) { return on.contents(); }
};

/// `offset` bytes into the workspace; nullptr when there is none yet (`can_launch`).
template <class Element>
Element* workspace_at(workspace const& w, size_t offset) {
  return w.pointer == nullptr ? nullptr : reinterpret_cast<Element*>(static_cast<unsigned char*>(w.pointer) + offset);
}

/// A number of blocks as a grid has it; -1, which `check_grid` refuses, where it has no such number.
inline int grid_blocks(int64_t blocks) { return blocks > 0x7fffffff ? -1 : static_cast<int>(blocks); }

/// Blocks of a kernel that runs one thread per element.
template <class Kernel>
int elementwise_blocks(int64_t elements) {
  return grid_blocks((elements + Kernel::block_threads - 1) / Kernel::block_threads);
}

/// Whether a card accepts a grid of clusters.
inline status check_grid(grid_extent g, int cluster = 1) {
  if (cluster < 1 || cluster > 8 || g.x % cluster != 0)
    return {status_code::unsupported, "ratify: a cluster is 1 to 8 blocks, and a grid is whole clusters along x"};
  if (g.x < 0 || g.y < 0 || g.z < 0 || g.y > 65535 || g.z > 65535)
    return {status_code::unsupported, "ratify: the shape needs more blocks than a grid holds"};
  return {};
}

/// The calls that every operation has, written once. `Derived` gives
///   static status launch_rules(params const&)                  the status of the first launch rule that is broken
///   static size_t scratch_bytes(params const&)          from capacities alone
///   static status stages(params const&, workspace, Executor const&, Visitor&&)
///                                                       calls visitor(stage<Kernel>) in launch order and stops at the
///                                                       first failure
///   static void contents(params const&, Checker&)       holds the numbers that its kernels steer by against the
///                                                       capacities (detail/contents.hpp); may be left out
template <class Derived, class Params>
struct operation {
  using params = Params;

  /// Whether `launch` would run. Judges what the host can see: pointers, shapes, strides, capacities and the card.
  /// Contents of device tensors are not read.
  /// @return ok; invalid_argument or unsupported with the reason; no_device.
  template <class Executor, class Architectures = compiled_architectures>
  static status can_launch(params const& p, Executor const& on) {
    if (status const s = Derived::launch_rules(p); !s) return s;
    return Derived::stages(p, workspace{}, on, [&](auto const& s) {
      using kernel = typename std::decay_t<decltype(s)>::kernel;
      status const fits = check_grid(s.grid, s.cluster);
      return fits ? on.template can_run<kernel, Architectures>() : fits;
    });
  }

  /// Bytes of scratch memory that one launch needs, from the capacities in `p` alone. May be 0.
  template <class Executor>
  static size_t workspace_bytes(params const& p, Executor const&) {
    return Derived::scratch_bytes(p);
  }

  /// Reads the numbers in device memory that the kernels steer by (row bounds, lengths, tables, slots, sampling
  /// parameters) and holds them against the capacities in `p` and against each other. For debugging: it waits for the
  /// stream and copies to the host. An executor that was made with `check_contents` does this before each launch.
  /// @return ok; what `can_launch` returns for `p`; invalid_argument with the first contradiction, whose text is in
  /// `report`; launch_failed if the memory cannot be read
  template <class Executor>
  static status check_contents(params const& p, Executor const& on, contents_report& report) {
    if (status const s = Derived::launch_rules(p); !s) return s;
    contents_checker<Executor> checker(Derived::policy::knobs::operation, on, report);
    Derived::contents(p, checker);
    return checker.result();
  }

  /// For an operation whose kernels steer by nothing that lies in device memory.
  template <class Checker>
  static void contents(params const&, Checker&) {}

  /// Enqueues the operation; the host executor returns when it is done. The workspace may hold anything and must not be
  /// shared by launches that may overlap. Allocates nothing and does not synchronise.
  /// `on` may be a temporary such as `cuda_executor(stream)`.
  /// @return ok; invalid_argument; unsupported; workspace_too_small; no_device; launch_failed; divergent_barrier.
  template <class Executor, class Architectures = compiled_architectures>
  static status launch(params const& p, workspace w, Executor&& on) {
    if (status const s = Derived::launch_rules(p); !s) return s;
    if (w.bytes < Derived::scratch_bytes(p) || (Derived::scratch_bytes(p) > 0 && w.pointer == nullptr))
      return {status_code::workspace_too_small,
              "ratify: the workspace holds fewer bytes than workspace_bytes asks for"};
    if (reinterpret_cast<uintptr_t>(w.pointer) % 16 != 0)
      return {status_code::invalid_argument, "ratify: the workspace must be aligned to 16 bytes"};
    using wanted = contents_wanted<std::decay_t<Executor>>;
    if constexpr (wanted::can_be) {
      if (contents_report* const report = wanted::of(on))
        if (status const s = check_contents(p, on, *report); !s) return s;
    }
    return Derived::stages(p, w, on, [&](auto const& s) {
      using kernel = typename std::decay_t<decltype(s)>::kernel;
      status const fits = check_grid(s.grid, s.cluster);
      return fits ? on.template run<kernel, Architectures>(s) : fits;
    });
  }
};

}  // namespace detail
#endif

RATIFY_END_NAMESPACE
