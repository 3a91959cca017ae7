// SPDX-License-Identifier: Apache-2.0
/// Acceptance launches for tests: the requests of a launch, what the twin expects of them, random ones, and running
/// them on an executor.
#pragma once

#include <ratify/acceptance.cuh>

#include "reference/acceptance.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace ratify_test {

using coupled = ratify::acceptance<>;
using rejection = ratify::acceptance<ratify::rule<ratify::acceptance_rule::rejection>>;

/// An operation that decides from the summaries of shards, with everything else as in `Operation`.
template <class Operation>
using from_words =
    ratify::acceptance<ratify::logit_format<ratify::acceptance_word>, ratify::rule<Operation::policy::rule>>;

/// The summary of a shard of the logits that `Operation` takes whole.
template <class Operation>
using summary_of = ratify::acceptance_summary<ratify::logit_format<typename Operation::policy::logit_format>>;

/// Requests of one launch.
struct batch {
  int vocab = 1;
  int max_drafts = 0;
  std::vector<int32_t> end_tokens;
  std::vector<reference::request> requests;
  int shards = 1;      ///< that hold the logits
  int candidates = 0;  ///< of each draft's source; -1: the whole vocabulary; 0: drafts were chosen
};

/// What a launch wrote, request by request.
struct outputs {
  std::vector<int32_t> tokens, emitted, accepted, finish, row_status;
};

/// A model's vocabulary; for checkers, which take a hundred times as long, one that still has several pieces per row.
inline int large_vocab() { return scale() < 1.0 ? 33000 : 248320; }

inline constexpr int32_t untouched = -1;  // 0xFF bytes

/// What the twin expects: of a request without rows no token, its finish as it was, and nothing emitted.
template <class Operation = coupled>
outputs twin(batch const& b) {
  outputs out;
  for (auto const& r : b.requests) {
    reference::round one;
    one.tokens.assign(size_t(b.max_drafts + 1), untouched);
    one.finish = untouched;
    if (!r.rows.empty())
      one = reference::accept(Operation::policy::rule == ratify::acceptance_rule::rejection, r, b.end_tokens,
                              size_t(b.max_drafts));
    out.tokens.insert(out.tokens.end(), one.tokens.begin(), one.tokens.end());
    out.emitted.push_back(one.emitted);
    out.accepted.push_back(one.accepted);
    out.finish.push_back(one.finish);
    out.row_status.insert(out.row_status.end(), one.row_status.begin(), one.row_status.end());
  }
  return out;
}

inline void check_equal(outputs const& got, outputs const& expected) {
  CHECK(bit_difference(got.tokens, expected.tokens) == "");
  CHECK(bit_difference(got.emitted, expected.emitted) == "");
  CHECK(bit_difference(got.accepted, expected.accepted) == "");
  CHECK(bit_difference(got.finish, expected.finish) == "");
  CHECK(bit_difference(got.row_status, expected.row_status) == "");
}

/// `launch` of support/executors.hpp, compiled in tests/acceptance/launch_*.cpp alone: acceptance's kernels are many.
template <class Operation, class Executor>
ratify::status launch_compiled(typename Operation::params const& p, Executor& on);

/// With a workspace of the caller.
template <class Operation, class Executor>
ratify::status launch_compiled_with(typename Operation::params const& p, ratify::workspace scratch, Executor& on);

/// A batch in an executor's memory. Rows are padded by NaN, and so are places of `draft` past n by a valid token.
template <class Operation, class Executor>
struct launched {
  using format = typename Operation::policy::logit_format;
  template <class T>
  using memory = buffer<T, Executor>;

