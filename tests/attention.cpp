// SPDX-License-Identifier: Apache-2.0
#include <ratify/attention.cuh>

#include "support/attention.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/far_memory.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;
using ratify::decoder_revision;

template <int HeadDim, int Width, int Unroll, decoder_revision Revision = decoder_revision::fp16_shift,
          class Kv = ratify::e4m3, class Q = ratify::f16, class Out = float>
struct policy : ratify::attention_policy {
  using q_format = Q;
  using kv_format = Kv;
  using out_format = Out;
  static constexpr int head_dim = HeadDim;
  static constexpr int partition_width = Width;
  static constexpr int pv_unroll = Unroll;
  static constexpr auto decoder = Revision;
};

using verify = policy<256, 1024, 8>;

void check_equal(reference::attention_result const& got, reference::attention_result const& expected) {
  CHECK(bit_difference(got.out, expected.out) == "");
  CHECK(bit_difference(got.lse, expected.lse) == "");
}

/// Runs the case on every executor and compares with the twin, bit for bit.
template <class Policy>
void check_equal_to_twin(attention_case_of<Policy> const& c) {
  auto expected = reference::attention(c, Policy::partition_width);
  for (float& x : expected.out) x = ratify::to_float(ratify::convert<typename Policy::out_format>(x));
  on_each_executor([&](auto& on) { check_equal(run_attention<Policy>(on, c), expected); });
}

/// Twin checks of random shapes.
template <class Policy>
void check_random_shapes(int stream, int shapes) {
  random_source random(static_cast<uint64_t>(stream));
  for (int round = 0; round < scaled(shapes); ++round) {
    auto const c = random_attention_case<Policy>(random);
    CAPTURE(describe(c));
    check_equal_to_twin<Policy>(c);
    count_shape();
  }
}

}  // namespace

TEST_CASE("attention equals its twin bit for bit over random shapes") { check_random_shapes<verify>(10, 60); }

TEST_CASE_TEMPLATE("attention equals its twin for every partition width", Policy, policy<256, 64, 8>,
                   policy<128, 128, 8>, policy<256, 256, 8>, policy<128, 2048, 1>, policy<256, 4096, 8>) {
  check_random_shapes<Policy>(11, 12);
}

TEST_CASE_TEMPLATE("unroll and decoder revision move no bit", Policy,
                   policy<256, 1024, 1, decoder_revision::bit_fields>,
                   policy<256, 1024, 4, decoder_revision::reference>, policy<256, 1024, 16, decoder_revision::native>) {
  check_random_shapes<Policy>(12, 12);
}

