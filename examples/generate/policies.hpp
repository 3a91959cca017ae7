// SPDX-License-Identifier: Apache-2.0
/// The operations of one round, with the knobs this program sets. Sublayers read FP16 and add to an FP32 residual
/// stream.
#pragma once

#include <ratify/acceptance.cuh>
#include <ratify/activation.cuh>
#include <ratify/attention.cuh>
#include <ratify/cache.cuh>
#include <ratify/convolution.cuh>
#include <ratify/embedding.cuh>
#include <ratify/normalization.cuh>
#include <ratify/projection.cuh>
#include <ratify/recurrence.cuh>
#include <ratify/shadow.cuh>

namespace generate {

struct embedding_policy : ratify::embedding_policy {
  using table_format = ratify::f16;
  using output_format = float;
};

struct norm_policy : ratify::rmsnorm_policy {
  using input_format = float;
  using output_format = ratify::f16;
  using weight_format = float;
};

/// Into a sublayer.
struct inner_projection_policy : ratify::projection_policy {
  using output_format = ratify::f16;
};
/// Out of a sublayer, to be added to the residual stream; and the logits.
struct outer_projection_policy : ratify::projection_policy {
  using output_format = float;
};

struct convolution_policy : ratify::convolution_policy {
  static constexpr int width = 4;
};

struct recurrence_policy : ratify::recurrence_policy {
  static constexpr int key_dim = 128;
  static constexpr int value_dim = 128;
  static constexpr bool l2norm = true;
};

struct rotary_policy : ratify::qk_norm_rotary_policy {
  using weight_format = float;
};

template <class KvFormat>
struct append_policy : ratify::append_policy {
  using kv_format = KvFormat;
};

template <class KvFormat>
struct attention_policy : ratify::attention_policy {
  using kv_format = KvFormat;
  using out_format = float;
  static constexpr int head_dim = 256;
  static constexpr int partition_width = 256;
};

// The shadow's: as plain as the operations come. No bit depends on what they change.

struct shadow_recurrence_policy : recurrence_policy {
  static constexpr int value_block = 8;
  static constexpr int column_threads = 8;
};

template <class KvFormat>
struct shadow_attention_policy : attention_policy<KvFormat> {
  static constexpr int pv_unroll = 1;
  static constexpr auto decoder = ratify::decoder_revision::reference;
};

struct output_gate_policy : ratify::sigmoid_gate_policy {
  using input_format = float;
};

}  // namespace generate