  launched(Executor& executor, batch const& b, std::vector<int32_t> const* other_query_start = nullptr)
      : on(executor),
        rows(count_rows(b)),
        logits(on, stored_logits(b)),
        query_start(on, other_query_start != nullptr ? *other_query_start : starts(b)),
        draft(on, drafts(b)),
        candidates(on, sources(b).candidates),
        weights(on, sources(b).weights),
        end_tokens(on, b.end_tokens),
        temperature(on, each<float>(b, [](auto const& r) { return r.temperature; })),
        top_p(on, each<float>(b, [](auto const& r) { return r.top_p; })),
        top_k(on, each<int32_t>(b, [](auto const& r) { return r.top_k; })),
        limit(on, each<int32_t>(b, [](auto const& r) { return r.limit; })),
        seed(on, each<int64_t>(b, [](auto const& r) { return r.seed; })),
        position(on, each<int64_t>(b, [](auto const& r) { return r.position; })),
        tokens(on, b.requests.size() * size_t(b.max_drafts + 1)),
        emitted(on, b.requests.size()),
        accepted(on, b.requests.size()),
        finish(on, b.requests.size()),
        row_status(on, rows) {
    p.logits = {logits.data(), shard_vocab(b) + 3};
    p.shards = b.shards;
    p.shard_vocab = shard_vocab(b);
    p.shard_stride = p.logits.stride * static_cast<int64_t>(rows);
    p.query_start = query_start.data();
    p.draft = {draft.data(), b.max_drafts + 1};
    p.temperature = temperature.data();
    p.top_p = top_p.data();
    p.top_k = top_k.data();
    p.seed = seed.data();
    p.position = position.data();
    p.end_tokens = end_tokens.data();
    p.end_count = static_cast<int>(b.end_tokens.size());
    p.limit = limit.data();
    p.tokens = tokens.data();
    p.emitted = emitted.data();
    p.accepted = accepted.data();
    p.finish = finish.data();
    p.row_status = row_status.data();
    p.rows = static_cast<int>(rows);
    p.requests = static_cast<int>(b.requests.size());
    p.vocab = b.vocab;
    p.max_drafts = b.max_drafts;
    int64_t const each = b.candidates < 0 ? b.vocab : b.candidates;
    if constexpr (Operation::policy::rule != ratify::acceptance_rule::rejection) return;  // it takes no sources
    if (b.candidates > 0) {
      p.draft_candidates = {candidates.data(), each * b.max_drafts, each};
      p.draft_candidate_q = {weights.data(), each * b.max_drafts, each};
      p.candidates = b.candidates;
    } else if (b.candidates < 0) {
      p.draft_probs = {weights.data(), each * b.max_drafts, each};
    }
  }

  outputs run() {
    auto const s = launch_compiled<Operation>(p, on);
    REQUIRE_MESSAGE(s, s.reason());
    return {tokens.read(), emitted.read(), accepted.read(), finish.read(), row_status.read()};
  }

  Executor& on;
  size_t rows;
  memory<format> logits;
  memory<int32_t> query_start, draft, candidates;
  memory<float> weights;
  memory<int32_t> end_tokens;
  memory<float> temperature, top_p;
  memory<int32_t> top_k, limit;
  memory<int64_t> seed, position;
  memory<int32_t> tokens, emitted, accepted, finish, row_status;
  typename Operation::params p;
 private:
  static size_t count_rows(batch const& b) {
    size_t n = 0;
    for (auto const& r : b.requests) n += r.rows.size();
    return n;
  }
  static int shard_vocab(batch const& b) { return (b.vocab + b.shards - 1) / b.shards; }
  static std::vector<format> stored_logits(batch const& b) {
    std::vector<format> v;
    int const each = shard_vocab(b);
    for (int s = 0; s < b.shards; ++s)
      for (auto const& r : b.requests)
        for (auto const& row : r.rows)
          for (int i = s * each; i < (s + 1) * each + 3; ++i)  // padded
            v.push_back(ratify::convert<format>(i < std::min((s + 1) * each, b.vocab) ? row[size_t(i)] : NAN));
    return v;
  }
  static std::vector<int32_t> starts(batch const& b) {
    std::vector<int32_t> v{0};
    for (auto const& r : b.requests) v.push_back(v.back() + static_cast<int32_t>(r.rows.size()));
    return v;
  }
  static std::vector<int32_t> drafts(batch const& b) {
    std::vector<int32_t> v;
    for (auto const& r : b.requests) {
      v.insert(v.end(), r.draft.begin(), r.draft.end());
      v.resize(v.size() + size_t(b.max_drafts + 1) - r.draft.size(), 0);
    }
    return v;
  }
  /// Of all drafts, one after another; NaN and a valid token where a request has none.
  static reference::draft_source sources(batch const& b) {
    reference::draft_source all;
    if (b.candidates == 0) return all;
    size_t const each = size_t(b.candidates < 0 ? b.vocab : b.candidates);
    for (auto const& r : b.requests)
      for (size_t t = 0; t < size_t(b.max_drafts); ++t) {
        if (t < r.source.size()) {
          all.candidates.insert(all.candidates.end(), r.source[t].candidates.begin(), r.source[t].candidates.end());
          all.weights.insert(all.weights.end(), r.source[t].weights.begin(), r.source[t].weights.end());
        }
        all.weights.resize(each * (all.weights.size() / each + (t >= r.source.size())), NAN);
        if (b.candidates > 0) all.candidates.resize(all.weights.size(), 0);
      }
    return all;
  }
  template <class T, class F>
  static std::vector<T> each(batch const& b, F f) {
    std::vector<T> v;
    for (auto const& r : b.requests) v.push_back(f(r));
    return v;
  }
};

