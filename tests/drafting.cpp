// SPDX-License-Identifier: Apache-2.0
#include <ratify/acceptance.cuh>
#include <ratify/drafting.cuh>

#include "reference/drafting.hpp"
#include "support/chi_square.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/far_memory.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace {

using namespace ratify_test;

struct argmax : ratify::draft_walk_policy {};
struct sample : ratify::draft_walk_policy {
  static constexpr auto mode = ratify::draft_mode::sample;
};
struct sample_bf16 : sample {
  using pair_format = ratify::bf16;
};
struct rejection : ratify::acceptance_policy {
  static constexpr auto rule = ratify::acceptance_rule::rejection;
};
struct misfit : ratify::draft_walk_policy {
  using pair_format = ratify::f16;
};
static_assert(ratify::is_supported_draft_walk<argmax> && ratify::is_supported_draft_walk<sample_bf16>);
static_assert(!ratify::is_supported_draft_walk<misfit>);

/// Requests of one launch, which share the tables.
struct batch {
  std::vector<float> left, right;  // [vocab, rank]
  std::vector<reference::walk> requests;
};

struct outputs {
  std::vector<int32_t> tokens;
  std::vector<float> q;
};

template <class T, class F>
std::vector<T> each(batch const& b, F f) {
  std::vector<T> v;
  for (auto const& r : b.requests) v.push_back(f(r));
  return v;
}

/// Rows of `columns` elements, each followed by `padding` more that are `filler`.
template <class T, class From>
void append_rows(std::vector<T>& to, std::vector<From> const& from, int columns, int padding, T filler) {
  for (size_t i = 0; i < from.size(); ++i) {
    if constexpr (std::is_same_v<T, From>)
      to.push_back(from[i]);
    else
      to.push_back(ratify::convert<T>(from[i]));
    if ((i + 1) % size_t(columns) == 0) to.insert(to.end(), size_t(padding), filler);
  }
}

/// Launches with rows that lie apart; what lies between is NaN, or a valid token.
template <class Policy, class Executor>
outputs run(Executor& on, batch const& b, int padding = 0) {
  using pair = typename Policy::pair_format;
  auto const& any = b.requests.front();
  auto const nan = ratify::convert<pair>(NAN);
  std::vector<pair> left, right;
  append_rows(left, b.left, any.rank, padding, nan);
  append_rows(right, b.right, any.rank, padding + 1, nan);
  std::vector<float> unary, project;
  std::vector<int32_t> candidates;
  for (auto const& r : b.requests) {
    append_rows(unary, r.unary, any.count, padding, NAN);
    append_rows(candidates, r.candidates, any.count, padding, int32_t{0});
    append_rows(project, r.project, any.rank, padding, NAN);
  }
  buffer<pair, Executor> dleft(on, left), dright(on, right);
  buffer<float, Executor> dunary(on, unary), dproject(on, project),
      dtemperature(on, each<float>(b, [](auto const&r) { return r.temperature; }));
  buffer<int32_t, Executor> dcandidates(on, candidates),
      danchor(on, each<int32_t>(b, [](auto const&r) { return r.anchor; }));
  buffer<int64_t, Executor> dseed(on, each<int64_t>(b, [](auto const&r) { return r.seed; })),
      dposition(on, each<int64_t>(b, [](auto const&r) { return r.position; }));
  buffer<int32_t, Executor> dtokens(on, b.requests.size() * size_t(any.slots));
  buffer<float, Executor> dq(on, b.requests.size() * any.unary.size());
  typename ratify::draft_walk<Policy>::params p;
  int const each_unary = any.count + padding, each_project = any.rank + padding;
  p.unary = {dunary.data(), int64_t{any.slots} * each_unary, each_unary};
  p.candidates = {dcandidates.data(), int64_t{any.slots} * each_unary, each_unary};
  p.left = {dleft.data(), any.rank + padding};
  p.right = {dright.data(), any.rank + padding + 1};
  p.project = {dproject.data(), int64_t{any.slots} * each_project, each_project};
  p.anchor = danchor.data();
  if (Policy::mode == ratify::draft_mode::sample) {
    p.temperature = dtemperature.data();
    p.seed = dseed.data();
    p.position = dposition.data();
  }
  p.tokens = {dtokens.data(), any.slots};
  p.q = {dq.data(), int64_t{any.slots} * any.count, any.count};
  p.requests = static_cast<int>(b.requests.size());
  p.slots = any.slots;
  p.candidate_count = any.count;
  p.rank = any.rank;
  p.vocab = any.vocab;
  auto const s = launch<ratify::draft_walk<Policy>>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  outputs const out{dtokens.read(), dq.read()};
  p.q.data = nullptr;  // not asked for: the same tokens
  REQUIRE(launch<ratify::draft_walk<Policy>>(p, on));
  CHECK(bit_difference(dtokens.read(), out.tokens) == "");
  return out;
}