TEST_CASE_TEMPLATE("attention of other head sizes and formats equals its twin", Policy, policy<64, 256, 4>,
                   policy<128, 1024, 8, decoder_revision::reference, ratify::f16>,
                   policy<64, 64, 8, decoder_revision::reference, ratify::bf16>,
                   policy<256, 1024, 8, decoder_revision::reference, ratify::e5m2>,
                   policy<64, 512, 16, decoder_revision::native, ratify::e4m3, float, ratify::bf16>,
                   policy<128, 128, 4, decoder_revision::reference, ratify::bf16, ratify::bf16, ratify::f16>) {
  check_random_shapes<Policy>(13, 12);
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

TEST_CASE_TEMPLATE("A3 bytes of unused slots and unlisted pages never reach a result", Policy, verify,
                   policy<256, 1024, 8, decoder_revision::reference, ratify::e5m2>,
                   policy<128, 1024, 8, decoder_revision::reference, ratify::f16>) {
  using kv = typename Policy::kv_format;
  random_source random(21);
  constexpr int d = Policy::head_dim, page = 16, unlisted = 2;
  std::vector<int> const poisons = std::is_same_v<kv, ratify::e4m3>   ? std::vector<int>{0x7f, 0xff}
                                   : std::is_same_v<kv, ratify::e5m2> ? std::vector<int>{0x7c, 0x7e, 0xff}
                                                                      : std::vector<int>{0x7e00, 0x7c00, 0xffff};
  for (int rows : {1, 8})
    for (int context = 1; context <= 33; ++context) {
      CAPTURE(rows);
      CAPTURE(context);
      auto clean = attention_case_with<Policy>(random, 2, 1, {rows}, {context}, page);
      for (auto* const cache : {&clean.k, &clean.v}) cache->resize(cache->size() + unlisted * page * d);
      std::vector<char> used(clean.k.size(), 0);
      for (int t = 0; t < context; ++t) std::fill_n(used.begin() + static_cast<long>(clean.kv_at(0, t, 0)), d, 1);
      auto const fill = [&](auto& c, int bits) {
        for (size_t i = 0; i < used.size(); ++i)
          if (!used[i]) c.k[i].bits = c.v[i].bits = static_cast<decltype(kv::bits)>(bits);
      };
      fill(clean, 0);
      on_each_executor([&](auto& on) {
        auto const expected = run_attention<Policy>(on, clean);
        for (int const poison : poisons) {
          auto dirty = clean;
          fill(dirty, poison);
          check_equal(run_attention<Policy>(on, dirty), expected);
        }
      });
    }
}

// Pages 2^28 bytes and a little apart, K of a page and then its V.
TEST_CASE("A4 pages beyond 2^31 and 2^32 bytes") {
  using policy = policy<64, 256, 4>;
  random_source random(31);
  constexpr int d = policy::head_dim, page = 16;
  constexpr int64_t page_bytes = page * d, stride = (int64_t{1} << 28) + 48;
  constexpr int near = 1, over_31 = 8, over_32 = 16;
  static_assert(over_31 * stride > (int64_t{1} << 31) && (over_31 - 1) * stride < (int64_t{1} << 31), "");
  static_assert(over_32 * stride > (int64_t{1} << 32) && (over_32 - 1) * stride < (int64_t{1} << 32), "");
  auto const one_page = attention_case_with<policy>(random, 4, 1, {4}, {13}, page);
  auto const all_pages = attention_case_with<policy>(random, 4, 1, {4}, {3 * page - 5}, page);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    far_memory<ratify::e4m3, executor> pages(on, static_cast<size_t>(over_32 * stride + 2 * page_bytes));
    if (pages.data() == nullptr) {
      MESSAGE("skipped: no room for 4 GiB");
      return;
    }
    // Page number i of the case at page id ids[i].
    auto const run_at = [&](auto const& c, std::vector<int32_t> const& ids) {
      auto placed = c;
      for (size_t i = 0; i < ids.size(); ++i) {
        size_t const from = c.kv_at(0, static_cast<int>(i) * page, 0);
        auto const content = [&](auto const& cache) {
          return std::vector<ratify::e4m3>(cache.begin() + static_cast<long>(from),
                                           cache.begin() + static_cast<long>(from + page_bytes));
        };
        pages.write(static_cast<size_t>(ids[i] * stride), content(c.k));
        pages.write(static_cast<size_t>(ids[i] * stride + page_bytes), content(c.v));
        placed.block_table[i] = ids[i];
      }
      loaded_attention<policy, executor> far(on, placed);
      far.p.k_pages.data = pages.data();
      far.p.v_pages.data = pages.data() + page_bytes;
      far.p.k_pages.page_stride = far.p.v_pages.page_stride = stride;
      return far.run();
    };
    auto const expected = reference::attention(one_page, policy::partition_width);
    for (int const id : {near, over_31, over_32}) {
      CAPTURE(id);
      check_equal(run_at(one_page, {id}), expected);
    }
    check_equal(run_at(all_pages, {over_31, near, over_32}), reference::attention(all_pages, policy::partition_width));
  });
}

TEST_CASE("A5 a cache aligned to 16 bytes only is right, less is refused before the launch") {
  using policy = policy<64, 256, 4>;
  char const* const refusal =
      "ratify::attention: k_pages and v_pages must be aligned to 16 bytes, pointers and strides";
  random_source random(32);
  for (int const page_size : {1, 16, 32}) {
    CAPTURE(page_size);
    auto const c = attention_case_with<policy>(random, 6, 2, {4, 1}, {77, 3}, page_size);
    auto const expected = reference::attention(c, policy::partition_width);
    on_each_executor([&](auto& on) {
      using executor = std::decay_t<decltype(on)>;
      using op = ratify::attention<policy>;
      for (auto const layout : {attention_layout::dense, attention_layout::interleaved}) {
        loaded_attention<policy, executor> at_16(on, c, layout, 0, 16);
        CHECK(reinterpret_cast<uintptr_t>(at_16.p.k_pages.data) % 32 == 16);
        check_equal(at_16.run(), expected);
        for (int const aligned_to : {8, 4, 1}) {
          loaded_attention<policy, executor> less(on, c, layout, 0, static_cast<size_t>(aligned_to));
          CHECK(std::string(op::can_launch(less.p, on).reason()) == refusal);
          CHECK(launch<op>(less.p, on).code() == ratify::status_code::unsupported);
        }
        auto const refused = [&](auto change) {
          auto p = at_16.p;
          change(p);
          CHECK(std::string(op::can_launch(p, on).reason()) == refusal);
          CHECK(op::launch(p, {}, on).code() == ratify::status_code::unsupported);
        };
        refused([](auto& p) { p.v_pages.data += 8; });
        refused([](auto& p) { p.k_pages.page_stride += 8; });
        refused([](auto& p) { p.v_pages.page_stride += 1; });
        refused([](auto& p) { p.k_pages.token_stride += 8; });
        refused([](auto& p) { p.v_pages.token_stride += 4; });
        refused([](auto& p) { p.k_pages.head_stride += 8; });
        refused([](auto& p) { p.v_pages.head_stride += 15; });
      }
    });
  }
}

