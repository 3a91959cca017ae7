// SPDX-License-Identifier: Apache-2.0
#include "acceptance/batch.hpp"
#include "acceptance/draw.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

using of_f16 = ratify::acceptance<ratify::logit_format<ratify::f16>>;
using of_bf16 = ratify::acceptance<ratify::logit_format<ratify::bf16>>;

}  // namespace

TEST_CASE_TEMPLATE("acceptance equals its twin", Operation, coupled, of_f16, of_bf16) {
  using format = typename Operation::policy::logit_format;
  random_source random(2);
  for (int trial = 0; trial < scaled(60); ++trial) {
    batch b;
    b.vocab = random.one_of({1, 2, 3, 31, 97, 128, 129, 264, 513, 700, 2048, 2049, 5000});
    b.max_drafts = random.one_of({0, 1, 4, 7, b.vocab > 600 ? 7 : 31});
    b.end_tokens.assign(size_t(random.integer(0, 2)), random.integer(0, b.vocab - 1));
    int const requests = random.integer(1, b.vocab > 600 ? 2 : 6);
    for (int r = 0; r < requests; ++r) b.requests.push_back(random_request<format>(random, b.vocab, b.max_drafts));
    auto const expected = twin(b);
    CAPTURE(trial);
    CAPTURE(b.vocab);
    on_each_executor([&](auto& on) { check_equal(run<Operation>(on, b), expected); });
    count_shape();
  }
}

TEST_CASE("rejection equals its twin") {
  random_source random(11);
  for (int trial = 0; trial < scaled(1500); ++trial) {
    batch b;
    b.vocab = random.one_of({1, 2, 3, 4, 5, 8, 31, 97, 128, 129, 264});
    if (trial % 25 == 0) b.vocab = random.one_of({513, 700, 2048, 2049, 5000});
    b.max_drafts = random.one_of({0, 1, 2, 4, 7, trial % 10 == 1 ? 31 : 7});
    b.candidates = random.one_of({0, -1, 1, 2, 3, 16, 40});
    b.end_tokens.assign(size_t(random.integer(0, 2)), random.integer(0, b.vocab - 1));
    int const requests = random.integer(1, b.vocab > 600 ? 2 : 6);
    for (int i = 0; i < requests; ++i) {
      auto r = random_request<float>(random, b.vocab, b.max_drafts);
      for (size_t t = 0; t < r.draft.size() && b.candidates != 0; ++t) {
        r.source.push_back(random_source_of(random, r.rows[t], b.candidates));
        auto const& q = r.source.back();
        if (random.integer(0, 2) == 0 && b.candidates > 0) r.draft[t] = q.candidates[0];
        if (random.integer(0, 2) == 0) r.draft[t] = random.integer(0, b.vocab - 1);
      }
      b.requests.push_back(r);
    }
    auto const expected = twin<rejection>(b);
    CAPTURE(trial);
    CAPTURE(b.vocab);
    CAPTURE(b.candidates);
    on_each_executor([&](auto& on) { check_equal(run<rejection>(on, b), expected); });
    count_shape();
  }
}

TEST_CASE("rejection over a large vocabulary equals its twin") {
  random_source random(12);
  for (int candidates : {0, -1, 16}) {
    batch b;
    b.vocab = large_vocab();
    b.max_drafts = 2;
    b.candidates = candidates;
    for (int top_k : {20, 0}) {
      reference::request r;
      r.top_k = top_k;
      r.top_p = top_k > 0 ? 0.95f : 1.0f;
      r.temperature = 4.0f;
      r.seed = 3 + candidates;
      for (int t = 0; t < 3; ++t) r.rows.push_back(random.normals<float>(size_t(b.vocab), 3.0f));
      for (size_t t = 0; t < 2; ++t) {
        auto const ids = reference::order(r.rows[t]);
        r.draft.push_back(ids[t * 3]);
        if (candidates == 0) continue;
        reference::draft_source q;
        for (int i = 0; i < (candidates < 0 ? b.vocab : candidates); ++i) {
          if (candidates > 0) q.candidates.push_back(ids[size_t(i)]);
          q.weights.push_back(std::exp(r.rows[t][candidates < 0 ? size_t(i) : size_t(ids[size_t(i)])] - 14.0f));
        }
        r.source.push_back(q);
      }
      b.requests.push_back(r);
    }
    auto const expected = twin<rejection>(b);
    on_each_executor([&](auto& on) { check_equal(run<rejection>(on, b), expected); });
  }
}

TEST_CASE("acceptance of every vocabulary around the sizes where the way of searching changes") {
  random_source random(7);
  for (int vocab : {127, 128, 129, 255, 256, 257, 2047, 2048, 2049, 4096, 4097, 8192, 8193, 8257, 16384, 16385}) {
    if (scale() < 1.0 && vocab != 129 && vocab != 257 && vocab != 2049 && vocab != 8193) continue;
    batch b;
    b.vocab = vocab;
    for (int top_k : {0, 1, 20, 32, 33, 63, 64, 65, 511, 512, 513, 600}) {
      reference::request r;
      r.rows = {random_row<float>(random, vocab)};
      r.top_k = top_k;
      r.top_p = random.one_of({0.9f, 1.0f});
      r.seed = static_cast<int64_t>(random.word());
      b.requests.push_back(r);
    }
    auto const expected = twin(b);
    CAPTURE(vocab);
    on_each_executor([&](auto& on) {
      check_equal(run(on, b), expected);
      CHECK(draw<32>(on, one_row_each(b)) == expected.tokens);
      CHECK(draw<512>(on, one_row_each(b)) == expected.tokens);
    });
  }
}
