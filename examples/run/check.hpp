// SPDX-License-Identifier: Apache-2.0
/// Compares outputs with what a file expects of them, or with another policy's.
#pragma once

#include <run/operation.hpp>

#include <optional>
#include <string>
#include <vector>

namespace ratify_run {

/// Tolerances given on the command line; they override the file's.
struct tolerances {
  std::optional<double> rtol, atol;
};

/// Compares each output that has an `expected.` in the file and prints a line for each. @returns whether all pass
bool check(inputs const& in, std::vector<output> const& got, tolerances const& given);

/// Compares the outputs of two policies, output by output. @returns whether all pass
bool compare(inputs const& in, std::vector<output> const& got, std::vector<output> const& other,
             tolerances const& given);

/// Refuses a file that expects an output which this run does not have. @throws bad_input
void require_expected(inputs const& in, std::vector<output> const& got);

/// Writes all outputs, or nothing. @throws bad_input
void write(std::string const& path, std::string const& operation_name, settings const& policy,
           std::vector<output> const& outputs);

}  // namespace ratify_run
