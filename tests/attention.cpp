// SPDX-License-Identifier: Apache-2.0
#include <ratify/attention.cuh>

#include "support/attention.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;
using ratify::decoder_revision;

template <int HeadDim, int Width, int Unroll, decoder_revision Revision = decoder_revision::fp16_shift,
          class Kv = ratify::e4m3>
struct policy : ratify::attention_policy {
  using kv_format = Kv;
  static constexpr int head_dim = HeadDim;
  static constexpr int partition_width = Width;
  static constexpr int pv_unroll = Unroll;
  static constexpr auto decoder = Revision;
};

using verify = policy<256, 1024, 8>;

/// Runs the case on every executor and compares with the twin, bit for bit.
template <class Policy>
void check_equal_to_twin(attention_case_of<Policy> const& c) {
  auto const expected = reference::attention(c, Policy::partition_width);
  on_each_executor([&](auto& on) {
    auto const got = run_attention<Policy>(on, c);
    CHECK(bit_difference(got.out, expected.out) == "");
    CHECK(bit_difference(got.lse, expected.lse) == "");
  });
}

}  // namespace

TEST_CASE("attention equals its twin bit for bit over random shapes") {
  random_source random(10);
  for (int round = 0; round < scaled(25); ++round) {
    auto const c = random_attention_case<verify>(random);
    CAPTURE(describe(c));
    check_equal_to_twin<verify>(c);
  }
}

TEST_CASE_TEMPLATE("attention equals its twin for every partition width", Policy, policy<256, 64, 8>,
                   policy<256, 256, 8>, policy<256, 4096, 8>) {
  random_source random(11);
  for (int round = 0; round < scaled(8); ++round) {
    auto const c = random_attention_case<Policy>(random);
    CAPTURE(describe(c));
    check_equal_to_twin<Policy>(c);
  }
}

TEST_CASE_TEMPLATE("unroll and decoder revision move no bit", Policy,
                   policy<256, 1024, 1, decoder_revision::bit_fields>,
                   policy<256, 1024, 4, decoder_revision::reference>, policy<256, 1024, 16, decoder_revision::native>) {
  random_source random(12);
  for (int round = 0; round < scaled(6); ++round) {
    auto const c = random_attention_case<Policy>(random);
    CAPTURE(describe(c));
    check_equal_to_twin<Policy>(c);
  }
}

TEST_CASE_TEMPLATE("attention of other head sizes and cache formats equals its twin", Policy, policy<64, 256, 4>,
                   policy<128, 1024, 8, decoder_revision::reference, ratify::f16>,
                   policy<64, 64, 8, decoder_revision::reference, ratify::bf16>,
                   policy<256, 1024, 8, decoder_revision::reference, ratify::e5m2>) {
  random_source random(13);
  for (int round = 0; round < scaled(8); ++round) {
    auto const c = random_attention_case<Policy>(random);
    CAPTURE(describe(c));
    check_equal_to_twin<Policy>(c);
  }
}

// Tiles of 48 query entries, which are taken where each block has one: beside a request of few, cut by a window too.
TEST_CASE_TEMPLATE("many query entries over many partitions equal the twin", Policy, policy<256, 64, 8>,
                   policy<128, 64, 16, decoder_revision::reference, ratify::f16>,
                   policy<64, 64, 4, decoder_revision::native>) {
  random_source random(15);
  // 102 partitions of 4 KV heads: more than the blocks that a card holds at once.
  auto c = attention_case_with<Policy>(random, 24, 4, {8, 1}, {64 * scaled(102) - 28, 70}, 64);
  c.window = 64 * scaled(102) - 500;
  check_equal_to_twin<Policy>(c);
}

