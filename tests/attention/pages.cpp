// SPDX-License-Identifier: Apache-2.0
#include <ratify/attention.cuh>

#include "support/attention.hpp"
#include "support/far_memory.hpp"
#include "support/refusal.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ratify_test;

namespace {

using small_policy = shift_policy<64, 256, ratify::pv_unroll<4>>;

}  // namespace

// Pages 2^28 bytes and a little apart, K of a page and then its V.
TEST_CASE("A4 pages beyond 2^31 and 2^32 bytes") {
  using policy = small_policy;
  random_source random(31);
  constexpr int d = policy::head_dim, page = 16;
  constexpr int64_t page_bytes = page * d, stride = (int64_t{1} << 28) + 48;
  constexpr int nearby = 1, over_31 = 8, over_32 = 16;
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
    for (int const id : {nearby, over_31, over_32}) {
      CAPTURE(id);
      check_equal(run_at(one_page, {id}), expected);
    }
    check_equal(run_at(all_pages, {over_31, nearby, over_32}),
                reference::attention(all_pages, policy::partition_width));
  });
}

TEST_CASE("A5 a cache aligned to 16 bytes only is right, less is refused before the launch") {
  using policy = small_policy;
  std::string const refusal =
      "ratify::attention: k_pages and v_pages must be aligned to 16 bytes, pointers and strides";
  random_source random(32);
  for (int const page_size : {1, 16, 32}) {
    CAPTURE(page_size);
    auto const c = attention_case_with<policy>(random, 6, 2, {4, 1}, {77, 3}, page_size);
    auto const expected = reference::attention(c, policy::partition_width);
    on_each_executor([&](auto& on) {
      using executor = std::decay_t<decltype(on)>;
      using op = ratify::operation_with<ratify::attention, policy>;
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
          for (auto* const pages : {&p.k_pages, &p.v_pages}) {  // room for larger strides within
            pages->page_stride *= 4;
            pages->token_stride *= 2;
          }
          CHECK(op::can_launch(p, on));
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

TEST_CASE("A10 page sizes hold the same content") {
  random_source random(26);
  auto const base = attention_case_with<verify_policy>(random, 2, 1, {8}, {1700}, 7);
  auto const expected = reference::attention(base, 1024);
  for (int page_size : {1, 16, 64, 784, 1616, 1648, 3296}) {
    CAPTURE(page_size);
    auto const c = with_page_size(base, page_size);
    on_each_executor([&](auto& on) { check_equal(run_attention<verify_policy>(on, c), expected); });
  }
}

TEST_CASE("attention: strides: K and V interleaved in one buffer, rows of q and out padded") {
  random_source random(28);
  auto const c = attention_case_with<verify_policy>(random, 4, 2, {3, 8}, {65, 1030}, 64);
  auto const expected = reference::attention(c, 1024);
  on_each_executor([&](auto& on) {
    auto const r = run_attention<verify_policy>(on, c, attention_layout::interleaved);
    CHECK(bit_difference(r.out, expected.out) == "");
    CHECK(bit_difference(r.lse, expected.lse) == "");
  });
}
