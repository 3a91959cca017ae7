// SPDX-License-Identifier: Apache-2.0
/// What ratify-run knows of an operation, and what the operation is given to run.
#pragma once

#include <run/executor.hpp>
#include <run/inputs.hpp>
#include <run/rounds.hpp>

#include <policies.hpp>

#include <functional>
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

/// One policy instantiation that is built.
struct built_policy {
  std::vector<std::pair<std::string, std::string>> knobs;
  std::string type;                  ///< as C++ spells it, given examples/policies.hpp
  std::string header;                ///< of the operation, <...>
  std::vector<std::string> kernels;  ///< NVRTC name expressions, given both headers
};

/// A key that the user may set.
struct policy_key {
  std::string name;
  std::string standard;             ///< the value when nobody sets it
  std::vector<std::string> values;  ///< what it may be; empty: a positive integer
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
  /// An output in the format that the policy's `out` names.
  void emit_rounded(std::string const& name, shape_type shape, std::vector<float> const& values) {
    std::string const& format = policy.at("out");
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

/// An operation as ratify-run offers it.
struct operation {
  std::string name;
  std::set<std::string> tensors;       ///< inputs, optional ones included
  std::set<std::string> outputs;       ///< all it can have
  std::set<std::string> numbers = {};  ///< metadata
  std::vector<policy_key> keys = {};
  void (*run)(task&) = nullptr;
  std::vector<built_policy> (*built)() = nullptr;
  /// Inputs that have no effect under a policy; nullptr: all have, under every one.
  std::set<std::string> (*idle)(settings const& policy) = nullptr;
};

/// Keys that several operations have.
inline policy_key const arithmetic_key{"arithmetic", "ordered", {"ordered", "matrix"}};
inline policy_key const out_key{"out", "f32", {"f32", "f16", "bf16"}};

/// All operations: operations.cpp.
std::vector<operation const*> const& operations();

// Policies by their knobs -----------------------------------------------------------------------------------------

namespace detail {

inline std::pair<std::string, std::string> describe_value(int value) {
  return {std::to_string(value), std::to_string(value)};
}
template <class T>
std::pair<std::string, std::string> describe_value(T value) {
  ratify_examples::spelling const s = ratify_examples::spell(value);
  return {s.key_value, s.source};
}

template <class Policy>
built_policy describe() {
  built_policy b;
  std::string arguments;
  Policy::knobs([&](char const* key, auto value) {
    auto const [text, source] = describe_value(value);
    b.knobs.emplace_back(key, text);
    arguments += (arguments.empty() ? "" : ", ") + source;
  });
  std::string const operation = Policy::description.operation;
  b.type = "ratify_examples::" + operation + "_p";
  if (!arguments.empty()) b.type += "<" + arguments + ">";
  b.header = Policy::description.header;
  auto const add = [&](std::string kernel) {
    kernel.replace(kernel.find('$'), 1, b.type);
    b.kernels.push_back("ratify::detail::entry<ratify::detail::" + kernel + ">");
  };
  for (char const* const pattern : Policy::description.kernels)
    if (pattern != nullptr) add(pattern);
  if (b.kernels.empty()) add(operation + "_kernel<$>");
  return b;
}

template <class Policy>
bool matches(settings const& wanted) {
  bool all = true;
  Policy::knobs([&](char const* key, auto value) { all = all && wanted.at(key) == describe_value(value).first; });
  return all;
}

template <class... Policies>
std::vector<built_policy> describe_all(ratify_examples::policy_list<Policies...>) {
  return {describe<Policies>()...};
}

template <class Policy>
struct chosen {
  using policy = Policy;
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

/// Calls `f` with the policy of the list whose knobs are those wanted. `extra` adds what the tensors decide.
/// @throws unsupported when none is built
template <class List, class F>
void with_policy(settings wanted, settings const& extra, F&& f) {
  for (auto const& [key, value] : extra) wanted[key] = value;
  if (detail::visit_policy(List{}, wanted, std::forward<F>(f))) return;
  std::string text;
  built_policy const any = built<List>().front();
  for (auto const& [key, unused] : any.knobs) {
    (void)unused;
    text += " " + key + "=" + wanted.at(key);
  }
  throw unsupported("no policy is built with" + text);
}

}  // namespace ratify_run
