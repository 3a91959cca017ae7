// SPDX-License-Identifier: Apache-2.0
/// Knobs of the NVFP4 projection. Derive and override by name; a misspelt knob compiles silently.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

/// What a group's scale is rounded to before it meets the weights.
enum class projection_scale {
  fp16,  ///< matched: the scale and each weight are FP16, products are summed one by one
  fp32   ///< the scale stays FP32 and multiplies each group's sum; for scales outside FP16's range
};

struct projection_policy {
  using input_format = f16;   ///< of x: f16, bf16 or float
  using output_format = f16;  ///< of y: f16, bf16 or float
  /// Parts of K that are summed apart, then added in order: 1 to 32. Arithmetic: it moves bits.
  static constexpr int split_k = 1;
  static constexpr projection_scale effective_scale = projection_scale::fp16;  ///< arithmetic: it moves bits
  /// Warps of a block that share a split's activations, at most 32 or 64 columns each: 1 to 8; 0 chooses. Moves no bit.
  static constexpr int column_warps = 0;
};

RATIFY_END_NAMESPACE
