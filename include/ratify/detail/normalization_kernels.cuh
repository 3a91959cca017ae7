// SPDX-License-Identifier: Apache-2.0
/// One warp a row or head, four a block (a warp without work returns, for none waits for another); long rows have a
/// block.
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

/// One block a row, for rows so long that one warp would wait for its loads many times: all warps bring the row to
/// shared storage, the first one sums it in the order of `device::warp_sum_of_squares`.
template <class Policy>
struct rmsnorm_row_kernel {
  using params = rmsnorm_params<Policy>;
  using input_format = typename Policy::input_format;
  static constexpr char const* name = "rmsnorm_row_kernel";
  static constexpr int block_threads = 512;
  static constexpr int ahead = 4;  ///< loads of a thread under way together
  static constexpr int chunk = ahead * block_threads;
  template <class Block>
  struct shared_storage {
    float value[2][chunk];  ///< one is summed while the other is filled
    float inverse;
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int64_t const row = block.block_x();
    float* const sums = p.residual_out.data != nullptr ? p.residual_out.row(row) : nullptr;
    float sum = 0.0f;
    int buffer = 0;
    for (int first = 0; first < p.columns; first += chunk, buffer ^= 1) {
      float v[ahead];
      row_values(block, p, row, first, p.residual, v);
      RATIFY_UNROLL
      for (int a = 0; a < ahead; ++a) {
        int const i = first + a * block_threads + block.thread();
        if (i >= p.columns) break;
        if (sums != nullptr) sums[i] = v[a];
        storage.value[buffer][i - first] = v[a];
      }
      block.barrier();
      if (block.warp() == 0)
        sum = device::lane_sum_of_squares(
            block, min_of(chunk, p.columns - first), [&](int i) { return storage.value[buffer][i]; }, sum);
    }
    if (block.warp() == 0) {
      float const inverse = device::inverse_rms(device::warp_sum(block, sum), p.columns, p.eps);
      if (block.lane() == 0) storage.inverse = inverse;
    }
    block.barrier();
    float const inverse = storage.inverse;
    for (int first = 0; first < p.columns; first += chunk) {
      float v[ahead], weight[ahead];
      // What this thread has stored, for residual_out may lie on residual.
      if (sums != nullptr)
        row_values(block, first, p.columns, sums, v);
      else
        row_values(block, p, row, first, p.residual, v);
      row_values(block, first, p.columns, p.weight, weight);
      RATIFY_UNROLL
      for (int a = 0; a < ahead; ++a) {
        int const i = first + a * block_threads + block.thread();
        if (i >= p.columns) break;
        p.out.row(row)[i] =
            convert<typename Policy::output_format>(device::rms_scaled<Policy::unit_offset>(v[a], inverse, weight[a]));
      }
    }
  }
 private:
  /// The thread's elements of a chunk; those past the last column are 0. Loads first, then conversions, so that no load
  /// waits for another.
  RATIFY_ANY_BLOCK
  template <class Block, class T>
  RATIFY_HD static void row_values(Block const& block, int first, int columns, T const* from, float (&v)[ahead]) {
    T raw[ahead];
    RATIFY_UNROLL
    for (int a = 0; a < ahead; ++a) {
      int const i = first + a * block_threads + block.thread();
      raw[a] = i < columns ? from[i] : T{};
    }
    RATIFY_UNROLL
    for (int a = 0; a < ahead; ++a) v[a] = to_float(raw[a]);
  }
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void row_values(Block const& block, params const& p, int64_t row, int first,
                                   rows_view<float const> const& residual, float (&v)[ahead]) {
    if (residual.data == nullptr) return row_values(block, first, p.columns, p.x.row(row), v);
    float before[ahead];
    row_values(block, first, p.columns, p.x.row(row), v);
    row_values(block, first, p.columns, residual.row(row), before);
    RATIFY_UNROLL
    for (int a = 0; a < ahead; ++a) v[a] = canonical(add_rn(before[a], v[a]));
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