// With q = 0 all tokens weigh the same. Column j of V is 1 at one position alone: row i holds there 1 / the number of
// tokens that it sees, or 0.
TEST_CASE_TEMPLATE("A6 every row sees the right tokens", Policy, policy<64, 256, 4>, verify) {
  constexpr int d = Policy::head_dim, page = 16, width = Policy::partition_width;
  struct shape {
    int rows, context;
  };
  for (shape const s : {shape{2, 10}, shape{8, 9}, shape{8, 8}, shape{32, 33}, shape{1, 1}, shape{4, 2}, shape{5, 1030},
                        shape{5, 262144}}) {
    if (s.context > 2000 && (d > 64 || scale() < 1.0)) continue;  // the same paths, four times the work; checkers
    CAPTURE(s.rows);
    CAPTURE(s.context);
    // The last rows' edges, then those of pages and partitions.
    std::vector<int> positions;
    auto const add = [&](int p) {
      bool const known = std::find(positions.begin(), positions.end(), p) != positions.end();
      if (p >= 0 && p < s.context && !known && positions.size() < d) positions.push_back(p);
    };
    for (int p = s.context - 1; p >= s.context - s.rows - 1; --p) add(p);
    for (int const edge : {0, page, 2 * page, width, 2 * width, s.context / 2, s.context / width * width,
                           s.context / page * page, s.context - width, s.context - page})
      for (int const by : {-1, 0, 1}) add(edge + by);
    for (int p = 0; p < s.context && positions.size() < d; ++p) add(p);
    random_source random(22);
    auto c = attention_case_with<Policy>(random, 1, 1, {s.rows}, {s.context}, page);
    std::fill(c.q.begin(), c.q.end(), ratify::f16{0});
    std::fill(c.v.begin(), c.v.end(), ratify::e4m3{0});
    for (size_t j = 0; j < positions.size(); ++j)
      c.v[c.kv_at(0, positions[j], 0) + j] = ratify::convert<ratify::e4m3>(1.0f);
    c.v_scale = {1.0f};
    std::vector<float> expected(static_cast<size_t>(s.rows) * d, 0.0f);
    for (int i = 0; i < s.rows; ++i)
      for (size_t j = 0; j < positions.size(); ++j) {
        int const seen = s.context - s.rows + i + 1;
        if (positions[j] < seen) expected[static_cast<size_t>(i) * d + j] = 1.0f / static_cast<float>(seen);
      }
    on_each_executor([&](auto& on) { CHECK(bit_difference(run_attention<Policy>(on, c).out, expected) == ""); });
  }
}

