// SPDX-License-Identifier: Apache-2.0
/// The CUDA executor: launches the library's kernels on a stream. Defined for CUDA compilers; under NVRTC there is the
/// kernel entry and the block alone, in plain C++ nothing.
#pragma once

#include <ratify/detail/contents.hpp>
#include <ratify/detail/machine/launch.cuh>
#include <ratify/detail/meta.hpp>
#include <ratify/executor.hpp>

#if defined(__CUDACC__)
RATIFY_BEGIN_NAMESPACE

/// The threads of a block on a card: what a kernel's `run` is given there. `stage` in executor.hpp lists its members.
template <int Threads>
using cuda_block = detail::cuda_block<Threads>;

RATIFY_END_NAMESPACE
#endif

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)
#include <cuda_runtime.h>

RATIFY_BEGIN_NAMESPACE

namespace detail {

/// Whether what an object was compiled for is of an architecture or newer: all of it, none of it, or part of it (or a
/// compiler that does not say).
enum class has_code { always, never, in_part };
template <int Least, int... Architectures>
constexpr has_code find_code_since(arch_list<Architectures...>) {
  constexpr int all = static_cast<int>(sizeof...(Architectures)), with = (0 + ... + (Architectures >= Least ? 1 : 0));
  return all == 0 || (with > 0 && with < all) ? has_code::in_part : with > 0 ? has_code::always : has_code::never;
}

}  // namespace detail

/// How a CUDA executor launches. No bit of a result depends on it.
struct cuda_options {
  /// Programmatic dependent launch: a kernel is launched before the one before it has ended and waits there, so that
  /// the launch itself takes no time between them. Where the card or the code is older than sm_90 a launch is an
  /// ordinary one. A kernel of yours that is launched so must wait as well, or what follows it waits for nothing.
  bool programmatic = false;
  /// Other than nullptr: before each launch the contents of its tensors are read back, which waits for the stream, and
  /// held against the capacities; a contradiction is refused with its text here. For debugging; cannot be captured.
  contents_report* check_contents = nullptr;
};

