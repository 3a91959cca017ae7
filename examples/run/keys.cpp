// SPDX-License-Identifier: Apache-2.0
/// The keys of `--policy`, out of the knobs of the policies that are built.
#include <run/operation.hpp>

namespace ratify_run {
namespace {

/// Files name four knobs by shorter words.
std::string file_word(std::string const& operation, std::string const& knob) {
  if (knob == "decoder") return "revision";
  if (knob == "code_format") return "format";
  if (knob == "output_format") return operation == "decode" ? "to" : "out";
  return {};
}

/// The values that a knob has among the policies, numbers in their order.
std::vector<std::string> built_values(std::vector<built_policy> const& policies, std::string const& knob) {
  std::vector<std::string> values;
  for (built_policy const& p : policies)
    if (auto const* const value = p.value_of(knob); std::count(values.begin(), values.end(), *value) == 0)
      values.push_back(*value);
  std::sort(values.begin(), values.end(),
            [](auto const& a, auto const& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; });
  return values;
}

/// Whether a knob is a format that all policies share, to which the tensors of the file are converted.
bool is_converted(ratify::knob_setting const& knob, std::vector<std::string> const& values) {
  return knob.is_format && values.size() == 1;
}

}  // namespace

std::vector<policy_key> keys_of(operation const& op) {
  std::vector<policy_key> keys;
  if (op.rounds_outputs)
    keys.push_back({"output_format",
                    "f32",
                    {"f32", "f16", "bf16"},
                    "what outputs are rounded to",
                    file_word(op.name, "output_format")});
  auto const policies = op.built();
  for (ratify::knob_setting const& k : policies.front().knobs) {
    auto values = built_values(policies, k.name);
    if (op.decided.count(k.name) != 0 || is_converted(k, values)) continue;
    keys.push_back({k.name, k.standard, values, k.meaning, file_word(op.name, k.name), k.is_number});
  }
  keys.push_back({"arithmetic", "ordered", {"ordered"}, "no knob: a file may state that it expects sums in order"});
  return keys;
}

std::string why_no_key(operation const& op, std::string const& knob) {
  auto const policies = op.built();
  for (ratify::knob_setting const& k : policies.front().knobs) {
    if (k.name != knob) continue;
    if (op.decided.count(knob) != 0)
      return std::string("follows from the tensors ") + (op.numbers.count(knob) == 0 ? "" : "and the metadata ") +
             "of the file";
    if (is_converted(k, built_values(policies, knob)))
      return "is " + k.value + " in every policy that is built: tensors of other formats are converted";
  }
  return {};
}

}  // namespace ratify_run
