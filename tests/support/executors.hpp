// SPDX-License-Identifier: Apache-2.0
/// The executors a test runs on, and memory that each of them can reach.
#pragma once

#include <ratify/host.hpp>

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#include <ratify/cuda.cuh>
#endif

#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ratify_test {

/// Calls `f(executor)` on the host executor and, in a program compiled for cards and run where one is, on the card.
template <class F>
void on_each_executor(F&& f);

/// Memory an executor can reach, of exactly the size asked for, filled with 0xFF bytes (NaN in every format).
template <class T, class Executor>
class buffer;

template <class T>
class buffer<T, ratify::host_executor> {
 public:
  buffer(ratify::host_executor&, size_t n) : n_(n), p_(static_cast<T*>(std::malloc(n * sizeof(T) + !n))) {
    std::memset(static_cast<void*>(p_.get()), 0xff, n * sizeof(T));
  }
  buffer(ratify::host_executor& on, std::vector<T> const& v) : buffer(on, v.size()) {
    if (n_ > 0) std::memcpy(static_cast<void*>(p_.get()), v.data(), n_ * sizeof(T));
  }
  T* data() { return p_.get(); }
  void write(std::vector<T> const& v) {
    if (!v.empty()) std::memcpy(static_cast<void*>(p_.get()), v.data(), v.size() * sizeof(T));
  }
  std::vector<T> read() const { return std::vector<T>(p_.get(), p_.get() + n_); }
 private:
  struct release {
    void operator()(T* p) const { std::free(static_cast<void*>(p)); }
  };
  size_t n_;
  std::unique_ptr<T, release> p_;
};

#if defined(__CUDACC__)

inline void require_success(cudaError_t e) {
  if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e));
}

template <class T>
class buffer<T, ratify::cuda_executor> {
 public:
  buffer(ratify::cuda_executor&, size_t n) : n_(n) {
    void* p = nullptr;
    require_success(cudaMalloc(&p, n * sizeof(T) + !n));
    p_.reset(static_cast<T*>(p));
    require_success(cudaMemset(p, 0xff, n * sizeof(T)));
    require_success(cudaDeviceSynchronize());
  }
  buffer(ratify::cuda_executor& on, std::vector<T> const& v) : buffer(on, v.size()) {
    if (n_ > 0) require_success(cudaMemcpy(p_.get(), v.data(), n_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  T* data() { return p_.get(); }
  void write(std::vector<T> const& v) {
    require_success(cudaMemcpy(static_cast<void*>(p_.get()), v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    require_success(cudaDeviceSynchronize());
  }
  std::vector<T> read() const {
    std::vector<T> v(n_);
    require_success(cudaDeviceSynchronize());
    if (n_ > 0)
      require_success(cudaMemcpy(static_cast<void*>(v.data()), p_.get(), n_ * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
  }
 private:
  struct release {
    void operator()(T* p) const { (void)cudaFree(static_cast<void*>(p)); }
  };
  size_t n_;
  std::unique_ptr<T, release> p_;
};

inline bool card_present() {
  int n = 0;
  bool const present = cudaGetDeviceCount(&n) == cudaSuccess && n > 0;
  if (!present) (void)cudaGetLastError();
  return present;
}

inline std::string card_description() {
  if (!card_present()) return "; compiled for cards, but none is here";
  cudaDeviceProp p{};
  require_success(cudaGetDeviceProperties(&p, 0));
  return std::string(" and ") + p.name;
}

#else
inline std::string card_description() { return ""; }
#endif

/// The order in which the host executor runs the threads of a block: RATIFY_TEST_SHUFFLE, a seed; 0 unless set.
inline uint64_t shuffle_seed() {
  static uint64_t const value = [] {
    char const* const text = std::getenv("RATIFY_TEST_SHUFFLE");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : 0ull;
  }();
  return value;
}

/// CPU threads of a test's host executor. Under ThreadSanitizer one is enough, because blocks that one CPU thread runs
/// count as unordered too, and fewer fibers are cheaper.
#if defined(RATIFY_THREAD_SANITIZER)
inline constexpr int host_threads = 1;
#else
inline constexpr int host_threads = 2;
#endif

inline ratify::host_executor& host() {
  static ratify::host_executor executor(ratify::host_options{host_threads, shuffle_seed()});
  return executor;
}

template <class F>
void on_each_executor(F&& f) {
  f(host());
#if defined(__CUDACC__)
  if (card_present()) {
    cudaStream_t stream = nullptr;
    require_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    {
      ratify::cuda_executor card(stream, {std::getenv("RATIFY_TEST_PROGRAMMATIC") != nullptr});
      f(card);
    }
    require_success(cudaStreamDestroy(stream));
  }
#endif
}

#if defined(__CUDACC__)
/// Whether launches on the card go through a captured graph (RATIFY_TEST_GRAPH=1), so that every test of an operation
/// is one of its capture too.
inline bool through_graphs() { return std::getenv("RATIFY_TEST_GRAPH") != nullptr; }

/// What `enqueue` puts into the executor's stream, captured; `replay` runs it and waits.
class captured_graph {
 public:
  template <class Enqueue>
  captured_graph(ratify::cuda_executor& on, Enqueue&& enqueue) : stream_(on.stream()) {
    require_success(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    status_ = enqueue();
    require_success(cudaStreamEndCapture(stream_, &graph_));
    require_kernels_alone();
    require_success(cudaGraphInstantiate(&ready_, graph_, 0));
  }
  captured_graph(captured_graph const&) = delete;
  captured_graph& operator=(captured_graph const&) = delete;
  ~captured_graph() {
    (void)cudaGraphExecDestroy(ready_);
    (void)cudaGraphDestroy(graph_);
  }
  ratify::status status() const { return status_; }
  size_t kernels() const { return kernels_; }
  void replay() {
    require_success(cudaGraphLaunch(ready_, stream_));
    require_success(cudaStreamSynchronize(stream_));
  }
 private:
  /// A launch is kernels: no memset, no copy, no allocation. (One that synchronises cannot be captured at all.)
  void require_kernels_alone() {
    require_success(cudaGraphGetNodes(graph_, nullptr, &kernels_));
    std::vector<cudaGraphNode_t> nodes(kernels_);
    if (kernels_ > 0) require_success(cudaGraphGetNodes(graph_, nodes.data(), &kernels_));
    for (cudaGraphNode_t const node : nodes) {
      cudaGraphNodeType type{};
      require_success(cudaGraphNodeGetType(node, &type));
      if (type != cudaGraphNodeTypeKernel) throw std::runtime_error("a captured launch holds a node that is no kernel");
    }
  }
  cudaStream_t stream_;
  size_t kernels_ = 0;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t ready_ = nullptr;
  ratify::status status_;
};
#endif

/// Launches an operation with a workspace of the size it asks for, filled with 0xFF bytes.
template <class Operation, class Executor>
ratify::status launch(typename Operation::params const& p, Executor& on) {
  if (auto const s = Operation::can_launch(p, on); !s) return s;
  buffer<unsigned char, Executor> scratch(on, Operation::workspace_bytes(p, on));
  auto const enqueue = [&] { return Operation::launch(p, {scratch.data(), Operation::workspace_bytes(p, on)}, on); };
#if defined(__CUDACC__)
  if constexpr (std::is_same_v<Executor, ratify::cuda_executor>) {
    if (through_graphs()) {
      captured_graph graph(on, enqueue);
      if (graph.status()) graph.replay();
      return graph.status();
    }
  }
#endif
  auto const s = enqueue();
  (void)scratch.read();  // waits for the stream before the scratch goes
  return s;
}

}  // namespace ratify_test