TEST_CASE("attention of the demo model, TP1 and TP2 stays within its error bound") {
  random_source random(14);
  struct shape {
    int q_heads, kv_heads;
  };
  for (shape const s : {shape{2, 1}, shape{24, 4}, shape{12, 2}}) {
    auto c = random_attention_case<verify>(random);
    c = attention_case_with<verify>(random, s.q_heads, s.kv_heads, {8}, {1300}, 64);
    auto const truth = reference::truth::attention(c, verify::partition_width);
    on_each_executor([&](auto& on) {
      auto const got = run_attention<verify>(on, c);
      CHECK(error_over_bound(got.out, truth.out, truth.out_bound) <= 1.0);
      CHECK(error_over_bound(got.lse, truth.lse, truth.lse_bound) <= 1.0);
      CHECK(error_over_bound(got.out, truth.out, truth.out_bound) > 0.0);
    });
  }
}

TEST_CASE("A2 rows before the first token see nothing") {
  random_source random(20);
  auto c = attention_case_with<verify>(random, 2, 1, {4}, {2}, 16);
  on_each_executor([&](auto& on) {
    auto const r = run_attention<verify>(on, c);
    size_t const row = 2 * 256;
    for (size_t i = 0; i < 2 * row; ++i) CHECK(ratify::detail::bits(r.out[i]) == 0u);
    for (int i = 0; i < 4; ++i) CHECK(r.lse[i] == -INFINITY);
    for (int i = 4; i < 8; ++i) CHECK(std::isfinite(r.lse[i]));
    for (size_t i = 0; i < 256; ++i)
      CHECK(r.out[2 * row + i] == doctest::Approx(ratify::to_float(c.v[c.kv_at(0, 0, 0) + i]) * c.v_scale[0]));
  });
  for (int rows : {1, 3, 8}) {
    auto empty = attention_case_with<verify>(random, 2, 1, {rows}, {0}, 16);
    on_each_executor([&](auto& on) {
      auto const r = run_attention<verify>(on, empty);
      for (float x : r.out) CHECK(ratify::detail::bits(x) == 0u);
      for (float x : r.lse) CHECK(x == -INFINITY);
    });
  }
}

TEST_CASE("A3 bytes of unused slots and unlisted pages never reach a result") {
  random_source random(21);
  for (int rows : {1, 8})
    for (int context = 1; context <= 33; context += 4) {
      auto clean = attention_case_with<verify>(random, 2, 1, {rows}, {context}, 16);
      auto dirty = clean;
      std::vector<char> used(clean.k.size(), 0);
      for (int t = 0; t < context; ++t) std::fill_n(used.begin() + static_cast<long>(clean.kv_at(0, t, 0)), 256, 1);
      for (size_t i = 0; i < used.size(); ++i)
        if (!used[i]) {
          clean.k[i] = clean.v[i] = {0x00};
          dirty.k[i] = dirty.v[i] = {0x7f};
        }
      on_each_executor([&](auto& on) {
        auto const a = run_attention<verify>(on, clean), b = run_attention<verify>(on, dirty);
        CHECK(bit_difference(a.out, b.out) == "");
        CHECK(bit_difference(a.lse, b.lse) == "");
      });
    }
}

TEST_CASE("A6 every row sees the right tokens") {
  struct shape {
    int rows, context;
  };
  for (shape const s : {shape{2, 10}, shape{8, 9}, shape{8, 8}, shape{32, 33}, shape{1, 1}, shape{5, 1030}})
    for (int p : {0, s.context - s.rows - 1, s.context - s.rows, s.context - 2, s.context - 1}) {
      if (p < 0) continue;
      random_source random(22);
      auto c = attention_case_with<verify>(random, 1, 1, {s.rows}, {s.context}, 16);
      std::fill(c.q.begin(), c.q.end(), ratify::f16{0});
      std::fill(c.v.begin(), c.v.end(), ratify::e4m3{0});
      std::fill_n(c.v.begin() + static_cast<long>(c.kv_at(0, p, 0)), 256, ratify::convert<ratify::e4m3>(1.0f));
      c.v_scale = {1.0f};
      on_each_executor([&](auto& on) {
        auto const r = run_attention<verify>(on, c);
        for (int i = 0; i < s.rows; ++i) {
          int const seen = s.context - s.rows + i + 1;
          CHECK(r.out[static_cast<size_t>(i) * 256] == (p < seen ? 1.0f / static_cast<float>(seen) : 0.0f));
        }
      });
    }
}

