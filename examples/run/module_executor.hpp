// SPDX-License-Identifier: Apache-2.0
/// Runs kernels out of PTX files on a card: how code for an architecture that no compiler here targets (sm_70) is
/// executed on a newer card. The folder holds NAME.ptx and, for each, NAME.json with the lowered names of its kernels,
/// as tests/toolchains/nvrtc.py --ptx writes them.
#pragma once

#include <driver/kernel_names.hpp>
#include <ratify/executor.hpp>

#include <cuda_runtime.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

namespace ratify_run {

class module_executor {
 public:
  /// @throws std::runtime_error when the folder holds no PTX; later, for PTX that the driver refuses
  explicit module_executor(std::filesystem::path const& folder) {
    for (auto const& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".ptx") continue;
      auto const names = nlohmann::json::parse(read(std::filesystem::path(entry.path()).replace_extension(".json")));
      for (auto const& [expression, lowered] : names.items()) {
        (void)expression;
        kernels_[example::kernel_of_entry(lowered)] = {entry.path(), lowered};
      }
    }
    if (kernels_.empty()) throw std::runtime_error(folder.string() + " holds no PTX");
  }

  cudaStream_t stream() const { return nullptr; }

  template <class Kernel, class Architectures = void>
  ratify::status can_run() const {
    if (find<Kernel>() == nullptr) return {ratify::status_code::unsupported, "the PTX files hold no such kernel"};
    return {};
  }

  template <class Kernel, class Architectures = void>
  ratify::status run(ratify::stage<Kernel> const& s) const {
    void const* const kernel = find<Kernel>();
    if (kernel == nullptr) return {ratify::status_code::unsupported, "the PTX files hold no such kernel"};
    constexpr size_t shared = ratify::stage<Kernel>::shared_bytes;
    cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    cudaLaunchConfig_t config{};
    config.gridDim =
        dim3(static_cast<unsigned>(s.grid.x), static_cast<unsigned>(s.grid.y), static_cast<unsigned>(s.grid.z));
    config.blockDim = dim3(Kernel::block_threads);
    config.dynamicSmemBytes = shared;
    void* arguments[] = {const_cast<typename Kernel::params*>(&s.params)};
    if (e == cudaSuccess) e = cudaLaunchKernelExC(&config, kernel, arguments);
    if (e == cudaSuccess) return {};
    (void)cudaGetLastError();
    return {ratify::status_code::launch_failed, cudaGetErrorString(e)};
  }

  /// Copies device memory to the host, after all work in the stream.
  ratify::status read(void* to, void const* from, size_t bytes) const {
    cudaError_t const e = cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost);
    if (e == cudaSuccess) return {};
    return {ratify::status_code::launch_failed, cudaGetErrorString(e)};
  }

  int multiprocessors() const {
    int device = 0, count = 0;
    require(cudaGetDevice(&device), "device");
    require(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "device");
    return count;
  }

  /// Two blocks a multiprocessor fit whatever the kernel is; results do not depend on it.
  template <class Kernel, class Architectures = void>
  int concurrent_blocks() const {
    return 2 * multiprocessors();
  }
 private:
  static void require(cudaError_t e, std::string const& what) {
    if (e != cudaSuccess) throw std::runtime_error(what + ": " + cudaGetErrorString(e));
  }
  static std::string read(std::filesystem::path const& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) throw std::runtime_error("cannot read " + path.string());
    return text.str();
  }
  struct place {
    std::filesystem::path file;
    std::string lowered;
  };

  /// The kernel, its file loaded on first use: compiling the PTX of all operations takes the driver minutes.
  template <class Kernel>
  void const* find() const {
    auto const found = kernels_.find(example::kernel_name<Kernel>());
    if (found == kernels_.end()) return nullptr;
    auto const& [file, lowered] = found->second;
    cudaLibrary_t& library = libraries_[file.string()];
    if (library == nullptr)
      require(cudaLibraryLoadData(&library, read(file).c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
              file.string());
    cudaKernel_t kernel = nullptr;
    require(cudaLibraryGetKernel(&kernel, library, lowered.c_str()), lowered);
    return reinterpret_cast<void const*>(kernel);
  }

  std::map<std::string, place> kernels_;
  mutable std::map<std::string, cudaLibrary_t> libraries_;
};

}  // namespace ratify_run
