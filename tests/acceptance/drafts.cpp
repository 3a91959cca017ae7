// SPDX-License-Identifier: Apache-2.0
#include "acceptance/batch.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

}  // namespace

TEST_CASE("S1 invalid drafts are rejected with all after them") {
  random_source random(3);
  batch b;
  b.vocab = 3;
  b.max_drafts = 5;
  for (int i = 0; i < 200; ++i) {
    reference::request r;
    for (int t = 0; t < 6; ++t) r.rows.push_back(random.uniforms<float>(3, -1.0f, 1.0f));
    r.draft = {1, 0, 1, -1, -1};
    r.seed = i;
    b.requests.push_back(r);
  }
  on_each_executor([&](auto& on) {
    check_equal(run<rejection>(on, b), twin<rejection>(b));
    auto const out = run(on, b);
    check_equal(out, twin(b));
    int all_valid = 0;
    for (size_t i = 0; i < 200; ++i) {
      CHECK(out.accepted[i] <= 3);
      CHECK(out.emitted[i] == out.accepted[i] + 1);
      all_valid += out.accepted[i] == 3;
      for (int t = 0; t < 6; ++t) CHECK((out.tokens[i * 6 + size_t(t)] == -1) == (t >= out.emitted[i]));
    }
    CHECK(all_valid > 0);
  });
}

TEST_CASE("S1 without drafts one token comes from row 0; drafts outside the vocabulary are rejected") {
  batch none, outside;
  none.vocab = outside.vocab = 4;
  none.requests = {greedy(4, {2}, {})};
  outside.max_drafts = 2;
  for (int32_t draft : {4, 5, INT32_MAX, -1, INT32_MIN}) outside.requests.push_back(greedy(4, {3, 1, 2}, {draft, 1}));
  on_each_executor([&](auto& on) {
    for (auto const& one : {run(on, none), run<rejection>(on, none)}) {
      CHECK(one.tokens == std::vector<int32_t>{2});
      CHECK(one.emitted == std::vector<int32_t>{1});
      CHECK(one.accepted == std::vector<int32_t>{0});
      CHECK(one.finish == std::vector<int32_t>{0});
    }
    for (auto const& out : {run(on, outside), run<rejection>(on, outside)})
      for (size_t i = 0; i < 5; ++i) {
        CHECK(out.tokens[i * 3] == 3);
        CHECK(out.tokens[i * 3 + 1] == -1);
        CHECK(out.emitted[i] == 1);
        CHECK(out.accepted[i] == 0);
      }
  });
}

TEST_CASE("S4 emission stops at the first end token and at the limit") {
  constexpr int end = 30, other = 31, vocab = 32;
  batch b;
  b.vocab = vocab;
  b.max_drafts = 5;
  b.end_tokens = {end, other};
  std::vector<int> const own{10, 11, end, 20, 21, 22};
  auto const add = [&](std::vector<int> tokens, int limit) {
    b.requests.push_back(greedy(vocab, tokens, std::vector<int32_t>(tokens.begin(), tokens.end() - 1)));
    b.requests.back().limit = limit;
  };
  add(own, 100);
  add({10, other, end, 20, 21, 22}, 100);
  add({end, 11, 12, 20, 21, 22}, 100);
  add({10, 11, 12, 20, 21, end}, 100);
  add(own, 5);
  add(own, 3);
  add(own, 2);
  add(own, 0);
  add(own, -4);
  add({10, 11, 12, 20, 21, 22}, 6);
  b.requests.push_back(greedy(vocab, own, {10, 9, end, 20, 21}));  // rejected before the end
  b.requests.back().limit = 2;
  on_each_executor([&](auto& on) {
    auto const out = run(on, b);
    check_equal(out, twin(b));
    check_equal(run<rejection>(on, b), out);
    CHECK(std::vector<int32_t>(out.tokens.begin(), out.tokens.begin() + 6) ==
          std::vector<int32_t>{10, 11, end, -1, -1, -1});
    CHECK(out.emitted == std::vector<int32_t>{3, 2, 1, 6, 3, 3, 2, 0, 0, 6, 2});
    CHECK(out.accepted == std::vector<int32_t>{3, 2, 1, 5, 3, 3, 2, 0, 0, 5, 1});
    CHECK(out.finish == std::vector<int32_t>{1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2});
  });
}
