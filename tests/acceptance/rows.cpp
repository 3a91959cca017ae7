// SPDX-License-Identifier: Apache-2.0
#include "acceptance/batch.hpp"
#include "acceptance/draw.hpp"
#include "support/bits.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

}  // namespace

TEST_CASE("S2 ties: top-k keeps the lowest ids, top_k 1 is greedy") {
  batch b;
  b.vocab = 4;
  for (int seed = 0; seed < 400; ++seed) {
    reference::request two;
    two.rows = {{std::log(0.4f), std::log(0.3f), std::log(0.3f), -INFINITY}};
    two.top_k = 2;
    two.seed = seed;
    reference::request one = two;
    one.rows = {{1.0f, 2.0f, 2.0f, 2.0f}};
    one.top_k = 1;
    b.requests.push_back(two);
    b.requests.push_back(one);
  }
  on_each_executor([&](auto& on) {
    for (auto const& out : {run(on, b), run<rejection>(on, b)}) {
      int seen[2] = {0, 0};
      for (size_t i = 0; i < out.tokens.size(); i += 2) {
        REQUIRE((out.tokens[i] == 0 || out.tokens[i] == 1));
        ++seen[out.tokens[i]];
        CHECK(out.tokens[i + 1] == 1);
      }
      CHECK(seen[0] > 0);
      CHECK(seen[1] > 0);
    }
  });
}

TEST_CASE("S2 a tie at the top-p cut keeps one set of ids for any block and batch") {
  // One entry and then a tie over the whole vocabulary: the cut falls among equals.
  random_source random(4);
  for (int vocab : {90, 700, 3000}) {
    batch b;
    b.vocab = vocab;
    for (int seed = 0; seed < std::max(6, scaled(24)); ++seed) {
      reference::request r;
      r.rows = {std::vector<float>(size_t(vocab), 1.0f)};
      r.rows[0][size_t(vocab / 2)] = 2.0f;
      r.top_p = 0.4f;
      r.top_k = random.one_of({0, vocab - 1, vocab * 2 / 3, 40});
      r.seed = seed;
      b.requests.push_back(r);
    }
    auto const expected = twin(b);
    for (size_t i = 0; i < b.requests.size(); ++i) {
      auto const& r = b.requests[i];
      size_t const kept = reference::draw(r.rows[0], r.temperature, r.top_p, r.top_k, 0).kept;
      REQUIRE(kept < size_t(vocab) / 2);
      CHECK((expected.tokens[i] == vocab / 2 || size_t(expected.tokens[i]) < kept - 1));
    }
    on_each_executor([&](auto& on) {
      CHECK(run(on, b).tokens == expected.tokens);
      CHECK(draw<32>(on, one_row_each(b)) == expected.tokens);
      CHECK(draw<512>(on, one_row_each(b)) == expected.tokens);
      batch alone = b;
      alone.requests = {b.requests[5]};
      CHECK(run(on, alone).tokens[0] == expected.tokens[5]);
    });
  }
}

TEST_CASE("S3 bad rows have no token and change no other row") {
  float const inf = INFINITY;
  for (int vocab : {8193, 248320}) {
    random_source random(5);
    std::vector<float> const plain = random.normals<float>(size_t(vocab), 3.0f);
    batch b;
    b.vocab = vocab;
    auto const add = [&](std::vector<float> row, int top_k) {
      reference::request r;
      r.rows = {std::move(row)};
      r.top_k = top_k;
      r.top_p = 0.95f;
      r.seed = 11;
      b.requests.push_back(r);
    };
    add(plain, 20);
    add(std::vector<float>(size_t(vocab), NAN), 20);
    add(plain, 20);
    b.requests.back().rows[0][size_t(vocab - 1)] = NAN;
    add(plain, 0);
    b.requests.back().rows[0][0] = from_bits(0xffc00001u);  // negative, with a payload
    add(std::vector<float>(size_t(vocab), -inf), 0);
    add(plain, 20);
    b.requests.back().rows[0][size_t(vocab - 2)] = inf;
    add(plain, 0);
    b.requests.back().rows[0][8191] = b.requests.back().rows[0][77] = inf;
    add(std::vector<float>(size_t(vocab), -inf), 50);
    b.requests.back().rows[0][8192] = -3e38f;
    add(plain, 0);
    auto const expected = twin(b);
    on_each_executor([&](auto& on) {
      check_equal(run<rejection>(on, b), twin<rejection>(b));
      auto const out = run(on, b);
      check_equal(out, expected);
      CHECK(out.row_status == std::vector<int32_t>{0, 1, 1, 1, 1, 0, 0, 0, 0});
      CHECK(out.finish == std::vector<int32_t>{0, 3, 3, 3, 3, 0, 0, 0, 0});
      CHECK(out.tokens[5] == vocab - 2);
      CHECK(out.tokens[6] == 77);
      CHECK(out.tokens[7] == 8192);
      for (size_t i : {1, 2, 3, 4}) CHECK(out.tokens[i] == -1);
    });
  }
}