template <class Operation = coupled, class Executor>
outputs run(Executor& on, batch const& b) {
  return launched<Operation, Executor>(on, b).run();
}

/// The same for many requests, in launches of a few hundred: every row looks at the bounds of all requests.
template <class Operation = coupled, class Executor>
outputs run_many(Executor& on, batch const& b) {
  outputs all;
  batch part = b;
  for (size_t begin = 0; begin < b.requests.size(); begin += 256) {
    size_t const end = std::min(b.requests.size(), begin + 256);
    part.requests.assign(b.requests.begin() + static_cast<long>(begin), b.requests.begin() + static_cast<long>(end));
    outputs const one = run<Operation>(on, part);
    all.tokens.insert(all.tokens.end(), one.tokens.begin(), one.tokens.end());
    all.emitted.insert(all.emitted.end(), one.emitted.begin(), one.emitted.end());
    all.accepted.insert(all.accepted.end(), one.accepted.begin(), one.accepted.end());
    all.finish.insert(all.finish.end(), one.finish.begin(), one.finish.end());
    all.row_status.insert(all.row_status.end(), one.row_status.begin(), one.row_status.end());
  }
  return all;
}

/// The same by way of summaries: one of each shard, `places` words a row, then the decision from all of them.
template <class Operation, class Executor>
outputs run_from_words(Executor& on, batch const& b, int places) {
  launched<Operation, Executor> all(on, b);
  size_t const words_of_shard = all.rows * size_t(places);
  buffer<ratify::acceptance_word, Executor> words(on, words_of_shard * size_t(b.shards));
  for (int s = 0; s < b.shards; ++s) {
    using summary = summary_of<Operation>;
    typename summary::params q;
    q.logits = {all.p.logits.data + s * all.p.shard_stride, all.p.logits.stride};
    q.query_start = all.p.query_start;
    q.temperature = all.p.temperature;
    q.top_p = all.p.top_p;
    q.top_k = all.p.top_k;
    q.words = {words.data() + size_t(s) * words_of_shard, places};
    q.rows = all.p.rows;
    q.requests = all.p.requests;
    q.max_drafts = all.p.max_drafts;
    q.first_id = s * all.p.shard_vocab;
    q.vocab = std::min(all.p.shard_vocab, b.vocab - q.first_id);
    q.places = places;
    auto const ok = launch_compiled<summary>(q, on);
    REQUIRE_MESSAGE(ok, ok.reason());
  }
  using operation = from_words<Operation>;
  typename operation::params p;
  p.logits = {words.data(), places};
  p.shards = b.shards;
  p.shard_vocab = places;
  p.shard_stride = static_cast<int64_t>(words_of_shard);
  auto const& from = all.p;
  p.query_start = from.query_start, p.draft = from.draft, p.temperature = from.temperature, p.top_p = from.top_p;
  p.top_k = from.top_k, p.seed = from.seed, p.position = from.position, p.end_tokens = from.end_tokens;
  p.end_count = from.end_count, p.limit = from.limit, p.draft_candidates = from.draft_candidates;
  p.draft_candidate_q = from.draft_candidate_q, p.draft_probs = from.draft_probs, p.candidates = from.candidates;
  p.tokens = from.tokens, p.emitted = from.emitted, p.accepted = from.accepted, p.finish = from.finish;
  p.row_status = from.row_status, p.rows = from.rows, p.requests = from.requests, p.vocab = from.vocab;
  p.max_drafts = from.max_drafts;
  auto const ok = launch_compiled<operation>(p, on);
  REQUIRE_MESSAGE(ok, ok.reason());
  return {all.tokens.read(), all.emitted.read(), all.accepted.read(), all.finish.read(), all.row_status.read()};
}

/// A row as a model or an adversary might give it, rounded to the storage format.
template <class Format>
std::vector<float> random_row(random_source& random, int vocab) {
  int const kind = random.integer(0, 9);
  float const width = random.one_of({0.5f, 3.0f, 12.0f}), shift = random.uniform(-20.0f, 20.0f);
  std::vector<float> x(static_cast<size_t>(vocab));
  for (auto& v : x) {
    v = random.normal(width) + shift;
    if (kind == 1) v = std::round(v);                             // many ties
    if (kind == 2) v = random.one_of({0.0f, -0.0f});              // one tie over the whole row, and signs
    if (kind == 3 && random.integer(0, 2) == 0) v = -INFINITY;    // masked entries
    if (kind == 4) v = random.uniform(-3e38f, 3e38f);             // differences that overflow
    if (kind == 5) v = random.one_of({1e-42f, -1e-42f, 3e-40f});  // subnormals
    if (kind == 6) v = 7.0f + random.uniform(0.0f, 1e-3f);        // nearly flat: equal leading digits
    v = ratify::to_float(ratify::convert<Format>(v));
  }
  if (kind == 7) x[size_t(random.integer(0, vocab - 1))] = random.one_of({NAN, INFINITY});
  if (kind == 8) std::sort(x.begin(), x.end());  // the maxima of threads that take every n-th entry lie close together
  return x;
}

