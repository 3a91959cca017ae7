// SPDX-License-Identifier: Apache-2.0
/// The command line.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace generate {

struct options {
  std::string prompt;
  int tokens = 200;
  float temperature = 0, top_p = 1;
  int top_k = 0;
  int64_t seed = 0;
  int drafts = 7;
  std::string executor = "host";
  int threads = 0;
  bool compare = false, shadow = false, json = false, time_operations = false;
  std::string color = "auto";
  std::string model, ngram;
};

/// A mistake of the user, described in one line.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// @return false if the program has nothing to do, because help was printed
/// @throws usage_error
bool parse_options(int argc, char** argv, options& o);

}  // namespace generate
