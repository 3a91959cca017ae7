// SPDX-License-Identifier: Apache-2.0
/// An executor for the CUDA driver API: launches kernels out of modules that were compiled elsewhere (NVRTC, PTX
/// files), through the same operations. A kernel is found by its C++ name: `entry<Kernel, ...>` of a module, demangled.
#pragma once

#include <driver/kernel_names.hpp>
#include <ratify/executor.hpp>

#include <cuda.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace example {

inline void require(CUresult r, std::string const& what) {
  if (r == CUDA_SUCCESS) return;
  char const* text = nullptr;
  (void)cuGetErrorString(r, &text);
  throw std::runtime_error(what + ": " + (text != nullptr ? text : "unknown error"));
}

class driver_executor {
 public:
  /// Takes the current context's device; kernels run on `stream`.
  explicit driver_executor(CUstream stream) : stream_(stream) {
    CUdevice device = 0;
    require(cuCtxGetDevice(&device), "cuCtxGetDevice");
    require(cuDeviceGetAttribute(&multiprocessors_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
            "multiprocessors");
  }

  /// Makes the kernels of a PTX or cubin image known. `names` are their lowered (mangled) names.
  void load(std::string const& image, std::vector<std::string> const& names) {
    CUmodule module = nullptr;
    require(cuModuleLoadData(&module, image.c_str()), "cuModuleLoadData");
    for (auto const& name : names) {
      CUfunction f = nullptr;
      require(cuModuleGetFunction(&f, module, name.c_str()), name);
      functions_[kernel_of_entry(name)] = f;
    }
  }

  template <class Kernel, class Architectures = void>
  ratify::status can_run() const {
    return find<Kernel>() != nullptr ? ratify::status{} : missing();
  }

  template <class Kernel, class Architectures = void>
  ratify::status run(ratify::stage<Kernel> const& s) const {
    CUfunction const f = find<Kernel>();
    if (f == nullptr) return missing();
    constexpr size_t shared = ratify::stage<Kernel>::shared_bytes;
    CUresult r = CUDA_SUCCESS;
    if (shared > 48 * 1024)
      r = cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(shared));
    void* arguments[] = {const_cast<typename Kernel::params*>(&s.params)};
    if (r == CUDA_SUCCESS)
      r = cuLaunchKernel(f, static_cast<unsigned>(s.grid.x), static_cast<unsigned>(s.grid.y),
                         static_cast<unsigned>(s.grid.z), Kernel::block_threads, 1, 1, static_cast<unsigned>(shared),
                         stream_, arguments, nullptr);
    char const* text = "";
    if (r != CUDA_SUCCESS) (void)cuGetErrorString(r, &text);
    return r == CUDA_SUCCESS ? ratify::status{} : ratify::status{ratify::status_code::launch_failed, text};
  }

  int multiprocessors() const { return multiprocessors_; }

  template <class Kernel, class Architectures = void>
  int concurrent_blocks() const {
    int blocks = 0;
    if (CUfunction const f = find<Kernel>())
      (void)cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, Kernel::block_threads,
                                                        ratify::stage<Kernel>::shared_bytes);
    return multiprocessors_ * (blocks > 0 ? blocks : 1);
  }

  CUstream stream() const { return stream_; }
 private:
  template <class Kernel>
  CUfunction find() const {
    auto const found = functions_.find(kernel_name<Kernel>());
    return found != functions_.end() ? found->second : nullptr;
  }
  static ratify::status missing() {
    return {ratify::status_code::unsupported, "the loaded modules hold no such kernel"};
  }

  CUstream stream_;
  int multiprocessors_ = 0;
  std::map<std::string, CUfunction> functions_;
};

}  // namespace example