outputs twin(batch const& b) {
  outputs out;
  for (auto const& r : b.requests) {
    auto const one = reference::draft_walk(r, b.left, b.right);
    out.tokens.insert(out.tokens.end(), one.tokens.begin(), one.tokens.end());
    out.q.insert(out.q.end(), one.q.begin(), one.q.end());
  }
  return out;
}

template <class Policy>
batch make_batch(random_source& random, int requests, int slots, int count, int rank, int vocab) {
  batch b;
  // As the policy's format stores them.
  auto const table = [&] {
    std::vector<float> v;
    for (auto const x : random.normals<typename Policy::pair_format>(size_t(vocab) * size_t(rank)))
      v.push_back(ratify::to_float(x));
    return v;
  };
  b.left = table();
  b.right = table();
  for (int i = 0; i < requests; ++i) {
    reference::walk r;
    r.sample = Policy::mode == ratify::draft_mode::sample;
    r.slots = slots, r.count = count, r.rank = rank, r.vocab = vocab;
    size_t const n = size_t(slots) * size_t(count);
    r.unary = random.normals<float>(n, 2.0f);
    for (size_t c = 0; c < n; ++c) r.candidates.push_back(random.integer(0, vocab - 1));
    r.project = random.normals<float>(size_t(slots) * size_t(rank), 1.0f / std::sqrt(static_cast<float>(rank)));
    r.anchor = random.integer(0, vocab - 1);
    r.temperature = random.one_of({0.5f, 0.7f, 1.0f, 3.0f});
    r.seed = static_cast<int64_t>(random.word());
    r.position = random.one_of<int64_t>({0, 7, (int64_t{1} << 32) - 1, int64_t{1} << 40, -1});
    b.requests.push_back(r);
  }
  return b;
}

template <class Policy>
void check_against_twin(batch const& b, int padding = 0) {
  auto const expected = twin(b);
  on_each_executor([&](auto& on) {
    auto const got = run<Policy>(on, b, padding);
    CHECK(bit_difference(got.tokens, expected.tokens) == "");
    CHECK(bit_difference(got.q, expected.q) == "");
  });
}

