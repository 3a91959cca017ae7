// SPDX-License-Identifier: Apache-2.0
/// Policies in words, on the host: for logs, tables, and for compiling a policy at run time.
#pragma once

#include <ratify/acceptance_policy.hpp>
#include <ratify/detail/policy.hpp>
#include <ratify/numeric.hpp>

#include <string>
#include <type_traits>
#include <vector>

RATIFY_BEGIN_NAMESPACE

namespace detail {

struct format_name {
  char const* key;
  char const* source;
};
template <class Format>
constexpr format_name name_of_format() {
  if constexpr (std::is_same_v<Format, float>) return {"f32", "float"};
  if constexpr (std::is_same_v<Format, int32_t>) return {"i32", "int32_t"};
  if constexpr (std::is_same_v<Format, f16>) return {"f16", "ratify::f16"};
  if constexpr (std::is_same_v<Format, bf16>) return {"bf16", "ratify::bf16"};
  if constexpr (std::is_same_v<Format, e4m3>) return {"e4m3", "ratify::e4m3"};
  if constexpr (std::is_same_v<Format, e5m2>) return {"e5m2", "ratify::e5m2"};
  if constexpr (std::is_same_v<Format, e2m1x2>) return {"e2m1", "ratify::e2m1x2"};
  if constexpr (std::is_same_v<Format, acceptance_word>) return {"word", "ratify::acceptance_word"};
}

}  // namespace detail

/// One knob of a policy.
struct knob_setting {
  std::string name;
  std::string value;     ///< as `ratify-run --policy` spells it: 64, 1, e4m3, snapshots
  std::string source;    ///< as C++ spells it: 64, true, ratify::e4m3, ratify::recurrence_mode::snapshots
  std::string standard;  ///< the default, spelt like `value`
  std::string accepted;  ///< what the knob accepts, in words
  std::string meaning;
  bool is_format = false;  ///< its argument is a storage format
  bool is_number = false;  ///< its argument is an int
};

namespace detail {

/// Value and default of a knob into `out`.
template <class Format, class Standard>
void spell(format_value<Format>, format_value<Standard>, knob_setting& out) {
  out.value = name_of_format<Format>().key;
  out.source = name_of_format<Format>().source;
  out.standard = name_of_format<Standard>().key;
  out.is_format = true;
}
inline void spell(int value, int standard, knob_setting& out) {
  out.value = out.source = std::to_string(value);
  out.standard = std::to_string(standard);
  out.is_number = true;
}
inline void spell(bool value, bool standard, knob_setting& out) {
  out.value = value ? "1" : "0";
  out.source = value ? "true" : "false";
  out.standard = standard ? "1" : "0";
}
template <class Enumeration>
std::enable_if_t<std::is_enum_v<Enumeration>> spell(Enumeration value, Enumeration standard, knob_setting& out) {
  auto const& names = choices<Enumeration>::values;
  out.value = names[static_cast<int>(value)].key;
  out.source = names[static_cast<int>(value)].source;
  out.standard = names[static_cast<int>(standard)].key;
}

}  // namespace detail

/// Every knob of a policy, in the order of the operation's list.
/// @tparam Policy `NAME_policy<Knobs...>`
template <class Policy>
std::vector<knob_setting> knob_settings() {
  std::vector<knob_setting> settings;
  Policy::knobs::template visit_knobs<Policy>([&](knob_description const& about, auto value, auto standard) {
    knob_setting s;
    s.name = about.name;
    s.accepted = about.accepted;
    s.meaning = about.meaning;
    detail::spell(value, standard, s);
    settings.push_back(s);
  });
  return settings;
}

namespace detail {

template <class Policy>
std::string changed_knobs(char const* prefix, std::string knob_setting::*spelling) {
  std::string text;
  for (knob_setting const& s : knob_settings<Policy>())
    if (s.value != s.standard) text += (text.empty() ? "" : ", ") + (prefix + s.name) + "<" + s.*spelling + ">";
  return text;
}

}  // namespace detail

/// A policy for people: "attention<head_dim<64>, kv_format<bf16>>", the knobs that differ from their defaults.
template <class Policy>
std::string describe() {
  return Policy::knobs::operation + ("<" + detail::changed_knobs<Policy>("", &knob_setting::value)) + ">";
}

/// A policy as a C++ type expression, such as "ratify::attention_policy<ratify::head_dim<64>>". Including the
/// operation's header is enough for a compiler, NVRTC too, to understand it.
template <class Policy>
std::string type_expression() {
  return "ratify::" + std::string(Policy::knobs::operation) + "_policy<" +
         detail::changed_knobs<Policy>("ratify::", &knob_setting::source) + ">";
}

/// The kernels that an operation launches under a policy, as NVRTC name expressions.
template <class Policy>
std::vector<std::string> kernel_expressions() {
  std::vector<std::string> expressions;
  for (std::string kernel : Policy::knobs::kernels) {
    kernel.replace(kernel.find('$'), 1, type_expression<Policy>());
    expressions.push_back("ratify::entry<ratify::" + kernel + ">");
  }
  return expressions;
}

RATIFY_END_NAMESPACE
