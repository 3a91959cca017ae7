// SPDX-License-Identifier: Apache-2.0
/// Seeded random data for tests.
#pragma once

#include <ratify/numeric.hpp>

#include <cstdlib>
#include <random>
#include <vector>

namespace ratify_test {

/// The seed of this run: RATIFY_TEST_SEED, or a fixed one. The test program prints it.
inline uint64_t seed() {
  static uint64_t const value = [] {
    char const* const text = std::getenv("RATIFY_TEST_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : 20261130ull;
  }();
  return value;
}

/// The scale of this run: RATIFY_TEST_SCALE, a factor for the number of random cases; 1 unless set.
inline double scale() {
  static double const value = [] {
    char const* const text = std::getenv("RATIFY_TEST_SCALE");
    return text != nullptr ? std::strtod(text, nullptr) : 1.0;
  }();
  return value;
}

/// A number of random cases at the scale of this run, at least one.
inline int scaled(int cases) {
  double const n = cases * scale();
  return n < 1.0 ? 1 : static_cast<int>(n);
}

/// How many random shapes the test case that runs has compared with a twin: the program prints it where a scale is set.
inline int& shapes_drawn() {
  static int value = 0;
  return value;
}
inline void count_shape() { ++shapes_drawn(); }

/// A stream of random values of its own for each test (`stream` tells them apart).
class random_source {
 public:
  explicit random_source(uint64_t stream) : engine_(seed() * 0x9e3779b97f4a7c15ull + stream) {}

  /// Uniform in [low, high].
  int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  uint64_t word() { return engine_(); }
  float uniform(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }
  float normal(float deviation = 1.0f) { return std::normal_distribution<float>(0.0f, deviation)(engine_); }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[integer(0, static_cast<int>(list.size()) - 1)];
  }

  /// n normally distributed values in a storage format.
  template <class Format>
  std::vector<Format> normals(size_t n, float deviation = 1.0f) {
    std::vector<Format> v(n);
    for (auto& x : v) x = ratify::convert<Format>(normal(deviation));
    return v;
  }
  /// n uniform values in a storage format.
  template <class Format>
  std::vector<Format> uniforms(size_t n, float low, float high) {
    std::vector<Format> v(n);
    for (auto& x : v) x = ratify::convert<Format>(uniform(low, high));
    return v;
  }
 private:
  std::mt19937_64 engine_;
};

}  // namespace ratify_test