TEST_CASE("S3 a bad row stops emission only where it is reached") {
  batch b;
  b.vocab = 6;
  b.max_drafts = 3;
  b.requests = {greedy(6, {1, 2, 3, 4}, {1, 2, 3}), greedy(6, {1, 2, 3, 4}, {1, 5, 3}),
                greedy(6, {1, 2, 3, 4}, {1, 2, 3})};
  for (auto& r : b.requests) r.rows[2].assign(6, NAN);
  b.requests[2].limit = 2;
  on_each_executor([&](auto& on) {
    auto const out = run(on, b);
    check_equal(run<rejection>(on, b), out);
    CHECK(out.tokens == std::vector<int32_t>{1, 2, -1, -1, 1, 2, -1, -1, 1, 2, -1, -1});
    CHECK(out.accepted == std::vector<int32_t>{2, 1, 2});
    CHECK(out.finish == std::vector<int32_t>{3, 0, 2});
    CHECK(out.row_status == std::vector<int32_t>{0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0});
  });
}

TEST_CASE("an entry's share of the random words begins and ends exactly where its mass does") {
  // n equal entries, n a power of 2: entry i owns the words from i * 2^32 / n up.
  for (int n : {4, 256, 4096}) {
    uint64_t const share = (uint64_t{1} << 32) / static_cast<uint64_t>(n);
    std::vector<uint32_t> random{0, 0xffffffffu};
    std::vector<int32_t> all{0, n - 1}, quarter{0, n / 4 - 1};
    for (int i : {1, n / 4, n / 2, n - 1}) {
      random.push_back(static_cast<uint32_t>(static_cast<uint64_t>(i) * share - 1));
      random.push_back(random.back() + 1);
      all.insert(all.end(), {i - 1, i});
      for (size_t at : {random.size() - 2, random.size() - 1})
        quarter.push_back(static_cast<int>(random[at] / share / 4));
    }
    std::vector<int32_t> more = quarter;  // a top_p just above 1/4 keeps one entry more
    for (size_t i = 0; i < more.size(); ++i)
      more[i] = static_cast<int>(static_cast<uint64_t>(random[i]) * static_cast<uint64_t>(n / 4 + 1) >> 32);
    std::vector<float> const row(size_t(n), 3.0f);
    CAPTURE(n);
    on_each_executor([&](auto& on) {
      CHECK(draw<32>(on, row, {1.0f, 1.0f, 0}, random) == all);
      CHECK(draw<512>(on, row, {1.0f, 1.0f, 0}, random) == all);
      CHECK(draw<32>(on, row, {1.0f, 0.25f, 0}, random) == quarter);
      CHECK(draw<512>(on, row, {1.0f, 0.25f, 0}, random) == quarter);
      CHECK(draw<32>(on, row, {1.0f, 0x1.000002p-2f, 0}, random) == more);
      CHECK(draw<32>(on, row, {1.0f, 0x1p-20f, n - 1}, random) == std::vector<int32_t>(random.size(), 0));
      CHECK(draw<32>(on, row, {1.0f, 1.0f, n / 4}, random) == quarter);
      CHECK(draw<512>(on, row, {1.0f, 1.0f, n / 4}, random) == quarter);
    });
  }
}

TEST_CASE("the last unit of an entry's mass is its own") {
  // Two entries, and a word whose draw point is the last unit of the first one's mass: one in some 2^8 pairs has one.
  random_source random(9);
  int found = 0;
  while (found < 4) {
    float const second = -random.uniform(0.1f, 6.0f);
    uint64_t const first_mass = uint64_t{1} << 40, total = first_mass + ratify::device::mass(second, 0.0f, 1.0f);
    auto const word = static_cast<uint32_t>((static_cast<reference::uint128>(first_mass) << 32) / total);
    if (ratify::device::draw_point(word, total) != first_mass - 1) continue;
    ++found;
    on_each_executor([&](auto& on) {
      std::vector<int32_t> const expected{0, 1};
      CHECK(draw<32>(on, {0.0f, second}, {1.0f, 1.0f, 0}, {word, word + 1}) == expected);
      // The same among entries without mass, where histograms find it.
      std::vector<float> row(600, -1000.0f);
      row[0] = 0.0f;
      row[1] = second;
      CHECK(draw<512>(on, row, {1.0f, 1.0f, 0}, {word, word + 1}) == expected);
    });
  }
}
