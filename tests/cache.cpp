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
using append_of = ratify::append<ratify::input_format<Input>, ratify::kv_format<Stored>>;

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
    p.pool_pages = c.pool_pages;
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
    // There are three pages per request.
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

// The pool holds pages 0 to pool - 1 and not a byte more, so that an access outside it is found by a memory checker.
TEST_CASE("append skips rows whose page is outside the pool") {
  random_source random(8);
  for (int round = 0; round < scaled(20); ++round) {
    auto c = make_case<float, ratify::f16>(random, {random.integer(1, 9), 3, random.integer(0, 5)}, 2, 16,
                                           random.one_of({1, 2, 4}), false);
    auto const pool = static_cast<int32_t>(c.k_pages.size()) / (c.page_size * c.heads * c.dim);
    bool const known = random.integer(0, 2) > 0;
    if (known) c.pool_pages = pool;
    for (auto& page : c.table)
      if (random.integer(0, 2) == 0)
        page = known ? random.one_of({-1, pool, INT32_MIN, INT32_MAX}) : random.one_of({-1, INT32_MIN});
    check(c);
    count_shape();
  }
}

TEST_CASE("append: rows that no request owns are not written, and the first request keeps a row") {
  random_source random(9);
  auto c = make_case<ratify::f16, ratify::e4m3>(random, {3, 3, 3}, 2, 16, 4, false);
  c.context_len = {5, 6, 4};
  SUBCASE("rows after the last request") { c.query_start = {0, 2, 5, 7}; }
  SUBCASE("rows before the first request") { c.query_start = {2, 3, 6, 9}; }
  SUBCASE("no request has rows") { c.query_start = {0, 0, 0, 0}; }
  SUBCASE("the third begins within the first one's rows") { c.query_start = {0, 4, 2, 9}; }
  SUBCASE("bounds at the limits of int") { c.query_start = {5, INT32_MIN, INT32_MAX, 0}; }
  check(c);
}

namespace {

/// A launch that nothing refuses: every tensor has room for 2 of each extent, 16 elements a head, 4 tokens a page.
template <class Operation = ratify::append<>>
typename Operation::params good_params() {
  struct tensors {
    ratify::f16 k[2 * 2 * 16], v[2 * 2 * 16];
    typename Operation::policy::kv_format k_pages[2 * 4 * 2 * 16], v_pages[2 * 4 * 2 * 16];
    int32_t table[2 * 2], lengths[2], starts[3];
    float scales[2];
  };
  static tensors t{};
  typename Operation::params p;
  p.k = {t.k, 2 * 16, 16};
  p.v = {t.v, 2 * 16, 16};
  p.k_pages = {t.k_pages, 4 * 2 * 16, 2 * 16, 16};
  p.v_pages = {t.v_pages, 4 * 2 * 16, 2 * 16, 16};
  p.block_table = {t.table, 2};
  p.context_len = t.lengths;
  p.query_start = t.starts;
  p.k_scale = p.v_scale = t.scales;
  p.rows = p.requests = p.kv_heads = p.max_pages = 2;
  p.head_dim = 16;
  p.page_size = 4;
  return p;
}

}  // namespace

TEST_CASE("append refuses contradicting shapes, and those that are not built, by name") {
  using op = ratify::append<>;
  auto const p = good_params();
  CHECK(op::can_launch(p, host()));
  op::params none;
  none.kv_heads = none.head_dim = none.page_size = 1;
  CHECK(op::can_launch(none, host()));  // without rows no tensor is looked at
  invalid<op>(p, "ratify::append: rows and requests must not be negative", [](auto& p) { p.rows = -1; });
  invalid<op>(p, "ratify::append: rows and requests must not be negative", [](auto& p) { p.requests = -1; });
  invalid<op>(p, "ratify::append: requests must be at least 1 if there are rows", [](auto& p) { p.requests = 0; });
  invalid<op>(p, "ratify::append: kv_heads must be at least 1", [](auto& p) { p.kv_heads = 0; });
  invalid<op>(p, "ratify::append: head_dim must be at least 1 element", [](auto& p) { p.head_dim = 0; });
  unsupported<op>(p, "ratify::append: kv_heads * head_dim must be at most 8388480 elements, 65535 blocks of 128",
                  [](auto& p) { p.kv_heads = p.head_dim = 65536; });
  invalid<op>(p, "ratify::append: page_size must be at least 1 token", [](auto& p) { p.page_size = 0; });
  invalid<op>(p, "ratify::append: max_pages and pool_pages must not be negative", [](auto& p) { p.max_pages = -1; });
  invalid<op>(p, "ratify::append: max_pages and pool_pages must not be negative", [](auto& p) { p.pool_pages = -1; });
  invalid<op>(p, "ratify::append: max_pages must be at least 1 if there are rows", [](auto& p) { p.max_pages = 0; });
  invalid<op>(p, "ratify::append: scale_stride must be 0 (one scale) or 1 (one per KV head)",
              [](auto& p) { p.scale_stride = 2; });
  CHECK(!ratify::is_supported_append<ratify::input_format<double>>);
  CHECK(!ratify::is_supported_append<ratify::kv_format<float>>);
}

