// SPDX-License-Identifier: Apache-2.0
/// ratify-bench-round: one start of the paired measurement of complete rounds, on a card. A round is one CUDA graph.
/// The arms of a comparison replay their graphs in turn, over the same weights, caches and states.
#include <bench/card.hpp>
#include <bench/harness.hpp>
#include <bench/round.hpp>

#include <cstdio>
#include <cstring>
#include <exception>

namespace bench {
namespace {

/// Runs every arm from the same state: logits and tokens must be the same to the bit.
void require_equal_bits(round& r, int context) {
  r.start(context);
  r.enqueue<control_arm>();
  auto const logits = r.logits();
  auto const out = r.emitted();
  if (out.emitted < 1) throw std::runtime_error("the control's logits are of no use");
  auto const compare = [&](named_policy const& arm) {
    auto const other_logits = r.logits();
    auto const other = r.emitted();
    if (std::memcmp(logits.data(), other_logits.data(), logits.size() * sizeof(float)) != 0 ||
        std::memcmp(&out, &other, sizeof out) != 0)
      throw std::runtime_error(arm.name + ": logits or tokens differ from the control's at " + std::to_string(context) +
                               " tokens");
  };
  r.start(context);
  r.enqueue<candidate_arm>();
  compare(name_of_arm<candidate_arm>());
  r.start(context);
  r.enqueue_overlapped<fastest_arm>();
  compare(name_of_arm<fastest_arm>());
}

/// Runs rounds that the control drives with the candidate as its shadow, as replays of one graph, and prints what
/// differed, by layer.
void shadowed(card const& on, round& r, int context, int rounds, report& to) {
  int const layers = r.shape().layers;
  buffer<ratify::shadow_record> records(std::vector<ratify::shadow_record>(static_cast<size_t>(layers)));
  r.start(context);
  r.enqueue_shadowed<control_arm, candidate_arm>(records.data());
  if (rounds > 1) {
    graph again(on.stream, [&] { r.enqueue_shadowed<control_arm, candidate_arm>(records.data()); });
    for (int i = 1; i < rounds; ++i) again.replay();
  }
  auto const found = records.read(on);
  std::printf("shadow of %d rounds at %d tokens: layer, operation, calls, elements, of them different, bits, error\n",
              rounds, context);
  for (int i = 0; i < layers; ++i) {
    auto const& f = found[static_cast<size_t>(i)];
    std::printf("%3d %-10s %4llu %12llu %6llu %6llu %g\n", i, r.shape().is_attention(i) ? "attention" : "recurrence",
                static_cast<unsigned long long>(f.calls), static_cast<unsigned long long>(f.elements),
                static_cast<unsigned long long>(f.differing_elements),
                static_cast<unsigned long long>(f.differing_bits), example::largest_error(f));
  }
  auto const verdict = ratify::judge(found.data(), layers);
  if (verdict.uncovered >= 0)
    throw std::runtime_error("shadow: layer " + std::to_string(verdict.uncovered) + " was never compared");
  if (verdict.differing >= 0)
    throw std::runtime_error("shadow: layer " + std::to_string(verdict.differing) + " differs, " +
                             std::to_string(verdict.differing_elements) + " elements in all");
  to.fact("shadow " + std::to_string(context), std::to_string(rounds) + " rounds, " + std::to_string(layers) +
                                                   " layers, " + std::to_string(verdict.elements) +
                                                   " elements compared, no bit differs");
}

/// Measures one part alone: both arms replay a graph of the launches that the part has in a round, in their order, over
/// the same buffers. What several launches read, such as the weights of norms, stays in L2. With --parts 2 also what
/// the part adds to a round: the candidate's round against the same round without the part.
measurement one_part(card const& on, round& r, example::part id, std::string const& whole, graph& full,
                     options const& settings) {
  measurement m;
  m.operation = name_of_part(id);
  m.shape = whole + ", " + std::to_string(r.launches(id)) + " launches";
  m.part_of = whole;
  m.bytes = m.rotated_bytes = r.bytes(id);
  m.sets = m.launches = 1;
  m.control = name_of_arm<control_arm>();
  options few = settings;
  few.pairs = 5;
  few.warm_up_ms = 0;
  {
    graph control(on.stream, [&] { r.enqueue<control_arm>(id); });
    graph candidate(on.stream, [&] { r.enqueue<candidate_arm>(id); });
    m.comparisons.push_back(alternate(control, candidate, 1, few));
    m.comparisons.back().candidate = name_of_arm<candidate_arm>();
  }
  if (settings.more.at("--parts") > 1) {
    graph without(on.stream, [&] { r.enqueue_without<candidate_arm>(id); });
    m.comparisons.push_back(alternate(full, without, 1, few));
    m.comparisons.back().candidate = {"the round without it", name_of_arm<candidate_arm>().policy};
  }
  return m;
}

void rounds(card const& on, options const& settings, report& to) {
  round r(on, settings.more.at("--tp"), settings.more.at("--layers"));
  for (int context : {1024, 16384, 65536, 262144}) {
    measurement m;
    m.operation = "round";
    m.shape = "TP" + std::to_string(r.ranks()) + " " + std::to_string(context) + " tokens";
    if (!settings.wants_shape(m.shape)) continue;
    require_equal_bits(r, context);
    if (settings.more.at("--shadow") > 0) shadowed(on, r, context, settings.more.at("--shadow"), to);
    m.bytes = m.rotated_bytes = r.bytes();
    m.sets = m.launches = 1;
    m.control = name_of_arm<control_arm>();
    graph control(on.stream, [&] { r.enqueue<control_arm>(); });
    graph candidate(on.stream, [&] { r.enqueue<candidate_arm>(); });
    m.comparisons.push_back(alternate(control, candidate, 1, settings));
    m.comparisons.back().candidate = name_of_arm<candidate_arm>();
    {
      graph fastest(on.stream, [&] { r.enqueue<fastest_arm>(); });
      m.comparisons.push_back(alternate(control, fastest, 1, settings));
      m.comparisons.back().candidate = name_of_arm<fastest_arm>();
      graph overlapped(on.stream, [&] { r.enqueue_overlapped<fastest_arm>(); });
      m.comparisons.push_back(alternate(control, overlapped, 1, settings));
      m.comparisons.back().candidate = {name_of_arm<fastest_arm>().name + ", PDL",
                                        name_of_arm<fastest_arm>().policy + "; programmatic dependent launch"};
    }
    std::string const whole = m.shape;
    to.add(std::move(m));
    if (settings.more.at("--parts") == 0) continue;
    for (int i = 0; i < example::part_count; ++i)
      to.add(one_part(on, r, static_cast<example::part>(i), whole, candidate, settings));
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  try {
    bench::options settings;
    settings.more = {{"--tp", 1}, {"--layers", 64}, {"--parts", 1}, {"--shadow", 0}};
    settings.read(argc, argv, {});
    if (settings.more["--tp"] != 1 && settings.more["--tp"] != 2) throw std::runtime_error("--tp must be 1 or 2");
    if (settings.more["--layers"] < 4) throw std::runtime_error("--layers must be at least 4");
    bench::card const on;
    bench::report to = bench::first_report(on);
    to.fact("layers", std::to_string(settings.more["--layers"]));
    bench::rounds(on, settings, to);
    to.write(settings.json);
    return 0;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "ratify-bench-round: %s\n", e.what());
    return 1;
  }
}