/// q of every slot that has a token, against FP64.
void check_against_truth(batch const& b) {
  auto const got = run<sample>(host(), b);
  for (size_t i = 0; i < b.requests.size(); ++i) {
    auto const& r = b.requests[i];
    int32_t previous = r.anchor;
    for (int s = 0; s < r.slots; ++s) {
      auto const begin =
          got.q.begin() + static_cast<std::ptrdiff_t>((i * size_t(r.slots) + size_t(s)) * size_t(r.count));
      auto const truth = reference::truth::draft_walk_q(r, s, previous, b.left, b.right);
      CHECK(error_over_bound(std::vector<float>(begin, begin + r.count), truth.value, truth.bound) <= 1.0);
      previous = got.tokens[i * size_t(r.slots) + size_t(s)];
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("draft_walk equals its twin over random shapes", Policy, argmax, sample, sample_bf16) {
  random_source random(300);
  for (int round = 0; round < scaled(40); ++round) {
    int const vocab = random.one_of({1, 2, 9, 40, 300});
    auto b = make_batch<Policy>(random, random.one_of({1, 2, 4, random.integer(1, 16)}),
                                random.one_of({1, 2, 7, 8, 15, 31}), random.one_of({1, 2, 5, 15, 16, 17, 33, 63, 64}),
                                random.one_of({1, 7, 8, 9, 25, 31, 32, 33, 57, 64, 100, 256}), vocab);
    for (auto& r : b.requests) {
      r.temperature = random.one_of({0.0f, -0.0f, 1e-6f, 0.999e-5f, 1e-5f, 0.03f, 0.7f, 1.0f, 20.0f, 1e30f});
      int const kind = random.integer(0, 4);
      for (size_t c = 0; c < r.unary.size(); ++c) {
        if (kind == 1) r.unary[c] = static_cast<float>(random.integer(-1, 1));  // ties
        if (kind == 2 && random.integer(0, 3) == 0) r.candidates[c] = random.one_of({-1, vocab, INT32_MAX, INT32_MIN});
        if (kind == 3 && random.integer(0, 3) == 0) r.unary[c] = random.one_of({NAN, INFINITY, -INFINITY, -0.0f});
        if (kind == 3 && random.integer(0, 1) == 0) r.unary[c] = -INFINITY;
        if (kind == 4) r.unary[c] *= 1e4f;  // masses that vanish
      }
      if (kind == 1) std::fill(r.project.begin(), r.project.end(), random.one_of({0.0f, -0.0f}));
      if (kind == 2) r.anchor = random.one_of({0, vocab - 1, vocab, -1, INT32_MIN});
    }
    check_against_twin<Policy>(b, random.integer(0, 5));
    count_shape();
  }
}

TEST_CASE("draft_walk of the drafter's shape: twin, and q within its bound of FP64") {
  random_source random(301);
  auto const b = make_batch<sample>(random, 2, 7, 16, 256, 500);
  check_against_twin<sample>(b);
  check_against_truth(b);
  for (int round = 0; round < scaled(20); ++round)
    check_against_truth(make_batch<sample>(random, 2, random.integer(1, 8), random.integer(1, 64),
                                           random.one_of({1, 31, 64, 300}), 90));
}

TEST_CASE("draft_walk: of equal scores the lowest id; an entry that is there twice counts twice") {
  random_source random(302);
  auto const any = make_batch<sample>(random, 1, 1, 5, 4, 20);
  on_each_executor([&](auto& on) {
    auto b = any;
    auto& r = b.requests[0];
    r.project.assign(4, 0.0f);
    r.candidates = {9, 4, 17, 4, 30};
    r.unary = {1.0f, 1.0f, 1.0f, 1.0f, 50.0f};  // the last one is no token
    r.temperature = 0.0f;
    for (int mode = 0; mode < 2; ++mode) {
      auto const greedy = mode == 0 ? run<argmax>(on, b) : run<sample>(on, b);
      CHECK(greedy.tokens == std::vector<int32_t>{4});
      CHECK(greedy.q == std::vector<float>{0.0f, 1.0f, 0.0f, 0.0f, 0.0f});
    }
    r.temperature = 0.7f;
    CHECK(run<sample>(on, b).q == std::vector<float>{0.25f, 0.25f, 0.25f, 0.25f, 0.0f});
    // -0 equals +0; +inf leaves nothing to the others.
    r.unary = {0.0f, 0.0f, -0.0f, 0.0f, 50.0f};
    CHECK(run<argmax>(on, b).tokens == std::vector<int32_t>{4});
    r.unary = {INFINITY, 3.0f, INFINITY, NAN, 50.0f};
    auto const infinite = run<sample>(on, b);
    CHECK(infinite.tokens == std::vector<int32_t>{9});
    CHECK(infinite.q == std::vector<float>{1.0f, 0.0f, 0.0f, 0.0f, 0.0f});
  });
}

TEST_CASE_TEMPLATE("draft_walk ends where no candidate counts, and does not begin without an anchor", Policy, argmax,
                   sample) {
  random_source random(303);
  auto good = make_batch<Policy>(random, 3, 4, 6, 16, 50);
  auto const before = twin(good);
  struct fault {
    char const* what;
    int slots;  ///< that still have a token
    void (*apply)(reference::walk&);
  };
  fault const faults[] = {
      {"all -1", 2, [](auto& r) { std::fill_n(r.candidates.begin() + 12, 6, -1); }},
      {"all outside", 0, [](auto& r) { std::fill_n(r.candidates.begin(), 6, 50); }},
      {"all NaN", 1, [](auto& r) { std::fill_n(r.unary.begin() + 6, 6, NAN); }},
      {"all -inf", 3, [](auto& r) { std::fill_n(r.unary.begin() + 18, 6, -INFINITY); }},
      {"NaN in project", 2, [](auto& r) { r.project[2 * 16 + 3] = NAN; }},
      {"anchor -1", 0, [](auto& r) { r.anchor = -1; }},
      {"anchor past the vocabulary", 0, [](auto& r) { r.anchor = 50; }},
      {"anchor far below", 0, [](auto& r) { r.anchor = INT32_MIN; }},
      {"temperature NaN", -1, [](auto& r) { r.temperature = NAN; }},
      {"temperature infinite", -1, [](auto& r) { r.temperature = INFINITY; }},
      {"temperature negative", -1, [](auto& r) { r.temperature = -1e-6f; }},
  };
  for (auto const& f : faults) {
    CAPTURE(f.what);
    auto b = good;
    f.apply(b.requests[1]);
    auto const expected = twin(b);
    int const kept = f.slots >= 0 ? f.slots : (Policy::mode == ratify::draft_mode::sample ? 0 : 4);
    for (int s = 0; s < 4; ++s) CHECK((expected.tokens[4 + size_t(s)] >= 0) == (s < kept));
    on_each_executor([&](auto& on) {
      auto const got = run<Policy>(on, b, 3);
      CHECK(bit_difference(got.tokens, expected.tokens) == "");
      CHECK(bit_difference(got.q, expected.q) == "");
      for (size_t i : {0u, 1u, 2u, 3u, 8u, 9u, 10u, 11u}) CHECK(got.tokens[i] == before.tokens[i]);  // other requests
      for (size_t i = 24 + size_t(kept) * 6; i < 48; ++i) CHECK(got.q[i] == 0.0f);
    });
  }
}

// A batch never changes a request's bits, nor does the order of its candidates but among equal entries.
TEST_CASE("draft_walk: a request alone, and with its candidates turned, draws the same tokens") {
  random_source random(304);
  auto const b = make_batch<sample>(random, 5, 6, 12, 40, 200);
  auto const whole = twin(b);
  for (size_t i = 0; i < b.requests.size(); ++i) {
    batch one{b.left, b.right, {b.requests[i]}};
    auto& r = one.requests[0];
    for (int s = 0; s < r.slots; ++s) {
      std::reverse(r.unary.begin() + s * r.count, r.unary.begin() + (s + 1) * r.count);
      std::reverse(r.candidates.begin() + s * r.count, r.candidates.begin() + (s + 1) * r.count);
    }
    auto const first = whole.tokens.begin() + static_cast<std::ptrdiff_t>(i) * r.slots;
    std::vector<int32_t> const expected(first, first + r.slots);
    on_each_executor([&](auto& on) { CHECK(run<sample>(on, one).tokens == expected); });
  }
}

namespace {

/// One slot a block, each with random bits of its own.
struct slot_kernel {
  struct params {
    ratify::device::draft_slot<float> slot;
    float temperature;
    uint32_t const* random;
    int32_t* token;
  };
  static constexpr char const* name = "slot_kernel";
  static constexpr int block_threads = 64;
  template <class Block>
  using shared_storage = ratify::device::draft_storage<Block>;
  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int32_t const token = ratify::device::draft_token<ratify::draft_mode::sample>(
        block, 0, p.slot, p.temperature, p.random[block.block_x()], nullptr, storage);
    if (block.thread() == 0) p.token[block.block_x()] = token;
  }
};

}  // namespace

TEST_CASE("a candidate's share of the random words begins and ends exactly where its mass does") {
  // Masses 2^40 of ids 3 and 8; nothing of id 5, whose place is before both.
  std::vector<uint32_t> const words{0, 1, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff};
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    buffer<float, executor> unary(on, std::vector<float>{0.5f, NAN, 0.5f}), zeros(on, std::vector<float>(9, 0.0f));
    buffer<int32_t, executor> candidates(on, std::vector<int32_t>{8, 5, 3}), token(on, words.size());
    buffer<uint32_t, executor> random(on, words);
    slot_kernel::params const p{
        {candidates.data(), unary.data(), 3, {zeros.data(), 1}, {zeros.data(), 1}, zeros.data(), 1, 9},
        1.0f,
        random.data(),
        token.data()};
    auto const s = on.run(ratify::stage<slot_kernel>{{static_cast<int>(words.size())}, p});
    REQUIRE_MESSAGE(s, s.reason());
    CHECK(token.read() == std::vector<int32_t>{3, 3, 3, 8, 8, 8});
  });
}

