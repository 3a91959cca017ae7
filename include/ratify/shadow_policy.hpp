// SPDX-License-Identifier: Apache-2.0
/// Knobs of the two operations that a shadow is made of.
#pragma once

#include <ratify/detail/policy.hpp>
#include <ratify/numeric.hpp>

#define RATIFY_SHADOW_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                \
  FORMAT(op, element_format, float, (float, f16, bf16, e4m3, e5m2, int32_t), \
         "float, f16, bf16, e4m3, e5m2 or int32_t", "format of the elements")

RATIFY_BEGIN_NAMESPACE

RATIFY_DEFINE_POLICY(shadow_copy, RATIFY_SHADOW_KNOBS, "ratify/shadow.cuh", "shadow_copy_kernel<$>")
RATIFY_DEFINE_POLICY(shadow_compare, RATIFY_SHADOW_KNOBS, "ratify/shadow.cuh", "shadow_compare_kernel<$>")

RATIFY_END_NAMESPACE
