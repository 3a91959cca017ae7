// SPDX-License-Identifier: Apache-2.0
/// What ratify-run knows of an operation, and what the operation is given to run.
#pragma once

#include <run/executor.hpp>
#include <run/inputs.hpp>
#include <run/rounds.hpp>

#include <policies.hpp>
#include <ratify/describe.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ratify_run {

/// Knobs and values, as ratify-run spells them.
using settings = std::map<std::string, std::string>;

/// One result: dense, in its own dtype.
struct output {
  std::string name;
  dtype type = dtype::f32;
  shape_type shape;
  std::vector<char> bytes;
};

/// One policy that is built.
struct built_policy {
  std::vector<ratify::knob_setting> knobs;
  std::string type;                  ///< as C++ spells it
  std::string header;                ///< of the operation, <...>
  std::vector<std::string> kernels;  ///< NVRTC name expressions, given that header

  std::string const* value_of(std::string const& name) const {
    auto const found = std::find_if(knobs.begin(), knobs.end(), [&](auto const& k) { return k.name == name; });
    return found == knobs.end() ? nullptr : &found->value;
  }
};

/// A key that the user may set.
struct policy_key {
  std::string name;
  std::string standard;             ///< the value when nobody sets it
  std::vector<std::string> values;  ///< what the policies that are built have
  std::string meaning;
  std::string file_word = {};  ///< another name for it, the one that files use
  bool is_number = false;      ///< any number is a value of it, and one that no policy has is not built
};

/// What one run is given, and what it leaves.
class task {
 public:
  task(inputs const& file, settings policy, executor& where) : in(file), policy(std::move(policy)), on(where) {}
  inputs const& in;
  settings const policy;
  executor& on;

  std::vector<output> const& outputs() const { return outputs_; }

  /// An output that is FP32 whatever the policy says, or integers, or bytes of the cache.
  template <class T>
  void emit(std::string const& name, shape_type shape, std::vector<T> const& values) {
    auto const* const first = reinterpret_cast<char const*>(values.data());
    outputs_.push_back({name, dtype_of<T>, std::move(shape), {first, first + values.size() * sizeof(T)}});
  }
  /// An output in the format that the key `output_format` names.
  void emit_rounded(std::string const& name, shape_type shape, std::vector<float> const& values) {
    std::string const& format = policy.at("output_format");
    if (format == "f32") return emit(name, std::move(shape), values);
    if (format == "f16") return emit(name, std::move(shape), rounded<ratify::f16>(values));
    return emit(name, std::move(shape), rounded<ratify::bf16>(values));
  }
 private:
  template <class T>
  static std::vector<T> rounded(std::vector<float> const& values) {
    std::vector<T> out;
    out.reserve(values.size());
    for (float const v : values) out.push_back(ratify::convert<T>(v));
    return out;
  }
  std::vector<output> outputs_;
};

/// An operation as ratify-run offers it. Its keys come from the knobs of the policies that are built.
struct operation {
  std::string name;
  std::set<std::string> tensors;  ///< inputs, optional ones included
  std::set<std::string> outputs;  ///< all it can have
  std::set<std::string> numbers;  ///< metadata
  void (*run)(task&) = nullptr;
  std::vector<built_policy> (*built)() = nullptr;
  /// Knobs that follow from the tensors and the metadata of the file, so that they are no keys.
  std::set<std::string> decided = {};
  /// Whether floating outputs are rounded to the key `output_format` at the edge.
  bool rounds_outputs = true;
  /// Inputs that have no effect under a policy; nullptr: all have, under every one.
  std::set<std::string> (*idle)(settings const& policy) = nullptr;
};

/// The keys of an operation, in the order of its knobs; last the word `arithmetic`, which is no knob.
std::vector<policy_key> keys_of(operation const& op);

/// Why a knob of an operation is no key, as the end of a sentence that begins with its name; empty if it is no such
/// knob.
std::string why_no_key(operation const& op, std::string const& knob);

/// All operations: operations.cpp.
std::vector<operation const*> const& operations();

// Policies by their knobs -----------------------------------------------------------------------------------------

namespace detail {

template <class Policy>
built_policy describe() {
  return {ratify::knob_settings<Policy>(), ratify::type_expression<Policy>(), Policy::knobs::header,
          ratify::kernel_expressions<Policy>()};
}

/// Whether a policy has what is wanted of each knob that is named.
template <class Policy>
bool matches(settings const& wanted) {
  auto const knobs = ratify::knob_settings<Policy>();
  return std::all_of(knobs.begin(), knobs.end(), [&](ratify::knob_setting const& k) {
    auto const found = wanted.find(k.name);
    return found == wanted.end() || found->second == k.value;
  });
}

template <class... Policies>
std::vector<built_policy> describe_all(ratify_examples::policy_list<Policies...>) {
  return {describe<Policies>()...};
}

template <class Policy>
struct chosen {
  using policy = Policy;
  template <template <class...> class Operation>
  using operation = ratify::operation_with<Operation, Policy>;
};

template <class... Policies, class F>
bool visit_policy(ratify_examples::policy_list<Policies...>, settings const& wanted, F&& f) {
  return ((matches<Policies>(wanted) ? (f(chosen<Policies>{}), true) : false) || ...);
}

}  // namespace detail

/// Describes a list of policies.hpp.
template <class List>
std::vector<built_policy> built() {
  return detail::describe_all(List{});
}

/// Calls `f` with the first policy of the list whose knobs are those wanted; a knob that is not named may have any
/// value. `decided` adds what the tensors decide. The key `output_format` is a knob of the policies only where
/// `output_is_knob`; elsewhere outputs are rounded at the edge.
/// @throws unsupported when none is built
template <class List, class F>
void with_policy(settings wanted, settings const& decided, F&& f, bool output_is_knob = false) {
  if (!output_is_knob) wanted.erase("output_format");
  for (auto const& [key, value] : decided) wanted[key] = value;
  if (detail::visit_policy(List{}, wanted, std::forward<F>(f))) return;
  std::string text;
  built_policy const any = built<List>().front();
  for (ratify::knob_setting const& k : any.knobs)
    if (auto const found = wanted.find(k.name); found != wanted.end()) text += " " + k.name + "=" + found->second;
  throw unsupported_policy("no policy is built with" + text);
}

}  // namespace ratify_run