TEST_CASE("A7 dot products beyond FP16") {
  random_source random(23);
  auto c = attention_case_with<verify>(random, 1, 1, {1}, {40}, 16);
  std::fill(c.q.begin(), c.q.end(), ratify::convert<ratify::f16>(20.0f));
  std::fill(c.k.begin(), c.k.end(), ratify::convert<ratify::e4m3>(20.0f));
  c.k_scale = {1.0f};
  auto const truth = reference::truth::attention(c, 1024);
  on_each_executor([&](auto& on) {
    auto const r = run_attention<verify>(on, c);
    CHECK(std::isfinite(r.lse[0]));
    for (size_t i = 0; i < r.out.size(); ++i) CHECK(r.out[i] == doctest::Approx(truth.out[i]).epsilon(1e-4));
  });
}

TEST_CASE("A8 scales per tensor and per KV head") {
  random_source random(24);
  for (bool per_head : {false, true}) {
    auto c = attention_case_with<verify>(random, 8, 4, {8}, {77}, 1);
    c.scale_per_head = per_head;
    c.k_scale = per_head ? std::vector<float>{0.37f, 0.5f, 0.11f, 1.7f} : std::vector<float>{0.37f};
    c.v_scale = per_head ? std::vector<float>{2.5f, 0.3f, 1.0f, 7.0f} : std::vector<float>{2.5f};
    auto const truth = reference::truth::attention(c, 1024);
    on_each_executor([&](auto& on) {
      auto const r = run_attention<verify>(on, c);
      CHECK(error_over_bound(r.out, truth.out, truth.out_bound) <= 1.0);
    });
    check_equal_to_twin<verify>(c);
  }
}

TEST_CASE("A9 a batch never changes a request's bits") {
  random_source random(25);
  auto const batch = attention_case_with<verify>(random, 4, 2, {8, 0, 1, 5, 8}, {1100, 40, 1, 300, 17}, 16);
  on_each_executor([&](auto& on) {
    auto const all = run_attention<verify>(on, batch);
    for (int request = 0; request < batch.requests(); ++request) {
      auto const alone = only_request(batch, request);
      if (alone.rows() == 0) continue;
      auto const one = run_attention<verify>(on, alone);
      size_t const row = 4 * 256, from = static_cast<size_t>(batch.query_start[request]);
      std::vector<float> const part(all.out.begin() + static_cast<long>(from * row),
                                    all.out.begin() + static_cast<long>((from + alone.rows()) * row));
      CHECK(bit_difference(part, one.out) == "");
    }
  });
}

TEST_CASE("A10 page sizes hold the same content") {
  random_source random(26);
  auto const base = attention_case_with<verify>(random, 2, 1, {8}, {1700}, 1);
  auto const expected = reference::attention(base, 1024);
  for (int page_size : {16, 64, 784, 1616, 1648, 3296}) {
    auto const c = with_page_size(base, page_size);
    on_each_executor([&](auto& on) {
      auto const r = run_attention<verify>(on, c);
      CHECK(bit_difference(r.out, expected.out) == "");
    });
  }
}

TEST_CASE("a NaN or infinite score makes that row NaN and no other") {
  random_source random(27);
  auto c = attention_case_with<verify>(random, 2, 1, {4}, {50}, 16);
  auto const clean = reference::attention(c, 1024);
  for (uint16_t poison : {0x7e00, 0x7c00, 0xfc00}) {
    auto dirty = c;
    size_t const bad_row = 2, head = 1;
    dirty.q[(bad_row * 2 + head) * 256 + 9] = {poison};
    on_each_executor([&](auto& on) {
      auto const r = run_attention<verify>(on, dirty);
      for (size_t i = 0; i < r.out.size(); ++i) {
        bool const bad = i / 256 == bad_row * 2 + head;
        CHECK(ratify::detail::bits(r.out[i]) == (bad ? 0x7fffffffu : ratify::detail::bits(clean.out[i])));
      }
      for (size_t i = 0; i < r.lse.size(); ++i)
        CHECK(ratify::detail::bits(r.lse[i]) ==
              (i == bad_row * 2 + head ? 0x7fffffffu : ratify::detail::bits(clean.lse[i])));
    });
    check_equal_to_twin<verify>(dirty);
  }
  // A NaN in the last token's V reaches the last row alone.
  c.v[c.kv_at(0, 49, 0) + 3] = {0x7f};
  check_equal_to_twin<verify>(c);
  on_each_executor([&](auto& on) {
    auto const r = run_attention<verify>(on, c);
    for (size_t i = 0; i < r.out.size(); ++i)
      CHECK((ratify::detail::bits(r.out[i]) == 0x7fffffffu) == (i / 512 == 3 && i % 256 == 3));
  });
}