template <class Format>
reference::request random_request(random_source& random, int vocab, int max_drafts) {
  reference::request r;
  r.temperature = random.one_of({0.0f, 9e-6f, 1e-5f, 0.3f, 0.7f, 1.0f, 1.0f, 4.0f, 100.0f});
  r.top_p = random.one_of({0.0f, 1e-30f, 0.1f, 0.5f, 0.9f, 0.95f, 0.999f, 1.0f, 1.0f});
  r.top_k = random.one_of({0, -1, 1, 2, 5, 20, 20, 31, 33, 60, 300, 513, 600, vocab - 1, vocab, vocab + 9});
  if (r.top_k < -1) r.top_k = 0;
  r.seed = static_cast<int64_t>(random.word());
  r.position = random.one_of<int64_t>({0, 7, 262143, 0xffffffff, int64_t{1} << 40});
  r.limit = random.integer(0, 5) == 0 ? random.integer(0, max_drafts + 1) : 1 << 20;
  int const rows = random.integer(0, 9) == 0 ? 0 : random.integer(1, max_drafts + 1);
  for (int t = 0; t < rows; ++t) r.rows.push_back(random_row<Format>(random, vocab));
  for (int t = 0; t + 1 < rows; ++t) {
    auto const own = reference::draw(r.rows[size_t(t)], r.temperature, r.top_p, r.top_k,
                                     reference::random_word(r.seed, r.position + t, 0));
    r.draft.push_back(random.integer(0, 4) > 0 ? own.token : random.integer(-2, vocab + 1));
  }
  return r;
}

/// What a drafter might have drawn from, near the row's distribution or not, or what no drafter should give.
inline reference::draft_source random_source_of(random_source& random, std::vector<float> const& row, int candidates) {
  reference::draft_source q;
  int const vocab = static_cast<int>(row.size()), kind = random.integer(0, 11);
  size_t const n = size_t(candidates < 0 ? vocab : candidates);
  float const scale = random.one_of({1.0f, 1.0f, 1.0f, 3.0f, 1e-39f, 1e36f}), noise = random.one_of({0.0f, 0.5f, 3.0f});
  float const best = *std::max_element(row.begin(), row.end());
  auto const ids = reference::order(row);
  for (size_t i = 0; i < n; ++i) {
    int id = candidates < 0 ? static_cast<int>(i) : ids[i % ids.size()];
    if (candidates > 0 && kind == 1) id = random.integer(-2, vocab);  // in any order, and some are no tokens
    if (candidates > 0 && kind == 2) id = ids[size_t(random.integer(0, 1)) % ids.size()];  // two, many times
    if (candidates > 0) q.candidates.push_back(id);
    float const logit = id >= 0 && id < vocab && std::isfinite(row[size_t(id)]) ? row[size_t(id)] : best - 3.0f;
    q.weights.push_back(scale * std::exp(std::max(-60.0f, logit - best) - std::fabs(random.normal(noise))));
    if (kind == 3) q.weights.back() = random.integer(0, 3) == 0 ? 1.0f : 0.0f;
    if (kind == 4) q.weights.back() = random.one_of({0.0f, -0.0f});
    if (!std::isfinite(q.weights.back())) q.weights.back() = 0.5f;
  }
  if (kind == 5) q.weights[size_t(random.integer(0, int(n) - 1))] = random.one_of({NAN, INFINITY, -1e-40f, -0.0f});
  return q;
}

/// A row whose own token at temperature 0 is `token`.
inline std::vector<float> peak(int vocab, int token) {
  std::vector<float> x(static_cast<size_t>(vocab), -1.0f);
  x[size_t(token)] = 5.0f;
  return x;
}

/// A greedy request whose rows give `own`.
inline reference::request greedy(int vocab, std::vector<int> const& own, std::vector<int32_t> const& draft) {
  reference::request r;
  r.temperature = 0.0f;
  for (int token : own) r.rows.push_back(peak(vocab, token));
  r.draft = draft;
  return r;
}

}  // namespace ratify_test
