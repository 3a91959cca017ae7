// SPDX-License-Identifier: Apache-2.0
#include "acceptance/batch.hpp"
#include "support/chi_square.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <random>

namespace {

using namespace ratify_test;

}  // namespace

// The seeds are 0 to 99999 whatever RATIFY_TEST_SEED says; each of the statistics would reject a right program with a
// chance of 1e-6 if the generator were ideal.
TEST_CASE_TEMPLATE("S5 chosen drafts are accepted with p(x), and what is emitted follows p", Operation, coupled,
                   rejection) {
  bool const is_coupled = std::is_same_v<Operation, coupled>;
  int const seeds = scaled(scale() < 1.0 ? 10000 : 100000);
  std::vector<float> const logits{0.3f, 1.1f, -0.4f, 0.9f, -2.0f, 1.1f, -0.1f, -INFINITY};
  int const vocab = static_cast<int>(logits.size());
  // One batch of four kinds of requests: two that draw, one of them cut by top-k and top-p, and two that are greedy.
  std::vector<reference::request> kinds(4);
  for (size_t kind = 0; kind < 4; ++kind) {
    kinds[kind].rows = {logits, logits};
    kinds[kind].draft = {3};
    kinds[kind].temperature = std::vector<float>{0.7f, 1.0f, 0.0f, 1e-6f}[kind];
  }
  kinds[1].top_k = 6;
  kinds[1].top_p = 0.9f;
  batch b;
  b.vocab = vocab;
  b.max_drafts = 1;
  std::vector<size_t> kind_of;
  for (int seed = 0; seed < seeds; ++seed)
    for (size_t kind = 0; kind < 4; ++kind) {
      if (seed % (kind >= 2 ? 100 : kind == 1 ? 1 : is_coupled ? 4 : 10) != 0) continue;
      kinds[kind].seed = seed;
      b.requests.push_back(kinds[kind]);
      kind_of.push_back(kind);
    }
  on_each_executor([&](auto& on) {
    auto const out = run_many<Operation>(on, b);
    std::vector<int> const none(size_t(vocab), 0);
    std::vector<std::vector<int>> first(4, none), rejected(4, none), second(4, none);
    size_t wrong_verdicts = 0;
    for (size_t i = 0; i < kind_of.size(); ++i) {
      int const token = out.tokens[2 * i];
      if (token < 0 || token >= vocab || out.accepted[i] != (token == 3)) {
        ++wrong_verdicts;
        continue;
      }
      ++first[kind_of[i]][size_t(token)];
      if (out.accepted[i] == 0) ++rejected[kind_of[i]][size_t(token)];
      if (out.accepted[i] == 1) ++second[kind_of[i]][size_t(out.tokens[2 * i + 1])];
    }
    CHECK(wrong_verdicts == 0);
    for (size_t kind : {0, 1}) {
      auto const& r = kinds[kind];
      auto const p = reference::truth::distribution(logits, r.temperature, r.top_p, r.top_k);
      auto rest = p, wrong = p;
      rest[3] = 0.0;
      for (double& v : rest) v /= 1.0 - p[3];
      CAPTURE(kind);
      CHECK(excess(first[kind], p) <= 0.0);
      CHECK(excess(rejected[kind], rest) <= 0.0);
      CHECK(excess(second[kind], p) <= 0.0);
      if (scale() < 1.0 || kind == 0) continue;
      // The test sees a distribution that is off by a twentieth of one probability.
      wrong[1] += 0.05 * p[1];
      wrong[0] -= 0.05 * p[1];
      CHECK(excess(first[kind], wrong) > 0.0);
    }
    for (size_t kind : {2, 3}) {
      CHECK(first[kind][1] == (seeds + 99) / 100);  // of the two largest the lower id, always
      CHECK(rejected[kind][1] == (seeds + 99) / 100);
    }
  });
}

