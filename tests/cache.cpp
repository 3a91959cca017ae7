// SPDX-License-Identifier: Apache-2.0
#include <ratify/cache.cuh>

#include "reference/cache.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/far_memory.hpp"
#include "support/random.hpp"
#include "support/refusal.hpp"

#include <doctest/doctest.h>

#include <numeric>

namespace {

using namespace ratify_test;

template <class Input, class Stored>
struct policy_of : ratify::append_policy {
  using input_format = Input;
  using kv_format = Stored;
};

template <class Input, class Stored>
using append_of = ratify::append<policy_of<Input, Stored>>;

/// The tensors of a case in an executor's memory, and the params over them.
template <class Input, class Stored, class Executor>
struct loaded {
  using input_case = reference::append_case<Input, Stored>;
  loaded(Executor& on, input_case const& c)
      : k(on, c.k),
        v(on, c.v),
        k_pages(on, c.k_pages),
        v_pages(on, c.v_pages),
        table(on, c.table),
        context_len(on, c.context_len),
        query_start(on, c.query_start),
        k_scale(on, c.k_scale),
        v_scale(on, c.v_scale) {
    int64_t const row = int64_t{c.heads} * c.dim;
    p.k = {k.data(), row, c.dim};
    p.v = {v.data(), row, c.dim};
    p.k_pages = {k_pages.data(), row * c.page_size, row, c.dim};
    p.v_pages = {v_pages.data(), row * c.page_size, row, c.dim};
    p.block_table = {table.data(), c.max_pages};
    p.context_len = context_len.data();
    p.query_start = query_start.data();
    p.k_scale = k_scale.data();
    p.v_scale = v_scale.data();
    p.scale_stride = c.k_scale.size() > 1 ? 1 : 0;
    p.rows = c.rows();
    p.requests = c.requests();
    p.kv_heads = c.heads;
    p.head_dim = c.dim;
    p.page_size = c.page_size;
    p.max_pages = c.max_pages;
  }
  buffer<Input, Executor> k, v;
  buffer<Stored, Executor> k_pages, v_pages;
  buffer<int32_t, Executor> table, context_len, query_start;
  buffer<float, Executor> k_scale, v_scale;
  typename append_of<Input, Stored>::params p;
};

template <class Input, class Stored>
void check(reference::append_case<Input, Stored> const& c) {
  auto expected = c;
  expected.append();
  on_each_executor([&](auto& on) {
    loaded<Input, Stored, std::decay_t<decltype(on)>> t(on, c);
    auto const s = launch<append_of<Input, Stored>>(t.p, on);
    REQUIRE_MESSAGE(s, s.reason());
    CHECK(bit_difference(t.k_pages.read(), expected.k_pages) == "");
    CHECK(bit_difference(t.v_pages.read(), expected.v_pages) == "");
  });
}

/// Requests with `lengths` rows; the pages of all in a random order, some left over, every byte 0xFF.
template <class Input, class Stored>
reference::append_case<Input, Stored> make_case(random_source& random, std::vector<int> const& lengths, int heads,
                                                int dim, int page_size, bool head_scales) {
  reference::append_case<Input, Stored> c;
  c.heads = heads;
  c.dim = dim;
  c.page_size = page_size;
  c.query_start = {0};
  int most = 1;
  for (int n : lengths) {
    c.query_start.push_back(c.query_start.back() + n);
    c.context_len.push_back(random.integer(0, 3 * page_size) + (random.integer(0, 3) > 0 ? n : 0));
    most = std::max(most, c.context_len.back());
  }
  c.max_pages = (most + page_size - 1) / page_size;
  std::vector<int32_t> pages(lengths.size() * static_cast<size_t>(c.max_pages) + 2);
  std::iota(pages.begin(), pages.end(), 0);
  for (size_t i = pages.size(); i > 1; --i)
    std::swap(pages[i - 1], pages[static_cast<size_t>(random.integer(0, static_cast<int>(i) - 1))]);
  c.table.assign(pages.begin(), pages.end() - 2);
  auto const elements = static_cast<size_t>(c.query_start.back() * heads * dim);
  c.k = random.normals<Input>(elements, 100);
  c.v = random.normals<Input>(elements, 3);
  c.k_pages.assign(pages.size() * static_cast<size_t>(page_size * heads * dim), Stored{});
  std::memset(static_cast<void*>(c.k_pages.data()), 0xff, c.k_pages.size() * sizeof(Stored));
  c.v_pages = c.k_pages;
  for (int h = 0; h < (head_scales ? heads : 1); ++h) {
    c.k_scale.push_back(random.uniform(0.05f, 2.0f));
    c.v_scale.push_back(random.uniform(0.001f, 0.1f));
  }
  return c;
}

template <class Input, class Stored>
void check_shapes(uint64_t stream) {
  random_source random(stream);
  check(make_case<Input, Stored>(random, {8}, 1, 256, 64, false));       // demo
  check(make_case<Input, Stored>(random, {8}, 4, 256, 1648, true));      // TP1
  check(make_case<Input, Stored>(random, {8, 0, 3}, 2, 256, 16, true));  // TP2
  check(make_case<Input, Stored>(random, {8, 1}, 1, 256, 3296, true));   // TP4 and TP8
  for (int round = 0; round < scaled(12); ++round) {
    std::vector<int> lengths;
    for (int n = random.one_of({1, 2, 5, random.integer(1, 16)}); n > 0; --n)
      lengths.push_back(random.one_of({0, random.integer(0, 9), random.integer(1, 32)}));
    int const heads = random.integer(1, 5), dim = random.one_of({random.integer(1, 130), 64, 256});
    int page_size = random.one_of({1, 2, 7, 16, 33, 64, 784, 1648, 3296});
    // Three pages a request are there.
    if (static_cast<int64_t>(lengths.size() + 1) * page_size * heads * dim > 400000)
      page_size = random.one_of({1, 3, 16});
    CAPTURE(lengths.size());
    CAPTURE(page_size);
    check(make_case<Input, Stored>(random, lengths, heads, dim, page_size, random.integer(0, 1) == 1));
    count_shape();
  }
}

}  // namespace

