// SPDX-License-Identifier: Apache-2.0
// Lengths from 1 to 262144: attention and append under one capacity, launched, and replayed out of one graph. Where no
// card is there, short lengths under the large capacity. The names of the test cases say their lengths, because memory
// and race checkers run a few of them.
#include <ratify/cache.cuh>

#include "reference/cache.hpp"
#include "support/attention.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"

#include <doctest/doctest.h>

#include <numeric>

using namespace ratify_test;

namespace {

using policy = ratify::attention_policy<>;

// 48 query entries: long contexts take the tiles of so many.
constexpr int most = 262144, page = 64, rows = 8, heads = 6, d = policy::head_dim;

/// One request with content for `capacity` tokens, its pages in a mixed order, of which `length` are there.
attention_case_of<policy> case_of(int capacity, int length) {
  random_source random(static_cast<uint64_t>(71 + capacity));
  auto c = attention_case_with<policy>(random, heads, 1, {rows}, {length < page ? length : page}, page);
  int const pages = (capacity + page - 1) / page;
  c.max_pages = pages;
  c.context_len = {length};
  c.block_table.resize(static_cast<size_t>(pages));
  // 7919 is a prime and divides no number of pages here: every page once.
  for (int i = 0; i < pages; ++i) c.block_table[static_cast<size_t>(i)] = static_cast<int32_t>(i * 7919ll % pages);
  for (auto* const cache : {&c.k, &c.v}) {
    cache->resize(static_cast<size_t>(pages) * page * d);
    uint64_t w = random.word() | 1u;
    for (auto& x : *cache) {
      w = w * 6364136223846793005ull + 1442695040888963407ull;
      x.bits = static_cast<uint8_t>(w >> 56 & 0xbfu);  // below 2 in magnitude, every mantissa
    }
  }
  return c;
}

/// The case in an executor's memory under a capacity, its length to change.
template <class Executor>
class loaded : public loaded_attention<policy, Executor> {
 public:
  loaded(Executor& on, attention_case_of<policy> const& c, int capacity)
      : loaded_attention<policy, Executor>(on, c, attention_layout::dense, capacity) {}
  reference::attention_result run(int length) {
    this->prepare({length});
    auto const s = this->enqueue();
    REQUIRE_MESSAGE(s, s.reason());
    return this->result();
  }
};

/// Every executor against the twin.
void check_length(int length) {
  auto const c = case_of(length, length);
  auto const expected = reference::attention(c, policy::partition_width);
  on_each_executor([&](auto& on) { check_equal(loaded(on, c, length).run(length), expected); });
}

}  // namespace

TEST_CASE("lengths: attention at context 1025") { check_length(1025); }
TEST_CASE("lengths: attention at context 3297") { check_length(3297); }

TEST_CASE("lengths: attention under a capacity of 262144 at short lengths") {
  // The table has the capacity; there need be pages only for the length.
  auto c = case_of(1100, 1100);
  c.max_pages = most / page;
  c.block_table.resize(most / page, 1 << 30);
  on_each_executor([&](auto& on) {
    loaded launch(on, c, most);
    auto one = c;
    for (int const length : {1, 7, 64, 65, 1023, 1024, 1025, 1100}) {
      CAPTURE(length);
      one.context_len = {length};
      check_equal(launch.run(length), reference::attention(one, policy::partition_width));
    }
  });
}

#if defined(__CUDACC__)

TEST_CASE("lengths: attention at context 262144 on a card equals the host executor") {
  if (!card_present()) {
    MESSAGE("not run: no card is here");
    return;
  }
  auto const c = case_of(most, most);
  ratify::cuda_executor on(nullptr);
  check_equal(loaded(on, c, most).run(most), loaded(host(), c, most).run(most));
}

TEST_CASE("lengths: attention captured at length 1 replays 100 times at lengths up to 262144") {
  if (!card_present()) {
    MESSAGE("not run: no card is here");
    return;
  }
  auto const c = case_of(most, 1);
  random_source random(72);
  cudaStream_t stream = nullptr;
  require_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  {
    ratify::cuda_executor on(stream);
    loaded replayed(on, c, most), eager(on, c, most);
    loaded here(host(), c, most);
    replayed.prepare({1});
    captured_graph graph(on, [&] { return replayed.enqueue(); });
    REQUIRE(graph.status());
    for (int i = 0; i < 100; ++i) {
      int const length = i == 0 ? 1 : i == 99 ? most : random.integer(1, i % 10 == 9 ? most : 5000);
      CAPTURE(length);
      replayed.prepare({length});
      graph.replay();
      auto const got = replayed.result();
      check_equal(got, eager.run(length));
      if (i % 10 == 0 || i == 99) check_equal(got, here.run(length));
    }
  }
  require_success(cudaStreamDestroy(stream));
}

TEST_CASE("lengths: append captured at length 4 replays 100 times at lengths up to 262144") {
  if (!card_present()) {
    MESSAGE("not run: no card is here");
    return;
  }
  using append = ratify::append<>;
  using input = append::policy::input_format;
  using stored = append::policy::kv_format;
  random_source random(73);
  constexpr int dim = 16, pages = most / page;
  reference::append_case<input, stored> c;
  c.heads = 1;
  c.dim = dim;
  c.page_size = page;
  c.max_pages = pages;
  c.table.resize(pages);
  for (int i = 0; i < pages; ++i) c.table[static_cast<size_t>(i)] = static_cast<int32_t>(i * 7919ll % pages);
  c.query_start = {0, rows};
  c.context_len = {rows};
  c.k = random.normals<input>(rows * dim);
  c.v = random.normals<input>(rows * dim);
  c.k_scale = {0.5f};
  c.v_scale = {0.25f};
  std::vector<stored> const poison(static_cast<size_t>(most) * dim, stored{0xff});
  cudaStream_t stream = nullptr;
  require_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  {
    ratify::cuda_executor on(stream);
    buffer<input, ratify::cuda_executor> k(on, c.k), v(on, c.v);
    buffer<stored, ratify::cuda_executor> k_pages(on, poison), v_pages(on, poison);
    buffer<int32_t, ratify::cuda_executor> table(on, c.table), length(on, c.context_len), starts(on, c.query_start);
    buffer<float, ratify::cuda_executor> k_scale(on, c.k_scale), v_scale(on, c.v_scale);
    append::params p;
    p.k = {k.data(), dim, dim};
    p.v = {v.data(), dim, dim};
    p.k_pages = {k_pages.data(), page * dim, dim, dim};
    p.v_pages = {v_pages.data(), page * dim, dim, dim};
    p.block_table = {table.data(), pages};
    p.context_len = length.data();
    p.query_start = starts.data();
    p.k_scale = k_scale.data();
    p.v_scale = v_scale.data();
    p.rows = rows;
    p.requests = p.kv_heads = 1;
    p.head_dim = dim;
    p.page_size = page;
    p.max_pages = pages;
    captured_graph graph(on, [&] { return append::launch(p, {}, on); });
    REQUIRE(graph.status());
    for (int i = 0; i < 100; ++i) {
      c.context_len = {i == 0 ? 1 : i == 99 ? most : random.integer(1, most)};
      CAPTURE(c.context_len[0]);
      c.k_pages = c.v_pages = poison;
      length.write(c.context_len);
      k_pages.write(poison);
      v_pages.write(poison);
      graph.replay();
      c.append();
      CHECK(bit_difference(k_pages.read(), c.k_pages) == "");
      CHECK(bit_difference(v_pages.read(), c.v_pages) == "");
    }
  }
  require_success(cudaStreamDestroy(stream));
}

#endif