TEST_CASE("draft_walk and acceptance by rejection together emit the target's distribution") {
  // Two slots, whose candidates' scores depend on the token before; the target's two rows are others.
  int const seeds = scaled(scale() < 1.0 ? 10000 : 30000);
  constexpr int vocab = 8, slots = 2, count = 5, rank = 3;
  random_source random(305);
  std::vector<float> const left = random.normals<float>(vocab * rank), right = random.normals<float>(vocab * rank),
                           project = random.normals<float>(slots * rank), unary = random.normals<float>(slots * count);
  std::vector<int32_t> const candidates{1, 3, 3, 6, -1, 0, 1, 2, 3, 7};
  std::vector<float> const logits{0.3f,  1.1f, -0.4f, 0.9f, -2.0f, 1.1f, -0.1f, -INFINITY, 0.1f, -0.3f, 0.8f,  1.5f,
                                  -1.0f, 0.2f, 0.4f,  0.6f, 0.0f,  2.0f, 1.0f,  0.5f,      0.1f, -1.0f, -2.0f, 0.3f};
  float const draft_temperature = 1.3f, temperature = 0.8f;
  std::vector<int64_t> seed, position;
  std::vector<int32_t> starts{0};
  for (int i = 0; i < seeds; ++i) {
    seed.push_back(i);
    position.push_back(5);
    starts.push_back(starts.back() + slots + 1);
  }
  auto const same = [&](auto value) { return std::vector<decltype(value)>(size_t(seeds), value); };
  std::vector<std::vector<double>> p;
  for (int t = 0; t <= slots; ++t)
    p.push_back(reference::truth::distribution({logits.begin() + t * vocab, logits.begin() + (t + 1) * vocab},
                                               temperature, 1.0, 0));

  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    using memory = buffer<float, executor>;
    using integers = buffer<int32_t, executor>;
    memory l(on, left), r(on, right), pr(on, project), un(on, unary), lo(on, logits), t(on, same(draft_temperature)),
        target_t(on, same(temperature)), top_p(on, same(1.0f)), q(on, size_t(seeds) * slots * count);
    std::vector<int32_t> all;
    for (int i = 0; i < seeds; ++i) all.insert(all.end(), candidates.begin(), candidates.end());
    integers ca(on, all), anchor(on, same(int32_t{4})), tokens(on, size_t(seeds) * slots), top_k(on, same(int32_t{0})),
        limit(on, same(int32_t{9})), query(on, starts), out(on, size_t(seeds) * (slots + 1)),
        emitted(on, size_t(seeds)), accepted(on, size_t(seeds)), finish(on, size_t(seeds)),
        status(on, size_t(seeds) * (slots + 1));
    buffer<int64_t, executor> se(on, seed), po(on, position);
    ratify::draft_walk<sample>::params w;
    w.unary = {un.data(), 0, count};
    w.candidates = {ca.data(), slots * count, count};
    w.left = {l.data(), rank};
    w.right = {r.data(), rank};
    w.project = {pr.data(), 0, rank};
    w.anchor = anchor.data();
    w.temperature = t.data();
    w.seed = se.data();
    w.position = po.data();
    w.tokens = {tokens.data(), slots};
    w.q = {q.data(), slots * count, count};
    w.requests = seeds;
    w.slots = slots;
    w.candidate_count = count;
    w.rank = rank;
    w.vocab = vocab;
    REQUIRE(launch<ratify::draft_walk<sample>>(w, on));

    ratify::acceptance<rejection>::params a;
    std::vector<float> rows;
    for (int i = 0; i < seeds; ++i) rows.insert(rows.end(), logits.begin(), logits.end());
    memory lr(on, rows);
    a.logits = {lr.data(), vocab};
    a.query_start = query.data();
    a.draft = {tokens.data(), slots};
    a.temperature = target_t.data();
    a.top_p = top_p.data();
    a.top_k = top_k.data();
    a.seed = se.data();
    a.position = po.data();
    a.limit = limit.data();
    a.draft_candidates = w.candidates;
    a.draft_candidate_q = {q.data(), slots * count, count};
    a.candidates = count;
    a.tokens = out.data();
    a.emitted = emitted.data();
    a.accepted = accepted.data();
    a.finish = finish.data();
    a.row_status = status.data();
    a.rows = seeds * (slots + 1);
    a.requests = seeds;
    a.vocab = vocab;
    a.max_drafts = slots;
    REQUIRE(launch<ratify::acceptance<rejection>>(a, on));

    // The drafts follow q, the emitted tokens p.
    auto const drafts = tokens.read(), text = out.read(), ends = emitted.read();
    auto const shares = q.read();
    std::vector<double> drafted_p(vocab, 0.0);
    for (int c = 0; c < count; ++c)
      if (candidates[size_t(c)] >= 0) drafted_p[size_t(candidates[size_t(c)])] += double{shares[size_t(c)]};
    std::vector<int> drafted(vocab, 0);
    std::vector<std::vector<int>> counts(slots + 1, std::vector<int>(vocab, 0));
    for (int i = 0; i < seeds; ++i) {
      ++drafted[size_t(drafts[size_t(i) * slots])];
      for (int32_t s = 0; s < ends[size_t(i)]; ++s)
        ++counts[size_t(s)][size_t(text[size_t(i) * (slots + 1) + size_t(s)])];
    }
    CHECK(excess(drafted, drafted_p) <= 0.0);
    for (size_t s = 0; s < counts.size(); ++s) {
      CAPTURE(s);
      CHECK(std::count(counts[s].begin(), counts[s].end(), 0) < vocab - 2);
      CHECK(excess(counts[s], p[s]) <= 0.0);
    }
    CHECK(excess(drafted, p[0]) > 0.0);  // the drafts themselves do not
  });
}

