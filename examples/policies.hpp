// SPDX-License-Identifier: Apache-2.0
/// The policies that are built here, once: ratify-run chooses from these lists and prints them, and whatever is checked
/// or tabulated for every policy takes them from there. A policy that is not here exits 2 in ratify-run; your own
/// program may name any.
///
/// Inputs and outputs are FP32 where that is exact: FP16 and BF16 inputs are widened to FP32 and an FP32 result is
/// rounded to the output format once, at the edge, so that one policy serves all three with the same bits.
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

using namespace ratify;  // every line below names knobs

template <class... Policies>
struct policy_list {};

template <class... Lists>
struct join;
template <class List>
struct join<List> {
  using type = List;
};
template <class... First, class... Second, class... Rest>
struct join<policy_list<First...>, policy_list<Second...>, Rest...> {
  using type = typename join<policy_list<First..., Second...>, Rest...>::type;
};
/// One list of several.
template <class... Lists>
using join_t = typename join<Lists...>::type;

// decode: each format to FP32 and FP16, E4M3 in every revision of the decoder

template <class Output>
using decode_to =
    policy_list<decode_policy<output_format<Output>, decoder<decoder_revision::reference>>,
                decode_policy<output_format<Output>, decoder<decoder_revision::bit_fields>>,
                decode_policy<output_format<Output>, decoder<decoder_revision::fp16_shift>>,
                decode_policy<output_format<Output>>, decode_policy<output_format<Output>, code_format<e5m2>>,
                decode_policy<output_format<Output>, code_format<e2m1x2>>>;
using decode_policies = join_t<decode_to<float>, decode_to<f16>>;

// append

template <class Cache>
using float_append = append_policy<input_format<float>, kv_format<Cache>>;
using append_policies = policy_list<float_append<e4m3>, float_append<e5m2>, float_append<f16>, float_append<bf16>>;

// attention and merge

template <int HeadDim, int Width, class... Knobs>
using float_attention = attention_policy<q_format<float>, head_dim<HeadDim>, partition_width<Width>, Knobs...>;
template <int HeadDim, int Width>
using attention_e4m3 =
    policy_list<float_attention<HeadDim, Width>, float_attention<HeadDim, Width, decoder<decoder_revision::reference>>,
                float_attention<HeadDim, Width, decoder<decoder_revision::fp16_shift>>>;
template <int HeadDim, int Width>
using attention_every_cache =
    join_t<attention_e4m3<HeadDim, Width>, policy_list<float_attention<HeadDim, Width, kv_format<e5m2>>,
                                                       float_attention<HeadDim, Width, kv_format<f16>>,
                                                       float_attention<HeadDim, Width, kv_format<bf16>>>>;
using attention_policies =
    join_t<attention_every_cache<256, 256>,
           policy_list<float_attention<256, 256, decoder<decoder_revision::bit_fields>>,
                       float_attention<256, 256, decoder<decoder_revision::bit_fields>, pv_unroll<1>>,
                       float_attention<256, 256, decoder<decoder_revision::fp16_shift>, pv_unroll<1>>,
                       float_attention<256, 256, decoder<decoder_revision::fp16_shift>, pv_unroll<4>>,
                       float_attention<256, 256, decoder<decoder_revision::fp16_shift>, pv_unroll<16>>>,
           attention_e4m3<256, 64>, attention_every_cache<256, 1024>, attention_e4m3<256, 4096>,
           attention_every_cache<128, 256>, attention_e4m3<128, 1024>, attention_every_cache<64, 256>,
           attention_e4m3<64, 1024>>;
using merge_policies = policy_list<merge_policy<>>;

// convolution

template <class Input, int Taps, bool Silu>
using float_convolution =
    convolution_policy<input_format<Input>, weight_format<float>, output_format<float>, width<Taps>, silu<Silu>>;
template <class Input>
using convolution_every_width = policy_list<float_convolution<Input, 2, false>, float_convolution<Input, 2, true>,
                                            float_convolution<Input, 3, false>, float_convolution<Input, 3, true>,
                                            float_convolution<Input, 4, false>, float_convolution<Input, 4, true>>;