/// A CUDA stream and its device. Cheap to copy; holds no resources of its own.
class cuda_executor {
 public:
  /// For the current device. Never throws: what went wrong is said by `can_launch` and `launch`.
  explicit cuda_executor(cudaStream_t stream, cuda_options const& o = {})
      : stream_(stream), programmatic_(o.programmatic), contents_(o.check_contents) {
    error_ = cudaGetDevice(&device_);
    if (error_ == cudaSuccess)
      error_ = cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device_);
    if (error_ == cudaSuccess)
      error_ = cudaDeviceGetAttribute(&shared_limit_, cudaDevAttrMaxSharedMemoryPerBlockOptin, device_);
    if (error_ != cudaSuccess) (void)cudaGetLastError();
  }

  cudaStream_t stream() const { return stream_; }

  /// Where contradictions in the contents of tensors are reported; nullptr if they are not looked for.
  contents_report* contents() const { return contents_; }
  /// Copies device memory to the host, after all work in the stream.
  status read(void* to, void const* from, size_t bytes) const {
    cudaError_t const e = own_error([&] {
      cudaError_t const copied = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_);
      return copied != cudaSuccess ? copied : cudaStreamSynchronize(stream_);
    });
    if (e != cudaSuccess) return {status_code::launch_failed, cudaGetErrorString(e)};
    return {};
  }

  /// Whether the binary holds code for this card and its shared storage fits.
  template <class Kernel, class Architectures = detail::compiled_architectures>
  status can_run() const {
    if (error_ != cudaSuccess) return no_device();
    if (stage<Kernel>::shared_bytes > static_cast<size_t>(shared_limit_))
      return {status_code::unsupported, "ratify: the kernel needs more shared memory than a block of this card has"};
    cudaFuncAttributes a{};
    if (own_error([&] { return cudaFuncGetAttributes(&a, address<Kernel, Architectures>()); }) != cudaSuccess)
      return {status_code::unsupported, "ratify: the binary holds no code for this card"};
    if (a.ptxVersion * 10 < detail::needs_of<Kernel>.architecture) return too_old<Kernel>();
    if (a.maxThreadsPerBlock < Kernel::block_threads)
      return {status_code::unsupported, "ratify: the kernel was not built for this card"};
    return {};
  }

  template <class Kernel, class Architectures = detail::compiled_architectures>
  status run(stage<Kernel> const& s) const {
    if (error_ != cudaSuccess) return no_device();
    constexpr int needed = detail::needs_of<Kernel>.architecture;
    if constexpr (needed > kernel_needs{}.architecture)
      if (!runs_code_since<needed, Kernel, Architectures>()) return too_old<Kernel>();
    if (auto const e = allow_shared<Kernel, Architectures>(); e != cudaSuccess)
      return {status_code::launch_failed, cudaGetErrorString(e)};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(s.grid.x, s.grid.y, s.grid.z);
    config.blockDim = dim3(Kernel::block_threads);
    config.dynamicSmemBytes = stage<Kernel>::shared_bytes;
    config.stream = stream_;
    cudaLaunchAttribute attributes[2]{};
    config.attrs = attributes;
    if (programmatic_ && runs_code_since<900, Kernel, Architectures>()) {
      cudaLaunchAttribute& overlap = attributes[config.numAttrs++];
      overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      overlap.val.programmaticStreamSerializationAllowed = 1;
    }
    if (s.cluster > 1) {
      if (needed < 900)
        return {status_code::unsupported, "ratify: a kernel that does not need sm_90 is launched without clusters"};
      cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim.x = static_cast<unsigned>(s.cluster);
      cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    }
    // An array of arguments instead of the typed call, which would instantiate a template over a kernel that may be
    // local to a translation unit.
    void* arguments[] = {const_cast<typename Kernel::params*>(&s.params)};
    auto const e = own_error([&] { return cudaLaunchKernelExC(&config, address<Kernel, Architectures>(), arguments); });
    if (e != cudaSuccess) return {status_code::launch_failed, cudaGetErrorString(e)};
    return {};
  }

  /// Of the card.
  int multiprocessors() const { return multiprocessors_; }

  /// Blocks worth having in a persistent grid: as many as the card holds at once, the same for every launch.
  template <class Kernel, class Architectures = detail::compiled_architectures>
  int concurrent_blocks() const {
    int per_multiprocessor = 0;
    (void)own_error([&] {
      (void)allow_shared<Kernel, Architectures>();
      return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, entry<Kernel, Architectures>,
                                                           Kernel::block_threads, stage<Kernel>::shared_bytes);
    });
    return detail::max_of(multiprocessors_ * per_multiprocessor, 1);
  }
 private:
  template <class Kernel, class Architectures>
  static void const* address() {
    return reinterpret_cast<void const*>(&entry<Kernel, Architectures>);
  }
  /// Whether the code that runs on this card is of an architecture or newer: of an sm_80 object it is not, on whatever
  /// card. What the object was compiled for says it, and the runtime is asked where only part of that is.
  template <int Least, class Kernel, class Architectures>
  static bool runs_code_since() {
    constexpr auto has = detail::find_code_since<Least>(Architectures{});
    if constexpr (has != detail::has_code::in_part) {
      return has == detail::has_code::always;
    } else {
      cudaFuncAttributes a{};
      auto const e = own_error([&] { return cudaFuncGetAttributes(&a, address<Kernel, Architectures>()); });
      return e == cudaSuccess && a.ptxVersion * 10 >= Least;
    }
  }
  /// Shared storage beyond the 48 KB that a block gets without asking.
  template <class Kernel, class Architectures>
  static cudaError_t allow_shared() {
    constexpr size_t shared = stage<Kernel>::shared_bytes;
    if (shared <= 48 * 1024) return cudaSuccess;
    return own_error([] {
      return cudaFuncSetAttribute(address<Kernel, Architectures>(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared));
    });
  }
  /// The code that would run, which may be older than the card, lacks instructions of the kernel.
  template <class Kernel>
  static status too_old() {
    constexpr int needed = detail::needs_of<Kernel>.architecture;
    return {status_code::unsupported,
            needed <= 750   ? "ratify: the kernel needs a card of sm_75 or newer, and code for one"
            : needed <= 800 ? "ratify: the kernel needs a card of sm_80 or newer, and code for one"
                            : "ratify: the kernel needs a card of sm_90 or newer, and code for one"};
  }
  static status no_device() { return {status_code::no_device, "ratify: no CUDA device or no driver"}; }

  /// Runs a call of the runtime; its error is not left behind for the caller to trip over, nor is an earlier one
  /// cleared.
  template <class Call>
  static cudaError_t own_error(Call call) {
    bool const clean = cudaPeekAtLastError() == cudaSuccess;
    cudaError_t const e = call();
    if (e != cudaSuccess && clean) (void)cudaGetLastError();
    return e;
  }

  cudaStream_t stream_;
  bool programmatic_;
  contents_report* contents_;
  cudaError_t error_ = cudaSuccess;
  int device_ = 0, multiprocessors_ = 0, shared_limit_ = 0;
};

RATIFY_END_NAMESPACE
#endif
