// SPDX-License-Identifier: Apache-2.0
/// How results name policies, and the operations that the arms of a round consist of.
#pragma once

#include <bench/report.hpp>
#include <common/round_operations.hpp>
#include <ratify/describe.hpp>

#include <string>

namespace bench {

/// The knobs that differ from their defaults as the name, and every knob with its value beside it, because a default
/// may change later.
template <class Operation>
named_policy name_of() {
  using policy = typename Operation::policy;
  std::string every;
  for (auto const& knob : ratify::knob_settings<policy>())
    every += (every.empty() ? "" : ", ") + knob.name + " " + knob.value;
  return {ratify::describe<policy>(), every};
}

/// Parts of K that each projection sums apart: the counts that were fastest for 8 rows at the shapes of TP 1 and TP 2.
template <example::part Where>
constexpr int split_k_of() {
  switch (Where) {
    case example::part::gate_up:
      return 7;
    case example::part::down:
      return 8;
    case example::part::attention_in:
      return 5;
    case example::part::head:
      return 4;
    default:
      return 9;
  }
}

/// The operations of one arm. No bit depends on what arms differ in.
template <ratify::decoder_revision Decoder, int Unroll, int ValueBlock>
struct round_arm : example::round_operations<> {
  template <example::part Where>
  using projection =
      ratify::projection<ratify::output_format<example::projected_format<Where>>, ratify::split_k<split_k_of<Where>()>>;
  using attention = ratify::attention<ratify::decoder<Decoder>, ratify::pv_unroll<Unroll>>;
  using recurrence = ratify::recurrence<ratify::value_block<ValueBlock>>;
};
using control_arm = round_arm<ratify::decoder_revision::bit_fields, 1, 8>;
using candidate_arm = round_arm<ratify::decoder_revision::fp16_shift, 8, 2>;
/// The fastest of what is built today, on the card that docs/performance.md names.
using fastest_arm = round_arm<ratify::decoder_revision::native, 8, 16>;

inline std::string name_of_part(example::part id) {
  example::part_name const& name = example::part_names[static_cast<int>(id)];
  return name.operation + (*name.place == '\0' ? "" : std::string(" ") + name.place);
}

template <class Arm, example::part... Where>
std::string name_projections() {
  std::string text;
  ((text += "; " + name_of_part(Where) + ": " + name_of<typename Arm::template projection<Where>>().policy), ...);
  return text;
}

template <class Arm>
named_policy name_of_arm() {
  using example::part;
  auto const attention = name_of<typename Arm::attention>(), recurrence = name_of<typename Arm::recurrence>();
  return {attention.name + ", " + recurrence.name,
          "attention: " + attention.policy + "; recurrence: " + recurrence.policy +
              name_projections<Arm, part::gdn_in, part::gdn_out, part::attention_in, part::attention_out, part::gate_up,
                               part::down, part::head>()};
}

}  // namespace bench
