// SPDX-License-Identifier: Apache-2.0
/// A function of one value, checked as a kernel computes it on each executor.
#pragma once

#include <ratify/executor.hpp>

#include "compare.hpp"
#include "executors.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <type_traits>
#include <vector>

namespace ratify_test {

/// out[i] = Function::apply(in[i]).
template <class Function, class In, class Out>
struct map_kernel {
  struct params {
    In const* in;
    Out* out;
    int64_t count;
  };
  static constexpr char const* name = "map_kernel";
  static constexpr int block_threads = 32;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    int64_t const step = int64_t{block.grid_x()} * block_threads;
    for (int64_t i = int64_t{block.block_x()} * block_threads + block.thread(); i < p.count; i += step)
      p.out[i] = Function::apply(p.in[i]);
  }
};

/// Elements small enough for bit_difference to print.
template <class T>
auto elements_of(std::vector<T> const& v) {
  if constexpr (sizeof(T) <= 8) {
    return v;
  } else {
    std::vector<uint32_t> words(v.size() * sizeof(T) / 4);
    std::memcpy(words.data(), v.data(), words.size() * 4);
    return words;
  }
}

template <class Function, class In, class Out>
void check_map(std::vector<In> const& in, std::vector<Out> const& expected) {
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    buffer<In, executor> from(on, in);
    buffer<Out, executor> to(on, in.size());
    auto const s = on.run(
        ratify::stage<map_kernel<Function, In, Out>>{{64}, {from.data(), to.data(), static_cast<int64_t>(in.size())}});
    REQUIRE_MESSAGE(s, s.reason());
    CHECK(bit_difference(elements_of(to.read()), elements_of(expected)) == "");
  });
}

}  // namespace ratify_test
