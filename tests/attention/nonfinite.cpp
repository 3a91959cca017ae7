// SPDX-License-Identifier: Apache-2.0
// NaN and infinities in q, K and V: which elements they reach.
#include <ratify/attention.cuh>

#include "support/attention.hpp"
#include "support/bits.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace ratify_test;

namespace {

/// One row of one head over `scores.size()` tokens: token t has the score scores[t], and V is 1 everywhere.
template <class Policy>
attention_case_of<Policy> case_of_scores(std::vector<float> const& scores) {
  random_source random(40);
  auto c = attention_case_with<Policy>(random, 1, 1, {1}, {static_cast<int>(scores.size())}, 16);
  c.softmax_scale = c.k_scale[0] = c.v_scale[0] = 1.0f;
  auto const q = [](float x) { return ratify::convert<typename Policy::q_format>(x); };
  auto const kv = [](float x) { return ratify::convert<typename Policy::kv_format>(x); };
  std::fill(c.q.begin(), c.q.end(), q(0));
  c.q[0] = q(1);
  std::fill(c.k.begin(), c.k.end(), kv(0));
  std::fill(c.v.begin(), c.v.end(), kv(1));
  for (size_t t = 0; t < scores.size(); ++t) c.k[c.kv_at(0, static_cast<int>(t), 0)] = kv(scores[t]);
  return c;
}

/// A value as the cache holds it; the infinities of E5M2, which storing saturates, too.
template <class Format>
Format cache_value(float value) {
  if constexpr (std::is_same_v<Format, ratify::e5m2>) {
    if (std::isinf(value)) return {static_cast<uint8_t>(value > 0 ? 0x7c : 0xfc)};
  }
  return ratify::convert<Format>(value);
}

/// Puts a value into column d of V of a token of the first request.
template <class Case>
void put_value(Case& c, int token, int d, float value) {
  auto& v = c.v[c.kv_at(0, token, 0) + static_cast<size_t>(d)];
  v = cache_value<std::decay_t<decltype(v)>>(value);
}

constexpr float infinity = INFINITY;

template <class Format>
using with_cache = ratify::attention_policy<ratify::head_dim<64>, ratify::partition_width<64>, ratify::q_format<float>,
                                            ratify::kv_format<Format>>;

}  // namespace

TEST_CASE("attention: a NaN or infinite score makes that row NaN and no other") {
  random_source random(27);
  auto c = attention_case_with<verify_policy>(random, 2, 1, {4}, {50}, 16);
  auto const clean = reference::attention(c, 1024);
  for (uint16_t poison : {0x7e00, 0x7c00, 0xfc00}) {
    auto dirty = c;
    size_t const bad_row = 2, head = 1;
    dirty.q[(bad_row * 2 + head) * 256 + 9] = {poison};
    on_each_executor([&](auto& on) {
      auto const r = run_attention<verify_policy>(on, dirty);
      for (size_t i = 0; i < r.out.size(); ++i) {
        bool const bad = i / 256 == bad_row * 2 + head;
        CHECK(bits(r.out[i]) == (bad ? 0x7fffffffu : bits(clean.out[i])));
      }
      for (size_t i = 0; i < r.lse.size(); ++i)
        CHECK(bits(r.lse[i]) == (i == bad_row * 2 + head ? 0x7fffffffu : bits(clean.lse[i])));
    });
    check_equal_to_twin<verify_policy>(dirty);
  }
  // A NaN in the last token's V reaches the last row alone.
  c.v[c.kv_at(0, 49, 0) + 3] = {0x7f};
  check_equal_to_twin<verify_policy>(c);
  on_each_executor([&](auto& on) {
    auto const r = run_attention<verify_policy>(on, c);
    for (size_t i = 0; i < r.out.size(); ++i) CHECK((bits(r.out[i]) == 0x7fffffffu) == (i / 512 == 3 && i % 256 == 3));
  });
}

TEST_CASE_TEMPLATE("attention: an infinite V counts in its own element, in the rows that see it", Policy,
                   with_cache<ratify::e5m2>, with_cache<ratify::f16>, with_cache<ratify::bf16>) {
  random_source random(41);
  // Over two partitions and in one of them alone.
  for (int const context : {50, 100}) {
    auto c = attention_case_with<Policy>(random, 2, 1, {4}, {context}, 16);
    auto const clean = attention_twin<Policy>(c);
    int const last = context - 1;
    put_value(c, last - 1, 3, infinity);  // rows 2 and 3 see it
    put_value(c, last, 5, -infinity);     // row 3 alone
    put_value(c, 7, 9, infinity);         // all rows, both signs from row 1 on
    put_value(c, last - 2, 9, -infinity);
    check_equal_to_twin<Policy>(c);
    on_each_executor([&](auto& on) {
      auto const r = run_attention<Policy>(on, c);
      CHECK(bit_difference(r.lse, clean.lse) == "");
      for (size_t i = 0; i < r.out.size(); ++i) {
        size_t const row = i / 128, d = i % 64;
        if (d == 3 && row >= 2)
          CHECK(r.out[i] == infinity);
        else if (d == 5 && row == 3)
          CHECK(r.out[i] == -infinity);
        else if (d == 9)
          CHECK(bits(r.out[i]) == (row == 0 ? bits(infinity) : 0x7fffffffu));
        else
          CHECK(bits(r.out[i]) == bits(clean.out[i]));
      }
    });
  }
}

