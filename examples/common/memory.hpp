// SPDX-License-Identifier: Apache-2.0
/// Memory an executor's kernels can reach, and copies to and from it, so that a program is written once for both.
#pragma once

#include <ratify/host.hpp>

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#include <ratify/detail/launch.cuh>
#endif

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace example {

/// Allocation, copies and waiting on one executor. Copies are ordered with the launches before and after them.
template <class Executor>
struct memory;

template <>
struct memory<ratify::host_executor> {
  using executor = ratify::host_executor;
  // Aligned as an allocation of the card is. All memory starts as zeros.
  static void* allocate(executor&, size_t bytes) {
    size_t const whole = (bytes + !bytes + alignment - 1) / alignment * alignment;
    void* const p = std::aligned_alloc(alignment, whole);
    if (p == nullptr) throw std::bad_alloc();
    return std::memset(p, 0, whole);
  }
  static void release(void* p) { std::free(p); }
  static void to_device(executor&, void* to, void const* from, size_t bytes) { std::memcpy(to, from, bytes); }
  static void to_host(executor&, void* to, void const* from, size_t bytes) { std::memcpy(to, from, bytes); }
  static void wait(executor&) {}
 private:
  static constexpr size_t alignment = 256;
};

#if defined(__CUDACC__)

inline void require_success(cudaError_t e) {
  if (e == cudaSuccess) return;
  (void)cudaGetLastError();
  throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(e));
}

template <>
struct memory<ratify::cuda_executor> {
  using executor = ratify::cuda_executor;
  static void* allocate(executor& on, size_t bytes) {
    void* p = nullptr;
    require_success(cudaMalloc(&p, bytes + !bytes));
    require_success(cudaMemsetAsync(p, 0, bytes, on.stream()));
    return p;
  }
  static void release(void* p) { (void)cudaFree(p); }
  static void to_device(executor& on, void* to, void const* from, size_t bytes) {
    require_success(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, on.stream()));
  }
  static void to_host(executor& on, void* to, void const* from, size_t bytes) {
    require_success(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, on.stream()));
    wait(on);
  }
  static void wait(executor& on) { require_success(cudaStreamSynchronize(on.stream())); }
};

#endif

/// Owned elements in an executor's memory.
template <class T, class Executor>
class buffer {
 public:
  buffer() = default;
  buffer(Executor& on, size_t n) : p_(static_cast<T*>(memory<Executor>::allocate(on, n * sizeof(T)))), n_(n) {}
  buffer(Executor& on, std::vector<T> const& values) : buffer(on, values.size()) {
    memory<Executor>::to_device(on, p_.get(), values.data(), values.size() * sizeof(T));
    memory<Executor>::wait(on);  // the values may go
  }

  T* data() const { return p_.get(); }
  size_t size() const { return n_; }
  std::vector<T> read(Executor& on, size_t first, size_t n) const {
    std::vector<T> values(n);
    memory<Executor>::to_host(on, values.data(), p_.get() + first, n * sizeof(T));
    return values;
  }
 private:
  struct release {
    void operator()(T* p) const { memory<Executor>::release(p); }
  };
  std::unique_ptr<T, release> p_;
  size_t n_ = 0;
};

}  // namespace example
