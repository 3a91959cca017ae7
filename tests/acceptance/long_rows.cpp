// SPDX-License-Identifier: Apache-2.0
#include "acceptance/batch.hpp"
#include "acceptance/draw.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

/// Rows that several blocks share, of every kind that a way of searching might stumble over.
std::vector<std::vector<float>> kinds_of_rows(random_source& random, int vocab) {
  size_t const n = size_t(vocab);
  std::vector<std::vector<float>> rows;
  auto const add = [&](auto value) {
    std::vector<float> x(n);
    for (size_t i = 0; i < n; ++i) x[i] = value(i);
    rows.push_back(x);
  };
  add([&](size_t) { return random.normal(3.0f); });                                       // as a model gives them
  add([&](size_t) { return random.normal(1e-3f); });                                      // nearly flat
  add([&](size_t) { return 1.5f; });                                                      // all equal
  add([&](size_t) { return random.one_of({0.0f, -0.0f}); });                              // equal, and signs of zero
  add([&](size_t) { return std::round(random.normal(1.0f)); });                           // ties across pieces
  add([&](size_t i) { return i % 2 == 0 ? 2.0f : 2.0f - 0x1p-22f; });                     // two neighbouring numbers
  add([&](size_t i) { return i == n / 2 ? 3.0f : 1.0f; });                                // one entry, then a tie
  add([&](size_t) { return random.integer(0, 3) == 0 ? -INFINITY : random.normal(2); });  // masked entries
  add([&](size_t i) { return i + 1 == n ? -5.0f : -INFINITY; });                // one entry, in the last piece
  add([&](size_t i) { return i == 0 ? -1e30f : random.normal(0.01f); });        // an outlier makes bins wide
  add([&](size_t) { return random.uniform(-3e38f, 3e38f); });                   // differences that overflow
  add([&](size_t) { return random.one_of({1e-42f, -1e-42f, 3e-40f, 0.0f}); });  // subnormals
  add([&](size_t i) { return static_cast<float>(i) * 1e-3f; });                 // ascending
  add([&](size_t i) { return static_cast<float>(n - i) * 1e-2f; });             // descending
  add([&](size_t i) { return i % 1000 == 7 ? 40.0f : random.normal(1.0f); });   // ties hold nearly all mass
  return rows;
}

reference::request one_row(std::vector<float> const& row, float temperature, float top_p, int top_k, int64_t seed) {
  reference::request r;
  r.rows = {row};
  r.temperature = temperature;
  r.top_p = top_p;
  r.top_k = top_k;
  r.seed = seed;
  return r;
}

}  // namespace

TEST_CASE("long rows of every kind give the twin's tokens, whatever cuts them") {
  random_source random(21);
  for (int const vocab : {2049, 8193, 17000}) {
    if (scale() < 1.0 && vocab != 8193) continue;
    for (auto const& row : kinds_of_rows(random, vocab)) {
      batch b;
      b.vocab = vocab;
      for (float const top_p : {0.0f, 1e-30f, 0.3f, 0.95f, 1.0f}) {
        if (scale() < 1.0 && top_p != 0.3f && top_p != 1.0f) continue;
        float const temperature = random.one_of({1e-5f, 0.5f, 1.0f, 1.0f, 3.0f, 1e30f});
        b.requests.push_back(one_row(row, temperature, top_p, 0, static_cast<int64_t>(random.word())));
        b.requests.push_back(one_row(row, temperature, top_p, random.one_of({2, 20, 65, 700, vocab / 2, vocab - 1}),
                                     static_cast<int64_t>(random.word())));
      }
      auto const expected = twin(b);
      CAPTURE(vocab);
      CAPTURE(row[0]);
      CAPTURE(row[1]);
      on_each_executor([&](auto& on) {
        check_equal(run(on, b), expected);
        check_equal(run<rejection>(on, b), twin<rejection>(b));
        if (scale() >= 1.0) CHECK(draw<512>(on, one_row_each(b)) == expected.tokens);
      });
      count_shape();
    }
  }
}

TEST_CASE("long rows: a draft of every kind of source is judged as the twin judges it") {
  random_source random(22);
  int accepted = 0, replaced = 0;
  for (int const candidates : {0, 7, -1}) {
    for (int const vocab : {8193, 17000}) {
      if (scale() < 1.0 && (vocab != 8193 || candidates > 0)) continue;
      auto const rows = kinds_of_rows(random, vocab);
      for (size_t i = 0; i < rows.size(); ++i) {
        batch b;
        b.vocab = vocab;
        b.max_drafts = 1;
        b.candidates = candidates;
        for (float const top_p : {0.4f, 1.0f}) {
          auto r = one_row(rows[i], 1.0f, top_p, random.one_of({0, 0, 30, 900}), static_cast<int64_t>(random.word()));
          r.rows.push_back(rows[(i + 1) % rows.size()]);
          auto const ids = reference::order(rows[i]);
          r.draft = {random.one_of({ids[0], ids[1], ids[size_t(random.integer(0, 300))], -1})};
          if (candidates != 0) r.source = {random_source_of(random, rows[i], candidates)};
          b.requests.push_back(r);
        }
        auto const expected = twin<rejection>(b);
        for (size_t r = 0; r < b.requests.size(); ++r) ++(expected.accepted[r] > 0 ? accepted : replaced);
        CAPTURE(vocab);
        CAPTURE(candidates);
        CAPTURE(i);
        on_each_executor([&](auto& on) { check_equal(run<rejection>(on, b), expected); });
        count_shape();
      }
    }
  }
  CHECK(accepted > 5);
  CHECK(replaced > 5);
}

