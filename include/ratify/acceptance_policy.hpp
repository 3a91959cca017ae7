// SPDX-License-Identifier: Apache-2.0
/// Knobs of acceptance. Derive and override by name; a misspelt knob compiles silently.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

/// How the target's distribution and the drafts decide what is emitted.
enum class acceptance_rule {
  coupled,   ///< the target draws its own token of each row; a draft that equals it is accepted
  rejection  ///< accept with p / q, redraw from what p has over q. Not built.
};

struct acceptance_policy {
  using logit_format = float;                                        ///< float, f16 or bf16
  static constexpr acceptance_rule rule = acceptance_rule::coupled;  ///< coupled
};

RATIFY_END_NAMESPACE
