// SPDX-License-Identifier: Apache-2.0
/// draft_walk over tables whose rows lie far apart.
#include "support/drafting.hpp"
#include "support/far_memory.hpp"

using namespace ratify_test;

TEST_CASE("G3 draft_walk: rows of left and right beyond 2^31 elements give the same bits") {
  random_source random(306);
  auto const near = make_walks<walk_sample_bf16>(random, 1, 3, 3, 5, 3);
  auto b = near;
  b.requests[0].candidates = {2, 1, 0, 0, 2, 1, 2, 0, 1};
  b.requests[0].anchor = 2;
  b.right = b.left;
  auto const expected = walk_twin(b);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    int64_t const stride = (int64_t{1} << 30) + 8;
    far_memory<ratify::bf16, executor> table(on, static_cast<size_t>(2 * stride + 5));
    if (table.data() == nullptr) {
      MESSAGE("skipped on this executor: no room for 4 GB");
      return;
    }
    for (size_t t = 0; t < 3; ++t) {
      std::vector<ratify::bf16> row;
      for (size_t i = 0; i < 5; ++i) row.push_back(ratify::convert<ratify::bf16>(b.left[t * 5 + i]));
      table.write(t * static_cast<size_t>(stride), row);
    }
    auto const& r = b.requests[0];
    buffer<float, executor> unary(on, r.unary), project(on, r.project),
        temperature(on, std::vector<float>{r.temperature}), q(on, 9);
    buffer<int32_t, executor> candidates(on, r.candidates), anchor(on, std::vector<int32_t>{2}), tokens(on, 3);
    buffer<int64_t, executor> seed(on, std::vector<int64_t>{r.seed}), position(on, std::vector<int64_t>{r.position});
    walk_sample_bf16::params p;
    p.unary = {unary.data(), 9, 3};
    p.candidates = {candidates.data(), 9, 3};
    p.left = p.right = {table.data(), stride};
    p.project = {project.data(), 15, 5};
    p.anchor = anchor.data();
    p.temperature = temperature.data();
    p.seed = seed.data();
    p.position = position.data();
    p.tokens = {tokens.data(), 3};
    p.q = {q.data(), 9, 3};
    p.requests = 1;
    p.draft_slots = p.candidate_count = p.vocab = 3;
    p.rank = 5;
    auto const s = launch<walk_sample_bf16>(p, on);
    REQUIRE_MESSAGE(s, s.reason());
    CHECK(bit_difference(tokens.read(), expected.tokens) == "");
    CHECK(bit_difference(q.read(), expected.q) == "");
  });
}
