// SPDX-License-Identifier: Apache-2.0
/// What the tests of the projection share: operands, launches with guards around y, and comparisons with the twin.
#pragma once

#include <ratify/projection.cuh>

#include "compare.hpp"
#include "executors.hpp"
#include "random.hpp"
#include "reference/projection.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

namespace ratify_test {

using projection_operands = reference::projection_operands;

template <class Operation>
constexpr bool scales_in_fp32 = Operation::policy::effective_scale == ratify::projection_scale::fp32;

template <class Format>
std::vector<Format> stored(std::vector<float> const& values) {
  std::vector<Format> v(values.size());
  std::transform(values.begin(), values.end(), v.begin(), [](float x) { return ratify::convert<Format>(x); });
  return v;
}

/// What one launch reads and where it writes, with guard rows and columns around y.
template <class Operation, class Executor>
struct projection_memory {
  using input = typename Operation::policy::input_format;
  using output = typename Operation::policy::output_format;
  static constexpr int guard = 3;

  projection_memory(Executor& on, projection_operands const& o, std::vector<input> const& x, int x_rows)
      : x_(on, x),
        packed_(on, o.w_packed),
        scale_(on, o.w_scale),
        global_(on, o.w_global),
        bias_(on, o.bias),
        segment_end_(on, o.segment_end),
        y_(on, static_cast<size_t>(o.rows + guard) * (o.n + guard)),
        n_(o.n),
        rows_(o.rows) {
    p.x = {x_.data(), static_cast<int64_t>(x.size()) / x_rows};
    p.w_packed = packed_.data();
    p.w_scale = scale_.data();
    p.w_global = global_.data();
    p.segments = static_cast<int>(o.w_global.size());
    p.segment_end = o.segment_end.empty() ? nullptr : segment_end_.data();
    p.bias = o.bias.empty() ? nullptr : bias_.data();
    p.y = {y_.data(), o.n + guard};
    p.rows = o.rows;
    p.n = o.n;
    p.k = o.k;
  }

  /// y dense; everything around it must be as it was.
  std::vector<output> read() const {
    auto const all = y_.read();
    std::vector<output> y;
    bool untouched = true;
    for (size_t i = 0; i < all.size(); ++i) {
      size_t const row = i / (n_ + guard), column = i % (n_ + guard);
      if (row < static_cast<size_t>(rows_) && column < static_cast<size_t>(n_)) {
        y.push_back(all[i]);
        continue;
      }
      unsigned char bytes[sizeof(output)];
      std::memcpy(bytes, &all[i], sizeof bytes);
      untouched = untouched && std::all_of(bytes, bytes + sizeof bytes, [](unsigned char b) { return b == 0xff; });
    }
    CHECK(untouched);
    return y;
  }

  typename Operation::params p;
 private:
  buffer<input, Executor> x_;
  buffer<uint8_t, Executor> packed_;
  buffer<ratify::e4m3, Executor> scale_;
  buffer<float, Executor> global_, bias_;
  buffer<int32_t, Executor> segment_end_;
  buffer<output, Executor> y_;
  int n_, rows_;
};

template <class Operation, class Executor>
std::vector<typename Operation::policy::output_format> run_projection(Executor& on, projection_operands const& o) {
  projection_memory<Operation, Executor> memory(on, o, stored<typename Operation::policy::input_format>(o.x),
                                                std::max(o.rows, 1));
  auto const s = launch<Operation>(memory.p, on);
  REQUIRE_MESSAGE(s, s.reason());
  return memory.read();
}

/// Random operands; activations are numbers that Format holds.
template <class Format>
projection_operands random_projection(random_source& random, int rows, int n, int k) {
  projection_operands o;
  o.rows = rows;
  o.n = n;
  o.k = k;
  for (auto const v : random.normals<Format>(static_cast<size_t>(rows) * k)) o.x.push_back(ratify::to_float(v));
  o.w_packed.resize(static_cast<size_t>(n) * k / 2);
  for (auto& b : o.w_packed) b = static_cast<uint8_t>(random.word() >> 20);
  o.w_scale.resize(static_cast<size_t>(n) * k / 16);
  for (auto& s : o.w_scale) s.bits = static_cast<uint8_t>(random.integer(0x28, 0x60));
  o.w_global = {random.uniform(0.001f, 0.01f)};
  return o;
}

/// y of one shape equals the twin on every executor, and the twin is within its bound of FP64.
template <class Operation>
void check_projection(random_source& random, int rows, int n, int k, bool bias = false) {
  using policy = typename Operation::policy;
  CAPTURE(rows);
  CAPTURE(n);
  CAPTURE(k);
  auto o = random_projection<typename policy::input_format>(random, rows, n, k);
  if (bias) o.bias = random.normals<float>(n);
  auto const expected = reference::projection(o, policy::split_k, scales_in_fp32<Operation>);
  auto const truth = reference::truth::projection(o, policy::split_k, scales_in_fp32<Operation>);
  CHECK(error_over_bound(expected, truth.value, truth.bound) <= 1.0);
  on_each_executor([&](auto& on) {
    CHECK(bit_difference(run_projection<Operation>(on, o), stored<typename policy::output_format>(expected)) == "");
  });
}

}  // namespace ratify_test