TEST_CASE("G3 draft_walk: rows of left and right beyond 2^31 elements give the same bits") {
  random_source random(306);
  auto const near = make_batch<sample_bf16>(random, 1, 3, 3, 5, 3);
  auto b = near;
  b.requests[0].candidates = {2, 1, 0, 0, 2, 1, 2, 0, 1};
  b.requests[0].anchor = 2;
  b.right = b.left;
  auto const expected = twin(b);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    int64_t const stride = (int64_t{1} << 30) + 8;
    far_memory<ratify::bf16, executor> table(on, static_cast<size_t>(2 * stride + 5));
    if (table.data() == nullptr) {
      MESSAGE("skipped on this executor: no room for 4 GB");
      return;
    }
    for (size_t t = 0; t < 3; ++t) {
      std::vector<ratify::bf16> row;
      for (size_t i = 0; i < 5; ++i) row.push_back(ratify::convert<ratify::bf16>(b.left[t * 5 + i]));
      table.write(t * static_cast<size_t>(stride), row);
    }
    auto const& r = b.requests[0];
    buffer<float, executor> unary(on, r.unary), project(on, r.project),
        temperature(on, std::vector<float>{r.temperature}), q(on, 9);
    buffer<int32_t, executor> candidates(on, r.candidates), anchor(on, std::vector<int32_t>{2}), tokens(on, 3);
    buffer<int64_t, executor> seed(on, std::vector<int64_t>{r.seed}), position(on, std::vector<int64_t>{r.position});
    ratify::draft_walk<sample_bf16>::params p;
    p.unary = {unary.data(), 9, 3};
    p.candidates = {candidates.data(), 9, 3};
    p.left = p.right = {table.data(), stride};
    p.project = {project.data(), 15, 5};
    p.anchor = anchor.data();
    p.temperature = temperature.data();
    p.seed = seed.data();
    p.position = position.data();
    p.tokens = {tokens.data(), 3};
    p.q = {q.data(), 9, 3};
    p.requests = 1;
    p.slots = p.candidate_count = p.vocab = 3;
    p.rank = 5;
    auto const s = launch<ratify::draft_walk<sample_bf16>>(p, on);
    REQUIRE_MESSAGE(s, s.reason());
    CHECK(bit_difference(tokens.read(), expected.tokens) == "");
    CHECK(bit_difference(q.read(), expected.q) == "");
  });
}