TEST_CASE("append refuses missing tensors and strides that overlap by name") {
  using op = ratify::append<>;
  auto const p = good_params();
  invalid<op>(p, "ratify::append: k must not be null", [](auto& p) { p.k.data = nullptr; });
  invalid<op>(p, "ratify::append: v must not be null", [](auto& p) { p.v.data = nullptr; });
  invalid<op>(p, "ratify::append: k_pages must not be null", [](auto& p) { p.k_pages.data = nullptr; });
  invalid<op>(p, "ratify::append: v_pages must not be null", [](auto& p) { p.v_pages.data = nullptr; });
  invalid<op>(p, "ratify::append: block_table must not be null", [](auto& p) { p.block_table.data = nullptr; });
  invalid<op>(p, "ratify::append: context_len must not be null", [](auto& p) { p.context_len = nullptr; });
  invalid<op>(p, "ratify::append: query_start must not be null", [](auto& p) { p.query_start = nullptr; });
  invalid<op>(p, "ratify::append: k_scale must not be null", [](auto& p) { p.k_scale = nullptr; });
  invalid<op>(p, "ratify::append: v_scale must not be null", [](auto& p) { p.v_scale = nullptr; });
  for (int64_t const stride : {0, -64, 15}) {
    invalid<op>(p, "ratify::append: a stride of k is smaller than what it steps over",
                [&](auto& p) { p.k.head_stride = stride; });
    invalid<op>(p, "ratify::append: a stride of v is smaller than what it steps over",
                [&](auto& p) { p.v.row_stride = stride; });
    invalid<op>(p, "ratify::append: a stride of k_pages is smaller than what it steps over",
                [&](auto& p) { p.k_pages.page_stride = stride; });
    invalid<op>(p, "ratify::append: a stride of v_pages is smaller than what it steps over",
                [&](auto& p) { p.v_pages.token_stride = stride; });
  }
  invalid<op>(p, "ratify::append: a stride of block_table is smaller than what it steps over",
              [](auto& p) { p.block_table.stride = 1; });
}

TEST_CASE("append refuses pointers off their elements, and spans that no memory has") {
  using op = ratify::append<>;
  auto const good = good_params();
  misaligned<op>(
      good, "ratify::append: k must be aligned to its elements", [](auto& q) -> auto& { return q.k; });
  far_away<op>(
      good, "ratify::append: the strides of k reach over 2^63 bytes", [](auto& q) -> auto& { return q.k; });
  misaligned<op>(
      good, "ratify::append: v must be aligned to its elements", [](auto& q) -> auto& { return q.v; });
  far_away<op>(
      good, "ratify::append: the strides of v reach over 2^63 bytes", [](auto& q) -> auto& { return q.v; });
  far_away<op>(
      good, "ratify::append: the strides of k_pages reach over 2^63 bytes", [](auto& q) -> auto& { return q.k_pages; });
  far_away<op>(
      good, "ratify::append: the strides of v_pages reach over 2^63 bytes", [](auto& q) -> auto& { return q.v_pages; });
  misaligned<op>(
      good, "ratify::append: block_table must be aligned to its elements",
      [](auto& q) -> auto& { return q.block_table; });
  far_away<op>(
      good, "ratify::append: the strides of block_table reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.block_table; });
  misaligned<op>(
      good, "ratify::append: context_len must be aligned to its elements",
      [](auto& q) -> auto& { return q.context_len; });
  misaligned<op>(
      good, "ratify::append: query_start must be aligned to its elements",
      [](auto& q) -> auto& { return q.query_start; });
  misaligned<op>(
      good, "ratify::append: k_scale must be aligned to its elements", [](auto& q) -> auto& { return q.k_scale; });
  misaligned<op>(
      good, "ratify::append: v_scale must be aligned to its elements", [](auto& q) -> auto& { return q.v_scale; });
  using halves = ratify::append<ratify::kv_format<ratify::f16>>;
  auto const half = good_params<halves>();
  misaligned<halves>(
      half, "ratify::append: k_pages must be aligned to its elements", [](auto& q) -> auto& { return q.k_pages; });
  misaligned<halves>(
      half, "ratify::append: v_pages must be aligned to its elements", [](auto& q) -> auto& { return q.v_pages; });
}

TEST_CASE("append refuses pages in the place of other tensors, and takes interleaved ones") {
  using op = ratify::append<>;
  auto p = good_params();
  char const* const text = "ratify::append: k_pages and v_pages must not be each other, k or v";
  invalid<op>(p, text, [](auto& p) { p.v_pages.data = p.k_pages.data; });
  invalid<op>(p, text, [](auto& p) { p.k.data = reinterpret_cast<decltype(p.k.data)>(p.v_pages.data); });
  invalid<op>(p, text, [](auto& p) { p.v.data = reinterpret_cast<decltype(p.v.data)>(p.k_pages.data); });
  p.k_pages = {p.k_pages.data, 2 * 4 * 2 * 16, 2 * 16, 16};
  p.v_pages = {p.k_pages.data + 4 * 2 * 16, 2 * 4 * 2 * 16, 2 * 16, 16};
  CHECK(op::can_launch(p, host()));
}