// Drafts come from a generator of their own, of a fixed seed.
TEST_CASE("S5 what rejection emits from drafts that were drawn follows p") {
  int const seeds = scaled(scale() < 1.0 ? 10000 : 16000);
  std::vector<float> const logits{0.3f, 1.1f, -0.4f, 0.9f, -2.0f, 1.1f, -0.1f, -INFINITY};
  size_t const vocab = logits.size();
  // Candidates: one twice, one that is none, one without mass in p; and over the vocabulary. Neither sums to 1.
  std::vector<reference::draft_source> const sources{{{1, 3, 3, 0, -1, 7}, {0.5f, 0.25f, 0.5f, 0.25f, 9.0f, 0.25f}},
                                                     {{}, {0.1f, 0.3f, 0.05f, 0.2f, 0.4f, 0.0f, 0.1f, 0.1f}}};
  for (size_t kind = 0; kind < 2; ++kind) {
    reference::request r;
    r.rows = {logits, logits};
    r.temperature = 0.7f;
    r.top_p = kind == 0 ? 1.0f : 0.9f;
    r.source = {sources[kind]};
    std::vector<double> q(vocab, 0.0);
    for (size_t i = 0; i < r.source[0].weights.size(); ++i) {
      int const id = kind == 0 ? r.source[0].candidates[i] : static_cast<int>(i);
      if (id >= 0) q[size_t(id)] += r.source[0].weights[i];
    }
    double const q_total = std::accumulate(q.begin(), q.end(), 0.0);
    batch b;
    b.vocab = static_cast<int>(vocab);
    b.max_drafts = 1;
    b.candidates = kind == 0 ? 6 : -1;
    std::mt19937_64 generator(7);
    std::discrete_distribution<int32_t> drafter(q.begin(), q.end());
    for (r.seed = 0; r.seed < seeds; ++r.seed) {
      r.draft = {drafter(generator)};
      b.requests.push_back(r);
    }
    auto const p = reference::truth::distribution(logits, r.temperature, r.top_p, r.top_k);
    double accepted = 0.0;  // the sum of min(p, q)
    for (size_t i = 0; i < vocab; ++i) accepted += std::min(p[i], q[i] / q_total);
    CAPTURE(kind);
    on_each_executor([&](auto& on) {
      auto const out = run_many<rejection>(on, b);
      std::vector<int> first(vocab, 0), second(vocab, 0), verdicts(2, 0), drafted(vocab, 0);
      for (size_t i = 0; i < b.requests.size(); ++i) {
        ++first[size_t(out.tokens[2 * i])];
        ++verdicts[size_t(out.accepted[i])];
        ++drafted[size_t(b.requests[i].draft[0])];
        if (out.accepted[i] == 1) ++second[size_t(out.tokens[2 * i + 1])];
      }
      CHECK(excess(first, p) <= 0.0);
      CHECK(excess(second, p) <= 0.0);
      CHECK(excess(verdicts, {1.0 - accepted, accepted}) <= 0.0);
      CHECK(excess(drafted, p) > 0.0);  // the drafts themselves do not
    });
  }
}

