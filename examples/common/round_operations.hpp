// SPDX-License-Identifier: Apache-2.0
/// The operations of a round of a hybrid language model, with the knobs such a model needs, and the names under which
/// their launches are counted.
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

#include <type_traits>

namespace example {

/// The launches of a round that are counted together.
enum class part {
  embedding,
  rmsnorm,
  gdn_in,
  convolution,
  gating,
  recurrence,
  gated_rmsnorm,
  gdn_out,
  attention_in,
  qk_norm_rotary,
  append,
  attention,
  sigmoid_gate,
  attention_out,
  gate_up,
  silu_and_mul,
  down,
  head,
  acceptance,
  count
};
inline constexpr int part_count = static_cast<int>(part::count);

/// What a part is called: its operation, and for a projection which one it is.
struct part_name {
  char const* operation;
  char const* place;
};
inline constexpr part_name part_names[part_count] = {{"embedding", ""},
                                                     {"rmsnorm", ""},
                                                     {"projection", "gdn in"},
                                                     {"convolution", ""},
                                                     {"gating", ""},
                                                     {"recurrence", ""},
                                                     {"gated_rmsnorm", ""},
                                                     {"projection", "gdn out"},
                                                     {"projection", "attention in"},
                                                     {"qk_norm_rotary", ""},
                                                     {"append", ""},
                                                     {"attention", ""},
                                                     {"sigmoid_gate", ""},
                                                     {"projection", "attention out"},
                                                     {"projection", "gate+up"},
                                                     {"silu_and_mul", ""},
                                                     {"projection", "down"},
                                                     {"projection", "head"},
                                                     {"acceptance", ""}};

/// What a projection writes: FP32 if the result is added to the residual stream or is the logits, FP16 otherwise.
template <part Where>
using projected_format = std::conditional_t<Where == part::gdn_out || Where == part::attention_out ||
                                                Where == part::down || Where == part::head,
                                            float, ratify::f16>;

/// The operations of a round: sublayers read FP16 and add to an FP32 residual stream, and norms have FP32 weights. A
/// program that builds some of them under other knobs derives from this and names those again.
template <class KvFormat = ratify::e4m3>
struct round_operations {
  using embedding = ratify::embedding<>;
  using rmsnorm = ratify::rmsnorm<ratify::input_format<float>, ratify::weight_format<float>>;
  /// K is summed as a whole. How many parts it is summed in moves bits, so a program that wants speed chooses the
  /// number once for each of its shapes.
  template <part Where>
  using projection = ratify::projection<ratify::output_format<projected_format<Where>>, ratify::split_k<1>>;
  using convolution = ratify::convolution<>;
  using gating = ratify::gating<>;
  using recurrence = ratify::recurrence<>;
  using gated_rmsnorm = ratify::gated_rmsnorm<>;
  using qk_norm_rotary = ratify::qk_norm_rotary<ratify::weight_format<float>>;
  using append = ratify::append<ratify::kv_format<KvFormat>>;
  using attention = ratify::attention<ratify::kv_format<KvFormat>>;
  using sigmoid_gate = ratify::sigmoid_gate<ratify::input_format<float>>;
  using silu_and_mul = ratify::silu_and_mul<>;
  using acceptance = ratify::acceptance<>;
};

/// One launch, as a visitor is given it.
template <part Where, class Operation>
struct step {
  static constexpr part id = Where;
  using operation = Operation;
  int layer = -1;  ///< -1 for what belongs to no layer
  typename Operation::params params = {};
};

}  // namespace example
