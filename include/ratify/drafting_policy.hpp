// SPDX-License-Identifier: Apache-2.0
/// Knobs of the drafter's operations. Derive and override by name; a misspelt knob compiles silently.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

/// How a drafter picks one of a slot's candidates.
enum class draft_mode {
  argmax,  ///< the one with the largest score
  sample   ///< by inverse CDF over the scores' softmax; the draft's distribution q is returned with it
};

struct draft_walk_policy {
  using pair_format = float;                              ///< of left and right: float or bf16
  static constexpr draft_mode mode = draft_mode::argmax;  ///< argmax or sample
};

struct draft_convolution_policy {
  using input_format = f16;   ///< of x: f16, bf16 or float
  using base_format = f16;    ///< f16, bf16 or float
  using delta_format = f16;   ///< f16, bf16 or float
  using output_format = f16;  ///< f16, bf16 or float
};

RATIFY_END_NAMESPACE
