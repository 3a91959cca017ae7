// SPDX-License-Identifier: Apache-2.0
#include "acceptance/batch.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

}  // namespace

TEST_CASE("invalid sampling parameters make the rows of their request bad") {
  batch b;
  b.vocab = 5;
  b.max_drafts = 1;
  std::vector<std::vector<float>> const wrong{{NAN, 1.0f, 0.0f},   {INFINITY, 1.0f, 0.0f}, {-1e-30f, 1.0f, 0.0f},
                                              {1.0f, NAN, 0.0f},   {1.0f, 1.0001f, 0.0f},  {1.0f, -1e-40f, 0.0f},
                                              {1.0f, 1.0f, -2.0f}, {-0.0f, -0.0f, -1.0f}};
  for (auto const& w : wrong) {
    auto r = greedy(5, {3, 4}, {3});
    r.temperature = w[0];
    r.top_p = w[1];
    r.top_k = static_cast<int>(w[2]);
    b.requests.push_back(r);
  }
  on_each_executor([&](auto& on) {
    auto const out = run(on, b);
    check_equal(out, twin(b));
    check_equal(run<rejection>(on, b), out);
    for (size_t i = 0; i + 1 < wrong.size(); ++i) {
      CHECK(out.emitted[i] == 0);
      CHECK(out.finish[i] == 3);
      CHECK(out.row_status[2 * i] == 1);
      CHECK(out.row_status[2 * i + 1] == 1);
    }
    CHECK(out.emitted[wrong.size() - 1] == 2);  // minus zero is zero
  });
}

TEST_CASE("a request whose query_start contradicts emits nothing, and is left as it was") {
  batch b;
  b.vocab = 5;
  b.max_drafts = 1;
  for (int i = 0; i < 3; ++i) b.requests.push_back(greedy(5, {3, 4}, {3}));
  struct trial {
    std::vector<int32_t> starts;
    std::vector<int32_t> emitted;  ///< 0: the request owns no rows, or more than it may have
  };
  // Rows give 3 and 4 in turn; a request that begins at an odd one rejects its draft, 3.
  for (trial const& t : {trial{{0, 2, 4, 6}, {2, 2, 2}},
                         {{0, 2, 5, 6}, {2, 0, 1}},
                         {{0, 2, 4, 7}, {2, 2, 0}},
                         {{0, 2, 1, 6}, {2, 0, 0}},
                         {{0, 4, 2, 4}, {0, 0, 0}},
                         {{1, 3, 2, 4}, {1, 0, 0}},
                         {{-1, 2, 4, 6}, {0, 2, 2}},
                         {{INT32_MIN, 2, 4, 6}, {0, 2, 2}},
                         {{0, INT32_MAX, INT32_MIN, 6}, {0, 0, 0}},
                         {{0, 100, 3, 4}, {0, 0, 1}},
                         {{0, 0, 0, 2}, {0, 0, 2}},
                         {{2, 2, 4, 4}, {0, 2, 0}}}) {
    on_each_executor([&](auto& on) {
      using executor = std::decay_t<decltype(on)>;
      launched<coupled, executor> all(on, b, &t.starts);
      buffer<int32_t, executor> selector(on, 3), kept(on, 3), fresh(on, 3), stalled(on, 3);
      all.p.cursors.selector = selector.data();
      all.p.cursors.kept = kept.data();
      all.p.cursors.fresh = fresh.data();
      all.p.cursors.stalled = stalled.data();
      auto const out = all.run();
      CAPTURE(t.starts[0]);
      CAPTURE(t.starts[1]);
      CAPTURE(t.starts[2]);
      CHECK(out.emitted == t.emitted);
      for (size_t r = 0; r < 3; ++r) {
        int32_t const n = t.emitted[r];
        CHECK(out.accepted[r] == (n == 2 ? 1 : 0));
        CHECK(out.finish[r] == (n > 0 ? 0 : untouched));
        CHECK(out.tokens[2 * r] == (n == 0 ? untouched : n == 2 ? 3 : 4));
        CHECK(selector.read()[r] == (n > 0 ? n : untouched));
        CHECK(kept.read()[r] == (n > 0 ? n : untouched));
        CHECK(fresh.read()[r] == (n > 0 ? 0 : untouched));
        CHECK(stalled.read()[r] == (n > 0 ? 0 : untouched));
      }
      for (int32_t s : out.row_status) CHECK(s == 0);
    });
  }
}

TEST_CASE("a launch without rows tells its requests that they emitted nothing") {
  batch b;
  b.vocab = 5;
  b.requests.resize(40);
  on_each_executor([&](auto& on) {
    auto const out = run(on, b);
    CHECK(out.emitted == std::vector<int32_t>(40, 0));
    CHECK(out.accepted == std::vector<int32_t>(40, 0));
    CHECK(out.finish == std::vector<int32_t>(40, untouched));
    CHECK(out.tokens == std::vector<int32_t>(40, untouched));
  });
}

TEST_CASE("a request that has rows and emits nothing is reported") {
  batch b;
  b.vocab = 5;
  b.max_drafts = 1;
  for (int i = 0; i < 4; ++i) b.requests.push_back(greedy(5, {3, 4}, {3}));
  b.requests[0].limit = 0;
  b.requests[1].rows[0].assign(5, NAN);
  b.requests[2].rows[1].assign(5, NAN);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    launched<coupled, executor> all(on, b);
    buffer<int32_t, executor> stalled(on, 4), slot(on, std::vector<int32_t>{0, 1, 2, -1});
    all.p.cursors.stalled = stalled.data();
    all.p.cursors.slot = slot.data();
    auto const out = all.run();
    CHECK(out.emitted == std::vector<int32_t>{0, 0, 1, 2});
    CHECK(out.finish == std::vector<int32_t>{2, 3, 3, 0});
    CHECK(stalled.read() == std::vector<int32_t>{1, 1, 0, untouched});
  });
}

TEST_CASE("a check of contents names the row bound or the top_k that contradicts") {
  batch b;
  b.vocab = 5;
  b.max_drafts = 1;
  for (int i = 0; i < 3; ++i) b.requests.push_back(greedy(5, {3, 4}, {3}));
  ratify::contents_report report;
  std::vector<int32_t> const falling{0, 2, 1, 6}, much{0, 2, 5, 6};
  auto const checked = [&](launched<coupled, ratify::host_executor> const& all) {
    return std::string(coupled::check_contents(all.p, host(), report).reason());
  };
  CHECK(checked({host(), b}) == "");
  CHECK(checked({host(), b, &falling}) == "ratify::acceptance: query_start[2] is 1, less than the entry before it");
  CHECK(checked({host(), b, &much}) ==
        "ratify::acceptance: query_start[2] is 5, which gives the request before it more rows than max_rows");
  b.requests[1].top_k = -2;
  CHECK(checked({host(), b}) == "ratify::acceptance: top_k[1] is -2, which is below -1");
}
