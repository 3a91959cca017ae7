// SPDX-License-Identifier: Apache-2.0
/// Operands of the gated delta rule, made at random and put where an executor can reach them.
#pragma once

#include <ratify/recurrence.cuh>

#include "../reference/recurrence.hpp"
#include "executors.hpp"
#include "random.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ratify_test {

template <class Policy>
reference::recurrence_shape shape_of(int key_heads, int value_heads) {
  reference::recurrence_shape s;
  s.key_heads = key_heads;
  s.value_heads = value_heads;
  s.key_dim = Policy::key_dim;
  s.value_dim = Policy::value_dim;
  s.l2norm = Policy::l2norm;
  s.vk = Policy::state_layout == ratify::recurrence_layout::vk;
  s.scale = 1.0f / std::sqrt(static_cast<float>(s.key_dim));
  return s;
}

/// Heads, rows and requests of a launch: a tensor-parallel shard's heads or others, 1 to 32 rows, 1 to 16 requests,
/// some of them without rows; as many as keep the states of a launch small.
struct recurrence_extent {
  int key_heads, value_heads, max_rows;
  std::vector<int> counts;
};
template <class Policy>
recurrence_extent random_recurrence_extent(random_source& random, int most_rows, bool slot_per_row) {
  constexpr int64_t most_elements = 1 << 20;
  recurrence_extent e;
  int const ratio = random.one_of({1, 2, 3, 3, 3, 4});
  e.key_heads = random.one_of({1, 1, 2, 2, 3, 4, 8, 16});
  e.max_rows = std::min(most_rows, random.one_of({1, 2, 3, 8, 8, 11, random.integer(1, 32), 32}));
  int64_t const head = int64_t{Policy::key_dim} * Policy::value_dim;
  // What a request costs in heads: its slots, or the rows that may be worked out on its one state.
  int64_t const most = std::max<int64_t>(1, most_elements / head / (slot_per_row ? e.max_rows + 1 : 2 * most_rows));
  if (e.key_heads * ratio > most) e.key_heads = random.one_of({1, 1, 2});
  e.value_heads = e.key_heads * ratio;
  int const requests = static_cast<int>(std::max<int64_t>(
      1, std::min<int64_t>(random.one_of({1, 2, 3, 5, random.integer(1, 16), 16}), most / e.value_heads)));
  for (int r = 0; r < requests; ++r) e.counts.push_back(random.integer(0, e.max_rows));
  e.counts.back() = e.max_rows;
  return e;
}

/// Values of a storage format, as FP32.
template <class Format>
std::vector<float> values(random_source& random, size_t n, float deviation) {
  std::vector<float> v;
  for (auto const x : random.normals<Format>(n, deviation)) v.push_back(ratify::to_float(x));
  return v;
}

template <class Policy>
reference::recurrence_inputs make_inputs(random_source& random, reference::recurrence_shape const& s, int rows) {
  using input = typename Policy::input_format;
  // Keys that are not normalised have about unit length, or the state would explode.
  float const deviation = s.l2norm ? 1.0f : 0.1f;
  size_t const n = static_cast<size_t>(rows);
  return {values<input>(random, n * s.key_heads * s.key_dim, deviation),
          values<input>(random, n * s.key_heads * s.key_dim, deviation),
          values<input>(random, n * s.value_heads * s.value_dim, 1.0f),
          random.uniforms<float>(n * s.value_heads, -0.5f, 0.0f),
          random.uniforms<float>(n * s.value_heads, 0.0f, 1.0f)};
}

inline reference::recurrence_inputs some_rows(reference::recurrence_shape const& s,
                                              reference::recurrence_inputs const& in, int begin, int end) {
  auto const part = [&](std::vector<float> const& v, int width) {
    return std::vector<float>(v.begin() + begin * width, v.begin() + end * width);
  };
  return {part(in.q, s.key_heads * s.key_dim), part(in.k, s.key_heads * s.key_dim),
          part(in.v, s.value_heads * s.value_dim), part(in.g, s.value_heads), part(in.beta, s.value_heads)};
}

