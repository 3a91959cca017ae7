// SPDX-License-Identifier: Apache-2.0
#include <bench/report.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace bench {
namespace {

double to_number(std::string const& option, char const* text) {
  char* end = nullptr;
  double const value = text == nullptr ? 0 : std::strtod(text, &end);
  if (text == nullptr || end == text || *end != '\0' || !(value >= 0 && value <= 1e9))
    throw std::runtime_error(option + " needs a number from 0 up");
  return value;
}

nlohmann::json named(named_policy const& p) { return {{"name", p.name}, {"policy", p.policy}}; }

}  // namespace

void options::read(int argc, char** argv, std::vector<std::string> const& operations) {
  for (int i = 1; i < argc; ++i) {
    std::string const word = argv[i];
    char const* const next = i + 1 < argc ? argv[i + 1] : nullptr;
    auto const text = [&] {
      if (next == nullptr) throw std::runtime_error(word + " needs a value");
      ++i;
      return std::string(next);
    };
    auto const number = [&] {
      double const value = to_number(word, next);
      ++i;
      return value;
    };
    if (word == "--json") {
      json = text();
    } else if (word == "--shape") {
      shape = text();
    } else if (word == "--pairs") {
      pairs = static_cast<int>(number());
    } else if (word == "--warm-up-ms") {
      warm_up_ms = number();
    } else if (word == "--case-seconds") {
      case_seconds = number();
    } else if (word == "--pdl") {
      programmatic = number() != 0;
    } else if (more.count(word) != 0) {
      more[word] = static_cast<int>(number());
    } else if (std::find(operations.begin(), operations.end(), word) != operations.end()) {
      only.push_back(word);
    } else {
      std::string known = "unknown word '" + word + "'; operations:";
      for (auto const& o : operations) known += " " + o;
      known += "; options: --json FILE --shape TEXT --pairs N --warm-up-ms N --case-seconds N --pdl 0|1";
      for (auto const& m : more) known += " " + m.first + " N";
      throw std::runtime_error(known);
    }
  }
}

bool options::wants(std::string const& operation) const {
  return only.empty() || std::find(only.begin(), only.end(), operation) != only.end();
}

double median(std::vector<double> v) {
  if (v.empty()) return std::nan("");
  std::sort(v.begin(), v.end());
  size_t const n = v.size();
  return n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

void report::add(measurement m) {
  double const bound = m.bytes / (1e3 * number("read_gb_per_s"));
  for (auto const& c : m.comparisons) {
    std::printf("%-14s %-34s %-48s %10.2f us", m.operation.c_str(), m.shape.c_str(), m.control.name.c_str(),
                median(c.control_us));
    if (!c.candidate_us.empty()) {
      std::vector<double> ratio;
      for (size_t i = 0; i < c.control_us.size(); ++i) ratio.push_back(c.control_us[i] / c.candidate_us[i]);
      std::printf("   %-48s %10.2f us   %.3fx", c.candidate.name.c_str(), median(c.candidate_us), median(ratio));
    }
    std::printf("   bound %.2f\n", bound);
  }
  std::fflush(stdout);
  all_.push_back(std::move(m));
}

void report::write(std::string const& path) const {
  if (path.empty()) return;
  nlohmann::json j{{"facts", facts_}, {"numbers", numbers_}, {"cases", nlohmann::json::array()}};
  for (auto const& m : all_) {
    nlohmann::json one{{"operation", m.operation}, {"shape", m.shape},           {"bytes", m.bytes},
                       {"sets", m.sets},           {"launches", m.launches},     {"rotated_bytes", m.rotated_bytes},
                       {"part_of", m.part_of},     {"control", named(m.control)}};
    for (auto const& c : m.comparisons)
      one["comparisons"].push_back(
          {{"candidate", named(c.candidate)}, {"control_us", c.control_us}, {"candidate_us", c.candidate_us}});
    j["cases"].push_back(std::move(one));
  }
  std::ofstream out(path);
  out << j.dump() << '\n';
  if (!out) throw std::runtime_error("cannot write " + path);
}

}  // namespace bench
