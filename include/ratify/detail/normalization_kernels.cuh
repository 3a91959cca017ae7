// SPDX-License-Identifier: Apache-2.0
/// Kernels of the normalizations. A warp has a row or head of its own, four in a block; a warp without work returns,
/// for none waits for another. Long rows of rmsnorm have a block each.
#pragma once

#include <ratify/detail/normalization_traits.cuh>
#include <ratify/detail/normalization_tuning.hpp>
#include <ratify/device/normalization.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// One warp per row.
template <class Policy>
struct rmsnorm_kernel {
  using params = rmsnorm_params<Policy>;
  static constexpr char const* name = "rmsnorm_kernel";
  static constexpr int block_threads = 32 * normalization_warps;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    int64_t const row = int64_t{block.block_x()} * normalization_warps + block.warp();
    if (row >= p.rows) return;
    auto const* const x = p.x.row(row);
    float const* const residual = p.residual.data != nullptr ? p.residual.row(row) : nullptr;
    float* const sums = p.residual_out.data != nullptr ? p.residual_out.row(row) : nullptr;
    auto const input = [&](int i) {
      float const v = to_float(x[i]);
      return residual != nullptr ? canonical(add_rn(residual[i], v)) : v;
    };
    // What this lane has stored, for residual_out may lie on residual.
    auto const summed = [&](int i) { return sums != nullptr ? sums[i] : input(i); };
    device::rms_factor const inverse = device::warp_rms(
        block, p.columns, p.eps,
        [&](int i) {
          float const v = input(i);
          if (sums != nullptr) sums[i] = v;
          return v;
        },
        summed);
    for (int i = block.lane(); i < p.columns; i += 32)
      p.out.row(row)[i] = convert<typename Policy::output_format>(
          device::rms_scaled<Policy::unit_offset>(summed(i), inverse, to_float(p.weight[i])));
  }
};

/// One block per row, for rows so long that one warp would wait for its loads many times.
template <class Policy>
struct rmsnorm_row_kernel {
  using params = rmsnorm_params<Policy>;
  static constexpr char const* name = "rmsnorm_row_kernel";
  static constexpr int block_threads = rmsnorm_row_threads, loads = rmsnorm_row_loads;
  template <class Block>
  struct shared_storage {
    device::row_stage<block_threads, loads> stage;
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int64_t const row = block.block_x();
    int const thread = block.thread();
    float* const sums = p.residual_out.data != nullptr ? p.residual_out.row(row) : nullptr;
    auto const input = [&](int first, float(&v)[loads]) {
      device::chunk_values(block, first, p.columns, p.x.row(row), v);
      if (p.residual.data == nullptr) return;
      float before[loads];
      device::chunk_values(block, first, p.columns, p.residual.row(row), before);
      RATIFY_UNROLL
      for (int a = 0; a < loads; ++a) v[a] = canonical(add_rn(before[a], v[a]));
    };
    // What this thread has stored, for residual_out may lie on residual.
    auto const summed = [&](int first, float(&v)[loads]) {
      if (sums != nullptr)
        device::chunk_values(block, first, p.columns, sums, v);
      else
        input(first, v);
    };
    float sum = device::block_sum_of_squares(block, storage.stage, p.columns, 1.0f, [&](int first, float(&v)[loads]) {
      input(first, v);
      RATIFY_UNROLL
      for (int a = 0; a < loads; ++a) {
        int const i = first + a * block_threads + thread;
        if (sums != nullptr && i < p.columns) sums[i] = v[a];
      }
    });
    float const scale = device::square_scale(sum, p.columns, p.eps);
    if (bits(scale) != bits(1.0f)) sum = device::block_sum_of_squares(block, storage.stage, p.columns, scale, summed);
    device::rms_factor const inverse = device::inverse_rms(sum, p.columns, p.eps, scale);
    for (int first = 0; first < p.columns; first += block_threads * loads) {
      float v[loads], weight[loads];
      summed(first, v);
      device::chunk_values(block, first, p.columns, p.weight, weight);
      RATIFY_UNROLL
      for (int a = 0; a < loads; ++a) {
        int const i = first + a * block_threads + thread;
        if (i < p.columns)
          p.out.row(row)[i] = convert<typename Policy::output_format>(
              device::rms_scaled<Policy::unit_offset>(v[a], inverse, weight[a]));
      }
    }
  }
};

/// One warp per head of a row.
template <class Policy>
struct gated_rmsnorm_kernel {
  using params = gated_rmsnorm_params<Policy>;
  static constexpr char const* name = "gated_rmsnorm_kernel";
  static constexpr int block_threads = 32 * normalization_warps;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    int64_t const at = int64_t{block.block_x()} * normalization_warps + block.warp();
    if (at >= int64_t{p.rows} * p.heads) return;
    auto const* const x = p.x.at(at / p.heads, at % p.heads);
    auto const* const z = p.z.at(at / p.heads, at % p.heads);
    auto* const out = p.out.at(at / p.heads, at % p.heads);
    auto const value = [&](int i) { return to_float(x[i]); };
    device::rms_factor const inverse = device::warp_rms(block, p.head_dim, p.eps, value, value);
    for (int i = block.lane(); i < p.head_dim; i += 32)
      out[i] = convert<typename Policy::output_format>(
          device::gated_rms_scaled(value(i), inverse, to_float(p.weight[i]), to_float(z[i])));
  }
};

/// One warp per head of a row.
template <class Policy>
struct qk_norm_rotary_kernel {
  using params = qk_norm_rotary_params<Policy>;
  using output_format = typename Policy::output_format;
  static constexpr char const* name = "qk_norm_rotary_kernel";
  static constexpr int block_threads = 32 * normalization_warps;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    int64_t const at = int64_t{block.block_x()} * normalization_warps + block.warp();
    if (at >= int64_t{p.rows} * p.heads) return;
    int64_t const row = at / p.heads;
    auto const* const x = p.x.at(row, at % p.heads);
    auto* const out = p.out.at(row, at % p.heads);
    int const position = p.positions[row];
    if (position < 0 || position >= p.max_position) {
      for (int i = block.lane(); i < p.head_dim; i += 32) out[i] = convert<output_format>(0.0f);
      return;
    }
    auto const value = [&](int i) { return to_float(x[i]); };
    device::rms_factor const inverse = device::warp_rms(block, p.head_dim, p.eps, value, value);
    auto const normed = [&](int i) {
      return device::rms_scaled<Policy::unit_offset>(value(i), inverse, to_float(p.weight[i]));
    };
    // Shuffles order no memory: where out is x, other lanes have read what this lane is about to write.
    block.warp_barrier();
    int const half = p.rotary_dim / 2;
    float const* const cos = p.cos + int64_t{position} * half;
    float const* const sin = p.sin + int64_t{position} * half;
    // A lane reads both of a pair before it writes either: out may be x.
    for (int i = block.lane(); i < half; i += 32) {
      auto const turned = device::rotate(normed(i), normed(i + half), cos[i], sin[i]);
      out[i] = convert<output_format>(turned.a);
      out[i + half] = convert<output_format>(turned.b);
    }
    for (int i = p.rotary_dim + block.lane(); i < p.head_dim; i += 32) out[i] = convert<output_format>(normed(i));
  }
};

}  // namespace detail

using detail::gated_rmsnorm_kernel;
using detail::qk_norm_rotary_kernel;
using detail::rmsnorm_kernel;
using detail::rmsnorm_row_kernel;

RATIFY_END_NAMESPACE
