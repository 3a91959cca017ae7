// SPDX-License-Identifier: Apache-2.0
/// The card that a measurement runs on, its memory, and random contents for it.
#pragma once

#include <cuda_runtime.h>
#include <ratify/cuda.cuh>
#include <ratify/numeric.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace bench {

inline void check(cudaError_t e) {
  if (e == cudaSuccess) return;
  (void)cudaGetLastError();
  throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(e));
}
inline void check(ratify::status const& s) {
  if (!s) throw std::runtime_error(s.reason());
}

/// The first CUDA device, and the stream in which everything runs.
struct card {
  cudaStream_t stream = nullptr;
  std::string name;
  int driver = 0, runtime = 0, multiprocessors = 0;
  size_t l2_bytes = 0, free_bytes = 0;

  /// @throws std::runtime_error where there is no card
  card() {
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) {
      (void)cudaGetLastError();
      throw std::runtime_error("no CUDA device here; nothing was measured");
    }
    cudaDeviceProp p{};
    check(cudaGetDeviceProperties(&p, 0));
    name = p.name;
    multiprocessors = p.multiProcessorCount;
    l2_bytes = static_cast<size_t>(p.l2CacheSize);
    check(cudaDriverGetVersion(&driver));
    check(cudaRuntimeGetVersion(&runtime));
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    size_t all = 0;
    check(cudaMemGetInfo(&free_bytes, &all));
  }
  card(card const&) = delete;
  card& operator=(card const&) = delete;
  ~card() { (void)cudaStreamDestroy(stream); }
  void wait() const { check(cudaStreamSynchronize(stream)); }
};

/// 32 well mixed bits for an index and a seed (the finaliser of MurmurHash3 over 64 bits).
__host__ __device__ inline uint32_t random_bits(uint64_t i, uint64_t seed) {
  uint64_t z = i * 0x9e3779b97f4a7c15ull + seed * 0xd1b54a32d192ed03ull + 0x2545f4914f6cdd1dull;
  z = (z ^ (z >> 33)) * 0xff51afd7ed558ccdull;
  z = (z ^ (z >> 33)) * 0xc4ceb9fe1a85ec53ull;
  return static_cast<uint32_t>(z >> 32);
}

/// Uniform values from `low` to `high`, rounded to the format. NaN does not occur.
template <class T>
struct uniform {
  float low, high;
  __device__ T operator()(uint32_t bits) const {
    return ratify::convert<T>(low + (high - low) * (static_cast<float>(bits >> 8) * 0x1p-24f));
  }
};
/// Any byte: two E2M1 codes.
struct any_byte {
  __device__ uint8_t operator()(uint32_t bits) const { return static_cast<uint8_t>(bits >> 24); }
};
/// Logits as models give them: most are distributed like a bell, and one in 4096 is much larger.
struct logit {
  __device__ float operator()(uint32_t bits) const {
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<float>((bits >> (8 * i)) & 255u) * (1.0f / 128) - 1.0f;
    return (bits * 2654435761u) >> 20 == 0 ? 9 + 2 * sum : 1.7f * sum;
  }
};
template <class T>
struct constant {
  T value;
  __device__ T operator()(uint32_t) const { return value; }
};

template <class T, class Value>
__global__ void fill_kernel(T* to, size_t n, uint64_t seed, Value value) {
  size_t const step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) to[i] = value(random_bits(i, seed));
}

/// Owned elements on the card.
template <class T>
class buffer {
 public:
  buffer() = default;
  explicit buffer(size_t n) : n_(n) {
    void* p = nullptr;
    check(cudaMalloc(&p, n * sizeof(T) + !n));
    p_.reset(static_cast<T*>(p));
  }
  explicit buffer(std::vector<T> const& v) : buffer(v.size()) {
    check(cudaMemcpy(p_.get(), v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  template <class Value>
  buffer(card const& on, size_t n, Value value) : buffer(n) {
    fill(on, value);
  }
  template <class Value>
  void fill(card const& on, Value value, uint64_t seed) {
    if (n_ == 0) return;
    fill_kernel<<<on.multiprocessors * 8, 256, 0, on.stream>>>(p_.get(), n_, seed, value);
    check(cudaGetLastError());
  }
  /// With a seed of its own for each call.
  template <class Value>
  void fill(card const& on, Value value) {
    static uint64_t seed = 0;
    fill(on, value, ++seed);
  }
  T* data() const { return p_.get(); }
  size_t size() const { return n_; }
  size_t bytes() const { return n_ * sizeof(T); }
  std::vector<T> read(card const& on) const {
    std::vector<T> v(n_);
    on.wait();
    check(cudaMemcpy(v.data(), p_.get(), n_ * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
  }
 private:
  struct release {
    void operator()(T* p) const { (void)cudaFree(static_cast<void*>(p)); }
  };
  size_t n_ = 0;
  std::unique_ptr<T, release> p_;
};

}  // namespace bench
