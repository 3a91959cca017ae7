// SPDX-License-Identifier: Apache-2.0
/// The arms: policies of the operations as the round launches them, and their knobs in words.
#pragma once

#include <ratify/acceptance_policy.hpp>
#include <ratify/activation_policy.hpp>
#include <ratify/attention_policy.hpp>
#include <ratify/cache_policy.hpp>
#include <ratify/convolution_policy.hpp>
#include <ratify/embedding_policy.hpp>
#include <ratify/normalization_policy.hpp>
#include <ratify/projection_policy.hpp>
#include <ratify/recurrence_policy.hpp>

#include <string>
#include <type_traits>

namespace bench {

template <ratify::decoder_revision Revision, int Unroll, int Width = ratify::attention_policy::partition_width>
struct attention_policy : ratify::attention_policy {
  using kv_format = ratify::e4m3;
  using out_format = float;
  static constexpr int head_dim = 256;
  static constexpr int partition_width = Width;
  static constexpr int pv_unroll = Unroll;
  static constexpr auto decoder = Revision;
};

template <ratify::recurrence_mode Mode, int ValueBlock>
struct recurrence_policy : ratify::recurrence_policy {
  static constexpr auto mode = Mode;
  static constexpr int value_block = ValueBlock;
};

template <int SplitK, class Output>
struct projection_policy : ratify::projection_policy {
  using output_format = Output;
  static constexpr int split_k = SplitK;
};

struct embedding_policy : ratify::embedding_policy {};

struct norm_policy : ratify::rmsnorm_policy {
  using input_format = float;
  using weight_format = float;
};

struct rotary_policy : ratify::qk_norm_rotary_policy {
  using weight_format = float;
};

struct output_gate_policy : ratify::sigmoid_gate_policy {
  using input_format = float;
};

template <class T>
std::string format_name() {
  if (std::is_same_v<T, float>) return "f32";
  if (std::is_same_v<T, ratify::f16>) return "f16";
  if (std::is_same_v<T, ratify::e4m3>) return "e4m3";
  return "other";
}

inline std::string describe(ratify::decoder_revision r) {
  return r == ratify::decoder_revision::native ? "native" : std::to_string(static_cast<int>(r));
}
inline std::string describe(ratify::recurrence_mode m) {
  return m == ratify::recurrence_mode::snapshots ? "snapshots" : m == ratify::recurrence_mode::read ? "read" : "replay";
}
template <ratify::decoder_revision Revision, int Unroll, int Width>
std::string describe(attention_policy<Revision, Unroll, Width>) {
  using p = attention_policy<Revision, Unroll, Width>;
  return "head_dim " + std::to_string(p::head_dim) + ", partition_width " + std::to_string(p::partition_width) +
         ", decoder " + describe(Revision) + ", pv_unroll " + std::to_string(Unroll) + ", kv_format e4m3";
}
template <ratify::recurrence_mode Mode, int ValueBlock>
std::string describe(recurrence_policy<Mode, ValueBlock>) {
  return "mode " + describe(Mode) + ", value_block " + std::to_string(ValueBlock) + ", state_layout kv, l2norm";
}
template <int SplitK, class Output>
std::string describe(projection_policy<SplitK, Output>) {
  return "split_k " + std::to_string(SplitK) + ", effective_scale fp16, output_format " + format_name<Output>();
}

}  // namespace bench
