// SPDX-License-Identifier: Apache-2.0
#include "acceptance/batch.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

}  // namespace

TEST_CASE("cursors follow what is kept, round after round") {
  int stalls = 0;
  // A model of what recurrence does with them: rows written to places, and which of them a round may look for.
  random_source random(13);
  for (int trial = 0; trial < scaled(20); ++trial) {
    constexpr int requests = 8, vocab = 3;
    int const places = random.one_of({16, 32, 64}), round_rows = random.integer(1, places / 2);
    bool const in_place = random.integer(0, 1) == 0;
    struct ring_model {
      std::vector<int> tags;  // what stands at each place
      std::vector<int> kept;  // rows since the checkpoint, oldest first
    };
    std::vector<ring_model> model(requests, {std::vector<int>(size_t(places), -1), {}});
    std::vector<int32_t> slot(requests, 0), selector(requests, 7), kept(requests, 9), fresh(requests, 1),
        flush(requests, 0), count(requests, 0), start, next(requests, 0), stalled(requests, 5);
    for (int i = 0; i < requests; ++i) start.push_back(random.integer(0, places - 1));
    slot[3] = -1;
    int tag = 0;
    for (int round = 0; round < 30; ++round) {
      batch b;
      b.vocab = vocab;
      b.max_drafts = round_rows - 1;
      for (int i = 0; i < requests; ++i) {
        int const rows = random.integer(0, 4) == 0 ? 0 : random.integer(1, round_rows), agree = random.integer(0, rows);
        std::vector<int> own;
        std::vector<int32_t> draft;
        for (int t = 0; t < rows; ++t) own.push_back(random.integer(0, 2));
        for (int t = 0; t + 1 < rows; ++t) draft.push_back(t < agree ? own[size_t(t)] : -1);
        b.requests.push_back(greedy(vocab, own, draft));
        if (random.integer(0, 9) == 0) b.requests.back().limit = random.integer(-1, 1);
        if (rows > 0 && random.integer(0, 9) == 0) b.requests.back().rows[0].assign(vocab, NAN);
        if (rows == 0 || slot[size_t(i)] < 0) continue;
        // The round's recurrence: reads the kept rows, writes its own after them.
        auto& m = model[size_t(i)];
        auto const place = [&](size_t j) { return (size_t(start[size_t(i)]) + j) % size_t(places); };
        REQUIRE(size_t(count[size_t(i)]) == m.kept.size());
        REQUIRE(count[size_t(i)] <= places - round_rows);
        for (size_t j = 0; j < m.kept.size(); ++j) REQUIRE(m.tags[place(j)] == m.kept[j]);
        for (size_t j = 0; j < size_t(rows); ++j) m.tags[place(m.kept.size() + j)] = tag + static_cast<int>(j);
      }
      auto const expected = twin(b);
      auto want_selector = selector, want_kept = kept, want_fresh = fresh, want_start = start, want_count = count,
           want_next = in_place ? flush : next, want_stalled = stalled;
      for (size_t i = 0; i < requests; ++i) {
        if (b.requests[i].rows.empty() || slot[i] < 0) continue;
        int32_t const n = expected.emitted[i];
        want_selector[i] = want_kept[i] = n;
        if (n > 0) want_fresh[i] = 0;
        want_stalled[i] = n == 0;
        stalls += n == 0;
        if (flush[i] == 1) {
          want_start[i] = (start[i] + count[i]) % places;
          want_count[i] = 0;
        }
        want_count[i] += n;
        want_next[i] = want_count[i] > places - 2 * round_rows;
      }
      on_each_executor([&](auto& on) {
        using executor = std::decay_t<decltype(on)>;
        launched<coupled, executor> all(on, b);
        using integers = buffer<int32_t, executor>;
        integers d_slot(on, slot), d_selector(on, selector), d_kept(on, kept), d_fresh(on, fresh), d_start(on, start),
            d_count(on, count), d_flush(on, flush), d_next(on, next), d_stalled(on, stalled);
        auto& c = all.p.cursors;
        c.slot = d_slot.data();
        c.selector = d_selector.data();
        c.kept = d_kept.data();
        c.fresh = d_fresh.data();
        c.stalled = d_stalled.data();
        c.ring_start = d_start.data();
        c.ring_count = d_count.data();
        c.flush = d_flush.data();
        c.next_flush = in_place ? d_flush.data() : d_next.data();
        c.ring_places = places;
        c.round_rows = round_rows;
        check_equal(all.run(), expected);
        CHECK(d_selector.read() == want_selector);
        CHECK(d_kept.read() == want_kept);
        CHECK(d_fresh.read() == want_fresh);
        CHECK(d_stalled.read() == want_stalled);
        CHECK(d_start.read() == want_start);
        CHECK(d_count.read() == want_count);
        CHECK((in_place ? d_flush : d_next).read() == want_next);
        if (!in_place) CHECK(d_flush.read() == flush);
      });
      for (size_t i = 0; i < requests; ++i) {
        if (b.requests[i].rows.empty() || slot[i] < 0) continue;
        auto& m = model[i];
        if (flush[i] == 1) m.kept.clear();  // folded into the checkpoint
        for (int j = 0; j < expected.emitted[i]; ++j) m.kept.push_back(tag + j);
      }
      selector = want_selector, kept = want_kept, fresh = want_fresh, start = want_start, count = want_count;
      next = want_next, stalled = want_stalled;
      flush = next;
      tag += 100;
    }
    CHECK(selector[3] == 7);
    CHECK(fresh[3] == 1);
    CHECK(stalled[3] == 5);
  }
  CHECK(stalls > 0);
}

TEST_CASE("cursors that are not asked for or make no sense are left alone") {
  batch b;
  b.vocab = 3;
  b.max_drafts = 1;
  for (int i = 0; i < 5; ++i) b.requests.push_back(greedy(3, {1, 2}, {1}));
  std::vector<int32_t> const start{0, -1, 16, INT32_MAX, 15}, count{15, 0, 0, INT32_MAX, INT32_MIN}, flush(5, 1);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    launched<coupled, executor> all(on, b);
    buffer<int32_t, executor> d_start(on, start), d_count(on, count), d_flush(on, flush), d_kept(on, 5);
    all.p.cursors.kept = d_kept.data();
    check_equal(all.run(), twin(b));
    CHECK(d_kept.read() == std::vector<int32_t>(5, 2));
    all.p.cursors.ring_start = d_start.data();
    all.p.cursors.ring_count = d_count.data();
    all.p.cursors.ring_places = 16;
    all.p.cursors.round_rows = 2;
    all.p.cursors.next_flush = d_flush.data();
    all.run();  // nothing flushed, so that the first ring would overflow
    CHECK(d_start.read() == start);
    CHECK(d_count.read() == count);
    CHECK(d_flush.read() == flush);
  });
}
