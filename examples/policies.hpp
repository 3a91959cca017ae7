// SPDX-License-Identifier: Apache-2.0
/// The policy instantiations that are built, once: ratify-run dispatches over these lists and prints them, and whatever
/// is checked or tabulated for every policy takes them from there. What is not here is not built.
///
/// Inputs and outputs are FP32 where that is exact: FP16 and BF16 inputs widen to FP32 and an FP32 result rounds to an
/// output format once, at the edge, so one policy serves all of them with the same bits.
///
/// Needs policies alone, so that NVRTC reads it too; a program includes the operations it launches.
#pragma once

#include <ratify/acceptance_policy.hpp>
#include <ratify/activation_policy.hpp>
#include <ratify/attention_policy.hpp>
#include <ratify/cache_policy.hpp>
#include <ratify/convolution_policy.hpp>
#include <ratify/decoder_policy.hpp>
#include <ratify/drafting_policy.hpp>
#include <ratify/embedding_policy.hpp>
#include <ratify/normalization_policy.hpp>
#include <ratify/projection_policy.hpp>
#include <ratify/recurrence_policy.hpp>

namespace ratify_examples {

using ratify::acceptance_rule;
using ratify::bf16;
using ratify::decoder_revision;
using ratify::draft_mode;
using ratify::e2m1x2;
using ratify::e4m3;
using ratify::e5m2;
using ratify::f16;
using ratify::projection_scale;
using ratify::recurrence_layout;
using ratify::recurrence_mode;

template <class... Policies>
struct policy_list {};

template <class... Lists>
struct join;
template <class List>
struct join<List> {
  using type = List;
};
template <class... A, class... B, class... Rest>
struct join<policy_list<A...>, policy_list<B...>, Rest...> {
  using type = typename join<policy_list<A..., B...>, Rest...>::type;
};
/// One list of several.
template <class... Lists>
using join_t = typename join<Lists...>::type;

/// A storage format as a value, to be described.
template <class T>
struct format {};

#if !defined(__CUDACC_RTC__)

/// What the policies of an operation have in common: its name, its header, and its kernels, `$` standing for the
/// policy; none: one, `OPERATION_kernel<$>`. The policy type is named OPERATION_p.
struct operation_description {
  char const* operation;
  char const* header;
  char const* kernels[4] = {};
};

/// A knob's value as ratify-run spells it, and as C++ does.
struct spelling {
  char const* key_value;
  char const* source;
};
constexpr spelling spell(format<float>) { return {"f32", "float"}; }
constexpr spelling spell(format<f16>) { return {"f16", "ratify::f16"}; }
constexpr spelling spell(format<bf16>) { return {"bf16", "ratify::bf16"}; }
constexpr spelling spell(format<e4m3>) { return {"e4m3", "ratify::e4m3"}; }
constexpr spelling spell(format<e5m2>) { return {"e5m2", "ratify::e5m2"}; }
constexpr spelling spell(format<e2m1x2>) { return {"e2m1", "ratify::e2m1x2"}; }
constexpr spelling spell(bool value) { return value ? spelling{"1", "true"} : spelling{"0", "false"}; }
constexpr spelling spell(decoder_revision value) {
  switch (value) {
    case decoder_revision::reference:
      return {"0", "ratify::decoder_revision::reference"};
    case decoder_revision::bit_fields:
      return {"1", "ratify::decoder_revision::bit_fields"};
    case decoder_revision::fp16_shift:
      return {"2", "ratify::decoder_revision::fp16_shift"};
    default:
      return {"native", "ratify::decoder_revision::native"};
  }
}
constexpr spelling spell(projection_scale value) {
  return value == projection_scale::fp16 ? spelling{"fp16", "ratify::projection_scale::fp16"}
                                         : spelling{"fp32", "ratify::projection_scale::fp32"};
}
constexpr spelling spell(acceptance_rule value) {
  return value == acceptance_rule::coupled ? spelling{"coupled", "ratify::acceptance_rule::coupled"}
                                           : spelling{"rejection", "ratify::acceptance_rule::rejection"};
}
constexpr spelling spell(draft_mode value) {
  return value == draft_mode::argmax ? spelling{"argmax", "ratify::draft_mode::argmax"}
                                     : spelling{"sample", "ratify::draft_mode::sample"};
}
constexpr spelling spell(recurrence_layout value) {
  return value == recurrence_layout::kv ? spelling{"kv", "ratify::recurrence_layout::kv"}
                                        : spelling{"vk", "ratify::recurrence_layout::vk"};
}
constexpr spelling spell(recurrence_mode value) {
  switch (value) {
    case recurrence_mode::snapshots:
      return {"snapshots", "ratify::recurrence_mode::snapshots"};
    case recurrence_mode::replay:
      return {"replay", "ratify::recurrence_mode::replay"};
    default:
      return {"read", "ratify::recurrence_mode::read"};
  }
}

#endif

// Each policy describes its operation and calls `visit(key, value)` for every template argument, in their order.

/// Base of a policy without template arguments.
struct without_knobs {
#if !defined(__CUDACC_RTC__)
  template <class Visitor>
  static void knobs(Visitor&&) {}
#endif
};

// decode

template <class Format, decoder_revision Revision, class To>
struct decode_p : ratify::decode_policy {
  using format = Format;
  using to = To;
  static constexpr auto revision = Revision;
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{"decode", "ratify/decoder.cuh"};
  template <class Visitor>
  static void knobs(Visitor&& visit) {
    visit("format", ratify_examples::format<Format>{});
    visit("revision", Revision);
    visit("to", ratify_examples::format<To>{});
  }
#endif
};

template <class To>
using decode_to =
    policy_list<decode_p<e4m3, decoder_revision::reference, To>, decode_p<e4m3, decoder_revision::bit_fields, To>,
                decode_p<e4m3, decoder_revision::fp16_shift, To>, decode_p<e4m3, decoder_revision::native, To>,
                decode_p<e5m2, decoder_revision::reference, To>, decode_p<e2m1x2, decoder_revision::reference, To>>;
using decode_policies = join_t<decode_to<float>, decode_to<f16>>;

// append

template <class KvFormat>
struct append_p : ratify::append_policy {
  using input_format = float;
  using kv_format = KvFormat;
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{"append", "ratify/cache.cuh"};
  template <class Visitor>
  static void knobs(Visitor&& visit) {
    visit("kv_format", format<KvFormat>{});
  }
#endif
};

using append_policies = policy_list<append_p<e4m3>, append_p<e5m2>, append_p<f16>, append_p<bf16>>;

// attention

template <int HeadDim, int PartitionWidth, int PvUnroll, decoder_revision Revision, class KvFormat>
struct attention_p : ratify::attention_policy {
  using q_format = float;
  using kv_format = KvFormat;
  using out_format = float;
  static constexpr int head_dim = HeadDim;
  static constexpr int partition_width = PartitionWidth;
  static constexpr int pv_unroll = PvUnroll;
  static constexpr auto decoder = Revision;
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{
      "attention", "ratify/attention.cuh", {"attention_partial_kernel<$>", "attention_combine_kernel<$>"}};
  template <class Visitor>
  static void knobs(Visitor&& visit) {
    visit("head_dim", HeadDim);
    visit("partition_width", PartitionWidth);
    visit("pv_unroll", PvUnroll);
    visit("revision", Revision);
    visit("kv_format", format<KvFormat>{});
  }
#endif
};

template <int HeadDim, int PartitionWidth>
using attention_e4m3 = policy_list<attention_p<HeadDim, PartitionWidth, 8, decoder_revision::reference, e4m3>,
                                   attention_p<HeadDim, PartitionWidth, 8, decoder_revision::fp16_shift, e4m3>>;
template <int HeadDim, int PartitionWidth>
using attention_every_cache =
    join_t<attention_e4m3<HeadDim, PartitionWidth>,
           policy_list<attention_p<HeadDim, PartitionWidth, 8, decoder_revision::reference, e5m2>,
                       attention_p<HeadDim, PartitionWidth, 8, decoder_revision::reference, f16>,
                       attention_p<HeadDim, PartitionWidth, 8, decoder_revision::reference, bf16>>>;
using attention_policies = join_t<attention_every_cache<256, 256>,
                                  policy_list<attention_p<256, 256, 8, decoder_revision::bit_fields, e4m3>,
                                              attention_p<256, 256, 8, decoder_revision::native, e4m3>,
                                              attention_p<256, 256, 1, decoder_revision::bit_fields, e4m3>,
                                              attention_p<256, 256, 1, decoder_revision::fp16_shift, e4m3>,
                                              attention_p<256, 256, 4, decoder_revision::fp16_shift, e4m3>,
                                              attention_p<256, 256, 16, decoder_revision::fp16_shift, e4m3>>,
                                  attention_e4m3<256, 64>, attention_every_cache<256, 1024>, attention_e4m3<256, 4096>,
                                  attention_every_cache<128, 256>, attention_e4m3<128, 1024>,
                                  attention_every_cache<64, 256>, attention_e4m3<64, 1024>>;

// merge

struct merge_p : ratify::merge_policy, without_knobs {
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{"merge", "ratify/attention.cuh"};
#endif
};

using merge_policies = policy_list<merge_p>;

// convolution

template <class InputFormat, int Width, bool Silu>
struct convolution_p : ratify::convolution_policy {
  using input_format = InputFormat;
  using weight_format = float;
  using output_format = float;
  static constexpr int width = Width;
  static constexpr bool silu = Silu;
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{"convolution", "ratify/convolution.cuh"};
  template <class Visitor>
  static void knobs(Visitor&& visit) {
    visit("input_format", format<InputFormat>{});
    visit("width", Width);
    visit("silu", Silu);
  }
#endif
};

template <class InputFormat>
using convolution_every_width = policy_list<convolution_p<InputFormat, 2, false>, convolution_p<InputFormat, 2, true>,
                                            convolution_p<InputFormat, 3, false>, convolution_p<InputFormat, 3, true>,
                                            convolution_p<InputFormat, 4, false>, convolution_p<InputFormat, 4, true>>;
using convolution_policies = join_t<convolution_every_width<f16>, convolution_every_width<bf16>>;

// recurrence

template <int KeyDim, int ValueDim, int ValueBlock, bool L2norm, recurrence_layout StateLayout,
          recurrence_mode Mode = recurrence_mode::snapshots>
struct recurrence_p : ratify::recurrence_policy {
  using input_format = float;
  using output_format = float;
  static constexpr int key_dim = KeyDim;
  static constexpr int value_dim = ValueDim;
  static constexpr int value_block = ValueBlock;
  static constexpr bool l2norm = L2norm;
  static constexpr auto state_layout = StateLayout;
  static constexpr auto mode = Mode;
#if !defined(__CUDACC_RTC__)
  // With as many threads a column as the operation chooses on a card.
  static constexpr operation_description description{
      "recurrence",
      "ratify/recurrence.cuh",
      {StateLayout == recurrence_layout::kv ? "recurrence_kernel<$, 4>" : "recurrence_kernel<$, 8>"}};
  template <class Visitor>
  static void knobs(Visitor&& visit) {
    visit("key_dim", KeyDim);
    visit("value_dim", ValueDim);
    visit("value_block", ValueBlock);
    visit("l2norm", L2norm);
    visit("state_layout", StateLayout);
    visit("mode", Mode);
  }
#endif
};

template <int KeyDim, int ValueDim, int ValueBlock, recurrence_layout StateLayout,
          recurrence_mode Mode = recurrence_mode::snapshots>
using recurrence_with_and_without_norm =
    policy_list<recurrence_p<KeyDim, ValueDim, ValueBlock, true, StateLayout, Mode>,
                recurrence_p<KeyDim, ValueDim, ValueBlock, false, StateLayout, Mode>>;
template <recurrence_mode Mode>
using recurrence_every_layout = join_t<recurrence_with_and_without_norm<128, 128, 16, recurrence_layout::kv, Mode>,
                                       recurrence_with_and_without_norm<128, 128, 16, recurrence_layout::vk, Mode>>;
using recurrence_policies = join_t<
    recurrence_every_layout<recurrence_mode::snapshots>,
    policy_list<
        recurrence_p<128, 128, 2, true, recurrence_layout::kv>, recurrence_p<128, 128, 4, true, recurrence_layout::kv>,
        recurrence_p<128, 128, 8, true, recurrence_layout::kv>, recurrence_p<128, 128, 8, true, recurrence_layout::vk>,
        recurrence_p<128, 128, 32, true, recurrence_layout::kv>>,
    recurrence_with_and_without_norm<64, 64, 16, recurrence_layout::kv>,
    recurrence_every_layout<recurrence_mode::replay>,
    policy_list<recurrence_p<128, 128, 2, true, recurrence_layout::kv, recurrence_mode::replay>,
                recurrence_p<128, 128, 8, true, recurrence_layout::kv, recurrence_mode::replay>,
                recurrence_p<128, 128, 32, true, recurrence_layout::kv, recurrence_mode::replay>>,
    recurrence_every_layout<recurrence_mode::read>>;

// projection

template <int SplitK, projection_scale EffectiveScale>
struct projection_p : ratify::projection_policy {
  using input_format = float;
  using output_format = float;
  static constexpr int split_k = SplitK;
  static constexpr auto effective_scale = EffectiveScale;
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{
      "projection",
      "ratify/projection.cuh",
      {"projection_kernel<$, 1>", "projection_kernel<$, 8>", "projection_kernel<$, 16>", "projection_kernel<$, 32>"}};
  template <class Visitor>
  static void knobs(Visitor&& visit) {
    visit("split_k", SplitK);
    visit("effective_scale", EffectiveScale);
  }
#endif
};

using projection_policies =
    policy_list<projection_p<1, projection_scale::fp16>, projection_p<2, projection_scale::fp16>,
                projection_p<4, projection_scale::fp16>, projection_p<5, projection_scale::fp16>,
                projection_p<7, projection_scale::fp16>, projection_p<8, projection_scale::fp16>,
                projection_p<9, projection_scale::fp16>, projection_p<1, projection_scale::fp32>,
                projection_p<8, projection_scale::fp32>>;

// acceptance

template <acceptance_rule Rule>
struct acceptance_p : ratify::acceptance_policy {
  using logit_format = float;
  static constexpr acceptance_rule rule = Rule;
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{"acceptance",
                                                     "ratify/acceptance.cuh",
                                                     {"acceptance_piece_kernel<$>", "acceptance_row_kernel<$, 32>",
                                                      "acceptance_row_kernel<$, 512>", "acceptance_kernel<$>"}};
  template <class Visitor>
  static void knobs(Visitor&& visit) {
    visit("rule", Rule);
  }
#endif
};

using acceptance_policies =
    policy_list<acceptance_p<acceptance_rule::coupled>, acceptance_p<acceptance_rule::rejection>>;

// drafting

template <draft_mode Mode>
struct draft_walk_p : ratify::draft_walk_policy {
  using pair_format = float;
  static constexpr draft_mode mode = Mode;
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{"draft_walk", "ratify/drafting.cuh"};
  template <class Visitor>
  static void knobs(Visitor&& visit) {
    visit("mode", Mode);
  }
#endif
};

struct draft_convolution_p : ratify::draft_convolution_policy, without_knobs {
  using input_format = float;
  using base_format = float;
  using delta_format = float;
  using output_format = float;
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{"draft_convolution", "ratify/drafting.cuh"};
#endif
};

using draft_walk_policies = policy_list<draft_walk_p<draft_mode::argmax>, draft_walk_p<draft_mode::sample>>;
using draft_convolution_policies = policy_list<draft_convolution_p>;

// glue

struct gating_p : ratify::gating_policy, without_knobs {
  using input_format = float;
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{"gating", "ratify/activation.cuh"};
#endif
};

struct silu_and_mul_p : ratify::silu_and_mul_policy, without_knobs {
  using input_format = float;
  using output_format = float;
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{"silu_and_mul", "ratify/activation.cuh"};
#endif
};

struct sigmoid_gate_p : ratify::sigmoid_gate_policy, without_knobs {
  using input_format = float;
  using gate_format = float;
  using output_format = float;
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{"sigmoid_gate", "ratify/activation.cuh"};
#endif
};

template <bool UnitOffset>
struct rmsnorm_p : ratify::rmsnorm_policy {
  using input_format = float;
  using output_format = float;
  using weight_format = float;
  static constexpr bool unit_offset = UnitOffset;
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{
      "rmsnorm", "ratify/normalization.cuh", {"rmsnorm_kernel<$>", "rmsnorm_row_kernel<$>"}};
  template <class Visitor>
  static void knobs(Visitor&& visit) {
    visit("unit_offset", UnitOffset);
  }
#endif
};

struct gated_rmsnorm_p : ratify::gated_rmsnorm_policy, without_knobs {
  using input_format = float;
  using gate_format = float;
  using output_format = float;
  using weight_format = float;
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{"gated_rmsnorm", "ratify/normalization.cuh"};
#endif
};

template <bool UnitOffset>
struct qk_norm_rotary_p : ratify::qk_norm_rotary_policy {
  using input_format = float;
  using output_format = float;
  using weight_format = float;
  static constexpr bool unit_offset = UnitOffset;
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{"qk_norm_rotary", "ratify/normalization.cuh"};
  template <class Visitor>
  static void knobs(Visitor&& visit) {
    visit("unit_offset", UnitOffset);
  }
#endif
};

struct embedding_p : ratify::embedding_policy, without_knobs {
  using table_format = float;
  using output_format = float;
#if !defined(__CUDACC_RTC__)
  static constexpr operation_description description{"embedding", "ratify/embedding.cuh"};
#endif
};

using gating_policies = policy_list<gating_p>;
using silu_and_mul_policies = policy_list<silu_and_mul_p>;
using sigmoid_gate_policies = policy_list<sigmoid_gate_p>;
using rmsnorm_policies = policy_list<rmsnorm_p<true>, rmsnorm_p<false>>;
using gated_rmsnorm_policies = policy_list<gated_rmsnorm_p>;
using qk_norm_rotary_policies = policy_list<qk_norm_rotary_p<true>, qk_norm_rotary_p<false>>;
using embedding_policies = policy_list<embedding_p>;

}  // namespace ratify_examples
