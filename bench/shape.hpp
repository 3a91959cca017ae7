// SPDX-License-Identifier: Apache-2.0
/// The model whose rounds are measured: 27 B parameters, 48 gated delta nets and 16 full attention layers.
#pragma once

#include <common/geometry.hpp>

namespace bench {

/// Tokens of a cache page.
inline constexpr int page_size = 64;
/// Rows of a round: the last token of the text and 7 drafts.
inline constexpr int round_rows = 8;

/// What one rank of a tensor-parallel group computes.
/// @param ranks 1 or 2
inline example::geometry shape_of(int ranks, int layers = 64) {
  example::geometry g;
  g.hidden = 5120;
  g.layers = layers;
  g.attention_interval = 4;
  g.q_heads = 24 / ranks;
  g.kv_heads = 4 / ranks;
  g.head_dim = 256;
  g.rotary_dim = 64;
  g.key_heads = 16 / ranks;
  g.value_heads = 48 / ranks;
  g.key_dim = g.value_dim = 128;
  g.convolution_width = 4;
  g.mlp = 17408 / ranks;
  g.vocabulary = 248320;
  g.context = 262144;
  g.norm_eps = 1e-6f;
  return g;
}

/// Outputs of the projection into a gated delta net, with the padding that a checkpoint for two ranks has.
inline int padded_gdn_rows(example::geometry const& g) { return example::round_up(g.gdn_rows(), 32); }

}  // namespace bench
