// SPDX-License-Identifier: Apache-2.0
/// One warp a row or head, four a block; a warp without work returns, for none waits for another.
#pragma once

#include <ratify/device/normalization.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

inline constexpr int normalization_warps = 4;

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
    auto const sum_at = [&](int i) {
      float const v = to_float(x[i]);
      return residual != nullptr ? canonical(add_rn(residual[i], v)) : v;
    };
    float const inverse = device::inverse_rms(device::warp_sum_of_squares(block, p.columns,
                                                                          [&](int i) {
                                                                            float const v = sum_at(i);
                                                                            if (sums != nullptr) sums[i] = v;
                                                                            return v;
                                                                          }),
                                              p.columns, p.eps);
    for (int i = block.lane(); i < p.columns; i += 32) {
      // What this lane has stored, for residual_out may lie on residual.
      float const v = sums != nullptr ? sums[i] : sum_at(i);
      p.out.row(row)[i] = convert<typename Policy::output_format>(
          device::rms_scaled<Policy::unit_offset>(v, inverse, to_float(p.weight[i])));
    }
  }
};

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
    float const inverse = device::inverse_rms(
        device::warp_sum_of_squares(block, p.head_dim, [&](int i) { return to_float(x[i]); }), p.head_dim, p.eps);
    for (int i = block.lane(); i < p.head_dim; i += 32)
      out[i] = convert<typename Policy::output_format>(
          device::gated_rms_scaled(to_float(x[i]), inverse, to_float(p.weight[i]), to_float(z[i])));
  }
};

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
    float const inverse = device::inverse_rms(
        device::warp_sum_of_squares(block, p.head_dim, [&](int i) { return to_float(x[i]); }), p.head_dim, p.eps);
    auto const normed = [&](int i) {
      return device::rms_scaled<Policy::unit_offset>(to_float(x[i]), inverse, to_float(p.weight[i]));
    };
    block.warp_barrier();  // shuffles order no memory: with out = x, others have read what this lane is about to write
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
RATIFY_END_NAMESPACE
