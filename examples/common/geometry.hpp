// SPDX-License-Identifier: Apache-2.0
/// The sizes of a hybrid language model.
#pragma once

#include <cstddef>

namespace example {

/// A model of gated delta nets and full attention layers, or the shard of it that one rank of a tensor-parallel group
/// computes.
struct geometry {
  int hidden = 0;              ///< width of the residual stream
  int layers = 0;              ///< each one is a gated delta net or full attention, followed by an MLP
  int attention_interval = 0;  ///< every `attention_interval`-th layer is full attention
  int q_heads = 0, kv_heads = 0, head_dim = 0;
  int rotary_dim = 0;  ///< leading elements of a head that are rotated by the position
  int key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, convolution_width = 0;
  int mlp = 0;  ///< width of each half of the gated MLP
  int vocabulary = 0;
  int context = 0;  ///< the most tokens of a text
  float norm_eps = 0;

  bool is_attention(int layer) const { return layer % attention_interval == attention_interval - 1; }
  int attention_layers() const { return layers / attention_interval; }
  int q_width() const { return q_heads * head_dim; }
  int kv_width() const { return kv_heads * head_dim; }
  int gdn_values() const { return value_heads * value_dim; }
  /// Channels of the convolution: q, k and v of all heads.
  int gdn_channels() const { return 2 * key_heads * key_dim + gdn_values(); }
  /// Outputs of the fused projection into a gated delta net: q, k, v, z, a, b.
  int gdn_rows() const { return gdn_channels() + gdn_values() + 2 * value_heads; }
  /// Outputs of the fused projection into an attention layer: query and gate of each head in turn, then k, then v.
  int attention_rows() const { return 2 * q_width() + 2 * kv_width(); }
  /// Elements of the recurrent state of one layer and request.
  size_t state_elements() const {
    return static_cast<size_t>(value_heads) * static_cast<size_t>(key_dim) * static_cast<size_t>(value_dim);
  }
};

inline int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace example
