// SPDX-License-Identifier: Apache-2.0
/// draft_walk equals its twin bit for bit, is within its bound of FP64, and ends where no candidate counts.
#include "support/drafting.hpp"

#include <algorithm>

namespace {

using namespace ratify_test;

/// q of every slot that has a token, against FP64.
void check_against_truth(walk_batch const& b) {
  auto const got = run_walk<walk_sample>(host(), b);
  for (size_t i = 0; i < b.requests.size(); ++i) {
    auto const& r = b.requests[i];
    int32_t previous = r.anchor;
    for (int s = 0; s < r.draft_slots; ++s) {
      auto const begin =
          got.q.begin() + static_cast<std::ptrdiff_t>((i * size_t(r.draft_slots) + size_t(s)) * size_t(r.count));
      auto const truth = reference::truth::draft_walk_q(r, s, previous, b.left, b.right);
      CHECK(error_over_bound(std::vector<float>(begin, begin + r.count), truth.value, truth.bound) <= 1.0);
      previous = got.tokens[i * size_t(r.draft_slots) + size_t(s)];
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("draft_walk equals its twin over random shapes", Operation, walk_argmax, walk_sample,
                   walk_sample_bf16) {
  random_source random(300);
  for (int round = 0; round < scaled(40); ++round) {
    int const vocab = random.one_of({1, 2, 9, 40, 300});
    auto b =
        make_walks<Operation>(random, random.one_of({1, 2, 4, random.integer(1, 16)}),
                              random.one_of({1, 2, 7, 8, 15, 31}), random.one_of({1, 2, 5, 15, 16, 17, 33, 63, 64}),
                              random.one_of({1, 7, 8, 9, 25, 31, 32, 33, 57, 64, 100, 256}), vocab);
    for (auto& r : b.requests) {
      r.temperature = random.one_of({0.0f, -0.0f, 1e-6f, 0.999e-5f, 1e-5f, 0.03f, 0.7f, 1.0f, 20.0f, 1e30f});
      int const kind = random.integer(0, 4);
      for (size_t c = 0; c < r.unary.size(); ++c) {
        if (kind == 1) r.unary[c] = static_cast<float>(random.integer(-1, 1));  // ties
        if (kind == 2 && random.integer(0, 3) == 0) r.candidates[c] = random.one_of({-1, vocab, INT32_MAX, INT32_MIN});
        if (kind == 3 && random.integer(0, 3) == 0) r.unary[c] = random.one_of({NAN, INFINITY, -INFINITY, -0.0f});
        if (kind == 3 && random.integer(0, 1) == 0) r.unary[c] = -INFINITY;
        if (kind == 4) r.unary[c] *= 1e4f;  // masses that vanish
      }
      if (kind == 1) std::fill(r.project.begin(), r.project.end(), random.one_of({0.0f, -0.0f}));
      if (kind == 2) r.anchor = random.one_of({0, vocab - 1, vocab, -1, INT32_MIN});
    }
    check_walks<Operation>(b, random.integer(0, 5));
    count_shape();
  }
}

TEST_CASE("draft_walk of the drafter's shape: twin, and q within its bound of FP64") {
  random_source random(301);
  auto const b = make_walks<walk_sample>(random, 2, 7, 16, 256, 500);
  check_walks<walk_sample>(b);
  check_against_truth(b);
  for (int round = 0; round < scaled(20); ++round)
    check_against_truth(make_walks<walk_sample>(random, 2, random.integer(1, 8), random.integer(1, 64),
                                                random.one_of({1, 31, 64, 300}), 90));
}

TEST_CASE("draft_walk: of equal scores the lowest id; an entry that is there twice counts twice") {
  random_source random(302);
  auto const any = make_walks<walk_sample>(random, 1, 1, 5, 4, 20);
  on_each_executor([&](auto& on) {
    auto b = any;
    auto& r = b.requests[0];
    r.project.assign(4, 0.0f);
    r.candidates = {9, 4, 17, 4, 30};
    r.unary = {1.0f, 1.0f, 1.0f, 1.0f, 50.0f};  // the last one is no token
    r.temperature = 0.0f;
    for (int mode = 0; mode < 2; ++mode) {
      auto const greedy = mode == 0 ? run_walk<walk_argmax>(on, b) : run_walk<walk_sample>(on, b);
      CHECK(greedy.tokens == std::vector<int32_t>{4});
      CHECK(greedy.q == std::vector<float>{0.0f, 1.0f, 0.0f, 0.0f, 0.0f});
    }
    r.temperature = 0.7f;
    CHECK(run_walk<walk_sample>(on, b).q == std::vector<float>{0.25f, 0.25f, 0.25f, 0.25f, 0.0f});
    // -0 equals +0; +inf leaves nothing to the others.
    r.unary = {0.0f, 0.0f, -0.0f, 0.0f, 50.0f};
    CHECK(run_walk<walk_argmax>(on, b).tokens == std::vector<int32_t>{4});
    r.unary = {INFINITY, 3.0f, INFINITY, NAN, 50.0f};
    auto const infinite = run_walk<walk_sample>(on, b);
    CHECK(infinite.tokens == std::vector<int32_t>{9});
    CHECK(infinite.q == std::vector<float>{1.0f, 0.0f, 0.0f, 0.0f, 0.0f});
  });
}

TEST_CASE_TEMPLATE("draft_walk ends where no candidate counts, and does not begin without an anchor", Operation,
                   walk_argmax, walk_sample) {
  random_source random(303);
  auto good = make_walks<Operation>(random, 3, 4, 6, 16, 50);
  auto const before = walk_twin(good);
  struct fault {
    char const* what;
    int slots;  ///< that still have a token
    void (*apply)(reference::walk&);
  };
  fault const faults[] = {
      {"all -1", 2, [](auto& r) { std::fill_n(r.candidates.begin() + 12, 6, -1); }},
      {"all outside", 0, [](auto& r) { std::fill_n(r.candidates.begin(), 6, 50); }},
      {"all NaN", 1, [](auto& r) { std::fill_n(r.unary.begin() + 6, 6, NAN); }},
      {"all -inf", 3, [](auto& r) { std::fill_n(r.unary.begin() + 18, 6, -INFINITY); }},
      {"NaN in project", 2, [](auto& r) { r.project[2 * 16 + 3] = NAN; }},
      {"anchor -1", 0, [](auto& r) { r.anchor = -1; }},
      {"anchor past the vocabulary", 0, [](auto& r) { r.anchor = 50; }},
      {"anchor far below", 0, [](auto& r) { r.anchor = INT32_MIN; }},
      {"temperature NaN", -1, [](auto& r) { r.temperature = NAN; }},
      {"temperature infinite", -1, [](auto& r) { r.temperature = INFINITY; }},
      {"temperature negative", -1, [](auto& r) { r.temperature = -1e-6f; }},
  };
  for (auto const& f : faults) {
    CAPTURE(f.what);
    auto b = good;
    f.apply(b.requests[1]);
    auto const expected = walk_twin(b);
    int const kept = f.slots >= 0 ? f.slots : (samples<Operation> ? 0 : 4);
    for (int s = 0; s < 4; ++s) CHECK((expected.tokens[4 + size_t(s)] >= 0) == (s < kept));
    on_each_executor([&](auto& on) {
      auto const got = run_walk<Operation>(on, b, 3);
      CHECK(bit_difference(got.tokens, expected.tokens) == "");
      CHECK(bit_difference(got.q, expected.q) == "");
      for (size_t i : {0u, 1u, 2u, 3u, 8u, 9u, 10u, 11u}) CHECK(got.tokens[i] == before.tokens[i]);  // other requests
      for (size_t i = 24 + size_t(kept) * 6; i < 48; ++i) CHECK(got.q[i] == 0.0f);
    });
  }
}

// A batch never changes a request's bits, nor does the order of its candidates but among equal entries.
TEST_CASE("draft_walk: a request alone, and with its candidates turned, draws the same tokens") {
  random_source random(304);
  auto const b = make_walks<walk_sample>(random, 5, 6, 12, 40, 200);
  auto const whole = walk_twin(b);
  for (size_t i = 0; i < b.requests.size(); ++i) {
    walk_batch one{b.left, b.right, {b.requests[i]}};
    auto& r = one.requests[0];
    for (int s = 0; s < r.draft_slots; ++s) {
      std::reverse(r.unary.begin() + s * r.count, r.unary.begin() + (s + 1) * r.count);
      std::reverse(r.candidates.begin() + s * r.count, r.candidates.begin() + (s + 1) * r.count);
    }
    auto const first = whole.tokens.begin() + static_cast<std::ptrdiff_t>(i) * r.draft_slots;
    std::vector<int32_t> const expected(first, first + r.draft_slots);
    on_each_executor([&](auto& on) { CHECK(run_walk<walk_sample>(on, one).tokens == expected); });
  }
}
