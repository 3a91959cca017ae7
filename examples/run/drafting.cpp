// SPDX-License-Identifier: Apache-2.0
/// The drafter's operations.
#include <run/operation.hpp>

#include <ratify/drafting.cuh>

#include <cmath>

namespace ratify_run {
namespace {

/// What the draws of mode sample depend on.
struct draws {
  std::vector<float> temperature;
  std::vector<int64_t> seed, position;
};

draws read_draws(inputs const& in, bool sample, int requests) {
  draws d;
  if (sample || in.has("temperature")) {
    d.temperature = load_dense<float>(in.tensor("temperature", dtype::f32, {requests}));
    for (size_t i = 0; i < d.temperature.size(); ++i)
      if (float const v = d.temperature[i]; !std::isfinite(v) || v < 0)
        throw bad_input("tensor 'temperature': entry " + std::to_string(i) + " is " + std::to_string(v) +
                        ", must be a finite number that is not negative");
  }
  if (sample || in.has("seed")) d.seed = load_dense<int64_t>(in.tensor("seed", dtype::i64, {requests}));
  if (sample || in.has("position")) d.position = load_dense<int64_t>(in.tensor("position", dtype::i64, {requests}));
  return d;
}

void run_walk(task& t) {
  operand const unary = t.in.tensor("unary", {dtype::f32}, 3);
  operand const candidates = t.in.tensor("candidates", dtype::i32, unary.shape);
  operand const left = t.in.tensor("left", {dtype::f32, dtype::bf16}, 2);
  operand const right = t.in.tensor("right", {dtype::f32, dtype::bf16}, left.shape);
  int const requests = unary.extent(0), draft_slots = unary.extent(1), count = unary.extent(2);
  int const vocab = left.extent(0), rank = left.extent(1);
  operand const project = t.in.tensor("project", dtype::f32, {requests, draft_slots, rank});
  auto const anchors = load_dense<int32_t>(t.in.tensor("anchor", dtype::i32, {requests}));
  for (size_t i = 0; i < anchors.size(); ++i)
    if (anchors[i] < 0 || anchors[i] >= vocab)
      bad_entry("anchor", static_cast<int64_t>(i), anchors[i],
                "0 to " + std::to_string(vocab - 1) + ", a row of 'left'");
  auto const ids = load_dense<int32_t>(candidates);
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < -1 || ids[i] >= vocab)
      bad_entry("candidates", static_cast<int64_t>(i), ids[i], "-1 to " + std::to_string(vocab - 1));
  draws const with = read_draws(t.in, t.policy.at("mode") == "sample", requests);

  with_policy<ratify_examples::draft_walk_policies>(t.policy, {}, [&](auto chosen) {
    t.on.visit([&](auto& on) {
      using executor_type = std::decay_t<decltype(on)>;
      using operation_type = typename decltype(chosen)::template operation<ratify::draft_walk>;
      resident<float, executor_type> const unary_there(on, load<float>(unary, 1)), left_there(on, load<float>(left, 1)),
          right_there(on, load<float>(right, 1)), project_there(on, load<float>(project, 1)),
          temperature(on, with.temperature);
      resident<int32_t, executor_type> const candidates_there(on, load<int32_t>(candidates, 1)), anchor(on, anchors);
      resident<int64_t, executor_type> const seed(on, with.seed), position(on, with.position);
      shape_type const shape = {requests, draft_slots};
      auto const tokens = room(on, shape, "tokens", -2);
      auto const q = room(on, unary.shape, "q");

      typename operation_type::params p;
      p.unary = unary_there.heads();
      p.candidates = candidates_there.heads();
      p.left = left_there.rows();
      p.right = right_there.rows();
      p.project = project_there.heads();
      p.anchor = anchor.data();
      p.temperature = temperature.data();
      p.seed = seed.data();
      p.position = position.data();
      p.tokens = {tokens.data(), draft_slots};
      p.q = {q.data(), int64_t{draft_slots} * count, count};
      p.requests = requests;
      p.draft_slots = draft_slots;
      p.candidate_count = count;
      p.rank = rank;
      p.vocab = vocab;
      launch<operation_type>(on, p);
      t.emit("tokens", shape, tokens.read(on));
      t.emit("q", unary.shape, q.read(on));
    });
  });
}

void run_convolution(task& t) {
  using operation_type = ratify::draft_convolution<ratify::input_format<float>, ratify::base_format<float>,
                                                   ratify::delta_format<float>, ratify::output_format<float>>;
  operand const x = t.in.tensor("x", wide_formats, 3);
  int const requests = x.extent(0), draft_slots = x.extent(1), channels = x.extent(2);
  if (channels % 16 != 0)
    throw unsupported("tensor 'x': shape " + to_string(x.shape) + "; channels must be a multiple of 16");
  operand const base = t.in.tensor("base", wide_formats, shape_type{2, channels});
  int64_t const groups = channels / 16;
  operand const delta = t.in.tensor("delta", wide_formats, shape_type{requests, draft_slots, 2, groups});
  t.on.visit([&](auto& on) {
    using executor_type = std::decay_t<decltype(on)>;
    resident<float, executor_type> const x_there(on, load<float>(x, 1)), base_there(on, load_dense<float>(base)),
        delta_there(on, load<float>(delta, 2));
    auto const out = room(on, x.shape, "out");
    typename operation_type::params p;
    p.x = x_there.heads();
    p.base = base_there.data();
    p.delta = delta_there.heads();
    p.out = {out.data(), int64_t{draft_slots} * channels, channels};
    p.requests = requests;
    p.draft_slots = draft_slots;
    p.channels = channels;
    launch<operation_type>(on, p);
    t.emit_rounded("out", x.shape, out.read(on));
  });
}

/// Mode argmax draws nothing.
std::set<std::string> idle_in_walk(settings const& policy) {
  if (policy.at("mode") != "argmax") return {};
  return {"temperature", "seed", "position"};
}

}  // namespace

extern operation const draft_walk, draft_convolution;
operation const draft_walk{
    "draft_walk",
    {"unary", "candidates", "left", "right", "project", "anchor", "temperature", "seed", "position"},
    {"tokens", "q"},
    {},
    run_walk,
    built<ratify_examples::draft_walk_policies>,
    {},
    false,
    idle_in_walk};
operation const draft_convolution{"draft_convolution",
                                  {"x", "base", "delta"},
                                  {"out"},
                                  {},
                                  run_convolution,
                                  built<ratify_examples::draft_convolution_policies>};

}  // namespace ratify_run
