// SPDX-License-Identifier: Apache-2.0
/// The range in which no intermediate result of draft_walk overflows, and its bound beside subnormal products
/// (docs/arithmetic.md).
#include "support/drafting.hpp"

namespace {

using namespace ratify_test;

/// One slot of few candidates whose distribution is not decided by one of them.
walk_batch one_slot(random_source& random, int count, int rank) {
  auto b = make_walks<walk_sample>(random, 1, 1, count, rank, count);
  auto& r = b.requests[0];
  for (int c = 0; c < count; ++c) r.candidates[size_t(c)] = c;
  r.anchor = 0;
  return b;
}

void check_q(walk_batch const& b) {
  auto const& r = b.requests[0];
  auto const truth = reference::truth::draft_walk_q(r, 0, r.anchor, b.left, b.right);
  on_each_executor([&](auto& on) {
    auto const got = run_walk<walk_sample>(on, b);
    CHECK(got.tokens[0] >= 0);
    CHECK(error_over_bound(got.q, truth.value, truth.bound) <= 1.0);
  });
  auto const expected = walk_twin(b);
  on_each_executor([&](auto& on) { CHECK(bit_difference(run_walk<walk_sample>(on, b).q, expected.q) == ""); });
}

}  // namespace

TEST_CASE("draft_walk: no intermediate result overflows while products and sums are below 2^127") {
  random_source random(320);
  auto b = one_slot(random, 6, 8);
  auto& r = b.requests[0];
  // left * project of nearly 2^127, which right takes down to the size of a score.
  for (float& x : b.left) x = random.uniform(0x1.8p63f, 0x1.fp63f);
  for (float& x : r.project) x = random.uniform(0x1.8p62f, 0x1.fp62f);
  for (float& x : b.right) x = random.uniform(-0x1p-126f, 0x1p-126f);
  check_q(b);
  // Terms that sum up to nearly 2^127 and nearly cancel; the temperature is as large.
  for (float& x : b.right) x = random.uniform(0x1.0p-4f, 0x1.fp-4f) * (random.integer(0, 1) == 0 ? 1.0f : -1.0f);
  r.temperature = 0x1p126f;
  check_q(b);
  // Scores that are further apart than FP32 holds: the smaller one has no mass, and the larger one wins.
  std::fill(r.project.begin(), r.project.end(), 0.0f);
  r.unary = {-0x1.fp127f, 0x1.8p127f, 0x1.fp127f, -0x1.8p127f, 0.0f, -INFINITY};
  r.temperature = 1.0f;
  on_each_executor([&](auto& on) {
    auto const got = run_walk<walk_sample>(on, b);
    CHECK(got.tokens == std::vector<int32_t>{2});
    CHECK(got.q == std::vector<float>{0.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0.0f});
  });
}

TEST_CASE("draft_walk: outside of that range a score is infinite or NaN and counts as that") {
  random_source random(321);
  auto b = one_slot(random, 3, 2);
  auto& r = b.requests[0];
  b.left.assign(b.left.size(), 0x1p100f);
  r.project = {0x1p100f, 0.0f};
  b.right = {0x1p-140f, 0.0f, 0.0f, 0.0f, -0x1p-140f, 0.0f};  // infinity times a number, times 0, and its negative
  r.unary = {0.0f, 3.0f, 0.0f};
  on_each_executor([&](auto& on) {
    auto const got = run_walk<walk_argmax>(on, b);
    CHECK(got.tokens == std::vector<int32_t>{0});
    CHECK(got.q == std::vector<float>{1.0f, 0.0f, 0.0f});
  });
}

TEST_CASE("draft_walk: products that are subnormal cost no more than the bound says") {
  random_source random(322);
  for (int const rank : {1, 31, 256}) {
    CAPTURE(rank);
    auto b = one_slot(random, 5, rank);
    auto& r = b.requests[0];
    for (float& x : b.left) x = random.uniform(-0x1p-70f, 0x1p-70f);
    for (float& x : r.project) x = random.uniform(-0x1p-70f, 0x1p-70f);
    for (float& x : b.right) x = random.uniform(-0x1p124f, 0x1p124f);
    for (float& x : r.unary) x = 0.0f;
    // As large as the scores, so that an error of them shows in q.
    r.temperature = std::ldexp(std::sqrt(static_cast<float>(rank)), -16);
    check_q(b);
  }
}