TEST_CASE_TEMPLATE("S6 texts from speculation have the distribution of plain decoding", Operation, coupled, rejection) {
  // Target and drafter: chains over four tokens. Texts of three tokens after token 0, in rounds of up to two drafts.
  constexpr int vocab = 4, length = 3, drafts = 2;
  int const texts = scaled(scale() < 1.0 ? 4000 : 8000);
  std::vector<std::vector<float>> const target{
      {0.0f, 1.0f, 0.5f, -1.0f}, {1.0f, 1.0f, -0.5f, 0.2f}, {-2.0f, 0.0f, 0.3f, 0.4f}, {0.1f, 0.2f, 1.5f, 0.0f}};
  std::vector<std::vector<float>> const drafter{
      {0.4f, 0.3f, 0.2f, 0.1f}, {0.1f, 0.6f, 0.2f, 0.1f}, {0.7f, 0.1f, 0.1f, 0.1f}, {0.25f, 0.25f, 0.25f, 0.25f}};
  float const temperature = 0.7f;
  int const top_k = 3;
  std::vector<std::vector<double>> p;
  for (auto const& row : target) p.push_back(reference::truth::distribution(row, temperature, 1.0, top_k));
  std::vector<double> truth;
  for (int a = 0; a < vocab; ++a)
    for (int b = 0; b < vocab; ++b)
      for (int c = 0; c < vocab; ++c)
        truth.push_back(p[0][size_t(a)] * p[size_t(a)][size_t(b)] * p[size_t(b)][size_t(c)]);
  on_each_executor([&](auto& on) {
    std::mt19937_64 generator(8);
    std::vector<std::vector<int32_t>> text(static_cast<size_t>(texts), {0});
    for (int round = 0; round < length; ++round) {
      batch b;
      b.vocab = vocab;
      b.max_drafts = drafts;
      b.candidates = std::is_same_v<Operation, rejection> ? -1 : 0;
      for (size_t i = 0; i < text.size(); ++i) {
        reference::request r;  // none of rows where the text is complete
        r.temperature = temperature;
        r.top_k = top_k;
        r.seed = static_cast<int64_t>(i);
        r.position = static_cast<int64_t>(text[i].size());
        r.limit = length + 1 - static_cast<int>(text[i].size());
        int32_t last = text[i].back();
        for (int t = 0; r.limit > 0 && t <= drafts; ++t) {
          r.rows.push_back(target[size_t(last)]);
          if (t == drafts) break;
          auto const& q = drafter[size_t(last)];
          last = std::discrete_distribution<int32_t>(q.begin(), q.end())(generator);
          r.draft.push_back(last);
          if (b.candidates != 0) r.source.push_back({{}, q});
        }
        b.requests.push_back(r);
      }
      auto const out = run_many<Operation>(on, b);
      for (size_t i = 0; i < text.size(); ++i)
        if (!b.requests[i].rows.empty())
          text[i].insert(text[i].end(), &out.tokens[i * 3], &out.tokens[i * 3] + out.emitted[i]);
    }
    std::vector<int> counts(truth.size(), 0);
    for (auto const& t : text) {
      REQUIRE(t.size() == length + 1);
      ++counts[size_t(t[1] * 16 + t[2] * 4 + t[3])];
    }
    CHECK(excess(counts, truth) <= 0.0);
  });
}

TEST_CASE("S6 tokens are the same with and without drafts, at every temperature") {
  random_source random(6);
  for (float temperature : {0.0f, 0.7f, 1.0f}) {
    // The model: logits depend on the last token alone.
    constexpr int vocab = 40, length = 60;
    std::vector<std::vector<float>> model;
    for (int i = 0; i < vocab; ++i) model.push_back(random.normals<float>(vocab, 3.0f));
    auto const generate = [&](auto& on, int drafts, auto operation) {
      std::vector<int32_t> text{0};
      while (text.size() < length) {
        batch b;
        b.vocab = vocab;
        b.max_drafts = drafts;
        reference::request r;
        r.temperature = temperature;
        r.top_k = 20;
        r.top_p = 0.95f;
        r.seed = 99;
        r.position = static_cast<int64_t>(text.size());
        r.limit = static_cast<int>(length - text.size());
        r.rows.push_back(model[size_t(text.back())]);
        for (int d = 0; d < drafts; ++d) {
          r.draft.push_back(reference::order(r.rows.back())[random.integer(0, 2) == 0 ? 1 : 0]);
          r.rows.push_back(model[size_t(r.draft.back())]);
        }
        b.requests = {r};
        auto const out = run<decltype(operation)>(on, b);
        REQUIRE(out.emitted[0] > 0);
        text.insert(text.end(), out.tokens.begin(), out.tokens.begin() + out.emitted[0]);
      }
      return text;
    };
    on_each_executor([&](auto& on) {
      auto const plain = generate(on, 0, coupled{});
      CHECK(generate(on, 3, coupled{}) == plain);
      CHECK(generate(on, 7, coupled{}) == plain);
      if (temperature == 0.0f) CHECK(generate(on, 3, rejection{}) == plain);
    });
  }
}
