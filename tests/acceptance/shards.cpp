// SPDX-License-Identifier: Apache-2.0
#include "acceptance/batch.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

}  // namespace

TEST_CASE_TEMPLATE("shards of the logits give what the whole gives", Operation, coupled, rejection) {
  random_source random(14);
  for (int trial = 0; trial < scaled(60); ++trial) {
    batch b;
    // Even and uneven ones, also where the way of searching changes.
    b.vocab = random.one_of({8, 15, 57, 128, 130, 264, 1000, 2050, 2049, 4100});
    b.max_drafts = random.integer(0, 3);
    b.candidates = random.one_of({0, -1, 5});
    b.end_tokens = {0};
    for (int i = 0; i < 2; ++i) {
      auto r = random_request<float>(random, b.vocab, b.max_drafts);
      for (size_t t = 0; t < r.draft.size() && b.candidates != 0; ++t)
        r.source.push_back(random_source_of(random, r.rows[t], b.candidates));
      b.requests.push_back(r);
    }
    auto const expected = twin<Operation>(b);
    for (int shards : {1, 2, 4, 8, b.vocab}) {
      if (shards == b.vocab && shards > 130) continue;
      if ((b.vocab + shards - 1) / shards * (shards - 1) >= b.vocab) continue;  // the last would be empty
      b.shards = shards;
      CAPTURE(trial);
      CAPTURE(b.vocab);
      CAPTURE(shards);
      on_each_executor([&](auto& on) { check_equal(run<Operation>(on, b), expected); });
    }
  }
}

TEST_CASE_TEMPLATE("summaries of shards give what the whole gives, or say that they cannot", Operation, coupled,
                   rejection) {
  random_source random(16);
  int refused = 0, equal = 0;
  for (int trial = 0; trial < scaled(150); ++trial) {
    batch b;
    b.vocab = random.one_of({8, 15, 57, 128, 264, 1000, 2050, 4100, 17000});
    b.shards = random.one_of({1, 2, 4, 8});
    if ((b.vocab + b.shards - 1) / b.shards * (b.shards - 1) >= b.vocab) continue;
    int const places = random.one_of({1, 2, 20, 64, 512}), shard = (b.vocab + b.shards - 1) / b.shards;
    b.max_drafts = random.integer(0, 3);
    b.candidates = random.one_of({0, -1, 5});
    b.end_tokens = {0};
    auto r = random_request<float>(random, b.vocab, b.max_drafts);
    for (size_t t = 0; t < r.draft.size() && b.candidates != 0; ++t)
      r.source.push_back(random_source_of(random, r.rows[t], b.candidates));
    b.requests = {r, greedy(b.vocab, {3, 5}, {3})};
    if (b.max_drafts == 0) b.requests.pop_back();
    int const asked = r.temperature < 1e-5f ? 1 : r.top_k > 0 && r.top_k < shard ? r.top_k : shard;
    auto expected = twin<Operation>(b);
    if (asked > places && !r.rows.empty()) {
      ++refused;
      auto& first = b.requests[0];
      for (auto& row : first.rows) row.assign(row.size(), NAN);  // as though all rows were bad
      expected = twin<Operation>(b);
      std::fill_n(expected.row_status.begin(), first.rows.size(), 2);
      b.requests[0] = r;
    } else {
      ++equal;
    }
    CAPTURE(trial);
    CAPTURE(b.vocab);
    CAPTURE(b.shards);
    CAPTURE(places);
    on_each_executor([&](auto& on) { check_equal(run_from_words<Operation>(on, b, places), expected); });
  }
  if (scale() >= 1.0) CHECK(std::min(refused, equal) > 20);
}

TEST_CASE("a draft's weights over the vocabulary are measured whole, whatever the summaries of its row hold") {
  random_source random(17);
  for (int shards : {1, 4, 8})
    for (int vocab : {280, 1000, 3000})
      for (int trial = 0; trial < scaled(10); ++trial) {
        batch b;
        b.vocab = vocab;
        b.shards = shards;
        b.max_drafts = 3;
        b.candidates = -1;
        b.end_tokens = {};
        auto r = random_request<float>(random, b.vocab, b.max_drafts);
        while (r.draft.size() < 3) r = random_request<float>(random, b.vocab, b.max_drafts);
        r.top_k = 20;
        r.top_p = 1;
        r.temperature = 1;
        for (size_t t = 0; t < r.draft.size(); ++t) {
          auto source = random_source_of(random, r.rows[t], b.candidates);
          r.source.push_back(source);
        }
        b.requests = {r};
        CAPTURE(shards);
        CAPTURE(vocab);
        CAPTURE(trial);
        int const places = 512 / (shards > 1 ? 4 : 1);
        on_each_executor([&](auto& on) { check_equal(run_from_words<rejection>(on, b, places), twin<rejection>(b)); });
      }
}

TEST_CASE("shards of a large vocabulary give what the whole gives") {
  random_source random(15);
  batch b;
  b.vocab = large_vocab();
  b.end_tokens = {};
  for (int top_k : {20, 0}) {
    reference::request r;
    r.rows = {random.normals<float>(size_t(b.vocab), 3.0f)};
    r.top_k = top_k;
    r.top_p = 0.95f;
    r.temperature = 2.0f;
    r.seed = 5;
    b.requests.push_back(r);
  }
  auto const expected = twin(b);
  for (int shards : {2, 4, 7, 8, 30, 40}) {
    b.shards = shards;
    on_each_executor([&](auto& on) {
      check_equal(run(on, b), expected);
      auto const words = run_from_words<coupled>(on, b, 20);
      CHECK(words.tokens == std::vector<int32_t>{expected.tokens[0], -1});
      CHECK(words.row_status == std::vector<int32_t>{0, 2});
    });
  }
}
