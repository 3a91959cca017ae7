// SPDX-License-Identifier: Apache-2.0
/// Knobs of the normalizations. Derive and override by name; a misspelt knob compiles silently.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

struct rmsnorm_policy {
  using input_format = f16;                  ///< of x: f16, bf16 or float
  using output_format = f16;                 ///< f16, bf16 or float
  using weight_format = f16;                 ///< f16, bf16 or float
  static constexpr bool unit_offset = true;  ///< multiplies by 1 + weight instead of weight
};

struct gated_rmsnorm_policy {
  using input_format = f16;     ///< of x: f16, bf16 or float
  using gate_format = f16;      ///< of z: f16, bf16 or float
  using output_format = f16;    ///< f16, bf16 or float
  using weight_format = float;  ///< f16, bf16 or float
};

struct qk_norm_rotary_policy {
  using input_format = f16;                  ///< f16, bf16 or float
  using output_format = f16;                 ///< f16, bf16 or float
  using weight_format = f16;                 ///< f16, bf16 or float
  static constexpr bool unit_offset = true;  ///< multiplies by 1 + weight instead of weight
};

RATIFY_END_NAMESPACE
