// SPDX-License-Identifier: Apache-2.0
/// Knobs of the cache operations.
#pragma once

#include <ratify/detail/policy.hpp>
#include <ratify/numeric.hpp>

#define RATIFY_APPEND_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                                                  \
  FORMAT(op, input_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of the new rows of K and V") \
  FORMAT(op, kv_format, e4m3, (e4m3, e5m2, f16, bf16), "e4m3, e5m2, f16 or bf16", "format of the cache pages")

RATIFY_BEGIN_NAMESPACE

RATIFY_DEFINE_POLICY(append, RATIFY_APPEND_KNOBS, "ratify/cache.cuh", "append_kernel<$>")

RATIFY_END_NAMESPACE
