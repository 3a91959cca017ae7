// SPDX-License-Identifier: Apache-2.0
/// Kernels of the elementwise operations: one thread per element.
#pragma once

#include <ratify/detail/activation_traits.cuh>
#include <ratify/detail/elementwise.cuh>
#include <ratify/device/activation.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
struct gating_kernel : elementwise_kernel<gating_kernel<Policy>, gating_params<Policy>> {
  using params = gating_params<Policy>;
  static constexpr char const* name = "gating_kernel";
  RATIFY_HD static int64_t count(params const& p) { return int64_t{p.rows} * p.value_heads; }
  RATIFY_HD static void element(params const& p, int64_t i) {
    int64_t const row = i / p.value_heads;
    int const head = static_cast<int>(i % p.value_heads);
    device::gates const out =
        device::gating(to_float(p.a.row(row)[head]), to_float(p.b.row(row)[head]), p.a_log[head], p.dt_bias[head]);
    p.g[i] = out.g;
    p.beta[i] = out.beta;
  }
};

template <class Policy>
struct silu_and_mul_kernel : elementwise_kernel<silu_and_mul_kernel<Policy>, silu_and_mul_params<Policy>> {
  using params = silu_and_mul_params<Policy>;
  static constexpr char const* name = "silu_and_mul_kernel";
  RATIFY_HD static int64_t count(params const& p) { return int64_t{p.rows} * p.columns; }
  RATIFY_HD static void element(params const& p, int64_t i) {
    int64_t const row = i / p.columns, column = i % p.columns;
    auto const* const x = p.x.row(row);
    p.out.row(row)[column] = convert<typename Policy::output_format>(
        device::silu_and_mul(to_float(x[column]), to_float(x[p.columns + column])));
  }
};

template <class Policy>
struct sigmoid_gate_kernel : elementwise_kernel<sigmoid_gate_kernel<Policy>, sigmoid_gate_params<Policy>> {
  using params = sigmoid_gate_params<Policy>;
  static constexpr char const* name = "sigmoid_gate_kernel";
  RATIFY_HD static int64_t count(params const& p) { return int64_t{p.rows} * p.heads * p.head_dim; }
  RATIFY_HD static void element(params const& p, int64_t i) {
    int64_t const row = i / (int64_t{p.heads} * p.head_dim), head = i / p.head_dim % p.heads, d = i % p.head_dim;
    p.out.at(row, head)[d] = convert<typename Policy::output_format>(
        device::sigmoid_gate(to_float(p.x.at(row, head)[d]), to_float(p.gate.at(row, head)[d])));
  }
};

}  // namespace detail

using detail::gating_kernel;
using detail::sigmoid_gate_kernel;
using detail::silu_and_mul_kernel;

RATIFY_END_NAMESPACE
