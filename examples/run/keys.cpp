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

/// The values that a knob has among the policies.
std::vector<std::string> built_values(std::vector<built_policy> const& policies, std::string const& knob) {
  std::vector<std::string> values;
  for (built_policy const& p : policies)
    if (auto const* const value = p.value_of(knob); std::count(values.begin(), values.end(), *value) == 0)
      values.push_back(*value);
  return values;
}

}  // namespace

std::vector<policy_key> keys_of(operation const& op) {
  std::vector<policy_key> keys{{"arithmetic", "ordered", {"ordered", "matrix"}, "order of the sums, or matrix units"}};
  if (op.rounds_outputs)
    keys.push_back({"output_format",
                    "f32",
                    {"f32", "f16", "bf16"},
                    "what outputs are rounded to",
                    file_word(op.name, "output_format")});
  auto const policies = op.built();
  for (ratify::knob_setting const& k : policies.front().knobs) {
    auto values = built_values(policies, k.name);
    bool const one_format = k.is_format && values.size() == 1;  // FP32 inside, whatever the tensors hold
    if (op.decided.count(k.name) != 0 || one_format) continue;
    if (k.is_number) values.clear();
    keys.push_back({k.name, k.standard, values, k.meaning, file_word(op.name, k.name)});
  }
  return keys;
}

}  // namespace ratify_run
