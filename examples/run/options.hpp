// SPDX-License-Identifier: Apache-2.0
/// The command line of ratify-run.
#pragma once

#include <run/memory_limit.hpp>

#include <optional>
#include <string>
#include <vector>

namespace ratify_run {

struct options {
  std::string operation, input;
  std::vector<std::string> policy;  ///< each key=value,...
  std::string executor = "host";
  int64_t max_bytes = memory_limit::standard;
  bool check = false;
  std::optional<std::string> out, rtol, atol, compare;
  bool list = false, json = false;
};

/// @returns the options, or the exit code of a program that has said all it has to say (--help, or a wrong word)
std::optional<int> parse(int argc, char const* const* argv, options& o);

}  // namespace ratify_run
