// SPDX-License-Identifier: Apache-2.0
/// The summary that a run prints at its end, as text or as JSON.
#pragma once

#include <common/shadowed_round.hpp>
#include <generate/decoding.hpp>
#include <generate/options.hpp>
#include <generate/output.hpp>
#include <generate/timing.hpp>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/resource.h>
#endif

namespace generate {

/// Everything that is reported about a run.
struct run_summary {
  decoded speculative;
  operation_times times;
  bool compared = false;
  decoded plain;
  std::string difference;  ///< "" when the plain run is identical
  struct shadowed_layer {
    char const* operation;
    ratify::shadow_record found;
  };
  std::vector<shadowed_layer> shadow;  ///< by layer; empty without one
  ratify::shadow_verdict shadowed;
};

/// The most memory that the process has used, in MiB; 0 where this is not known.
inline double peak_mebibytes() {
#if defined(__unix__) || defined(__APPLE__)
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
#if defined(__APPLE__)
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
#else
  return static_cast<double>(usage.ru_maxrss) / (1 << 10);
#endif
#else
  return 0;
#endif
}

inline std::string bytes_of(std::vector<int32_t> const& tokens) {
  std::string text;
  for (int32_t const t : tokens)
    if (t >= 0 && t < 256) text += static_cast<char>(t);
  return text;
}

inline double per_round(double total, decoded const& d) { return d.rounds > 0 ? total / d.rounds : 0; }

inline void print_text(options const& o, run_summary const& s) {
  decoded const& d = s.speculative;
  int const tokens = static_cast<int>(d.tokens.size());
  std::printf("\n\n%d tokens in %d rounds (%s); %s, temperature %g, seed %lld, at most %d drafts a round\n", tokens,
              d.rounds, describe(d.stop), o.executor.c_str(), static_cast<double>(o.temperature),
              static_cast<long long>(o.seed), o.drafts);
  std::printf("a round: %.2f drafts proposed, %.2f accepted, %.2f tokens emitted\n", per_round(d.proposed, d),
              per_round(d.accepted, d), per_round(tokens, d));
  std::printf("time: prompt %.1f ms; a round %.2f ms and %.2f ms of drafting\n", 1e3 * d.prompt_seconds,
              1e3 * per_round(d.round_seconds, d), 1e3 * per_round(d.drafting_seconds, d));
  auto const operations = by_operation(s.times);
  double total = 0;
  for (auto const& o : operations) total += o.seconds;
  if (total > 0) {
    std::printf("by operation, the prompt's launches included:\n");
    for (auto const& o : operations)
      std::printf("  %-15s %6lld launches %9.2f ms %5.1f %%\n", o.operation.c_str(), static_cast<long long>(o.launches),
                  1e3 * o.seconds, 100 * o.seconds / total);
  }
  if (double const peak = peak_mebibytes(); peak > 0) std::printf("peak memory: %.0f MiB\n", peak);
  for (size_t i = 0; i < s.shadow.size(); ++i) {
    auto const& f = s.shadow[i].found;
    if (f.calls == 0)
      std::printf("shadow: layer %zu, %s: NEVER COMPARED\n", i, s.shadow[i].operation);
    else if (f.differing_elements > 0)
      std::printf("shadow: layer %zu, %s DIFFERS: %llu of %llu elements, %llu bits, by %g at most\n", i,
                  s.shadow[i].operation, static_cast<unsigned long long>(f.differing_elements),
                  static_cast<unsigned long long>(f.elements), static_cast<unsigned long long>(f.differing_bits),
                  example::largest_error(f));
  }
  if (!s.shadow.empty() && s.shadowed)
    std::printf("shadow: attention and recurrence of %zu layers under a second policy, %llu elements, no bit differs\n",
                s.shadow.size(), static_cast<unsigned long long>(s.shadowed.elements));
  if (!s.compared) return;
  double const with = d.round_seconds + d.drafting_seconds, without = s.plain.round_seconds;
  std::printf("plain decoding: %d rounds of %.2f ms; drafts made the same text %.2f times as fast\n", s.plain.rounds,
              1e3 * per_round(without, s.plain), with > 0 ? without / with : 0);
  if (s.difference.empty())
    std::printf("identical to plain decoding: every token, every recurrent state, every visible key and value\n");
  else
    std::printf("DIFFERS from plain decoding: %s\n", s.difference.c_str());
}

inline void print_json(options const& o, run_summary const& s) {
  decoded const& d = s.speculative;
  nlohmann::ordered_json operations = nlohmann::ordered_json::object();
  for (auto const& o : by_operation(s.times))
    if (o.launches > 0) operations[o.operation] = {{"launches", o.launches}, {"seconds", o.seconds}};
  nlohmann::ordered_json out = {
      {"prompt", o.prompt},
      {"text", bytes_of(d.tokens)},
      {"tokens", d.tokens},
      {"stop", describe(d.stop)},
      {"executor", o.executor},
      {"temperature", o.temperature},
      {"seed", o.seed},
      {"drafts", o.drafts},
      {"rounds", d.rounds},
      {"proposed", d.proposed},
      {"accepted", d.accepted},
      {"tokens_per_round", per_round(static_cast<double>(d.tokens.size()), d)},
      {"prompt_seconds", d.prompt_seconds},
      {"round_seconds", d.round_seconds},
      {"drafting_seconds", d.drafting_seconds},
      {"operations", operations},
      {"peak_mebibytes", peak_mebibytes()},
  };
  if (s.compared)
    out["compare"] = {{"identical", s.difference.empty()},
                      {"difference", s.difference},
                      {"rounds", s.plain.rounds},
                      {"round_seconds", s.plain.round_seconds}};
  for (size_t i = 0; i < s.shadow.size(); ++i) {
    auto const& f = s.shadow[i].found;
    out["shadow"].push_back({{"layer", i},
                             {"operation", s.shadow[i].operation},
                             {"calls", f.calls},
                             {"elements", f.elements},
                             {"differing_elements", f.differing_elements},
                             {"differing_bits", f.differing_bits},
                             {"largest_error", example::largest_error(f)}});
  }
  // Bytes that are not UTF-8 become U+FFFD in the text; the list of tokens has them as they are.
  std::printf("%s\n", out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

}  // namespace generate
