// SPDX-License-Identifier: Apache-2.0
/// Buffers for tests of offsets beyond 2^31 and 2^32. On the host they may be larger than the machine's memory: only
/// the pages that are touched exist.
#pragma once

#include "executors.hpp"

#include <sys/mman.h>

namespace ratify_test {

/// n elements that an executor can reach, with no particular contents. `data()` is nullptr where there is no room, and
/// then the test reports that it is skipped. `write` and `read` copy a part.
template <class T, class Executor>
class far_memory;

template <class T>
class far_memory<T, ratify::host_executor> {
 public:
  far_memory(ratify::host_executor&, size_t n) : bytes_(n * sizeof(T)) {
    void* const p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    p_ = p == MAP_FAILED ? nullptr : static_cast<T*>(p);
  }
  far_memory(far_memory const&) = delete;
  far_memory& operator=(far_memory const&) = delete;
  ~far_memory() {
    if (p_ != nullptr) munmap(static_cast<void*>(p_), bytes_);
  }
  T* data() { return p_; }
  void write(size_t at, std::vector<T> const& v) {
    std::memcpy(static_cast<void*>(p_ + at), v.data(), v.size() * sizeof(T));
  }
  std::vector<T> read(size_t at, size_t n) const { return std::vector<T>(p_ + at, p_ + at + n); }
 private:
  size_t bytes_;
  T* p_ = nullptr;
};

#if defined(__CUDACC__)
template <class T>
class far_memory<T, ratify::cuda_executor> {
 public:
  far_memory(ratify::cuda_executor&, size_t n) {
    void* p = nullptr;
    if (cudaMalloc(&p, n * sizeof(T)) == cudaSuccess)
      p_ = static_cast<T*>(p);
    else
      (void)cudaGetLastError();
  }
  far_memory(far_memory const&) = delete;
  far_memory& operator=(far_memory const&) = delete;
  ~far_memory() { (void)cudaFree(static_cast<void*>(p_)); }
  T* data() { return p_; }
  void write(size_t at, std::vector<T> const& v) {
    require_success(cudaMemcpy(p_ + at, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> read(size_t at, size_t n) const {
    std::vector<T> v(n);
    require_success(cudaDeviceSynchronize());
    require_success(cudaMemcpy(static_cast<void*>(v.data()), p_ + at, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
  }
 private:
  T* p_ = nullptr;
};
#endif

}  // namespace ratify_test
