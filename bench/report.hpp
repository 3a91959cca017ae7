// SPDX-License-Identifier: Apache-2.0
/// The command line of a benchmark, and the results of one start of it with their file.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// The command line.
struct options {
  std::vector<std::string> only;  ///< operations to measure; empty: all of them
  std::string json;               ///< file to write; empty: none
  std::string shape;              ///< measures only cases whose shape contains this text
  int pairs = 20;
  double warm_up_ms = 20;
  double case_seconds = 1;          ///< the most seconds that the samples of one comparison take
  bool programmatic = false;        ///< launch by programmatic dependent launch
  std::map<std::string, int> more;  ///< options that only one program has: name and value

  /// Reads `[OPERATION...] [--json FILE] [--shape TEXT] [--pairs N] [--warm-up-ms N] [--case-seconds N] [--pdl 1]`;
  /// the options in `more` take a number.
  /// @throws std::runtime_error that names an unknown word
  void read(int argc, char** argv, std::vector<std::string> const& operations);
  bool wants(std::string const& operation) const;
  bool wants_shape(std::string const& s) const { return shape.empty() || s.find(shape) != std::string::npos; }
};

struct named_policy {
  std::string name;    ///< for tables
  std::string policy;  ///< every knob with its value
};

/// Samples of two arms in the order in which they were taken, in microseconds per launch. Without a candidate there are
/// samples of the control alone.
struct comparison {
  named_policy candidate;
  std::vector<double> control_us, candidate_us;
};

/// One case: an operation at a shape.
struct measurement {
  std::string operation, shape;
  double bytes = 0;          ///< the lower bound of what one launch moves
  double rotated_bytes = 0;  ///< of all operand sets that the launches of a sample go through
  int sets = 0, launches = 0;
  named_policy control;
  std::vector<comparison> comparisons;
  std::string part_of;  ///< the shape of the round that this is a part of; empty for a measurement of its own
};

class report {
 public:
  /// @param facts of the card and the run, as text
  explicit report(std::map<std::string, std::string> facts) : facts_(std::move(facts)) {}
  void number(std::string const& name, double value) { numbers_[name] = value; }
  double number(std::string const& name) const { return numbers_.at(name); }
  void fact(std::string const& name, std::string const& value) { facts_[name] = value; }
  /// Keeps a measurement and prints a line for each comparison.
  void add(measurement m);
  /// @throws std::runtime_error if the file cannot be written
  void write(std::string const& path) const;
 private:
  std::map<std::string, std::string> facts_;
  std::map<std::string, double> numbers_;
  std::vector<measurement> all_;
};

double median(std::vector<double> v);

}  // namespace bench
