// SPDX-License-Identifier: Apache-2.0
/// Launch rules of decode.
#pragma once

#include <ratify/decoder_params.hpp>
#include <ratify/detail/extents.hpp>
#include <ratify/status.hpp>

#define RATIFY_DECODE_SHAPE_RULES(INVALID, UNSUPPORTED)                        \
  INVALID(count, (p.count >= 0), "ratify::decode: count must not be negative") \
  UNSUPPORTED(most_codes, (p.count <= int64_t{0x7fffffff} * 512), "ratify::decode: count must be at most 2^40 - 512")

#define RATIFY_DECODE_TENSOR_RULES(INVALID, UNSUPPORTED) \
  RATIFY_GIVEN_RULE(INVALID, "decode", codes)            \
  RATIFY_REQUIRED_ARRAY(INVALID, "decode", values)       \
  INVALID(in_place, (detail::begin_apart(p.values, p.codes)), "ratify::decode: values must not be codes")

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Policy>
RATIFY_HD status launch_rules(decode_params<Policy> const& p) {
  RATIFY_DECODE_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.count == 0) return {};
  RATIFY_DECODE_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

}  // namespace detail
RATIFY_END_NAMESPACE