TEST_CASE("draft_walk says which rule a launch breaks") {
  using operation = ratify::draft_walk<argmax>;
  operation::params good;
  good.candidate_count = 16;
  good.rank = 256;
  good.vocab = 100;
  CHECK(operation::launch(good, {}, host()));  // nothing to do
  good.slots = 3;
  CHECK(operation::launch(good, {}, host()));
  auto const reason = [&](auto change) {
    auto p = good;
    change(p);
    auto const s = operation::can_launch(p, host());
    CHECK(s.code() == ratify::status_code::unsupported);
    CHECK(operation::launch(p, {}, host()).code() == ratify::status_code::unsupported);
    return std::string(s.reason());
  };
  CHECK(reason([](auto& p) { p.requests = -1; }) == "ratify::draft_walk: requests must not be negative");
  CHECK(reason([](auto& p) { p.slots = -1; }) == "ratify::draft_walk: slots must not be negative");
  for (int n : {0, -1, 65})
    CHECK(reason([n](auto& p) { p.candidate_count = n; }) ==
          "ratify::draft_walk: candidate_count must be 1 to 64 candidates a slot");
  CHECK(reason([](auto& p) { p.rank = 0; }) == "ratify::draft_walk: rank must be at least 1");
  for (int n : {0, (1 << 22) + 1})
    CHECK(reason([n](auto& p) { p.vocab = n; }) == "ratify::draft_walk: vocab must be 1 to 4194304, as in acceptance");
}

