// SPDX-License-Identifier: Apache-2.0
/// Knobs of the verify attention and of the merge of softmax partials.
#pragma once

#include <ratify/detail/policy.hpp>
#include <ratify/numeric.hpp>

/// `partition_width` is arithmetic: another width may change bits of the result. No other knob does.
#define RATIFY_ATTENTION_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                                                   \
  FORMAT(op, q_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of q")                               \
  FORMAT(op, kv_format, e4m3, (e4m3, e5m2, f16, bf16), "e4m3, e5m2, f16 or bf16", "format of the cache pages")     \
  FORMAT(op, output_format, float, (float, f16, bf16), "float, f16 or bf16", "format of out")                      \
  NUMBER(op, head_dim, 256, value == 64 || value == 128 || value == 256, "64, 128 or 256", "elements of one head") \
  NUMBER(op, partition_width, 256, value >= 64 && value <= 4096 && (value & (value - 1)) == 0,                     \
         "a power of two from 64 to 4096 tokens",                                                                  \
         "tokens whose softmax is computed by one block before the partial results are combined; changes bits")    \
  NUMBER(op, pv_unroll, 8, value == 1 || value == 4 || value == 8 || value == 16, "1, 4, 8 or 16",                 \
         "tokens whose V is loaded ahead of its use")                                                              \
  CHOICE(op, decoder, decoder_revision, native, "reference, bit_fields, fp16_shift or native",                     \
         "how E4M3 codes are decoded, all to the same bits; the other cache formats have one way")

#define RATIFY_MERGE_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE) \
  FORMAT(op, output_format, float, (float, f16, bf16), "float, f16 or bf16", "format of out")

RATIFY_BEGIN_NAMESPACE

RATIFY_DEFINE_POLICY(attention, RATIFY_ATTENTION_KNOBS, "ratify/attention.cuh", "attention_partial_kernel<$>",
                     "attention_combine_kernel<$>")
RATIFY_DEFINE_POLICY(merge, RATIFY_MERGE_KNOBS, "ratify/attention.cuh", "merge_kernel<$>")

RATIFY_END_NAMESPACE
