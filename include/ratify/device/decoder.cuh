// SPDX-License-Identifier: Apache-2.0
/// The decoders, for kernels of your own: one, two or four codes of a word, the low byte first. `Policy` is
/// `decode_policy<Knobs...>`; the values are in its output format. Every decoder gives the same bits.
#pragma once

#include <ratify/decoder_policy.hpp>
#include <ratify/detail/decode.cuh>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// The value of one code.
template <class Policy>
RATIFY_HD inline typename Policy::output_format decode_x1(uint8_t code) {
  if constexpr (RATIFY_STD::is_same_v<typename Policy::output_format, f16>)
    return {detail::decode_f16_x1<Policy::decoder, typename Policy::code_format>(code)};
  else
    return detail::decode_x1<Policy::decoder, typename Policy::code_format>(code);
}

/// The values of two codes.
template <class Policy>
RATIFY_HD inline void decode_x2(uint16_t codes, typename Policy::output_format (&out)[2]) {
  if constexpr (RATIFY_STD::is_same_v<typename Policy::output_format, f16>) {
    uint32_t const pair = detail::decode_f16_x2<Policy::decoder, typename Policy::code_format>(codes);
    out[0] = {static_cast<uint16_t>(pair)};
    out[1] = {static_cast<uint16_t>(pair >> 16)};
  } else {
    detail::decode_x2<Policy::decoder, typename Policy::code_format>(codes, out);
  }
}

/// The values of four codes.
template <class Policy>
RATIFY_HD inline void decode_x4(uint32_t codes, typename Policy::output_format (&out)[4]) {
  if constexpr (RATIFY_STD::is_same_v<typename Policy::output_format, f16>) {
    uint32_t pairs[2];
    detail::decode_f16_x4<Policy::decoder, typename Policy::code_format>(codes, pairs);
    RATIFY_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = {static_cast<uint16_t>(pairs[i / 2] >> (16 * (i % 2)))};
  } else {
    detail::decode_x4<Policy::decoder, typename Policy::code_format>(codes, out);
  }
}

}  // namespace device
RATIFY_END_NAMESPACE