// draft_convolution -----------------------------------------------------------------------------------------------

namespace {

struct taps_f16 : ratify::draft_convolution_policy {};
struct taps_mixed : ratify::draft_convolution_policy {
  using input_format = ratify::bf16;
  using base_format = float;
  using delta_format = ratify::f16;
  using output_format = float;
};
struct taps_misfit : ratify::draft_convolution_policy {
  using delta_format = double;
};
static_assert(ratify::is_supported_draft_convolution<taps_f16>);
static_assert(!ratify::is_supported_draft_convolution<taps_misfit>);

template <class Format>
std::vector<float> widened(std::vector<Format> const& v) {
  std::vector<float> out;
  for (auto const x : v) out.push_back(ratify::to_float(x));
  return out;
}

template <class Policy, class Executor>
std::vector<typename Policy::output_format> run_taps(Executor& on, reference::two_taps const& r, int padding) {
  using input = typename Policy::input_format;
  using delta = typename Policy::delta_format;
  using output = typename Policy::output_format;
  int const groups = r.channels / 16, stride = r.channels + padding, delta_stride = 2 * groups + padding;
  std::vector<input> x;
  std::vector<delta> d;
  std::vector<typename Policy::base_format> base;
  append_rows(x, r.x, r.channels, padding, ratify::convert<input>(NAN));
  append_rows(d, r.delta, 2 * groups, padding, ratify::convert<delta>(NAN));
  for (float v : r.base) base.push_back(ratify::convert<typename Policy::base_format>(v));
  buffer<input, Executor> dx(on, x);
  buffer<delta, Executor> dd(on, d);
  buffer<typename Policy::base_format, Executor> db(on, base);
  buffer<output, Executor> dout(on, x.size());
  typename ratify::draft_convolution<Policy>::params p;
  p.x = {dx.data(), int64_t{r.slots} * stride, stride};
  p.base = db.data();
  p.delta = {dd.data(), int64_t{r.slots} * delta_stride, delta_stride};
  p.out = {dout.data(), int64_t{r.slots} * stride, stride};
  p.requests = r.requests;
  p.slots = r.slots;
  p.channels = r.channels;
  auto const s = launch<ratify::draft_convolution<Policy>>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  std::vector<output> got;
  auto const all = dout.read();
  for (size_t i = 0; i < all.size(); ++i)
    if (i % size_t(stride) < size_t(r.channels)) got.push_back(all[i]);
  return got;
}

template <class Policy>
reference::two_taps make_taps(random_source& random, int requests, int slots, int channels) {
  reference::two_taps r;
  r.requests = requests, r.slots = slots, r.channels = channels;
  size_t const rows = size_t(requests) * size_t(slots);
  r.x = widened(random.normals<typename Policy::input_format>(rows * size_t(channels)));
  r.base = widened(random.normals<typename Policy::base_format>(2 * size_t(channels)));
  r.delta = widened(random.normals<typename Policy::delta_format>(rows * 2 * size_t(channels / 16)));
  return r;
}

template <class Policy>
void check_taps(reference::two_taps const& r, int padding, bool finite = true) {
  using output = typename Policy::output_format;
  std::vector<output> expected;
  for (float v : reference::draft_convolution(r)) expected.push_back(ratify::convert<output>(v));
  auto truth = reference::truth::draft_convolution(r);
  if (!std::is_same_v<output, float>)
    for (size_t i = 0; i < truth.value.size(); ++i) truth.bound[i] += 0x1p-11 * std::fabs(truth.value[i]) + 0x1p-24;
  on_each_executor([&](auto& on) {
    auto const got = run_taps<Policy>(on, r, padding);
    CHECK(bit_difference(got, expected) == "");
    if (finite) CHECK(error_over_bound(got, truth.value, truth.bound) <= 1.0);
  });
}

}  // namespace

