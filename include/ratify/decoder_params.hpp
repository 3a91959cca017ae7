// SPDX-License-Identifier: Apache-2.0
/// Parameters of one launch of decode.
#pragma once

#include <ratify/decoder_policy.hpp>

RATIFY_BEGIN_NAMESPACE

/// One launch of `decode`. Both pointers are the caller's memory that the executor can reach; both are required.
///
/// @tparam Policy `decode_policy<Knobs...>`
template <class Policy>
struct decode_params {
  uint8_t const* codes = nullptr;                    ///< [count], one code a byte, at any alignment
  typename Policy::output_format* values = nullptr;  ///< [count]; must not overlap codes
  int64_t count = 0;                                 ///< codes, at most 2^40 - 512
};

RATIFY_END_NAMESPACE