template <class T>
std::vector<T> slice(std::vector<T> const& v, int64_t begin, int64_t n) {
  return std::vector<T>(v.begin() + begin, v.begin() + begin + n);
}

/// Device copies of what every mode takes. q, k and v lie in one mixed row with `padding` NaN after them.
template <class Policy, class Executor>
struct row_operands {
  using input = typename Policy::input_format;
  row_operands(Executor& on, reference::recurrence_shape const& s, reference::recurrence_inputs const& in,
               std::vector<int32_t> const& starts, std::vector<int32_t> const& fresh_requests, int max_rows,
               int padding)
      : mixed(on, mix(s, in, padding)),
        out(on, in.v.size()),
        g(on, in.g),
        beta(on, in.beta),
        query_start(on, starts),
        fresh(on, fresh_requests) {
    int const K = s.key_dim, V = s.value_dim;
    p.q.data = mixed.data();
    p.k.data = p.q.data + s.key_heads * K;
    p.v.data = p.k.data + s.key_heads * K;
    p.q.row_stride = p.k.row_stride = p.v.row_stride = 2 * s.key_heads * K + s.value_heads * V + padding;
    p.q.head_stride = p.k.head_stride = K;
    p.v.head_stride = V;
    if constexpr (!Policy::fused_gating) {
      p.g = g.data();
      p.beta = beta.data();
    }
    p.query_start = query_start.data();
    p.fresh = fresh_requests.empty() ? nullptr : fresh.data();
    p.out = {out.data(), int64_t{s.value_heads} * V, V};
    p.rows = static_cast<int>(in.g.size()) / s.value_heads;
    p.requests = static_cast<int>(starts.size()) - 1;
    p.key_heads = s.key_heads;
    p.value_heads = s.value_heads;
    p.max_rows = max_rows;
    p.scale = s.scale;
  }

  static std::vector<input> mix(reference::recurrence_shape const& s, reference::recurrence_inputs const& in,
                                int padding) {
    int const qk = s.key_heads * s.key_dim, v = s.value_heads * s.value_dim;
    size_t const rows = in.g.size() / s.value_heads;
    std::vector<input> row;
    for (size_t t = 0; t < rows; ++t) {
      for (int i = 0; i < qk; ++i) row.push_back(ratify::convert<input>(in.q[t * qk + i]));
      for (int i = 0; i < qk; ++i) row.push_back(ratify::convert<input>(in.k[t * qk + i]));
      for (int i = 0; i < v; ++i) row.push_back(ratify::convert<input>(in.v[t * v + i]));
      row.insert(row.end(), static_cast<size_t>(padding), ratify::convert<input>(NAN));
    }
    return row;
  }

  buffer<input, Executor> mixed;
  buffer<typename Policy::output_format, Executor> out;
  buffer<float, Executor> g, beta;
  buffer<int32_t, Executor> query_start, fresh;
  typename ratify::recurrence<Policy>::params p;
};

/// And what mode snapshots takes.
template <class Policy, class Executor>
struct snapshot_operands : row_operands<Policy, Executor> {
  snapshot_operands(Executor& on, reference::recurrence_shape const& s, reference::recurrence_inputs const& in,
                    reference::recurrence_round const& r, int padding)
      : row_operands<Policy, Executor>(on, s, in, r.query_start, r.fresh, r.max_rows, padding),
        initial_slot(on, r.initial_slot),
        selector(on, r.selector),
        snapshot_slot(on, r.snapshot_slot) {
    this->p.slot_stride = r.slot_stride;
    this->p.initial_slot = initial_slot.data();
    this->p.selector = selector.data();
    this->p.snapshot_slot = {snapshot_slot.data(), r.max_rows};
  }
  buffer<int32_t, Executor> initial_slot, selector, snapshot_slot;
};

}  // namespace ratify_test
