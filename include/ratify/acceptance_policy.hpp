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

/// One of the first entries of a row of logits, as `acceptance_summary` writes it: logit and id in one word that is
/// larger the earlier the entry stands in the order; 0: none.
struct acceptance_word {
  uint64_t bits;
};

struct acceptance_policy {
  using logit_format = float;                                        ///< float, f16, bf16, or acceptance_word
  static constexpr acceptance_rule rule = acceptance_rule::coupled;  ///< coupled or rejection
};

RATIFY_END_NAMESPACE