TEST_CASE("append equals its twin bit for bit") {
  check_shapes<ratify::f16, ratify::e4m3>(1);
  check_shapes<ratify::bf16, ratify::e5m2>(2);
  check_shapes<float, ratify::f16>(3);
  check_shapes<float, ratify::bf16>(4);
}

TEST_CASE("D2 storing: saturation, NaN, ties, signed zeros, subnormals, infinities") {
  std::vector<float> values{448.0f,   448.1f,   464.0f,   465.0f,   1e9f,     INFINITY, NAN,
                            0.0f,     -0.0f,    1e-30f,   17.0f,    19.0f,    21.0f,    0x1p-9f,
                            0x1p-10f, 0x3p-10f, 0x5p-10f, 57344.0f, 61440.0f, 65520.0f, 65519.9f,
                            0x1p-16f, 0x1p-17f, 0x3p-17f, 0x1p-24f, 0x1p-25f, 0x3p-25f, 3.4e38f};
  size_t const n = values.size();
  for (size_t i = 0; i < n; ++i) values.push_back(-values[i]);
  auto const run = [&](auto stored) {
    using format = decltype(stored);
    reference::append_case<float, format> c;
    c.dim = static_cast<int>(values.size());
    c.max_pages = 1;
    c.k = values;
    c.v = values;
    c.k_pages.resize(values.size());
    c.v_pages.resize(values.size());
    c.table = {0};
    c.context_len = {1};
    c.query_start = {0, 1};
    c.k_scale = {1.0f};
    c.v_scale = {0.37f};
    check(c);
    c.append();
    return c.k_pages;
  };
  auto const e4m3 = run(ratify::e4m3{});
  CHECK(e4m3[1].bits == 0x7e);
  CHECK(e4m3[4].bits == 0x7e);
  CHECK(e4m3[5].bits == 0x7e);
  CHECK(e4m3[6].bits == 0x7f);
  CHECK(e4m3[8].bits == 0x80);
  CHECK(e4m3[n + 4].bits == 0xfe);
  CHECK(e4m3[10].bits == 0x58);  // 17 lies between 16 and 18: even
  CHECK(e4m3[11].bits == 0x5a);  // 19 between 18 and 20
  CHECK(run(ratify::e5m2{})[5].bits == 0x7b);
  CHECK(run(ratify::f16{})[5].bits == 0x7c00);
  CHECK(run(ratify::bf16{})[5].bits == 0x7f80);
}

TEST_CASE("append writes nothing for lengths and pages out of range") {
  random_source random(5);
  auto c = make_case<ratify::f16, ratify::e4m3>(random, {3, 3, 3}, 2, 16, 4, false);
  c.context_len = {5, 6, 4};
  SUBCASE("context longer than the table") { c.context_len[1] = c.max_pages * c.page_size + 1; }
  SUBCASE("context negative") { c.context_len[1] = -5; }
  SUBCASE("context at the limits of int") { c.context_len = {INT32_MAX, INT32_MIN, 4}; }
  SUBCASE("query_start past the rows") { c.query_start = {0, 100, 6, 9}; }
  SUBCASE("query_start negative") { c.query_start = {-7, 3, 6, 9}; }
  SUBCASE("query_start falls") { c.query_start = {0, 3, -1, 9}; }
  SUBCASE("query_start of rows that another request has") { c.query_start = {0, 4, 2, 9}; }
  SUBCASE("query_start at the limits of int") { c.query_start = {INT32_MIN, INT32_MAX, 6, 9}; }
  SUBCASE("page negative") { c.table.assign(c.table.size(), -1); }
  check(c);
}

