// SPDX-License-Identifier: Apache-2.0
/// One channel of a causal depthwise convolution, for kernels of your own too.
#pragma once

#include <ratify/detail/convolution_traits.cuh>
#include <ratify/detail/math.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// bias + sum of weight[j] * window[j], oldest first, as one chain of fused multiply-adds that begins at the bias (0
/// where there is none); then, with `Silu`, y * sigmoid(y).
template <bool Silu, int Width>
RATIFY_HD inline float convolution(float bias, float const (&weight)[Width], float const (&window)[Width]) {
  float y = bias;
  RATIFY_UNROLL
  for (int j = 0; j < Width; ++j) y = detail::fma_rn(weight[j], window[j], y);
  if constexpr (Silu) y = detail::silu_ordered(y);
  return y;
}

/// What a thread holds of one channel: weights, bias, and the last inputs of the request that it works on.
template <class Policy>
class convolution_channel {
 public:
  using params = convolution_params<Policy>;
  using input_format = typename Policy::input_format;
  static constexpr int width = Policy::width;

  RATIFY_HD convolution_channel(params const& p, int64_t channel) : channel_(channel) {
    RATIFY_UNROLL
    for (int j = 0; j < width; ++j) weight_[j] = to_float(p.weight[channel * width + j]);
    bias_ = p.bias != nullptr ? to_float(p.bias[channel]) : 0.0f;
  }

  /// Takes the window that ends with the last kept row of the previous round, and moves it to the front of the slot.
  RATIFY_HD void take_window(params const& p, int slot, int kept, bool fresh) {
    // The old window may lie where the new one goes: all of it is read before any of it is written.
    place_ = p.window_pool + slot * p.slot_stride + channel_;
    input_format before[width - 1];
    RATIFY_UNROLL
    for (int j = 0; j < width - 1; ++j) before[j] = fresh ? input_format{} : place_[(int64_t{kept} + j) * p.channels];
    RATIFY_UNROLL
    for (int j = 0; j < width - 1; ++j) {
      put(p, before[j]);
      window_[j + 1] = to_float(before[j]);
    }
  }

  /// The next `Rows` rows from row `begin` of the launch on, as far as there are `count`. All are requested from memory
  /// before any is used.
  template <int Rows>
  RATIFY_HD void run_rows(params const& p, int begin, int count) {
    input_format x[Rows];
    RATIFY_UNROLL
    for (int t = 0; t < Rows; ++t)
      if (t < count) x[t] = p.x.row(begin + t)[channel_];
    RATIFY_UNROLL
    for (int t = 0; t < Rows; ++t) {
      if (t >= count) continue;
      RATIFY_UNROLL
      for (int j = 0; j < width - 1; ++j) window_[j] = window_[j + 1];
      window_[width - 1] = to_float(x[t]);
      put(p, x[t]);
      p.out.row(begin + t)[channel_] =
          convert<typename Policy::output_format>(convolution<Policy::silu>(bias_, weight_, window_));
    }
  }
 private:
  /// Puts an input into the next place of the slot.
  RATIFY_HD void put(params const& p, input_format x) {
    *place_ = x;
    place_ += p.channels;
  }

  int64_t channel_;
  float bias_, weight_[width], window_[width];
  input_format* place_ = nullptr;
};

}  // namespace device
RATIFY_END_NAMESPACE
