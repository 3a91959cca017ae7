// SPDX-License-Identifier: Apache-2.0
/// Knobs of acceptance and of the summary of a shard of logits.
#pragma once

#include <ratify/detail/policy.hpp>
#include <ratify/numeric.hpp>

/// `rule` decides which tokens are emitted; `logit_format` is the format of an input and changes nothing else.
#define RATIFY_ACCEPTANCE_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                                             \
  FORMAT(op, logit_format, float, (float, f16, bf16, acceptance_word), "float, f16, bf16 or acceptance_word", \
         "format of the logits; acceptance_word: the gathered summaries of shards")                           \
  CHOICE(op, rule, acceptance_rule, coupled, "coupled or rejection", "how target and drafts decide what is emitted")

#define RATIFY_ACCEPTANCE_SUMMARY_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE) \
  FORMAT(op, logit_format, float, (float, f16, bf16), "float, f16 or bf16", "format of the shard's logits")

RATIFY_BEGIN_NAMESPACE

/// How the target's distribution and the drafts decide what is emitted.
enum class acceptance_rule {
  coupled,   ///< the target draws its own token of each row; a draft that equals it is accepted
  rejection  ///< a draft drawn from q is accepted with p / q, else replaced by a draw from what p has over q
};

/// One of the first entries of a row of logits, as `acceptance_summary` writes it: logit and id in one word that is
/// larger the earlier the entry stands in the order (logit descending, id ascending). 0 is no entry.
struct acceptance_word {
  uint64_t bits;
};

namespace detail {

template <>
struct choices<acceptance_rule> {
  static constexpr choice values[] = {
      {"coupled", "ratify::acceptance_rule::coupled"},
      {"rejection", "ratify::acceptance_rule::rejection"},
  };
};

/// Bits that a token id takes in an `acceptance_word`, and the largest vocabulary that follows from them.
inline constexpr int acceptance_id_bits = 22;
inline constexpr int acceptance_most_words = 1 << acceptance_id_bits;

}  // namespace detail

RATIFY_DEFINE_POLICY(acceptance, RATIFY_ACCEPTANCE_KNOBS, "ratify/acceptance.cuh", "acceptance_extremes_kernel<$>",
                     "acceptance_masses_kernel<$>", "acceptance_gather_kernel<$>", "acceptance_long_row_kernel<$>",
                     "acceptance_short_row_kernel<$>", "acceptance_emission_kernel<$>")
RATIFY_DEFINE_POLICY(acceptance_summary, RATIFY_ACCEPTANCE_SUMMARY_KNOBS, "ratify/acceptance.cuh",
                     "acceptance_summary_kernel<$>", "acceptance_short_summary_kernel<$>")

RATIFY_END_NAMESPACE