TEST_CASE("append with strides: mixed rows, K and V interleaved in one buffer") {
  random_source random(6);
  auto c = make_case<ratify::f16, ratify::e4m3>(random, {4, 2}, 2, 24, 8, true);
  auto expected = c;
  expected.append();
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    loaded<ratify::f16, ratify::e4m3, executor> t(on, c);
    int const row = c.heads * c.dim;
    // Each row: V, 5 elements of padding, K. Each token: per head K then V.
    std::vector<ratify::f16> mixed(static_cast<size_t>(c.rows()) * static_cast<size_t>(2 * row + 5), {0x7e00});
    for (int r = 0; r < c.rows(); ++r)
      for (int i = 0; i < row; ++i) {
        mixed[static_cast<size_t>(r * (2 * row + 5) + i)] = c.v[static_cast<size_t>(r * row + i)];
        mixed[static_cast<size_t>(r * (2 * row + 5) + row + 5 + i)] = c.k[static_cast<size_t>(r * row + i)];
      }
    buffer<ratify::f16, executor> in(on, mixed);
    buffer<ratify::e4m3, executor> pages(on, c.k_pages.size() * 2);
    t.p.v = {in.data(), 2 * row + 5, c.dim};
    t.p.k = {in.data() + row + 5, 2 * row + 5, c.dim};
    t.p.k_pages = {pages.data(), 2 * row * c.page_size, 2 * row, 2 * c.dim};
    t.p.v_pages = {pages.data() + c.dim, 2 * row * c.page_size, 2 * row, 2 * c.dim};
    auto const s = launch<append_of<ratify::f16, ratify::e4m3>>(t.p, on);
    REQUIRE_MESSAGE(s, s.reason());
    auto const got = pages.read();
    std::vector<ratify::e4m3> k, v;
    for (size_t i = 0; i < got.size(); ++i) (i / static_cast<size_t>(c.dim) % 2 == 0 ? k : v).push_back(got[i]);
    CHECK(bit_difference(k, expected.k_pages) == "");
    CHECK(bit_difference(v, expected.v_pages) == "");
  });
}

TEST_CASE("A4 append to pages beyond 2^31 and 2^32 bytes") {
  random_source random(7);
  auto c = make_case<ratify::f16, ratify::e4m3>(random, {6}, 1, 64, 4, false);
  c.context_len = {10};
  c.max_pages = 3;
  c.table = {1, 2, 3};
  c.k_pages.resize(size_t{4} * 4 * 64);
  c.v_pages.resize(c.k_pages.size());
  auto expected = c;
  expected.append();
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    loaded<ratify::f16, ratify::e4m3, executor> t(on, c);
    int64_t const stride = (int64_t{1} << 31) + 192;  // pages 1 and 2 begin just over 2^31 and 2^32
    far_memory<ratify::e4m3, executor> pages(on, static_cast<size_t>(stride) * 3 + 4 * 4 * 64);
    if (pages.data() == nullptr) {
      MESSAGE("skipped: no room for 6 GiB of address space");
      return;
    }
    t.p.k_pages.data = pages.data();
    t.p.k_pages.page_stride = stride;
    auto const s = launch<append_of<ratify::f16, ratify::e4m3>>(t.p, on);
    REQUIRE_MESSAGE(s, s.reason());
    // Positions 4 to 9: page 2 whole, page 3 in its first half.
    for (int position = 4; position < 10; ++position) {
      int const page = position / 4 + 1, token = position % 4;
      auto const* const want = expected.k_pages.data() + (page * 4 + token) * 64;
      CHECK(bit_difference(pages.read(static_cast<size_t>(page * stride + token * 64), 64),
                           std::vector<ratify::e4m3>(want, want + 64)) == "");
    }
    CHECK(bit_difference(t.v_pages.read(), expected.v_pages) == "");
  });
}

TEST_CASE("append refuses by name") {
  using operation = ratify::append<ratify::append_policy>;
  operation::params good;
  good.rows = good.requests = good.kv_heads = good.head_dim = good.page_size = good.max_pages = 1;
  auto const reason = [&](auto change) { return refusal<operation>(good, change); };
  CHECK(operation::can_launch(good, host()));
  CHECK(reason([](auto& p) { p.rows = -1; }) == "ratify::append: rows must not be negative");
  CHECK(reason([](auto& p) { p.requests = -1; }) == "ratify::append: requests must not be negative");
  CHECK(reason([](auto& p) { p.kv_heads = 0; }) == "ratify::append: kv_heads must be at least 1");
  CHECK(reason([](auto& p) { p.head_dim = 0; }) == "ratify::append: head_dim must be at least 1 element");
  CHECK(reason([](auto& p) { p.kv_heads = p.head_dim = 65536; }) ==
        "ratify::append: kv_heads * head_dim must be at most 8388480 elements, 65535 blocks of 128");
  CHECK(reason([](auto& p) { p.page_size = 0; }) == "ratify::append: page_size must be at least 1 token");
  CHECK(reason([](auto& p) { p.max_pages = -1; }) == "ratify::append: max_pages must not be negative");
  CHECK(reason([](auto& p) { p.scale_stride = 2; }) ==
        "ratify::append: scale_stride must be 0 (one scale a tensor) or 1 (one a KV head)");
  CHECK(!ratify::is_supported_append<policy_of<double, ratify::e4m3>>);
  CHECK(!ratify::is_supported_append<policy_of<ratify::f16, float>>);
}
