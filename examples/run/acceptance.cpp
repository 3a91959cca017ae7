// SPDX-License-Identifier: Apache-2.0
#include <run/operation.hpp>

#include <ratify/acceptance.cuh>

#include <cmath>

namespace ratify_run {
namespace {

/// One FP32 a request; `good` judges those of requests that have rows.
template <class Good>
std::vector<float> read_floats(inputs const& in, char const* name, rounds const& r, char const* must, Good good) {
  auto const values = load_dense<float>(in.tensor(name, dtype::f32, {r.requests()}));
  for (int i = 0; i < r.requests(); ++i)
    if (float const v = values[static_cast<size_t>(i)]; r.rows(i) > 0 && !good(v))
      throw bad_input("tensor " + quote(name) + ": entry " + std::to_string(i) + " is " + std::to_string(v) +
                      ", must be " + must);
  return values;
}

/// What drafts were drawn from: of candidates, of the vocabulary, or nothing.
struct sources {
  std::vector<int32_t> candidates;  ///< [requests, D, C]
  std::vector<float> weights;       ///< [requests, D, C], or [requests, D, vocab]
  int64_t each = 0;                 ///< C or vocab
};

sources read_sources(inputs const& in, rounds const& r, int max_drafts, int vocab) {
  bool const dense = in.has("draft_probs");
  if (!dense && !in.has("draft_candidates") && !in.has("draft_candidate_q")) return {};
  if (dense && (in.has("draft_candidates") || in.has("draft_candidate_q")))
    throw bad_input("tensor 'draft_probs': given with " +
                    quote(in.has("draft_candidates") ? "draft_candidates" : "draft_candidate_q") +
                    "; a draft was drawn from one of them");
  sources s;
  char const* const name = dense ? "draft_probs" : "draft_candidate_q";
  shape_type shape{r.requests(), max_drafts, vocab};
  if (!dense) {
    operand const candidates = in.tensor("draft_candidates", {dtype::i32}, 3);
    shape[2] = candidates.extent(2);
    if (candidates.shape != shape)
      throw bad_input("tensor 'draft_candidates': shape " + to_string(candidates.shape) + ", must be [" +
                      std::to_string(r.requests()) + ", " + std::to_string(max_drafts) + ", C], as 'draft'");
    if (shape[2] == 0) throw unsupported("tensor 'draft_candidates': no candidates; at least 1 of each draft");
    s.candidates = load_dense<int32_t>(candidates);
  }
  s.weights = load_dense<float>(in.tensor(name, dtype::f32, shape));
  s.each = shape[2];
  for (int i = 0; i < r.requests(); ++i)
    for (int64_t d = 0; d + 1 < r.rows(i); ++d)
      for (int64_t c = 0; c < s.each; ++c) {
        int64_t const at = (int64_t{i} * max_drafts + d) * s.each + c;
        if (!dense) {
          int32_t const id = s.candidates[static_cast<size_t>(at)];
          if (id < -1 || id >= vocab) bad_entry("draft_candidates", at, id, "-1 to " + std::to_string(vocab - 1));
          if (id == -1) continue;
        }
        if (float const w = s.weights[static_cast<size_t>(at)]; !std::isfinite(w) || w < 0)
          throw bad_input("tensor " + quote(name) + ": entry " + std::to_string(at) + " is " + std::to_string(w) +
                          ", must be a finite number that is not negative");
      }
  return s;
}

void run(task& t) {
  operand const logits = t.in.tensor("logits", wide_formats, 2);
  rounds const r = read_rounds(t.in, logits.extent(0));
  int const requests = r.requests();
  operand const draft = t.in.tensor("draft", {dtype::i32}, 2);
  if (draft.extent(0) != requests)
    throw bad_input("tensor 'draft': shape " + to_string(draft.shape) + ", must be [" + std::to_string(requests) +
                    ", D], a row for each request of query_start");
  int const max_drafts = draft.extent(1);
  for (int i = 0; i < requests; ++i)
    if (r.rows(i) > max_drafts + 1)
      throw bad_input("tensor 'query_start': request " + std::to_string(i) + " has " + std::to_string(r.rows(i)) +
                      " rows, must have at most D + 1 = " + std::to_string(max_drafts + 1) + " of 'draft'");
  auto const temperature_values = read_floats(t.in, "temperature", r, "a finite number that is not negative",
                                              [](float v) { return std::isfinite(v) && v >= 0; });
  auto const top_p_values =
      read_floats(t.in, "top_p", r, "0 to 1", [](float v) { return v >= 0 && v <= 1; });  // false for NaN
  auto const top_k_values = read_per_request(t.in, "top_k", r, -1, INT32_MAX);
  auto const seed_values = load_dense<int64_t>(t.in.tensor("seed", dtype::i64, {requests}));
  auto const position_values = load_dense<int64_t>(t.in.tensor("position", dtype::i64, {requests}));
  auto const end_values = load_dense<int32_t>(t.in.tensor("end_tokens", {dtype::i32}, 1));
  sources const from = read_sources(t.in, r, max_drafts, logits.extent(1));
  auto const limit_values = load_dense<int32_t>(t.in.tensor("limit", dtype::i32, {requests}));

  with_policy<ratify_examples::acceptance_policies>(t.policy, {}, [&](auto chosen) {
    t.on.visit([&](auto& on) {
      using executor_type = std::decay_t<decltype(on)>;
      using operation_type = typename decltype(chosen)::template operation<ratify::acceptance>;
      using integers = resident<int32_t, executor_type>;
      resident<float, executor_type> const logits_there(on, load<float>(logits, 1)),
          temperature(on, temperature_values), top_p(on, top_p_values);
      resident<int64_t, executor_type> const seed(on, seed_values), position(on, position_values);
      integers const starts(on, r.start), draft_there(on, load<int32_t>(draft, 1)), top_k(on, top_k_values),
          end_tokens(on, end_values), limit(on, limit_values), candidates(on, from.candidates);
      resident<float, executor_type> const weights(on, from.weights);
      // What a request that is not in the round leaves: nothing emitted.
      shape_type const shape = {requests, max_drafts + 1};
      auto const tokens = room(on, shape, "tokens", -1), emitted = room(on, {requests}, "emitted", 0),
                 accepted = room(on, {requests}, "accepted", 0), finish = room(on, {requests}, "finish", 0),
                 row_status = room(on, {logits.shape[0]}, "row_status", 0);

      typename operation_type::params p;
      p.logits = logits_there.rows();
      p.query_start = starts.data();
      p.draft = draft_there.rows();
      p.temperature = temperature.data();
      p.top_p = top_p.data();
      p.top_k = top_k.data();
      p.seed = seed.data();
      p.position = position.data();
      p.end_tokens = end_tokens.data();
      p.end_count = static_cast<int>(end_values.size());
      p.limit = limit.data();
      p.tokens = tokens.data();
      p.emitted = emitted.data();
      p.accepted = accepted.data();
      p.finish = finish.data();
      p.row_status = row_status.data();
      p.rows = logits.extent(0);
      p.requests = requests;
      p.vocab = logits.extent(1);
      p.max_drafts = max_drafts;
      constexpr bool takes_sources = operation_type::policy::rule == ratify::acceptance_rule::rejection;
      if (takes_sources && !from.candidates.empty()) {
        p.draft_candidates = {candidates.data(), from.each * max_drafts, from.each};
        p.draft_candidate_q = {weights.data(), from.each * max_drafts, from.each};
        p.candidates = static_cast<int>(from.each);
      } else if (takes_sources && !from.weights.empty()) {
        p.draft_probs = {weights.data(), from.each * max_drafts, from.each};
      }
      launch<operation_type>(on, p);
      t.emit("tokens", shape, tokens.read(on));
      t.emit("emitted", {requests}, emitted.read(on));
      t.emit("accepted", {requests}, accepted.read(on));
      t.emit("finish", {requests}, finish.read(on));
      t.emit("row_status", {logits.shape[0]}, row_status.read(on));
    });
  });
}

/// Rule coupled takes drafts as chosen.
std::set<std::string> idle(settings const& policy) {
  if (policy.at("rule") != "coupled") return {};
  return {"draft_candidates", "draft_candidate_q", "draft_probs"};
}

}  // namespace

extern operation const acceptance;
operation const acceptance{"acceptance",
                           {"logits", "query_start", "draft", "temperature", "top_p", "top_k", "seed", "position",
                            "end_tokens", "limit", "draft_candidates", "draft_candidate_q", "draft_probs"},
                           {"tokens", "emitted", "accepted", "finish", "row_status"},
                           {},
                           run,
                           built<ratify_examples::acceptance_policies>,
                           {},
                           false,
                           idle};

}  // namespace ratify_run
