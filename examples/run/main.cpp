// SPDX-License-Identifier: Apache-2.0
/// ratify-run: runs one operation on a user's tensors.
#include <run/check.hpp>
#include <run/operation.hpp>
#include <run/options.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>

namespace ratify_run {
namespace {

enum exit_code { done = 0, check_failed = 1, not_supported = 2, input_is_bad = 3 };

std::string join(std::vector<std::string> const& parts, char const* between) {
  std::string text;
  for (auto const& p : parts) text += (text.empty() ? "" : between) + p;
  return text;
}

// What there is ---------------------------------------------------------------------------------------------------

void print_keys(std::FILE* to, operation const& op) {
  std::fprintf(to, "  keys of --policy, each with the values that are built and its default:\n");
  for (policy_key const& k : keys_of(op)) {
    std::string const name = k.file_word.empty() ? k.name : k.name + " or " + k.file_word;
    std::fprintf(to, "    %s=%s (%s): %s\n", name.c_str(), join(k.values, "|").c_str(), k.standard.c_str(),
                 k.meaning.c_str());
  }
}

void print_operation(operation const& op) {
  auto const names = [](std::set<std::string> const& set) { return join({set.begin(), set.end()}, " "); };
  std::printf("%s\n  tensors: %s\n", op.name.c_str(), names(op.tensors).c_str());
  if (!op.numbers.empty()) std::printf("  metadata: %s\n", names(op.numbers).c_str());
  std::printf("  outputs: %s\n", names(op.outputs).c_str());
  print_keys(stdout, op);
  for (std::string const& knob : op.decided)
    std::printf("    %s is no key: it %s\n", knob.c_str(), why_no_key(op, knob).c_str());
  std::printf("  policies that are built:\n");
  for (built_policy const& b : op.built()) {
    std::string line;
    for (ratify::knob_setting const& k : b.knobs) line += " " + k.name + "=" + k.value;
    std::printf("   %s\n", line.c_str());
  }
}

void print_json() {
  auto const quoted = [](std::string const& text) { return '"' + text + '"'; };  // nothing here needs an escape
  std::vector<std::string> lines;
  for (operation const* const op : operations()) {
    for (built_policy const& b : op->built()) {
      std::vector<std::string> knobs, kernels;
      for (ratify::knob_setting const& k : b.knobs) knobs.push_back(quoted(k.name) + ": " + quoted(k.value));
      for (auto const& k : b.kernels) kernels.push_back(quoted(k));
      lines.push_back("  {\"operation\": " + quoted(op->name) + ", \"header\": " + quoted(b.header) +
                      ", \"type\": " + quoted(b.type) + ", \"policy\": {" + join(knobs, ", ") + "}, \"kernels\": [" +
                      join(kernels, ", ") + "]}");
    }
  }
  std::printf("[\n%s\n]\n", join(lines, ",\n").c_str());
}

// Policies --------------------------------------------------------------------------------------------------------

/// Sets the keys of `key=value,...`.
void apply(operation const& op, std::string const& where, std::string const& text, settings& policy) {
  std::set<std::string> seen;
  auto const keys = keys_of(op);
  for (std::string const& part : split(text, ',')) {
    size_t const equals = part.find('=');
    std::string const key = part.substr(0, equals);
    std::string const value = equals == std::string::npos ? "" : part.substr(equals + 1);
    auto const known = std::find_if(keys.begin(), keys.end(), [&](policy_key const& k) {
      return k.name == key || (!key.empty() && k.file_word == key);
    });
    if (known == keys.end()) {
      std::string const why = why_no_key(op, key);
      throw unsupported_policy(where + ": " +
                               (why.empty() ? op.name + " has no policy key " + quote(key) : key + " " + why));
    }
    std::string const takes = known->is_number ? "a number" : join(known->values, ", ");
    if (value.empty())
      throw unsupported_policy(where + ": " + quote(key) + " has no value; " + key + "= takes " + takes);
    bool const is_number = value.find_first_not_of("0123456789") == std::string::npos;
    if (known->is_number ? !is_number : std::count(known->values.begin(), known->values.end(), value) == 0)
      throw unsupported_policy(where + ": " + quote(value) + " is no value of " + key + ", which takes " + takes);
    if (!seen.insert(known->name).second) throw bad_input(where + ": " + known->name + " is there twice");
    policy[known->name] = value;
  }
}

settings policy_of(operation const& op, inputs const& in, options const& o) {
  settings policy;
  for (policy_key const& k : keys_of(op)) policy[k.name] = k.standard;
  if (std::string const* const text = in.text("policy"); text != nullptr && !text->empty())
    apply(op, "metadata 'policy'", *text, policy);
  for (std::string const& text : o.policy) apply(op, "--policy", text, policy);
  return policy;
}

/// Refuses inputs that have no effect under any of the policies of this run: who gives one takes it to matter.
void require_used(operation const& op, inputs const& in, settings const& policy, std::optional<settings> const& other) {
  if (op.idle == nullptr) return;
  auto const idle = op.idle(policy), idle_in_other = other.has_value() ? op.idle(*other) : idle;
  for (std::string const& name : idle) {
    if (!in.has(name) || idle_in_other.count(name) == 0) continue;
    std::string text;
    for (policy_key const& k : keys_of(op)) text += (text.empty() ? "" : ",") + k.name + "=" + policy.at(k.name);
    throw unsupported("tensor " + quote(name) + ": has no effect under " + text);
  }
}

// One run ---------------------------------------------------------------------------------------------------------

std::optional<double> tolerance_option(char const* name, std::optional<std::string> const& text) {
  if (!text.has_value()) return {};
  double const value = parse_number(name, *text);
  if (value < 0) throw bad_input(std::string(name) + ": a tolerance must not be negative");
  return value;
}

exit_code run(operation const& op, options const& o) {
  memory_limit::of_run().set(o.max_bytes);
  tolerances const given = {tolerance_option("--rtol", o.rtol), tolerance_option("--atol", o.atol)};
  executor on(o.executor);
  inputs const in(o.input);
  if (std::string const* const named = in.text("op"); named != nullptr && *named != op.name)
    throw bad_input("metadata 'op': the file is for " + quote(*named) + ", not for " + op.name);
  in.require_known(op.name, op.tensors, op.outputs, op.numbers);
  settings const policy = policy_of(op, in, o);
  std::optional<settings> other;
  if (o.compare.has_value()) {
    other = policy;
    apply(op, "--compare", *o.compare, *other);
  }

  task first(in, policy, on);
  op.run(first);
  require_expected(in, first.outputs());
  std::optional<task> second;
  if (other.has_value()) op.run(second.emplace(in, *other, on));
  require_used(op, in, policy, other);  // what is missing has been said by now

  bool good = true;
  if (o.check) good = check(in, first.outputs(), given) && good;
  if (second.has_value()) good = compare(in, first.outputs(), second->outputs(), given) && good;
  std::error_code ignored;
  if (o.out.has_value() && std::filesystem::equivalent(*o.out, o.input, ignored))
    throw bad_input("--out is the input file itself");
  if (o.out.has_value()) write(*o.out, op.name, policy, first.outputs());
  if (!o.check && !second.has_value() && !o.out.has_value())
    for (output const& out : first.outputs())
      std::printf("%s: %s %s\n", out.name.c_str(), name_of(out.type), to_string(out.shape).c_str());
  return good ? done : check_failed;
}

exit_code refuse(std::string const& text) {
  std::fprintf(stderr, "ratify-run: unsupported: %s\n", text.c_str());
  return not_supported;
}

exit_code refuse_policy(operation const& op, std::string const& text) {
  refuse(text);
  print_keys(stderr, op);
  std::fprintf(stderr, "  not every combination is built: ratify-run --list prints those that are\n");
  return not_supported;
}

exit_code refuse_operation(std::string const& name) {
  refuse("there is no operation " + quote(name));
  std::fprintf(stderr, "built are:");
  for (operation const* const each : operations()) std::fprintf(stderr, " %s", each->name.c_str());
  std::fprintf(stderr, "\n");
  return not_supported;
}

exit_code serve(options const& o) {
  if (o.list && o.json) return print_json(), done;
  if (o.list) {
    for (operation const* const op : operations()) print_operation(*op);
    return done;
  }
  auto const& all = operations();
  auto const found = std::find_if(all.begin(), all.end(), [&](auto const* op) { return op->name == o.operation; });
  if (found == all.end()) return refuse_operation(o.operation);
  try {
    return run(**found, o);
  } catch (no_executor const& e) {
    return refuse(e.what());
  } catch (unsupported_policy const& e) {
    return refuse_policy(**found, o.input + ": " + e.what());
  } catch (unsupported const& e) {
    return refuse(o.input + ": " + e.what());
  } catch (bad_input const& e) {
    std::fprintf(stderr, "ratify-run: bad input: %s: %s\n", o.input.c_str(), e.what());
    return input_is_bad;
  } catch (std::bad_alloc const&) {
    return refuse(o.input + ": does not fit into memory");
  } catch (std::exception const& e) {  // of the CUDA runtime
    return refuse(o.input + ": " + e.what());
  }
}

}  // namespace
}  // namespace ratify_run

int main(int argc, char** argv) {
  ratify_run::options o;
  if (auto const code = ratify_run::parse(argc, argv, o)) return *code;
  int const code = ratify_run::serve(o);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fputs("ratify-run: the output cannot be written\n", stderr);
  return 3;
}
