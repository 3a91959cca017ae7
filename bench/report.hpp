// SPDX-License-Identifier: Apache-2.0
/// What one start of a benchmark found, and its file.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// What a user may say on the command line.
struct options {
  std::vector<std::string> only;  ///< operations; none: all
  std::string json;               ///< file to write; empty: none
  std::string shape;              ///< cases whose shape has this text in it
  int pairs = 20;
  double warm_up_ms = 20;
  double case_seconds = 1;          ///< most seconds of samples of one comparison
  bool programmatic = false;        ///< launches by programmatic dependent launch
  std::map<std::string, int> more;  ///< numbers that only one program knows, by option

  /// Reads `[OPERATION...] [--json FILE] [--shape TEXT] [--pairs N] [--warm-up-ms N] [--case-seconds N] [--pdl 1]`;
  /// options of `more` take a number.
  /// @throws std::runtime_error naming what it does not know
  void read(int argc, char** argv, std::vector<std::string> const& operations);
  bool wants(std::string const& operation) const;
  bool wants_shape(std::string const& s) const { return shape.empty() || s.find(shape) != std::string::npos; }
};

struct named_policy {
  std::string name, policy;
};

/// Samples of two arms in the order they were taken, microseconds a launch. Without a candidate: the control alone.
struct comparison {
  named_policy candidate;
  std::vector<double> control_us, candidate_us;
};

/// One case: an operation at a shape.
struct measurement {
  std::string operation, shape;
  double bytes = 0;          ///< one launch has to move
  double rotated_bytes = 0;  ///< distinct data that the launches of a sample go through
  int sets = 0, launches = 0;
  named_policy control;
  std::vector<comparison> comparisons;
  std::string part_of;  ///< a share of another measurement, by its shape
};

class report {
 public:
  /// @param facts of the card and the run, as text
  explicit report(std::map<std::string, std::string> facts) : facts_(std::move(facts)) {}
  void number(std::string const& name, double value) { numbers_[name] = value; }
  double number(std::string const& name) const { return numbers_.at(name); }
  void fact(std::string const& name, std::string const& value) { facts_[name] = value; }
  /// Keeps it and prints a line.
  void add(measurement m);
  /// @throws std::runtime_error where the file cannot be written
  void write(std::string const& path) const;
 private:
  std::map<std::string, std::string> facts_;
  std::map<std::string, double> numbers_;
  std::vector<measurement> all_;
};

double median(std::vector<double> v);

}  // namespace bench
