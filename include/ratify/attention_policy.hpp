// SPDX-License-Identifier: Apache-2.0
/// Knobs of the verify attention.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

/// Derive and override by name; a misspelt knob compiles silently. `partition_width` is arithmetic: it may move bits.
/// No other knob does.
struct attention_policy {
  using q_format = f16;                        ///< f16, bf16 or float
  using kv_format = e4m3;                      ///< e4m3, e5m2, f16 or bf16
  using out_format = float;                    ///< f16, bf16 or float
  static constexpr int head_dim = 256;         ///< elements: 64, 128 or 256
  static constexpr int partition_width = 256;  ///< tokens: 64, 128, ... 4096; up to 256 has the faster tiles
  static constexpr int pv_unroll = 8;          ///< tokens whose V is loaded ahead: 1, 4, 8 or 16
  static constexpr auto decoder =
      decoder_revision::fp16_shift;  ///< how E4M3 codes are decoded; other formats have one way
};

/// Knobs of the merge of softmax partials.
struct merge_policy {
  using out_format = float;  ///< f16, bf16 or float
};

RATIFY_END_NAMESPACE
