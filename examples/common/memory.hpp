// SPDX-License-Identifier: Apache-2.0
/// Memory an executor's kernels can reach, and copies to and from it, so that a program is written once for both.
#pragma once

#include <ratify/host.hpp>

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#include <ratify/cuda.cuh>
#endif

#include <cstddef>
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
  // Aligned as an allocation of the card is, and of exactly the size asked for, so that an access past the end is seen
  // by a sanitizer. All memory starts as zeros.
  static void* allocate(executor&, size_t bytes) {
    return std::memset(::operator new(bytes + !bytes, alignment), 0, bytes + !bytes);
  }
  static void release(void* p) { ::operator delete(p, alignment); }
  static void to_device(executor&, void* to, void const* from, size_t bytes) { copy(to, from, bytes); }
  static void to_host(executor&, void* to, void const* from, size_t bytes) { copy(to, from, bytes); }
  static void wait(executor&) {}
 private:
  static constexpr std::align_val_t alignment{256};
  static void copy(void* to, void const* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);  // the pointers of an empty copy may be null
  }
};

#if defined(__CUDACC__)

inline void require_success(cudaError_t e) {
  if (e == cudaSuccess) return;
  (void)cudaGetLastError();
  throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(e));
}

/// For every executor whose kernels run on a card, in the order of `stream()`.
template <class Executor>
struct memory {
  using executor = Executor;
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

/// `count` elements copied to the host.
template <class Element, class Executor>
std::vector<Element> read(Executor& on, Element const* first, size_t count) {
  std::vector<Element> values(count);
  memory<Executor>::to_host(on, values.data(), first, count * sizeof(Element));
  return values;
}

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
  std::vector<T> read(Executor& on, size_t first, size_t n) const { return example::read(on, p_.get() + first, n); }
 private:
  struct release {
    void operator()(T* p) const { memory<Executor>::release(p); }
  };
  std::unique_ptr<T, release> p_;
  size_t n_ = 0;
};

/// Owns any number of arrays in an executor's memory, each an allocation of its own.
template <class Executor>
class arrays {
 public:
  /// `count` elements, all zeros.
  template <class Element>
  Element* make(Executor& on, size_t count) {
    owned_.emplace_back(on, count * sizeof(Element));
    return reinterpret_cast<Element*>(owned_.back().data());
  }
  template <class Element>
  Element* make(Executor& on, std::vector<Element> const& values) {
    Element* const first = make<Element>(on, values.size());
    memory<Executor>::to_device(on, first, values.data(), values.size() * sizeof(Element));
    memory<Executor>::wait(on);  // the values may go
    return first;
  }
 private:
  std::vector<buffer<unsigned char, Executor>> owned_;
};

}  // namespace example
