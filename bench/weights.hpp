// SPDX-License-Identifier: Apache-2.0
/// Random weights, caches and states of the measured model, in the formats and sizes of the real ones.
#pragma once

#include <bench/device.hpp>
#include <bench/shape.hpp>
#include <common/layers.hpp>

namespace bench {

/// NVFP4 weights [n, k] in checkpoint layout.
struct linear {
  int n = 0, k = 0;
  buffer<uint8_t> packed;
  buffer<ratify::e4m3> scale;
  buffer<float> global;

  linear() = default;
  linear(card const& on, int n, int k)
      : n(n),
        k(k),
        packed(on, static_cast<size_t>(n) * static_cast<size_t>(k) / 2, any_byte{}),
        scale(on, static_cast<size_t>(n) * static_cast<size_t>(k) / 16, uniform<ratify::e4m3>{0.5f, 2}),
        global(std::vector<float>{0.0048f}) {}

  example::linear_view view() const { return {n, k, packed.data(), scale.data(), global.data()}; }
};

/// One layer with the state of one request.
struct layer {
  buffer<float> norm, mlp_norm;
  linear in, out, gate_up, down;
  // A gated delta net.
  buffer<ratify::f16> convolution, windows;
  buffer<float> a_log, dt_bias, value_norm, states;
  // Attention.
  buffer<float> q_norm, k_norm;
  buffer<ratify::e4m3> k_pages, v_pages;

  /// @param state_slots states that the pool holds
  layer(card const& on, example::geometry const& g, bool is_attention, int state_slots)
      : norm(small_weights(on, g.hidden)),
        mlp_norm(small_weights(on, g.hidden)),
        gate_up(on, 2 * g.mlp, g.hidden),
        down(on, g.hidden, g.mlp) {
    if (is_attention) {
      size_t const cache = static_cast<size_t>(g.context) * static_cast<size_t>(g.kv_width());
      in = linear(on, g.attention_rows(), g.hidden);
      out = linear(on, g.hidden, g.q_width());
      q_norm = small_weights(on, g.head_dim);
      k_norm = small_weights(on, g.head_dim);
      k_pages = buffer<ratify::e4m3>(on, cache, uniform<ratify::e4m3>{-4, 4});
      v_pages = buffer<ratify::e4m3>(on, cache, uniform<ratify::e4m3>{-4, 4});
    } else {
      size_t const channels = static_cast<size_t>(g.gdn_channels());
      size_t const width = static_cast<size_t>(g.convolution_width);
      in = linear(on, padded_gdn_rows(g), g.hidden);
      out = linear(on, g.hidden, g.gdn_values());
      convolution = buffer<ratify::f16>(on, channels * width, uniform<ratify::f16>{-0.5f, 0.5f});
      windows = buffer<ratify::f16>(on, channels * (width - 1 + round_rows), uniform<ratify::f16>{-1, 1});
      a_log = small_weights(on, g.value_heads);
      dt_bias = small_weights(on, g.value_heads);
      value_norm = small_weights(on, g.value_dim);
      states = buffer<float>(on, static_cast<size_t>(state_slots) * g.state_elements(), uniform<float>{-0.1f, 0.1f});
    }
  }

  static buffer<float> small_weights(card const& on, int n) {
    return {on, static_cast<size_t>(n), uniform<float>{-0.2f, 0.2f}};
  }

  example::layer_view<ratify::e4m3> view() const {
    auto v = example::view_of_weights<ratify::e4m3>(*this);
    v.windows = windows.data();
    v.states = states.data();
    v.k_pages = k_pages.data();
    v.v_pages = v_pages.data();
    return v;
  }
};

}  // namespace bench
