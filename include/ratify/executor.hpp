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

/// One kernel launch of an operation. Its block has `Kernel::block_threads` threads; its shared storage is
/// `Kernel::shared_storage<Block>`; `params` is the kernel's only argument.
template <class Kernel>
struct stage {
  using kernel = Kernel;
  /// Of dynamic shared memory a block needs.
  static constexpr size_t shared_bytes =
      sizeof(typename Kernel::template shared_storage<detail::sizing_block<Kernel::block_threads>>);
  grid_extent grid;
  typename Kernel::params params;
};

#if !defined(__CUDACC_RTC__)

/// Runs kernels on CPU threads: ratify/host.hpp.
class host_executor;
/// Launches kernels on a CUDA stream: defined where a CUDA compiler includes an operation, incomplete in plain C++.
class cuda_executor;

namespace detail {

/// `offset` bytes into the workspace; nullptr when there is none yet (`can_launch`).
template <class T>
T* workspace_at(workspace const& w, size_t offset) {
  return w.pointer == nullptr ? nullptr : reinterpret_cast<T*>(static_cast<unsigned char*>(w.pointer) + offset);
}

/// A number of blocks as a grid has it; -1, which `judge` refuses, where it has no such number.
inline int grid_blocks(int64_t blocks) { return blocks > 0x7fffffff ? -1 : static_cast<int>(blocks); }

/// Blocks of a kernel that gives each element a thread.
template <class Kernel>
int elementwise_blocks(int64_t elements) {
  return grid_blocks((elements + Kernel::block_threads - 1) / Kernel::block_threads);
}

/// Whether a card takes a grid.
inline status judge(grid_extent g) {
  if (g.x < 0 || g.y < 0 || g.z < 0 || g.y > 65535 || g.z > 65535)
    return {status_code::unsupported, "ratify: the shape needs more blocks than a grid holds"};
  return {};
}

/// The calls every operation has, written once. `Derived` gives
///   static char const* reason(params const&)            the first launch rule that fails, or nullptr
///   static size_t scratch_bytes(params const&)          from capacities alone
///   static status stages(params const&, workspace, Executor const&, Visitor&&)
///                                                       calls visitor(stage<Kernel>) in launch order, stops at a
///                                                       failure
template <class Derived, class Params>
struct operation {
  using params = Params;

  /// Whether `launch` would run: judges shapes, strides, capacities and the card; contents of tensors are read on the
  /// device and are not looked at, nor are pointers: one that the parameters call required must not be null.
  /// @return ok; unsupported with the reason; no_device.
  template <class Executor, class Architectures = compiled_architectures>
  static status can_launch(params const& p, Executor const& on) {
    if (char const* const reason = Derived::reason(p)) return {status_code::unsupported, reason};
    return Derived::stages(p, workspace{}, on, [&](auto const& s) {
      using kernel = typename std::decay_t<decltype(s)>::kernel;
      auto const fits = judge(s.grid);
      return fits ? on.template can_run<kernel, Architectures>() : fits;
    });
  }

  /// Bytes of scratch one launch needs, from the capacities in `p` alone. May be 0.
  template <class Executor>
  static size_t workspace_bytes(params const& p, Executor const&) {
    return Derived::scratch_bytes(p);
  }

  /// Enqueues the operation (the host executor returns when it is done). `w` may hold anything and must not be shared
  /// by launches that may overlap. No allocation, no synchronisation.
  /// @return ok; unsupported; workspace_too_small; launch_failed; divergent_barrier.
  template <class Executor, class Architectures = compiled_architectures>
  static status launch(params const& p, workspace w, Executor& on) {
    if (char const* const reason = Derived::reason(p)) return {status_code::unsupported, reason};
    if (w.bytes < Derived::scratch_bytes(p) || (Derived::scratch_bytes(p) > 0 && w.pointer == nullptr))
      return {status_code::workspace_too_small,
              "ratify: the workspace holds fewer bytes than workspace_bytes asks for"};
    if (reinterpret_cast<uintptr_t>(w.pointer) % 16 != 0)
      return {status_code::unsupported, "ratify: the workspace must be aligned to 16 bytes"};
    return Derived::stages(p, w, on, [&](auto const& s) {
      using kernel = typename std::decay_t<decltype(s)>::kernel;
      auto const fits = judge(s.grid);
      return fits ? on.template run<kernel, Architectures>(s) : fits;
    });
  }
};

}  // namespace detail
#endif

RATIFY_END_NAMESPACE
