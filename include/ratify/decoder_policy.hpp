// SPDX-License-Identifier: Apache-2.0
/// Knobs of decode.
#pragma once

#include <ratify/detail/policy.hpp>
#include <ratify/numeric.hpp>

/// No knob changes a bit of a value: FP32 and FP16 hold every code exactly.
#define RATIFY_DECODE_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                                  \
  FORMAT(op, code_format, e4m3, (e4m3, e5m2, e2m1x2), "e4m3, e5m2 or e2m1x2",                  \
         "format of the codes; of an e2m1x2 byte the low nibble is one code")                  \
  FORMAT(op, output_format, float, (float, f16), "float or f16", "format of the values")       \
  CHOICE(op, decoder, decoder_revision, native, "reference, bit_fields, fp16_shift or native", \
         "how E4M3 codes are decoded, all to the same bits; the other formats have one way")

RATIFY_BEGIN_NAMESPACE

RATIFY_DEFINE_POLICY(decode, RATIFY_DECODE_KNOBS, "ratify/decoder.cuh", "decode_kernel<$>")

RATIFY_END_NAMESPACE
