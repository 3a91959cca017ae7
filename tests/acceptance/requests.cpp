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
        "ratify::acceptance: query_start[2] is 5, which gives the request before it more rows than max_drafts + 1");
  b.requests[1].top_k = -2;
  CHECK(checked({host(), b}) == "ratify::acceptance: top_k[1] is -2, which is below -1");
  b.requests[1].top_p = 1.5f;
  CHECK(checked({host(), b}) == "ratify::acceptance: top_p[1] is 1.5, which is outside 0 to 1");
  b.requests[1].top_p = NAN;
  CHECK(checked({host(), b}) == "ratify::acceptance: top_p[1] is nan, which is outside 0 to 1");
  b.requests[0].temperature = -1.0f;
  CHECK(checked({host(), b}) == "ratify::acceptance: temperature[0] is -1, which is not finite or is negative");
  b.requests[0].temperature = NAN;
  CHECK(checked({host(), b}) == "ratify::acceptance: temperature[0] is nan, which is not finite or is negative");
}

TEST_CASE("a check of contents names the part of a ring that cannot be one") {
  batch b;
  b.vocab = 5;
  b.max_drafts = 1;
  for (int i = 0; i < 2; ++i) b.requests.push_back(greedy(5, {3, 4}, {3}));
  launched<coupled, ratify::host_executor> all(host(), b);
  std::vector<int32_t> start{0, 15}, count{0, 16}, slot{0, 1};
  all.p.cursors.ring_start = start.data();
  all.p.cursors.ring_count = count.data();
  all.p.cursors.slot = slot.data();
  all.p.cursors.ring_places = 16;
  all.p.cursors.round_rows = 2;
  ratify::contents_report report;
  auto const checked = [&] { return std::string(coupled::check_contents(all.p, host(), report).reason()); };
  CHECK(checked() == "");
  count[1] = 17;
  CHECK(checked() == "ratify::acceptance: cursors.ring_count[1] is 17, which is outside 0 to ring_places");
  start[1] = 16;
  CHECK(checked() == "ratify::acceptance: cursors.ring_start[1] is 16, which is outside 0 to ring_places - 1");
  slot[1] = -1;
  CHECK(checked() == "");
}

TEST_CASE("a check of contents looks at what a summary is told of its requests") {
  using summary = ratify::acceptance_summary<>;
  std::vector<float> logits(3 * 4), temperature{1.0f, 1.0f}, top_p{1.0f, 1.0f};
  std::vector<int32_t> starts{0, 2, 3}, top_k{0, 3};
  std::vector<ratify::acceptance_word> words(3 * 4);
  summary::params p;
  p.logits = {logits.data(), 4};
  p.query_start = starts.data();
  p.temperature = temperature.data();
  p.top_p = top_p.data();
  p.top_k = top_k.data();
  p.words = {words.data(), 4};
  p.rows = 3;
  p.requests = 2;
  p.max_drafts = 1;
  p.vocab = p.places = 4;
  ratify::contents_report report;
  auto const checked = [&] { return std::string(summary::check_contents(p, host(), report).reason()); };
  CHECK(checked() == "");
  top_k[1] = -3;
  CHECK(checked() == "ratify::acceptance_summary: top_k[1] is -3, which is below -1");
  top_p[1] = -0.5f;
  CHECK(checked() == "ratify::acceptance_summary: top_p[1] is -0.5, which is outside 0 to 1");
  temperature[0] = INFINITY;
  CHECK(checked() == "ratify::acceptance_summary: temperature[0] is inf, which is not finite or is negative");
  p.max_drafts = 0;
  CHECK(checked() ==
        "ratify::acceptance_summary: query_start[1] is 2, which gives the request before it more rows than max_drafts "
        "+ 1");
}