TEST_CASE("strides: K and V interleaved in one buffer, rows of q and out padded") {
  random_source random(28);
  auto const c = attention_case_with<verify>(random, 4, 2, {3, 8}, {65, 1030}, 64);
  auto const expected = reference::attention(c, 1024);
  on_each_executor([&](auto& on) {
    auto const r = run_attention<verify>(on, c, attention_layout::interleaved);
    CHECK(bit_difference(r.out, expected.out) == "");
    CHECK(bit_difference(r.lse, expected.lse) == "");
  });
}

TEST_CASE("a request whose lengths contradict the capacities gives zero rows and touches nothing") {
  random_source random(29);
  auto c = attention_case_with<verify>(random, 2, 1, {2, 3}, {20, 30}, 16);
  auto const expected = reference::attention(c, 1024);
  for (int length : {-1, 31, 1 << 30}) {
    auto bad = c;
    bad.context_len[1] = length;
    on_each_executor([&](auto& on) {
      auto const r = run_attention<verify>(on, bad, attention_layout::dense, 30);
      size_t const first = 2 * 2 * 256;
      for (size_t i = 0; i < r.out.size(); ++i)
        CHECK(ratify::detail::bits(r.out[i]) == (i < first ? ratify::detail::bits(expected.out[i]) : 0u));
    });
  }
}

TEST_CASE("requests whose rows overlap write nothing outside the workspace") {
  random_source random(30);
  auto c = attention_case_with<verify>(random, 1, 1, {2, 0, 2}, {64, 64, 64}, 16);
  auto const alone = reference::attention(only_request(c, 0), 1024);
  c.query_start = {0, 2, 0, 2};
  c.q.resize(2 * 256);
  on_each_executor([&](auto& on) {
    auto const r = run_attention<verify>(on, c);
    CHECK(bit_difference(r.out, alone.out) == "");
  });
}

TEST_CASE("refused launches name the reason") {
  ratify::attention<verify>::params p;
  p.rows = 1, p.requests = 1, p.q_heads = 6, p.kv_heads = 4, p.page_size = 16, p.max_context = 16, p.max_pages = 1;
  auto const reason = [&] { return std::string(ratify::attention<verify>::can_launch(p, host()).reason()); };
  CHECK(reason() == "ratify::attention: q_heads must be a positive multiple of kv_heads");
  p.q_heads = p.kv_heads = 65536;
  CHECK(reason() == "ratify::attention: q_heads must be at most 65535");
  p.q_heads = p.kv_heads = 4;
  CHECK(reason() == "");
  p.page_size = 0;
  CHECK(reason() == "ratify::attention: page_size must be at least 1 token");
  p.page_size = 16;
  p.k_pages.token_stride = 8;
  CHECK(reason() == "ratify::attention: k_pages and v_pages must be aligned to 16 bytes, pointers and strides");
  p.k_pages.token_stride = 1024;
  p.max_rows = 33;
  CHECK(reason() == "ratify::attention: max_rows, the most rows of one request, must be 0 (= rows) to 32");
  p.max_rows = 1;
  auto const s = ratify::attention<verify>::launch(p, {}, host());
  CHECK(s.code() == ratify::status_code::workspace_too_small);
}
