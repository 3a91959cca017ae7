// SPDX-License-Identifier: Apache-2.0
/// Knobs of acceptance. Derive and override by name; a misspelt knob compiles silently.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

/// How the target's distribution and the drafts decide what is emitted.
enum class acceptance_rule {
  coupled,   ///< the target draws its own token of each row; a draft that equals it is accepted
  rejection  ///< a draft drawn from q is accepted with p / q, else replaced by a draw from what p has over q
};

struct acceptance_policy {
  using logit_format = float;                                        ///< float, f16 or bf16
  static constexpr acceptance_rule rule = acceptance_rule::coupled;  ///< coupled or rejection
};

RATIFY_END_NAMESPACE