TEST_CASE("a row before the first token sees what the rule says, and a window may be as large as an int") {
  random_source random(31);
  for (bool causal : {true, false})
    for (int window : {0, 2, 1 << 30, INT32_MAX - 1, INT32_MAX}) {
      auto c = attention_case_with<verify>(random, 2, 1, {4, 8}, {2, 300}, 16);
      c.causal = causal;
      c.window = window;
      CAPTURE(describe(c));
      check_equal_to_twin<verify>(c);
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

// With partitions of 256 tokens the batches take tiles of 48 query entries, which are for where every block has one,
// and a request alone the small ones.
TEST_CASE_TEMPLATE("A9 a batch never changes a request's bits", Policy, policy<64, 256, 4>, policy<256, 256, 8>,
                   verify) {
  using kernel = ratify::detail::attention_partial_kernel<Policy>;
  random_source random(25);
  bool const many = Policy::head_dim == 64;  // enough for the blocks of a card
  int const kv_heads = many ? 3 : 2, group = many ? 8 : 6, watched = 17;
  int const requests = scale() < 1.0 ? 26 : 64;  // fewer for checkers
  std::vector<int> rows, context;
  for (int r = 0; r < requests; ++r) {
    rows.push_back(random.one_of({0, 1, 5, 8, 8, many ? 16 : 3}));
    context.push_back(random.integer(1, many ? 900 : 70));
  }
  rows[watched] = 4;
  context[watched] = many ? 300 : 270;
  if (many)
    for (int r = watched + 1; r < watched + 8; ++r) rows[r] = 8, context[r] = 700;
  auto const batch = attention_case_with<Policy>(random, kv_heads * group, kv_heads, rows, context, 16);
  size_t const row = static_cast<size_t>(batch.q_heads) * batch.head_dim;
  auto const part = [&](reference::attention_result const& all, int first, int n) {
    reference::attention_result r;
    r.out.assign(all.out.begin() + static_cast<long>(first * row),
                 all.out.begin() + static_cast<long>((first + n) * row));
    r.lse.assign(all.lse.begin() + first * batch.q_heads, all.lse.begin() + (first + n) * batch.q_heads);
    return r;
  };
  // What attention_kernels.cuh chooses by.
  auto const wide_tiles = [&](auto& on, auto const& c) {
    using traits = ratify::detail::attention_traits<Policy>;
    int64_t tiles = 0;
    for (int r = 0; r < c.requests(); ++r) {
      int const entries = (c.query_start[r + 1] - c.query_start[r]) * group;
      if (traits::has_wide && entries >= traits::wide_entries)
        tiles += int64_t{(c.context_len[r] + traits::width - 1) / traits::width} * kv_heads * ((entries + 47) / 48);
    }
    return tiles >= on.template concurrent_blocks<kernel>();
  };
  std::vector<int> some(8);
  std::iota(some.begin(), some.end(), watched);
  std::swap(some[0], some[5]);  // the watched request among the others
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    auto const one = only_request(batch, watched);
    auto const alone = run_attention<Policy>(on, one);
    check_equal(alone, reference::attention(one, Policy::partition_width));
    auto const all = run_attention<Policy>(on, batch);
    check_equal(part(all, batch.query_start[watched], 4), alone);
    auto const eight = some_requests(batch, some);
    check_equal(part(run_attention<Policy>(on, eight), eight.query_start[5], 4), alone);
    if (many) {
      // Under ThreadSanitizer the host has fewer blocks, for which a request alone is enough.
      if (!ratify::detail::thread_checker::present) CHECK(!wide_tiles(on, one));
      WARN_MESSAGE(wide_tiles(on, batch), "this card runs more blocks than 64 requests have wide tiles");
      if (std::is_same_v<executor, ratify::host_executor>) CHECK((wide_tiles(on, batch) && wide_tiles(on, eight)));
    }
    for (int const other : {0, 16, requests / 2, requests - 1}) {
      if (rows[other] == 0) continue;
      check_equal(part(all, batch.query_start[other], rows[other]),
                  run_attention<Policy>(on, only_request(batch, other)));
    }
    // Row 0 of 4 rows, alone.
    auto first = one;
    first.query_start = {0, 1};
    first.context_len = {context[watched] - 3};
    first.q.resize(row);
    check_equal(run_attention<Policy>(on, first), part(alone, 0, 1));
  });
}

TEST_CASE("tiles of 48 query entries and 256 columns equal the twin") {
  // 12 tiles a request: 40 are as many as a card of 160 multiprocessors runs blocks at once; a host runs few.
#if defined(__CUDACC__)
  int const requests = 40;
#else
  int const requests = 2;
#endif
  random_source random(28);
  std::vector<int> rows(static_cast<size_t>(requests), 8), context;
  for (int r = 0; r < requests; ++r) context.push_back(random.integer(513, 560));
  using wide = policy<256, 256, 8>;
  check_equal_to_twin<wide>(attention_case_with<wide>(random, 24, 4, rows, context, 64));
}

TEST_CASE("A10 page sizes hold the same content") {
  random_source random(26);
  auto const base = attention_case_with<verify>(random, 2, 1, {8}, {1700}, 7);
  auto const expected = reference::attention(base, 1024);
  for (int page_size : {1, 16, 64, 784, 1616, 1648, 3296}) {
    CAPTURE(page_size);
    auto const c = with_page_size(base, page_size);
    on_each_executor([&](auto& on) { check_equal(run_attention<verify>(on, c), expected); });
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
  p.total_context = (int64_t{1} << 36) + 1;
  CHECK(reason() ==
        "ratify::attention: max_context must be 0 to 2^30 tokens, total_context (or requests * max_context) 0 to 2^36");
  p.total_context = 0;
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