using convolution_policies = join_t<convolution_every_width<f16>, convolution_every_width<bf16>>;

// recurrence

template <recurrence_mode Mode, class... Knobs>
using float_recurrence = recurrence_policy<input_format<float>, output_format<float>, mode<Mode>, Knobs...>;
using transposed = state_layout<recurrence_layout::vk>;
template <recurrence_mode Mode>
using recurrence_every_layout =
    policy_list<float_recurrence<Mode>, float_recurrence<Mode, l2norm<false>>, float_recurrence<Mode, transposed>,
                float_recurrence<Mode, transposed, l2norm<false>>>;
using recurrence_policies =
    join_t<recurrence_every_layout<recurrence_mode::snapshots>,
           policy_list<float_recurrence<recurrence_mode::snapshots, value_block<2>>,
                       float_recurrence<recurrence_mode::snapshots, value_block<4>>,
                       float_recurrence<recurrence_mode::snapshots, value_block<8>>,
                       float_recurrence<recurrence_mode::snapshots, value_block<8>, transposed>,
                       float_recurrence<recurrence_mode::snapshots, value_block<32>>,
                       float_recurrence<recurrence_mode::snapshots, key_dim<64>, value_dim<64>>,
                       float_recurrence<recurrence_mode::snapshots, key_dim<64>, value_dim<64>, l2norm<false>>>,
           recurrence_every_layout<recurrence_mode::replay>,
           policy_list<float_recurrence<recurrence_mode::replay, value_block<2>>,
                       float_recurrence<recurrence_mode::replay, value_block<8>>,
                       float_recurrence<recurrence_mode::replay, value_block<32>>>,
           recurrence_every_layout<recurrence_mode::read>>;

// projection

template <int Splits, projection_scale Scale = projection_scale::fp16>
using float_projection =
    projection_policy<input_format<float>, output_format<float>, split_k<Splits>, effective_scale<Scale>>;
using projection_policies =
    policy_list<float_projection<1>, float_projection<2>, float_projection<4>, float_projection<5>, float_projection<7>,
                float_projection<8>, float_projection<9>, float_projection<1, projection_scale::fp32>,
                float_projection<8, projection_scale::fp32>>;

// acceptance

using acceptance_policies = policy_list<acceptance_policy<>, acceptance_policy<rule<acceptance_rule::rejection>>>;

// drafting

using draft_walk_policies = policy_list<draft_walk_policy<>, draft_walk_policy<mode<draft_mode::sample>>>;
using draft_convolution_policies = policy_list<
    draft_convolution_policy<input_format<float>, base_format<float>, delta_format<float>, output_format<float>>>;

// small operations

using gating_policies = policy_list<gating_policy<input_format<float>>>;
using silu_and_mul_policies = policy_list<silu_and_mul_policy<input_format<float>, output_format<float>>>;
using sigmoid_gate_policies =
    policy_list<sigmoid_gate_policy<input_format<float>, gate_format<float>, output_format<float>>>;
template <bool UnitOffset>
using float_rmsnorm =
    rmsnorm_policy<input_format<float>, output_format<float>, weight_format<float>, unit_offset<UnitOffset>>;
using rmsnorm_policies = policy_list<float_rmsnorm<true>, float_rmsnorm<false>>;
using gated_rmsnorm_policies = policy_list<
    gated_rmsnorm_policy<input_format<float>, gate_format<float>, output_format<float>, weight_format<float>>>;
template <bool UnitOffset>
using float_qk_norm =
    qk_norm_rotary_policy<input_format<float>, output_format<float>, weight_format<float>, unit_offset<UnitOffset>>;
using qk_norm_rotary_policies = policy_list<float_qk_norm<true>, float_qk_norm<false>>;
using embedding_policies = policy_list<embedding_policy<table_format<float>, output_format<float>>>;

}  // namespace ratify_examples