TEST_CASE("long rows: a draft that p and q give no mass leaves an empty rest, and is replaced by a draw from p") {
  // 200 kept entries; the draft is none of them, and the weights of the others are as their masses.
  constexpr int vocab = 9000, kept = 200, step = 40;
  std::vector<float> row(vocab, -1000.0f);
  for (int i = 0; i < kept; ++i) row[size_t(i * step)] = 1.0f;
  // Over the vocabulary, over few candidates and over many, some of them twice.
  for (int const candidates : {-1, kept, 3 * kept}) {
    batch b;
    b.vocab = vocab;
    b.max_drafts = 1;
    b.candidates = candidates;
    for (int seed = 0; seed < 8; ++seed) {
      auto r = one_row(row, 1.0f, 1.0f, 0, seed);
      r.rows.push_back(row);
      r.draft = {3};
      reference::draft_source q;
      for (int i = 0; i < (candidates < 0 ? vocab : candidates); ++i) {
        if (candidates > 0) q.candidates.push_back(i % kept * step);
        q.weights.push_back(candidates > 0 || row[size_t(i)] > 0.0f ? 1.0f : 0.0f);
      }
      r.source = {q};
      b.requests.push_back(r);
    }
    auto const expected = twin<rejection>(b);
    for (size_t r = 0; r < b.requests.size(); ++r) REQUIRE(expected.tokens[2 * r] % step == 0);
    CAPTURE(candidates);
    on_each_executor([&](auto& on) { check_equal(run<rejection>(on, b), expected); });
    // Without the weight of one entry, that entry is the rest.
    for (auto& r : b.requests)
      for (size_t i = 0; i < r.source[0].weights.size(); ++i)
        if ((candidates < 0 ? static_cast<int>(i) : r.source[0].candidates[i]) == 7 * step)
          r.source[0].weights[i] = 0.0f;
    auto const last = twin<rejection>(b);
    for (size_t r = 0; r < b.requests.size(); ++r) REQUIRE(last.tokens[2 * r] == 7 * step);
    on_each_executor([&](auto& on) { check_equal(run<rejection>(on, b), last); });
  }
}

TEST_CASE("long rows: shards, formats and unowned rows between them change nothing") {
  random_source random(23);
  batch b;
  b.vocab = scale() < 1.0 ? 9001 : 24001;
  for (auto const& row : kinds_of_rows(random, b.vocab)) {
    b.requests.push_back(
        one_row(row, 1.0f, 0.9f, random.one_of({0, 0, 40, 5000}), static_cast<int64_t>(random.word())));
    b.requests.push_back(one_row(row, 0.8f, 1.0f, 0, static_cast<int64_t>(random.word())));
  }
  auto const expected = twin(b);
  for (int const shards : {1, 2, 3, 8, 100}) {
    if (scale() < 1.0 && shards != 3) continue;
    b.shards = shards;
    CAPTURE(shards);
    on_each_executor([&](auto& on) { check_equal(run(on, b), expected); });
  }
  // The same rows, of which every second one belongs to nobody.
  b.shards = 1;
  std::vector<int32_t> starts;
  for (size_t r = 0; r <= b.requests.size(); ++r) starts.push_back(static_cast<int32_t>(r / 2 * 2));
  on_each_executor([&](auto& on) {
    auto const out = launched<coupled, std::decay_t<decltype(on)>>(on, b, &starts).run();
    for (size_t r = 0; r < b.requests.size(); ++r) {
      CHECK(out.emitted[r] == 0);  // none, or two rows where one may be
      CHECK(out.row_status[r] == 0);
    }
  });
}

TEST_CASE("long rows: a workspace that the launch before left as it is serves the next one") {
  random_source random(24);
  batch first, second;
  first.vocab = second.vocab = 12000;
  first.max_drafts = second.max_drafts = 1;
  first.candidates = second.candidates = 3;
  for (batch* const b : {&first, &second})
    for (int i = 0; i < 3; ++i) {
      auto r = random_request<float>(random, b->vocab, 1);
      r.rows.resize(2, random.normals<float>(size_t(b->vocab), 2.0f));
      r.draft = {random.integer(0, b->vocab - 1)};
      r.source = {random_source_of(random, r.rows[0], 3)};
      b->requests.push_back(r);
    }
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    launched<rejection, executor> one(on, first), other(on, second);
    size_t const bytes = rejection::workspace_bytes(one.p, on);
    buffer<unsigned char, executor> scratch(on, bytes);
    for (auto* const l : {&one, &other, &one}) {
      auto const s = launch_compiled_with<rejection>(l->p, {scratch.data(), bytes}, on);
      REQUIRE_MESSAGE(s, s.reason());
      outputs const out{l->tokens.read(), l->emitted.read(), l->accepted.read(), l->finish.read(),
                        l->row_status.read()};
      check_equal(out, twin<rejection>(l == &one ? first : second));
    }
  });
}