TEST_CASE_TEMPLATE("draft_convolution equals its twin and FP64 within its bound", Policy, taps_f16, taps_mixed) {
  random_source random(310);
  for (int round = 0; round < scaled(12); ++round) {
    check_taps<Policy>(make_taps<Policy>(random, random.one_of({1, 2, 3, random.integer(1, 16)}),
                                         random.one_of({1, 2, 7, 8, 9, 32}), 16 * random.one_of({1, 2, 3, 9, 16})),
                       random.integer(0, 5));
    count_shape();
  }
  check_taps<Policy>(make_taps<Policy>(random, 1, 8, 5120), 0);
}

TEST_CASE("draft_convolution: nothing before a request's first slot is read") {
  random_source random(311);
  auto r = make_taps<taps_mixed>(random, 3, 4, 32);
  // The tap on the slot before slot 0, and the last slots, which are nobody's past.
  for (int q = 0; q < 3; ++q) {
    for (int g = 0; g < 2; ++g) r.delta[size_t(q * 4 * 2 + 1) * 2 + size_t(g)] = q == 1 ? INFINITY : NAN;
    for (int c = 0; c < 32; ++c) r.x[size_t(q * 4 + 3) * 32 + size_t(c)] = NAN;
  }
  check_taps<taps_mixed>(r, 2, false);
  on_each_executor([&](auto& on) {
    auto const got = run_taps<taps_mixed>(on, r, 2);
    for (size_t i = 0; i < got.size(); ++i) CHECK(std::isnan(got[i]) == (i / 32 % 4 == 3));
  });
}

TEST_CASE("draft_convolution says which rule a launch breaks") {
  using operation = ratify::draft_convolution<taps_f16>;
  operation::params good;
  good.channels = 5120;
  CHECK(operation::launch(good, {}, host()));  // nothing to do
  auto const reason = [&](auto change) {
    auto p = good;
    change(p);
    CHECK(operation::launch(p, {}, host()).code() == ratify::status_code::unsupported);
    return std::string(operation::can_launch(p, host()).reason());
  };
  CHECK(reason([](auto& p) { p.requests = -1; }) == "ratify::draft_convolution: requests must not be negative");
  CHECK(reason([](auto& p) { p.slots = -1; }) == "ratify::draft_convolution: slots must not be negative");
  for (int n : {0, -16, 8, 17, 5119})
    CHECK(reason([n](auto& p) { p.channels = n; }) ==
          "ratify::draft_convolution: channels must be a multiple of 16, at least 16: a delta is shared by 16");
  CHECK(reason([](auto& p) { p.requests = p.slots = INT32_MAX; }) ==
        "ratify::draft_convolution: requests * slots * channels must be at most 2^37, or a grid cannot hold them");
}