// exp(-103.5) is 2^-149, exp(-104.5) is 0. Scores are exact: whole numbers and halves.
TEST_CASE_TEMPLATE("attention: an infinite V under a weight that is 0 in FP32 does not count", Policy,
                   with_cache<ratify::f16>, with_cache<ratify::bf16>) {
  struct trial {
    int context, highest, infinite;  // tokens, where the highest score stands, and where V is infinite
    float score, partition;          // of the infinite token, and the largest of its partition
    bool counts;
  };
  for (trial const t : {trial{40, 20, 10, -103.5f, 0, true},
                        {40, 20, 10, -104.5f, 0, false},
                        // The partition's own weight vanishes.
                        {130, 128, 10, -103.5f, -103.5f, true},
                        {130, 128, 10, -104.5f, -104.5f, false},
                        // Neither exponential vanishes, the weight does, and the other way about.
                        {130, 128, 10, -120, -60, false},
                        {130, 128, 10, -103.5f, -60, true},
                        {130, 128, 10, -104.5f, -1, false},
                        {130, 128, 10, -103.5f, -1, true},
                        {130, 1, 129, -104.5f, -104.5f, false},
                        {130, 1, 129, -103.5f, -103, true}}) {
    CAPTURE(t.context);
    CAPTURE(t.score);
    CAPTURE(t.partition);
    std::vector<float> scores(static_cast<size_t>(t.context), -300.0f);
    // The largest score of the infinite token's partition, at another token of it.
    if (t.context > 64) scores[static_cast<size_t>(t.infinite / 64 * 64 + (t.infinite == 129 ? 0 : 30))] = t.partition;
    scores[static_cast<size_t>(t.highest)] = 0;
    scores[static_cast<size_t>(t.infinite)] = t.score;
    auto c = case_of_scores<Policy>(scores);
    put_value(c, t.infinite, 2, infinity);
    put_value(c, t.infinite, 4, -infinity);
    check_equal_to_twin<Policy>(c);
    on_each_executor([&](auto& on) {
      auto const r = run_attention<Policy>(on, c);
      for (size_t d = 0; d < 64; ++d)
        CHECK(r.out[d] == (t.counts && d == 2 ? infinity : (t.counts && d == 4 ? -infinity : 1.0f)));
    });
    // Beside one that counts.
    put_value(c, t.highest, 2, -infinity);
    check_equal_to_twin<Policy>(c);
    on_each_executor([&](auto& on) {
      auto const r = run_attention<Policy>(on, c);
      CHECK(bits(r.out[2]) == (t.counts ? 0x7fffffffu : bits(-infinity)));
    });
  }
}

TEST_CASE_TEMPLATE("attention: a NaN in V makes its element NaN in the rows that see it, and in no other", Policy,
                   with_cache<ratify::e4m3>, with_cache<ratify::e5m2>, with_cache<ratify::f16>,
                   with_cache<ratify::bf16>) {
  random_source random(42);
  auto c = attention_case_with<Policy>(random, 2, 1, {5}, {100}, 16);
  auto const clean = attention_twin<Policy>(c);
  bool const infinities = !std::is_same_v<typename Policy::kv_format, ratify::e4m3>;
  put_value(c, 97, 3, NAN);                       // rows 2 to 4 see it
  if (infinities) put_value(c, 20, 3, infinity);  // all do
  check_equal_to_twin<Policy>(c);
  on_each_executor([&](auto& on) {
    auto const r = run_attention<Policy>(on, c);
    for (size_t i = 0; i < r.out.size(); ++i) {
      if (i % 64 != 3)
        CHECK(bits(r.out[i]) == bits(clean.out[i]));
      else if (i / 128 >= 2)
        CHECK(bits(r.out[i]) == 0x7fffffffu);
      else
        CHECK(bits(r.out[i]) == bits(infinities ? infinity : clean.out[i]));
    }
  });
}

TEST_CASE_TEMPLATE("attention: NaN and infinities anywhere equal the twin", Policy, with_cache<ratify::e4m3>,
                   with_cache<ratify::e5m2>, with_cache<ratify::f16>, with_cache<ratify::bf16>,
                   shift_policy<128, 128, ratify::q_format<ratify::bf16>, ratify::kv_format<ratify::bf16>>) {
  random_source random(43);
  for (int round = 0; round < scaled(12); ++round) {
    auto c = random_attention_case<Policy>(random);
    CAPTURE(describe(c));
    auto const poison = [&](auto& values, int one_in, float value) {
      for (auto& x : values)
        if (random.integer(1, one_in) == 1) x = cache_value<std::decay_t<decltype(x)>>(value);
    };
    poison(c.v, 3000, NAN);
    poison(c.v, 2000, infinity);
    poison(c.v, 2000, -infinity);
    if (random.integer(0, 1) == 0) poison(c.k, 3000, NAN);
    if (random.integer(0, 1) == 0) poison(c.q, 3000, -infinity);
    if (random.integer(0, 3) == 0) c.softmax_scale = 40.0f;  // most weights vanish
    check_equal_to_twin<Policy>(c);
    count_shape();
  }
}
