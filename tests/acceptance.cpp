// SPDX-License-Identifier: Apache-2.0
#include <ratify/acceptance.cuh>

#include "reference/acceptance.hpp"
#include "support/chi_square.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace {

using namespace ratify_test;

struct policy_f16 : ratify::acceptance_policy {
  using logit_format = ratify::f16;
};
struct policy_bf16 : ratify::acceptance_policy {
  using logit_format = ratify::bf16;
};
struct rejection : ratify::acceptance_policy {
  static constexpr auto rule = ratify::acceptance_rule::rejection;
};
template <class Policy>
struct from_words : Policy {
  using logit_format = ratify::acceptance_word;
};

/// Requests of one launch.
struct batch {
  int vocab = 1;
  int max_drafts = 0;
  std::vector<int32_t> end_tokens;
  std::vector<reference::request> requests;
  int shards = 1;      ///< the logits lie in
  int candidates = 0;  ///< of each draft's source; -1: the whole vocabulary; 0: drafts were chosen
};

/// What a launch wrote, request by request; `untouched` where nothing was written.
struct outputs {
  std::vector<int32_t> tokens, emitted, accepted, finish, row_status;
};

constexpr int32_t untouched = -1;  // 0xFF bytes

template <class Policy = ratify::acceptance_policy>
outputs twin(batch const& b) {
  outputs out;
  for (auto const& r : b.requests) {
    if (r.rows.empty()) {
      out.tokens.insert(out.tokens.end(), size_t(b.max_drafts + 1), untouched);
      for (auto* v : {&out.emitted, &out.accepted, &out.finish}) v->push_back(untouched);
      continue;
    }
    auto const one =
        reference::accept(Policy::rule == ratify::acceptance_rule::rejection, r, b.end_tokens, size_t(b.max_drafts));
    out.tokens.insert(out.tokens.end(), one.tokens.begin(), one.tokens.end());
    out.emitted.push_back(one.emitted);
    out.accepted.push_back(one.accepted);
    out.finish.push_back(one.finish);
    out.row_status.insert(out.row_status.end(), one.row_status.begin(), one.row_status.end());
  }
  return out;
}

/// A batch in an executor's memory. Rows are padded by NaN, and so are places of `draft` past n by a valid token.
template <class Policy, class Executor>
struct launched {
  using format = typename Policy::logit_format;
  template <class T>
  using memory = buffer<T, Executor>;

  launched(Executor& executor, batch const& b, std::vector<int32_t> const* other_query_start = nullptr)
      : on(executor),
        rows(count_rows(b)),
        logits(on, stored_logits(b)),
        query_start(on, other_query_start != nullptr ? *other_query_start : starts(b)),
        draft(on, drafts(b)),
        candidates(on, sources(b).candidates),
        weights(on, sources(b).weights),
        end_tokens(on, b.end_tokens),
        temperature(on, each<float>(b, [](auto const& r) { return r.temperature; })),
        top_p(on, each<float>(b, [](auto const& r) { return r.top_p; })),
        top_k(on, each<int32_t>(b, [](auto const& r) { return r.top_k; })),
        limit(on, each<int32_t>(b, [](auto const& r) { return r.limit; })),
        seed(on, each<int64_t>(b, [](auto const& r) { return r.seed; })),
        position(on, each<int64_t>(b, [](auto const& r) { return r.position; })),
        tokens(on, b.requests.size() * size_t(b.max_drafts + 1)),
        emitted(on, b.requests.size()),
        accepted(on, b.requests.size()),
        finish(on, b.requests.size()),
        row_status(on, rows) {
    p.logits = {logits.data(), shard_vocab(b) + 3};
    p.shards = b.shards;
    p.shard_vocab = shard_vocab(b);
    p.shard_stride = p.logits.stride * static_cast<int64_t>(rows);
    p.query_start = query_start.data();
    p.draft = {draft.data(), b.max_drafts + 1};
    p.temperature = temperature.data();
    p.top_p = top_p.data();
    p.top_k = top_k.data();
    p.seed = seed.data();
    p.position = position.data();
    p.end_tokens = end_tokens.data();
    p.end_count = static_cast<int>(b.end_tokens.size());
    p.limit = limit.data();
    p.tokens = tokens.data();
    p.emitted = emitted.data();
    p.accepted = accepted.data();
    p.finish = finish.data();
    p.row_status = row_status.data();
    p.rows = static_cast<int>(rows);
    p.requests = static_cast<int>(b.requests.size());
    p.vocab = b.vocab;
    p.max_drafts = b.max_drafts;
    int64_t const each = b.candidates < 0 ? b.vocab : b.candidates;
    if (b.candidates > 0) {
      p.draft_candidates = {candidates.data(), each * b.max_drafts, each};
      p.draft_candidate_q = {weights.data(), each * b.max_drafts, each};
      p.candidates = b.candidates;
    } else if (b.candidates < 0) {
      p.draft_probs = {weights.data(), each * b.max_drafts, each};
    }
  }

  outputs run() {
    auto const s = launch<ratify::acceptance<Policy>>(p, on);
    REQUIRE_MESSAGE(s, s.reason());
    return {tokens.read(), emitted.read(), accepted.read(), finish.read(), row_status.read()};
  }

  /// Tokens of the rows, drawn by blocks of another size.
  template <int Threads>
  std::vector<int32_t> row_tokens() {
    using kernel = ratify::detail::acceptance_row_kernel<Policy, Threads>;
    memory<int32_t> out(on, rows);
    auto const s = on.run(ratify::stage<kernel>{{p.rows}, {p, {}, out.data()}});
    REQUIRE_MESSAGE(s, s.reason());
    return out.read();
  }

  Executor& on;
  size_t rows;
  memory<format> logits;
  memory<int32_t> query_start, draft, candidates;
  memory<float> weights;
  memory<int32_t> end_tokens;
  memory<float> temperature, top_p;
  memory<int32_t> top_k, limit;
  memory<int64_t> seed, position;
  memory<int32_t> tokens, emitted, accepted, finish, row_status;
  typename ratify::acceptance<Policy>::params p;
 private:
  static size_t count_rows(batch const& b) {
    size_t n = 0;
    for (auto const& r : b.requests) n += r.rows.size();
    return n;
  }
  static int shard_vocab(batch const& b) { return (b.vocab + b.shards - 1) / b.shards; }
  static std::vector<format> stored_logits(batch const& b) {
    std::vector<format> v;
    int const each = shard_vocab(b);
    for (int s = 0; s < b.shards; ++s)
      for (auto const& r : b.requests)
        for (auto const& row : r.rows)
          for (int i = s * each; i < (s + 1) * each + 3; ++i)  // padded
            v.push_back(ratify::convert<format>(i < std::min((s + 1) * each, b.vocab) ? row[size_t(i)] : NAN));
    return v;
  }
  static std::vector<int32_t> starts(batch const& b) {
    std::vector<int32_t> v{0};
    for (auto const& r : b.requests) v.push_back(v.back() + static_cast<int32_t>(r.rows.size()));
    return v;
  }
  static std::vector<int32_t> drafts(batch const& b) {
    std::vector<int32_t> v;
    for (auto const& r : b.requests) {
      v.insert(v.end(), r.draft.begin(), r.draft.end());
      v.resize(v.size() + size_t(b.max_drafts + 1) - r.draft.size(), 0);
    }
    return v;
  }
  /// Of all drafts, one after another; NaN and a valid token where a request has none.
  static reference::draft_source sources(batch const& b) {
    reference::draft_source all;
    if (b.candidates == 0) return all;
    size_t const each = size_t(b.candidates < 0 ? b.vocab : b.candidates);
    for (auto const& r : b.requests)
      for (size_t t = 0; t < size_t(b.max_drafts); ++t) {
        if (t < r.source.size()) {
          all.candidates.insert(all.candidates.end(), r.source[t].candidates.begin(), r.source[t].candidates.end());
          all.weights.insert(all.weights.end(), r.source[t].weights.begin(), r.source[t].weights.end());
        }
        all.weights.resize(each * (all.weights.size() / each + (t >= r.source.size())), NAN);
        if (b.candidates > 0) all.candidates.resize(all.weights.size(), 0);
      }
    return all;
  }
  template <class T, class F>
  static std::vector<T> each(batch const& b, F f) {
    std::vector<T> v;
    for (auto const& r : b.requests) v.push_back(f(r));
    return v;
  }
};

template <class Policy = ratify::acceptance_policy, class Executor>
outputs run(Executor& on, batch const& b) {
  return launched<Policy, Executor>(on, b).run();
}

/// The same by way of summaries: one of each shard, `places` words a row, then the decision from all of them.
template <class Policy, class Executor>
outputs run_from_words(Executor& on, batch const& b, int places) {
  launched<Policy, Executor> all(on, b);
  size_t const words_of_shard = all.rows * size_t(places);
  buffer<ratify::acceptance_word, Executor> words(on, words_of_shard * size_t(b.shards));
  for (int s = 0; s < b.shards; ++s) {
    using summary = ratify::acceptance_summary<Policy>;
    typename summary::params q;
    q.logits = {all.p.logits.data + s * all.p.shard_stride, all.p.logits.stride};
    q.query_start = all.p.query_start;
    q.temperature = all.p.temperature;
    q.top_p = all.p.top_p;
    q.top_k = all.p.top_k;
    q.words = {words.data() + size_t(s) * words_of_shard, places};
    q.rows = all.p.rows;
    q.requests = all.p.requests;
    q.max_drafts = all.p.max_drafts;
    q.first_id = s * all.p.shard_vocab;
    q.vocab = std::min(all.p.shard_vocab, b.vocab - q.first_id);
    q.places = places;
    auto const ok = launch<summary>(q, on);
    REQUIRE_MESSAGE(ok, ok.reason());
  }
  using operation = ratify::acceptance<from_words<Policy>>;
  typename operation::params p;
  p.logits = {words.data(), places};
  p.shards = b.shards;
  p.shard_vocab = places;
  p.shard_stride = static_cast<int64_t>(words_of_shard);
  auto const& from = all.p;
  p.query_start = from.query_start, p.draft = from.draft, p.temperature = from.temperature, p.top_p = from.top_p;
  p.top_k = from.top_k, p.seed = from.seed, p.position = from.position, p.end_tokens = from.end_tokens;
  p.end_count = from.end_count, p.limit = from.limit, p.draft_candidates = from.draft_candidates;
  p.draft_candidate_q = from.draft_candidate_q, p.draft_probs = from.draft_probs, p.candidates = from.candidates;
  p.tokens = from.tokens, p.emitted = from.emitted, p.accepted = from.accepted, p.finish = from.finish;
  p.row_status = from.row_status, p.rows = from.rows, p.requests = from.requests, p.vocab = from.vocab;
  p.max_drafts = from.max_drafts;
  auto const ok = launch<operation>(p, on);
  REQUIRE_MESSAGE(ok, ok.reason());
  return {all.tokens.read(), all.emitted.read(), all.accepted.read(), all.finish.read(), all.row_status.read()};
}

void check_equal(outputs const& got, outputs const& expected) {
  CHECK(bit_difference(got.tokens, expected.tokens) == "");
  CHECK(bit_difference(got.emitted, expected.emitted) == "");
  CHECK(bit_difference(got.accepted, expected.accepted) == "");
  CHECK(bit_difference(got.finish, expected.finish) == "");
  CHECK(bit_difference(got.row_status, expected.row_status) == "");
}

/// A row as a model or an adversary might give it, rounded to the storage format.
template <class Format>
std::vector<float> random_row(random_source& random, int vocab) {
  int const kind = random.integer(0, 9);
  float const width = random.one_of({0.5f, 3.0f, 12.0f}), shift = random.uniform(-20.0f, 20.0f);
  std::vector<float> x(static_cast<size_t>(vocab));
  for (auto& v : x) {
    v = random.normal(width) + shift;
    if (kind == 1) v = std::round(v);                             // many ties
    if (kind == 2) v = random.one_of({0.0f, -0.0f});              // one tie over the whole row, and signs
    if (kind == 3 && random.integer(0, 2) == 0) v = -INFINITY;    // masked entries
    if (kind == 4) v = random.uniform(-3e38f, 3e38f);             // differences that overflow
    if (kind == 5) v = random.one_of({1e-42f, -1e-42f, 3e-40f});  // subnormals
    if (kind == 6) v = 7.0f + random.uniform(0.0f, 1e-3f);        // nearly flat: equal leading digits
    v = ratify::to_float(ratify::convert<Format>(v));
  }
  if (kind == 7) x[size_t(random.integer(0, vocab - 1))] = random.one_of({NAN, INFINITY});
  if (kind == 8) std::sort(x.begin(), x.end());  // the maxima of threads that take every n-th entry lie close together
  return x;
}

template <class Format>
reference::request random_request(random_source& random, int vocab, int max_drafts) {
  reference::request r;
  r.temperature = random.one_of({0.0f, 9e-6f, 1e-5f, 0.3f, 0.7f, 1.0f, 1.0f, 4.0f, 100.0f});
  r.top_p = random.one_of({0.0f, 1e-30f, 0.1f, 0.5f, 0.9f, 0.95f, 0.999f, 1.0f, 1.0f});
  r.top_k = random.one_of({0, -1, 1, 2, 5, 20, 20, 31, 33, 60, 300, 513, 600, vocab - 1, vocab, vocab + 9});
  if (r.top_k < -1) r.top_k = 0;
  r.seed = static_cast<int64_t>(random.word());
  r.position = random.one_of<int64_t>({0, 7, 262143, 0xffffffff, int64_t{1} << 40});
  r.limit = random.integer(0, 5) == 0 ? random.integer(0, max_drafts + 1) : 1 << 20;
  int const rows = random.integer(0, 9) == 0 ? 0 : random.integer(1, max_drafts + 1);
  for (int t = 0; t < rows; ++t) r.rows.push_back(random_row<Format>(random, vocab));
  for (int t = 0; t + 1 < rows; ++t) {
    auto const own = reference::draw(r.rows[size_t(t)], r.temperature, r.top_p, r.top_k,
                                     reference::random_word(r.seed, r.position + t, 0));
    r.draft.push_back(random.integer(0, 4) > 0 ? own.token : random.integer(-2, vocab + 1));
  }
  return r;
}

/// What a drafter might have drawn from, near the row's distribution or not, or what no drafter should give.
reference::draft_source random_source_of(random_source& random, std::vector<float> const& row, int candidates) {
  reference::draft_source q;
  int const vocab = static_cast<int>(row.size()), kind = random.integer(0, 11);
  size_t const n = size_t(candidates < 0 ? vocab : candidates);
  float const scale = random.one_of({1.0f, 1.0f, 1.0f, 3.0f, 1e-39f, 1e36f}), noise = random.one_of({0.0f, 0.5f, 3.0f});
  float const best = *std::max_element(row.begin(), row.end());
  auto const ids = reference::order(row);
  for (size_t i = 0; i < n; ++i) {
    int id = candidates < 0 ? static_cast<int>(i) : ids[i % ids.size()];
    if (candidates > 0 && kind == 1) id = random.integer(-2, vocab);  // in any order, and some are no tokens
    if (candidates > 0 && kind == 2) id = ids[size_t(random.integer(0, 1)) % ids.size()];  // two, many times
    if (candidates > 0) q.candidates.push_back(id);
    float const logit = id >= 0 && id < vocab && std::isfinite(row[size_t(id)]) ? row[size_t(id)] : best - 3.0f;
    q.weights.push_back(scale * std::exp(std::max(-60.0f, logit - best) - std::fabs(random.normal(noise))));
    if (kind == 3) q.weights.back() = random.integer(0, 3) == 0 ? 1.0f : 0.0f;
    if (kind == 4) q.weights.back() = random.one_of({0.0f, -0.0f});
    if (!std::isfinite(q.weights.back())) q.weights.back() = 0.5f;
  }
  if (kind == 5) q.weights[size_t(random.integer(0, int(n) - 1))] = random.one_of({NAN, INFINITY, -1e-40f, -0.0f});
  return q;
}

/// A row whose own token at temperature 0 is `token`.
std::vector<float> peak(int vocab, int token) {
  std::vector<float> x(static_cast<size_t>(vocab), -1.0f);
  x[size_t(token)] = 5.0f;
  return x;
}

/// A greedy request whose rows give `own`.
reference::request greedy(int vocab, std::vector<int> const& own, std::vector<int32_t> const& draft) {
  reference::request r;
  r.temperature = 0.0f;
  for (int token : own) r.rows.push_back(peak(vocab, token));
  r.draft = draft;
  return r;
}

/// A kernel of one's own around `draw_token`: a block a random word, all on one row.
template <int Threads>
struct draw_kernel {
  struct params {
    float const* logits;
    int vocab;
    ratify::device::sampling how;
    uint32_t const* random;
    int32_t* token;
  };
  static constexpr char const* name = "draw_kernel";
  static constexpr int block_threads = Threads;
  template <class Block>
  using shared_storage = ratify::device::draw_storage<Block>;

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    auto const out = ratify::device::draw_token(block, p.logits, p.vocab, p.how, p.random[block.block_x()], storage);
    if (block.thread() == 0) p.token[block.block_x()] = out.token;
  }
};

template <int Threads, class Executor>
std::vector<int32_t> draw(Executor& on, std::vector<float> const& logits, ratify::device::sampling how,
                          std::vector<uint32_t> const& random) {
  buffer<float, Executor> row(on, logits);
  buffer<uint32_t, Executor> words(on, random);
  buffer<int32_t, Executor> token(on, random.size());
  auto const s = on.run(ratify::stage<draw_kernel<Threads>>{
      {static_cast<int>(random.size())},
      {row.data(), static_cast<int>(logits.size()), how, words.data(), token.data()}});
  REQUIRE_MESSAGE(s, s.reason());
  return token.read();
}

}  // namespace

TEST_CASE("masses, targets and draw points are exact") {
  namespace device = ratify::device;
  random_source random(1);
  for (float e : {0.0f, 1.0f, 0x1p-17f, 0x1.fffffep-18f, 0x1.fffffep-41f, 0x1p-40f, 0x1.000002p-40f, 0x1p-41f,
                  0x1.000002p-41f, 0x1.fffffep-42f, 0x1.8p-40f, 0x1.4p-39f, 0x1.8p-41f, 1e-40f, 0x1p-149f})
    CHECK(device::mass_of_exponential(e) == reference::mass(e));
  CHECK(device::mass_of_exponential(0x1p-41f) == 0);  // halves go to even
  CHECK(device::mass_of_exponential(0x1.8p-40f) == 2);
  CHECK(device::mass_of_exponential(0x1.4p-39f) == 2);
  for (int i = 0; i < 20000; ++i) {
    float const e = std::ldexp(random.uniform(0.5f, 1.0f), -random.integer(0, 60));
    CHECK(device::mass_of_exponential(e) == reference::mass(e));

    uint64_t const total = (random.word() >> random.integer(1, 23)) | (uint64_t{1} << 40);
    float const top_p = std::ldexp(random.uniform(0.5f, 1.0f), -random.integer(0, random.integer(0, 148)));
    uint64_t const target = device::top_p_target(top_p, total);
    // The first integer that is not below top_p * total, as (target - 1) * 2^s < m * total <= target * 2^s.
    int exponent = 0;
    auto const m = static_cast<reference::uint128>(std::ldexp(std::frexp(top_p, &exponent), 24));
    int const s = 24 - exponent;
    if (s > 63) {
      CHECK(target == ((m * total) >> 64 >> (s - 64 < 63 ? s - 64 : 63)) + 1);  // never whole: total is below 2^64
    } else {
      CHECK((static_cast<reference::uint128>(target) << s) >= m * total);
      CHECK((static_cast<reference::uint128>(target - 1) << s) < m * total);
    }
    auto const word = static_cast<uint32_t>(random.word());
    CHECK(device::draw_point(word, total) ==
          static_cast<uint64_t>((static_cast<reference::uint128>(word) * total) >> 32));
  }
  for (uint64_t total : {uint64_t{1} << 40, (uint64_t{1} << 62) - 1}) {
    CHECK(device::top_p_target(0.0f, total) == 1);
    CHECK(device::top_p_target(-0.0f, total) == 1);
    CHECK(device::top_p_target(0x1p-149f, total) == 1);
    CHECK(device::top_p_target(1.0f, total) == total);
    CHECK(device::draw_point(0, total) == 0);
    CHECK(device::draw_point(0xffffffffu, total) < total);
  }
}

TEST_CASE("a mass is within its bound of FP64") {
  random_source random(8);
  std::vector<double> ratios;
  for (int i = 0; i < 200000; ++i) {
    float const temperature = random.one_of({1e-5f, 0.01f, 0.7f, 1.0f, 3.0f, 1000.0f}), maximum = random.normal(10.0f);
    float const logit = maximum - std::fabs(random.normal(12.0f)) * temperature;
    double const z = (static_cast<double>(logit) - maximum) / temperature, truth = std::ldexp(std::exp(z), 40);
    double const bound = truth * (2.0 * std::fabs(z) + 4.0) * 0x1p-24 * 1.01 + 0.5;
    auto const got = static_cast<double>(ratify::device::mass(logit, maximum, temperature));
    ratios.push_back(std::fabs(got - truth) / bound);
  }
  CHECK(*std::max_element(ratios.begin(), ratios.end()) <= 1.0);
}

TEST_CASE("words order by logit descending, then id ascending, and -0 equals +0") {
  namespace device = ratify::device;
  std::vector<float> const descending{INFINITY, 3e38f, 1.0f, 0x1p-149f, 0.0f, -0x1p-149f, -1.0f, -3e38f, -INFINITY};
  for (size_t i = 0; i + 1 < descending.size(); ++i) {
    CHECK(device::order_word(descending[i], 4194303) > device::order_word(descending[i + 1], 0));
    CHECK(device::value_of_key(device::order_key(descending[i])) == descending[i]);
  }
  CHECK(device::order_word(2.0f, 4) > device::order_word(2.0f, 5));
  CHECK(device::order_word(-0.0f, 4) > device::order_word(0.0f, 5));
  CHECK(device::order_word(0.0f, 4) == device::order_word(-0.0f, 4));
  CHECK(device::order_key(ratify::detail::from_bits(0xffc00000u)) == 0xffffffffu);
  CHECK(device::id_of_word(device::order_word(2.0f, 4194303)) == 4194303);
}

TEST_CASE_TEMPLATE("acceptance equals its twin", Policy, ratify::acceptance_policy, policy_f16, policy_bf16) {
  using format = typename Policy::logit_format;
  random_source random(2);
  for (int trial = 0; trial < scaled(60); ++trial) {
    batch b;
    b.vocab = random.one_of({1, 2, 3, 31, 97, 128, 129, 264, 513, 700, 2048, 2049, 5000});
    b.max_drafts = random.one_of({0, 1, 4, 7, b.vocab > 600 ? 7 : 31});
    b.end_tokens.assign(size_t(random.integer(0, 2)), random.integer(0, b.vocab - 1));
    int const requests = random.integer(1, b.vocab > 600 ? 2 : 6);
    for (int r = 0; r < requests; ++r) b.requests.push_back(random_request<format>(random, b.vocab, b.max_drafts));
    auto const expected = twin(b);
    CAPTURE(trial);
    CAPTURE(b.vocab);
    on_each_executor([&](auto& on) { check_equal(run<Policy>(on, b), expected); });
    count_shape();
  }
}

TEST_CASE("a quotient of a product and the accept test are exact") {
  namespace device = ratify::device;
  random_source random(10);
  for (int i = 0; i < 100000; ++i) {
    uint64_t const c = std::max<uint64_t>(random.word() >> random.integer(1, 63), 1);
    uint64_t a = std::min(random.word() >> random.integer(1, 63), c), b = random.word() >> random.integer(2, 63);
    if (i % 7 == 0) a = c;
    if (i % 11 == 0) b = (uint64_t{1} << random.integer(0, 62)) - 1;
    uint64_t divisor = c;
    int shift = 0;
    for (; divisor >> 63 == 0; ++shift) divisor <<= 1;
    CHECK(ratify::detail::multiply_divide(a, b, divisor, shift) ==
          static_cast<uint64_t>(static_cast<reference::uint128>(a) * b / c));
    auto const w = static_cast<uint32_t>(random.word());
    // p is where the test turns, and one off.
    auto const edge = static_cast<uint64_t>((static_cast<reference::uint128>(w) * b) >> 32);
    for (uint64_t p : {edge, edge + 1, edge - (edge > 0)})
      CHECK(device::is_accepted(w, b, p) ==
            (static_cast<reference::uint128>(w) * b < static_cast<reference::uint128>(p) << 32));
  }
  CHECK_FALSE(device::is_accepted(0, 0, 0));
  CHECK(device::is_accepted(0, 5, 1));
  CHECK(device::is_accepted(0xffffffffu, 5, 5));
  CHECK_FALSE(device::is_accepted(0x80000000u, 4, 2));  // equal: not accepted
}

TEST_CASE("rejection equals its twin") {
  random_source random(11);
  for (int trial = 0; trial < scaled(1500); ++trial) {
    batch b;
    b.vocab = random.one_of({1, 2, 3, 4, 5, 8, 31, 97, 128, 129, 264});
    if (trial % 25 == 0) b.vocab = random.one_of({513, 700, 2048, 2049, 5000});
    b.max_drafts = random.one_of({0, 1, 2, 4, 7, trial % 10 == 1 ? 31 : 7});
    b.candidates = random.one_of({0, -1, 1, 2, 3, 16, 40});
    b.end_tokens.assign(size_t(random.integer(0, 2)), random.integer(0, b.vocab - 1));
    int const requests = random.integer(1, b.vocab > 600 ? 2 : 6);
    for (int i = 0; i < requests; ++i) {
      auto r = random_request<float>(random, b.vocab, b.max_drafts);
      for (size_t t = 0; t < r.draft.size() && b.candidates != 0; ++t) {
        r.source.push_back(random_source_of(random, r.rows[t], b.candidates));
        auto const& q = r.source.back();
        if (random.integer(0, 2) == 0 && b.candidates > 0) r.draft[t] = q.candidates[0];
        if (random.integer(0, 2) == 0) r.draft[t] = random.integer(0, b.vocab - 1);
      }
      b.requests.push_back(r);
    }
    auto const expected = twin<rejection>(b);
    CAPTURE(trial);
    CAPTURE(b.vocab);
    CAPTURE(b.candidates);
    on_each_executor([&](auto& on) { check_equal(run<rejection>(on, b), expected); });
    count_shape();
  }
}

TEST_CASE("rejection over 248320 tokens equals its twin") {
  random_source random(12);
  for (int candidates : {0, -1, 16}) {
    batch b;
    b.vocab = 248320;
    b.max_drafts = 2;
    b.candidates = candidates;
    for (int top_k : {20, 0}) {
      reference::request r;
      r.top_k = top_k;
      r.top_p = top_k > 0 ? 0.95f : 1.0f;
      r.temperature = 4.0f;
      r.seed = 3 + candidates;
      for (int t = 0; t < 3; ++t) r.rows.push_back(random.normals<float>(size_t(b.vocab), 3.0f));
      for (size_t t = 0; t < 2; ++t) {
        auto const ids = reference::order(r.rows[t]);
        r.draft.push_back(ids[t * 3]);
        if (candidates == 0) continue;
        reference::draft_source q;
        for (int i = 0; i < (candidates < 0 ? b.vocab : candidates); ++i) {
          if (candidates > 0) q.candidates.push_back(ids[size_t(i)]);
          q.weights.push_back(std::exp(r.rows[t][candidates < 0 ? size_t(i) : size_t(ids[size_t(i)])] - 14.0f));
        }
        r.source.push_back(q);
      }
      b.requests.push_back(r);
    }
    auto const expected = twin<rejection>(b);
    on_each_executor([&](auto& on) { check_equal(run<rejection>(on, b), expected); });
  }
}

TEST_CASE_TEMPLATE("shards of the logits give what the whole gives", Policy, ratify::acceptance_policy, rejection) {
  random_source random(14);
  for (int trial = 0; trial < scaled(60); ++trial) {
    batch b;
    // Even and uneven ones, also where the way of searching changes.
    b.vocab = random.one_of({8, 15, 57, 128, 130, 264, 1000, 2050, 2049, 4100});
    b.max_drafts = random.integer(0, 3);
    b.candidates = random.one_of({0, -1, 5});
    b.end_tokens = {0};
    for (int i = 0; i < 2; ++i) {
      auto r = random_request<float>(random, b.vocab, b.max_drafts);
      for (size_t t = 0; t < r.draft.size() && b.candidates != 0; ++t)
        r.source.push_back(random_source_of(random, r.rows[t], b.candidates));
      b.requests.push_back(r);
    }
    auto const expected = twin<Policy>(b);
    for (int shards : {1, 2, 4, 8, b.vocab}) {
      if (shards == b.vocab && shards > 130) continue;
      if ((b.vocab + shards - 1) / shards * (shards - 1) >= b.vocab) continue;  // the last would be empty
      b.shards = shards;
      CAPTURE(trial);
      CAPTURE(b.vocab);
      CAPTURE(shards);
      on_each_executor([&](auto& on) { check_equal(run<Policy>(on, b), expected); });
    }
  }
}

TEST_CASE_TEMPLATE("summaries of shards give what the whole gives, or say that they cannot", Policy,
                   ratify::acceptance_policy, rejection) {
  random_source random(16);
  int refused = 0, equal = 0;
  for (int trial = 0; trial < scaled(150); ++trial) {
    batch b;
    b.vocab = random.one_of({8, 15, 57, 128, 264, 1000, 2050, 4100, 17000});
    b.shards = random.one_of({1, 2, 4, 8});
    if ((b.vocab + b.shards - 1) / b.shards * (b.shards - 1) >= b.vocab) continue;
    int const places = random.one_of({1, 2, 20, 64, 512}), shard = (b.vocab + b.shards - 1) / b.shards;
    b.max_drafts = random.integer(0, 3);
    b.candidates = random.one_of({0, -1, 5});
    b.end_tokens = {0};
    auto r = random_request<float>(random, b.vocab, b.max_drafts);
    for (size_t t = 0; t < r.draft.size() && b.candidates != 0; ++t)
      r.source.push_back(random_source_of(random, r.rows[t], b.candidates));
    b.requests = {r, greedy(b.vocab, {3, 5}, {3})};
    if (b.max_drafts == 0) b.requests.pop_back();
    int const asked = r.temperature < 1e-5f ? 1 : r.top_k > 0 && r.top_k < shard ? r.top_k : shard;
    auto expected = twin<Policy>(b);
    if (asked > places && !r.rows.empty()) {
      ++refused;
      auto& first = b.requests[0];
      for (auto& row : first.rows) row.assign(row.size(), NAN);  // as though all rows were bad
      expected = twin<Policy>(b);
      std::fill_n(expected.row_status.begin(), first.rows.size(), 2);
      b.requests[0] = r;
    } else {
      ++equal;
    }
    CAPTURE(trial);
    CAPTURE(b.vocab);
    CAPTURE(b.shards);
    CAPTURE(places);
    on_each_executor([&](auto& on) { check_equal(run_from_words<Policy>(on, b, places), expected); });
  }
  if (scale() >= 1.0) CHECK(std::min(refused, equal) > 20);
}

TEST_CASE("shards of 248320 logits give what the whole gives") {
  random_source random(15);
  batch b;
  b.vocab = 248320;
  b.end_tokens = {};
  for (int top_k : {20, 0}) {
    reference::request r;
    r.rows = {random.normals<float>(size_t(b.vocab), 3.0f)};
    r.top_k = top_k;
    r.top_p = 0.95f;
    r.temperature = 2.0f;
    r.seed = 5;
    b.requests.push_back(r);
  }
  auto const expected = twin(b);
  for (int shards : {2, 4, 7, 8, 30, 40}) {
    b.shards = shards;
    on_each_executor([&](auto& on) {
      check_equal(run(on, b), expected);
      auto const words = run_from_words<ratify::acceptance_policy>(on, b, 20);
      CHECK(words.tokens == std::vector<int32_t>{expected.tokens[0], -1});
      CHECK(words.row_status == std::vector<int32_t>{0, 2});
    });
  }
}

TEST_CASE("S1 invalid drafts are rejected with all after them") {
  random_source random(3);
  batch b;
  b.vocab = 3;
  b.max_drafts = 5;
  for (int i = 0; i < 200; ++i) {
    reference::request r;
    for (int t = 0; t < 6; ++t) r.rows.push_back(random.uniforms<float>(3, -1.0f, 1.0f));
    r.draft = {1, 0, 1, -1, -1};
    r.seed = i;
    b.requests.push_back(r);
  }
  on_each_executor([&](auto& on) {
    check_equal(run<rejection>(on, b), twin<rejection>(b));
    auto const out = run(on, b);
    check_equal(out, twin(b));
    int all_valid = 0;
    for (size_t i = 0; i < 200; ++i) {
      CHECK(out.accepted[i] <= 3);
      CHECK(out.emitted[i] == out.accepted[i] + 1);
      all_valid += out.accepted[i] == 3;
      for (int t = 0; t < 6; ++t) CHECK((out.tokens[i * 6 + size_t(t)] == -1) == (t >= out.emitted[i]));
    }
    CHECK(all_valid > 0);
  });
}

TEST_CASE("S1 without drafts one token comes from row 0; drafts outside the vocabulary are rejected") {
  batch none, outside;
  none.vocab = outside.vocab = 4;
  none.requests = {greedy(4, {2}, {})};
  outside.max_drafts = 2;
  for (int32_t draft : {4, 5, INT32_MAX, -1, INT32_MIN}) outside.requests.push_back(greedy(4, {3, 1, 2}, {draft, 1}));
  on_each_executor([&](auto& on) {
    for (auto const& one : {run(on, none), run<rejection>(on, none)}) {
      CHECK(one.tokens == std::vector<int32_t>{2});
      CHECK(one.emitted == std::vector<int32_t>{1});
      CHECK(one.accepted == std::vector<int32_t>{0});
      CHECK(one.finish == std::vector<int32_t>{0});
    }
    for (auto const& out : {run(on, outside), run<rejection>(on, outside)})
      for (size_t i = 0; i < 5; ++i) {
        CHECK(out.tokens[i * 3] == 3);
        CHECK(out.tokens[i * 3 + 1] == -1);
        CHECK(out.emitted[i] == 1);
        CHECK(out.accepted[i] == 0);
      }
  });
}

TEST_CASE("S2 ties: top-k keeps the lowest ids, top_k 1 is greedy") {
  batch b;
  b.vocab = 4;
  for (int seed = 0; seed < 400; ++seed) {
    reference::request two;
    two.rows = {{std::log(0.4f), std::log(0.3f), std::log(0.3f), -INFINITY}};
    two.top_k = 2;
    two.seed = seed;
    reference::request one = two;
    one.rows = {{1.0f, 2.0f, 2.0f, 2.0f}};
    one.top_k = 1;
    b.requests.push_back(two);
    b.requests.push_back(one);
  }
  on_each_executor([&](auto& on) {
    for (auto const& out : {run(on, b), run<rejection>(on, b)}) {
      int seen[2] = {0, 0};
      for (size_t i = 0; i < out.tokens.size(); i += 2) {
        REQUIRE((out.tokens[i] == 0 || out.tokens[i] == 1));
        ++seen[out.tokens[i]];
        CHECK(out.tokens[i + 1] == 1);
      }
      CHECK(seen[0] > 0);
      CHECK(seen[1] > 0);
    }
  });
}

TEST_CASE("S2 a tie at the top-p cut keeps one set of ids for any block and batch") {
  // One entry and then a tie over the whole vocabulary: the cut falls among equals.
  random_source random(4);
  for (int vocab : {90, 700, 3000}) {
    batch b;
    b.vocab = vocab;
    for (int seed = 0; seed < std::max(6, scaled(24)); ++seed) {
      reference::request r;
      r.rows = {std::vector<float>(size_t(vocab), 1.0f)};
      r.rows[0][size_t(vocab / 2)] = 2.0f;
      r.top_p = 0.4f;
      r.top_k = random.one_of({0, vocab - 1, vocab * 2 / 3, 40});
      r.seed = seed;
      b.requests.push_back(r);
    }
    auto const expected = twin(b);
    for (size_t i = 0; i < b.requests.size(); ++i) {
      auto const& r = b.requests[i];
      size_t const kept = reference::draw(r.rows[0], r.temperature, r.top_p, r.top_k, 0).kept;
      REQUIRE(kept < size_t(vocab) / 2);
      CHECK((expected.tokens[i] == vocab / 2 || size_t(expected.tokens[i]) < kept - 1));
    }
    on_each_executor([&](auto& on) {
      launched<ratify::acceptance_policy, std::decay_t<decltype(on)>> all(on, b);
      CHECK(all.run().tokens == expected.tokens);
      CHECK(all.template row_tokens<32>() == expected.tokens);
      CHECK(all.template row_tokens<512>() == expected.tokens);
      batch alone = b;
      alone.requests = {b.requests[5]};
      CHECK(run(on, alone).tokens[0] == expected.tokens[5]);
    });
  }
}

TEST_CASE("S3 bad rows have no token and change no other row") {
  float const inf = INFINITY;
  for (int vocab : {8193, 248320}) {
    random_source random(5);
    std::vector<float> const plain = random.normals<float>(size_t(vocab), 3.0f);
    batch b;
    b.vocab = vocab;
    auto const add = [&](std::vector<float> row, int top_k) {
      reference::request r;
      r.rows = {std::move(row)};
      r.top_k = top_k;
      r.top_p = 0.95f;
      r.seed = 11;
      b.requests.push_back(r);
    };
    add(plain, 20);
    add(std::vector<float>(size_t(vocab), NAN), 20);
    add(plain, 20);
    b.requests.back().rows[0][size_t(vocab - 1)] = NAN;
    add(plain, 0);
    b.requests.back().rows[0][0] = ratify::detail::from_bits(0xffc00001u);  // negative, with a payload
    add(std::vector<float>(size_t(vocab), -inf), 0);
    add(plain, 20);
    b.requests.back().rows[0][size_t(vocab - 2)] = inf;
    add(plain, 0);
    b.requests.back().rows[0][8191] = b.requests.back().rows[0][77] = inf;
    add(std::vector<float>(size_t(vocab), -inf), 50);
    b.requests.back().rows[0][8192] = -3e38f;
    add(plain, 0);
    auto const expected = twin(b);
    on_each_executor([&](auto& on) {
      check_equal(run<rejection>(on, b), twin<rejection>(b));
      auto const out = run(on, b);
      check_equal(out, expected);
      CHECK(out.row_status == std::vector<int32_t>{0, 1, 1, 1, 1, 0, 0, 0, 0});
      CHECK(out.finish == std::vector<int32_t>{0, 3, 3, 3, 3, 0, 0, 0, 0});
      CHECK(out.tokens[5] == vocab - 2);
      CHECK(out.tokens[6] == 77);
      CHECK(out.tokens[7] == 8192);
      for (size_t i : {1, 2, 3, 4}) CHECK(out.tokens[i] == -1);
    });
  }
}

TEST_CASE("S3 a bad row stops emission only where it is reached") {
  batch b;
  b.vocab = 6;
  b.max_drafts = 3;
  b.requests = {greedy(6, {1, 2, 3, 4}, {1, 2, 3}), greedy(6, {1, 2, 3, 4}, {1, 5, 3}),
                greedy(6, {1, 2, 3, 4}, {1, 2, 3})};
  for (auto& r : b.requests) r.rows[2].assign(6, NAN);
  b.requests[2].limit = 2;
  on_each_executor([&](auto& on) {
    auto const out = run(on, b);
    check_equal(run<rejection>(on, b), out);
    CHECK(out.tokens == std::vector<int32_t>{1, 2, -1, -1, 1, 2, -1, -1, 1, 2, -1, -1});
    CHECK(out.accepted == std::vector<int32_t>{2, 1, 2});
    CHECK(out.finish == std::vector<int32_t>{3, 0, 2});
    CHECK(out.row_status == std::vector<int32_t>{0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0});
  });
}

TEST_CASE("S4 emission stops at the first end token and at the limit") {
  constexpr int end = 30, other = 31, vocab = 32;
  batch b;
  b.vocab = vocab;
  b.max_drafts = 5;
  b.end_tokens = {end, other};
  std::vector<int> const own{10, 11, end, 20, 21, 22};
  auto const add = [&](std::vector<int> tokens, int limit) {
    b.requests.push_back(greedy(vocab, tokens, std::vector<int32_t>(tokens.begin(), tokens.end() - 1)));
    b.requests.back().limit = limit;
  };
  add(own, 100);
  add({10, other, end, 20, 21, 22}, 100);
  add({end, 11, 12, 20, 21, 22}, 100);
  add({10, 11, 12, 20, 21, end}, 100);
  add(own, 5);
  add(own, 3);
  add(own, 2);
  add(own, 0);
  add(own, -4);
  add({10, 11, 12, 20, 21, 22}, 6);
  b.requests.push_back(greedy(vocab, own, {10, 9, end, 20, 21}));  // rejected before the end
  b.requests.back().limit = 2;
  on_each_executor([&](auto& on) {
    auto const out = run(on, b);
    check_equal(out, twin(b));
    check_equal(run<rejection>(on, b), out);
    CHECK(std::vector<int32_t>(out.tokens.begin(), out.tokens.begin() + 6) ==
          std::vector<int32_t>{10, 11, end, -1, -1, -1});
    CHECK(out.emitted == std::vector<int32_t>{3, 2, 1, 6, 3, 3, 2, 0, 0, 6, 2});
    CHECK(out.accepted == std::vector<int32_t>{3, 2, 1, 5, 3, 3, 2, 0, 0, 5, 1});
    CHECK(out.finish == std::vector<int32_t>{1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2});
  });
}

// The seeds are 0 to 99999 whatever RATIFY_TEST_SEED says; each of the statistics would reject a right program with a
// chance of 1e-6 if the generator were ideal.
TEST_CASE_TEMPLATE("S5 chosen drafts are accepted with p(x), and what is emitted follows p", Policy,
                   ratify::acceptance_policy, rejection) {
  bool const coupled = std::is_same_v<Policy, ratify::acceptance_policy>;
  int const seeds = scaled(scale() < 1.0 ? 10000 : 100000);
  std::vector<float> const logits{0.3f, 1.1f, -0.4f, 0.9f, -2.0f, 1.1f, -0.1f, -INFINITY};
  int const vocab = static_cast<int>(logits.size());
  // One batch of four kinds of requests: two that draw, one of them cut by top-k and top-p, and two that are greedy.
  std::vector<reference::request> kinds(4);
  for (size_t kind = 0; kind < 4; ++kind) {
    kinds[kind].rows = {logits, logits};
    kinds[kind].draft = {3};
    kinds[kind].temperature = std::vector<float>{0.7f, 1.0f, 0.0f, 1e-6f}[kind];
  }
  kinds[1].top_k = 6;
  kinds[1].top_p = 0.9f;
  batch b;
  b.vocab = vocab;
  b.max_drafts = 1;
  std::vector<size_t> kind_of;
  for (int seed = 0; seed < seeds; ++seed)
    for (size_t kind = 0; kind < 4; ++kind) {
      if (seed % (kind >= 2 ? 100 : kind == 1 ? 1 : coupled ? 4 : 10) != 0) continue;
      kinds[kind].seed = seed;
      b.requests.push_back(kinds[kind]);
      kind_of.push_back(kind);
    }
  on_each_executor([&](auto& on) {
    auto const out = run<Policy>(on, b);
    std::vector<int> const none(size_t(vocab), 0);
    std::vector<std::vector<int>> first(4, none), rejected(4, none), second(4, none);
    size_t wrong_verdicts = 0;
    for (size_t i = 0; i < kind_of.size(); ++i) {
      int const token = out.tokens[2 * i];
      if (token < 0 || token >= vocab || out.accepted[i] != (token == 3)) {
        ++wrong_verdicts;
        continue;
      }
      ++first[kind_of[i]][size_t(token)];
      if (out.accepted[i] == 0) ++rejected[kind_of[i]][size_t(token)];
      if (out.accepted[i] == 1) ++second[kind_of[i]][size_t(out.tokens[2 * i + 1])];
    }
    CHECK(wrong_verdicts == 0);
    for (size_t kind : {0, 1}) {
      auto const& r = kinds[kind];
      auto const p = reference::truth::distribution(logits, r.temperature, r.top_p, r.top_k);
      auto rest = p, wrong = p;
      rest[3] = 0.0;
      for (double& v : rest) v /= 1.0 - p[3];
      CAPTURE(kind);
      CHECK(excess(first[kind], p) <= 0.0);
      CHECK(excess(rejected[kind], rest) <= 0.0);
      CHECK(excess(second[kind], p) <= 0.0);
      if (scale() < 1.0 || kind == 0) continue;
      // The test sees a distribution that is off by a twentieth of one probability.
      wrong[1] += 0.05 * p[1];
      wrong[0] -= 0.05 * p[1];
      CHECK(excess(first[kind], wrong) > 0.0);
    }
    for (size_t kind : {2, 3}) {
      CHECK(first[kind][1] == (seeds + 99) / 100);  // of the two largest the lower id, always
      CHECK(rejected[kind][1] == (seeds + 99) / 100);
    }
  });
}

// Drafts come from a generator of their own, of a fixed seed.
TEST_CASE("S5 what rejection emits from drafts that were drawn follows p") {
  int const seeds = scaled(scale() < 1.0 ? 10000 : 16000);
  std::vector<float> const logits{0.3f, 1.1f, -0.4f, 0.9f, -2.0f, 1.1f, -0.1f, -INFINITY};
  size_t const vocab = logits.size();
  // Candidates: one twice, one that is none, one without mass in p; and over the vocabulary. Neither sums to 1.
  std::vector<reference::draft_source> const sources{{{1, 3, 3, 0, -1, 7}, {0.5f, 0.25f, 0.5f, 0.25f, 9.0f, 0.25f}},
                                                     {{}, {0.1f, 0.3f, 0.05f, 0.2f, 0.4f, 0.0f, 0.1f, 0.1f}}};
  for (size_t kind = 0; kind < 2; ++kind) {
    reference::request r;
    r.rows = {logits, logits};
    r.temperature = 0.7f;
    r.top_p = kind == 0 ? 1.0f : 0.9f;
    r.source = {sources[kind]};
    std::vector<double> q(vocab, 0.0);
    for (size_t i = 0; i < r.source[0].weights.size(); ++i) {
      int const id = kind == 0 ? r.source[0].candidates[i] : static_cast<int>(i);
      if (id >= 0) q[size_t(id)] += r.source[0].weights[i];
    }
    double const q_total = std::accumulate(q.begin(), q.end(), 0.0);
    batch b;
    b.vocab = static_cast<int>(vocab);
    b.max_drafts = 1;
    b.candidates = kind == 0 ? 6 : -1;
    std::mt19937_64 generator(7);
    std::discrete_distribution<int32_t> drafter(q.begin(), q.end());
    for (r.seed = 0; r.seed < seeds; ++r.seed) {
      r.draft = {drafter(generator)};
      b.requests.push_back(r);
    }
    auto const p = reference::truth::distribution(logits, r.temperature, r.top_p, r.top_k);
    double accepted = 0.0;  // the sum of min(p, q)
    for (size_t i = 0; i < vocab; ++i) accepted += std::min(p[i], q[i] / q_total);
    CAPTURE(kind);
    on_each_executor([&](auto& on) {
      auto const out = run<rejection>(on, b);
      std::vector<int> first(vocab, 0), second(vocab, 0), verdicts(2, 0), drafted(vocab, 0);
      for (size_t i = 0; i < b.requests.size(); ++i) {
        ++first[size_t(out.tokens[2 * i])];
        ++verdicts[size_t(out.accepted[i])];
        ++drafted[size_t(b.requests[i].draft[0])];
        if (out.accepted[i] == 1) ++second[size_t(out.tokens[2 * i + 1])];
      }
      CHECK(excess(first, p) <= 0.0);
      CHECK(excess(second, p) <= 0.0);
      CHECK(excess(verdicts, {1.0 - accepted, accepted}) <= 0.0);
      CHECK(excess(drafted, p) > 0.0);  // the drafts themselves do not
    });
  }
}

TEST_CASE_TEMPLATE("S6 texts from speculation have the distribution of plain decoding", Policy,
                   ratify::acceptance_policy, rejection) {
  // Target and drafter: chains over four tokens. Texts of three tokens after token 0, in rounds of up to two drafts.
  constexpr int vocab = 4, length = 3, drafts = 2;
  int const texts = scaled(scale() < 1.0 ? 4000 : 8000);
  std::vector<std::vector<float>> const target{
      {0.0f, 1.0f, 0.5f, -1.0f}, {1.0f, 1.0f, -0.5f, 0.2f}, {-2.0f, 0.0f, 0.3f, 0.4f}, {0.1f, 0.2f, 1.5f, 0.0f}};
  std::vector<std::vector<float>> const drafter{
      {0.4f, 0.3f, 0.2f, 0.1f}, {0.1f, 0.6f, 0.2f, 0.1f}, {0.7f, 0.1f, 0.1f, 0.1f}, {0.25f, 0.25f, 0.25f, 0.25f}};
  float const temperature = 0.7f;
  int const top_k = 3;
  std::vector<std::vector<double>> p;
  for (auto const& row : target) p.push_back(reference::truth::distribution(row, temperature, 1.0, top_k));
  std::vector<double> truth;
  for (int a = 0; a < vocab; ++a)
    for (int b = 0; b < vocab; ++b)
      for (int c = 0; c < vocab; ++c)
        truth.push_back(p[0][size_t(a)] * p[size_t(a)][size_t(b)] * p[size_t(b)][size_t(c)]);
  on_each_executor([&](auto& on) {
    std::mt19937_64 generator(8);
    std::vector<std::vector<int32_t>> text(static_cast<size_t>(texts), {0});
    for (int round = 0; round < length; ++round) {
      batch b;
      b.vocab = vocab;
      b.max_drafts = drafts;
      b.candidates = std::is_same_v<Policy, rejection> ? -1 : 0;
      for (size_t i = 0; i < text.size(); ++i) {
        reference::request r;  // none of rows where the text is complete
        r.temperature = temperature;
        r.top_k = top_k;
        r.seed = static_cast<int64_t>(i);
        r.position = static_cast<int64_t>(text[i].size());
        r.limit = length + 1 - static_cast<int>(text[i].size());
        int32_t last = text[i].back();
        for (int t = 0; r.limit > 0 && t <= drafts; ++t) {
          r.rows.push_back(target[size_t(last)]);
          if (t == drafts) break;
          auto const& q = drafter[size_t(last)];
          last = std::discrete_distribution<int32_t>(q.begin(), q.end())(generator);
          r.draft.push_back(last);
          if (b.candidates != 0) r.source.push_back({{}, q});
        }
        b.requests.push_back(r);
      }
      auto const out = run<Policy>(on, b);
      for (size_t i = 0; i < text.size(); ++i)
        if (!b.requests[i].rows.empty())
          text[i].insert(text[i].end(), &out.tokens[i * 3], &out.tokens[i * 3] + out.emitted[i]);
    }
    std::vector<int> counts(truth.size(), 0);
    for (auto const& t : text) {
      REQUIRE(t.size() == length + 1);
      ++counts[size_t(t[1] * 16 + t[2] * 4 + t[3])];
    }
    CHECK(excess(counts, truth) <= 0.0);
  });
}

TEST_CASE("S6 tokens are the same with and without drafts, at every temperature") {
  random_source random(6);
  for (float temperature : {0.0f, 0.7f, 1.0f}) {
    // The model: logits depend on the last token alone.
    constexpr int vocab = 40, length = 60;
    std::vector<std::vector<float>> model;
    for (int i = 0; i < vocab; ++i) model.push_back(random.normals<float>(vocab, 3.0f));
    auto const generate = [&](auto& on, int drafts, auto policy) {
      std::vector<int32_t> text{0};
      while (text.size() < length) {
        batch b;
        b.vocab = vocab;
        b.max_drafts = drafts;
        reference::request r;
        r.temperature = temperature;
        r.top_k = 20;
        r.top_p = 0.95f;
        r.seed = 99;
        r.position = static_cast<int64_t>(text.size());
        r.limit = static_cast<int>(length - text.size());
        r.rows.push_back(model[size_t(text.back())]);
        for (int d = 0; d < drafts; ++d) {
          r.draft.push_back(reference::order(r.rows.back())[random.integer(0, 2) == 0 ? 1 : 0]);
          r.rows.push_back(model[size_t(r.draft.back())]);
        }
        b.requests = {r};
        auto const out = run<decltype(policy)>(on, b);
        REQUIRE(out.emitted[0] > 0);
        text.insert(text.end(), out.tokens.begin(), out.tokens.begin() + out.emitted[0]);
      }
      return text;
    };
    on_each_executor([&](auto& on) {
      auto const plain = generate(on, 0, ratify::acceptance_policy{});
      CHECK(generate(on, 3, ratify::acceptance_policy{}) == plain);
      CHECK(generate(on, 7, ratify::acceptance_policy{}) == plain);
      if (temperature == 0.0f) CHECK(generate(on, 3, rejection{}) == plain);
    });
  }
}

TEST_CASE("acceptance of every vocabulary around the sizes where the way of searching changes") {
  random_source random(7);
  for (int vocab : {127, 128, 129, 2047, 2048, 2049, 4096, 4097, 8192, 8193, 8257, 16384, 16385}) {
    batch b;
    b.vocab = vocab;
    for (int top_k : {0, 1, 20, 32, 33, 63, 64, 65, 511, 512, 513, 600}) {
      reference::request r;
      r.rows = {random_row<float>(random, vocab)};
      r.top_k = top_k;
      r.top_p = random.one_of({0.9f, 1.0f});
      r.seed = static_cast<int64_t>(random.word());
      b.requests.push_back(r);
    }
    auto const expected = twin(b);
    CAPTURE(vocab);
    on_each_executor([&](auto& on) {
      launched<ratify::acceptance_policy, std::decay_t<decltype(on)>> all(on, b);
      check_equal(all.run(), expected);
      auto tokens = expected.tokens;
      CHECK(all.template row_tokens<32>() == tokens);
      CHECK(all.template row_tokens<512>() == tokens);
    });
  }
}

TEST_CASE("an entry's share of the random words begins and ends exactly where its mass does") {
  // n equal entries, n a power of 2: entry i owns the words from i * 2^32 / n up.
  for (int n : {4, 256, 4096}) {
    uint64_t const share = (uint64_t{1} << 32) / static_cast<uint64_t>(n);
    std::vector<uint32_t> random{0, 0xffffffffu};
    std::vector<int32_t> all{0, n - 1}, quarter{0, n / 4 - 1};
    for (int i : {1, n / 4, n / 2, n - 1}) {
      random.push_back(static_cast<uint32_t>(static_cast<uint64_t>(i) * share - 1));
      random.push_back(random.back() + 1);
      all.insert(all.end(), {i - 1, i});
      for (size_t at : {random.size() - 2, random.size() - 1})
        quarter.push_back(static_cast<int>(random[at] / share / 4));
    }
    std::vector<int32_t> more = quarter;  // a top_p just above 1/4 keeps one entry more
    for (size_t i = 0; i < more.size(); ++i)
      more[i] = static_cast<int>(static_cast<uint64_t>(random[i]) * static_cast<uint64_t>(n / 4 + 1) >> 32);
    std::vector<float> const row(size_t(n), 3.0f);
    CAPTURE(n);
    on_each_executor([&](auto& on) {
      CHECK(draw<32>(on, row, {1.0f, 1.0f, 0}, random) == all);
      CHECK(draw<512>(on, row, {1.0f, 1.0f, 0}, random) == all);
      CHECK(draw<32>(on, row, {1.0f, 0.25f, 0}, random) == quarter);
      CHECK(draw<512>(on, row, {1.0f, 0.25f, 0}, random) == quarter);
      CHECK(draw<32>(on, row, {1.0f, 0x1.000002p-2f, 0}, random) == more);
      CHECK(draw<32>(on, row, {1.0f, 0x1p-20f, n - 1}, random) == std::vector<int32_t>(random.size(), 0));
      CHECK(draw<32>(on, row, {1.0f, 1.0f, n / 4}, random) == quarter);
      CHECK(draw<512>(on, row, {1.0f, 1.0f, n / 4}, random) == quarter);
    });
  }
}

TEST_CASE("the last unit of an entry's mass is its own") {
  // Two entries, and a word whose draw point is the last unit of the first one's mass: one in some 2^8 pairs has one.
  random_source random(9);
  int found = 0;
  while (found < 4) {
    float const second = -random.uniform(0.1f, 6.0f);
    uint64_t const first_mass = uint64_t{1} << 40, total = first_mass + ratify::device::mass(second, 0.0f, 1.0f);
    auto const word = static_cast<uint32_t>((static_cast<reference::uint128>(first_mass) << 32) / total);
    if (ratify::device::draw_point(word, total) != first_mass - 1) continue;
    ++found;
    on_each_executor([&](auto& on) {
      std::vector<int32_t> const expected{0, 1};
      CHECK(draw<32>(on, {0.0f, second}, {1.0f, 1.0f, 0}, {word, word + 1}) == expected);
      // The same among entries without mass, where histograms find it.
      std::vector<float> row(600, -1000.0f);
      row[0] = 0.0f;
      row[1] = second;
      CHECK(draw<512>(on, row, {1.0f, 1.0f, 0}, {word, word + 1}) == expected);
    });
  }
}

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

TEST_CASE("a query_start out of range leaves its request untouched") {
  batch b;
  b.vocab = 5;
  b.max_drafts = 1;
  for (int i = 0; i < 3; ++i) b.requests.push_back(greedy(5, {3, 4}, {3}));
  for (std::vector<int32_t> const& starts : {std::vector<int32_t>{0, 2, 5, 6},
                                             {0, 2, 4, 7},
                                             {0, 2, 1, 6},
                                             {-1, 2, 4, 6},
                                             {0, INT32_MAX, INT32_MIN, 6},
                                             {0, 100, 3, 4}}) {
    on_each_executor([&](auto& on) {
      auto const out = launched<ratify::acceptance_policy, std::decay_t<decltype(on)>>(on, b, &starts).run();
      for (size_t r = 0; r < 3; ++r) {
        int64_t const begin = starts[r], end = starts[r + 1];
        bool good = begin >= 0 && end > begin && end <= 6 && end - begin <= 2;
        for (size_t before = 0; before < r; ++before) good = good && starts[before] <= begin;  // whose row is it?
        CHECK((out.emitted[r] == untouched) == !good);
        CHECK((out.finish[r] == untouched) == !good);
        if (!good) CHECK(out.tokens[2 * r] == untouched);
      }
      for (int32_t s : out.row_status) CHECK(s == 0);
    });
  }
}

TEST_CASE("cursors follow what is kept, round after round") {
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
        flush(requests, 0), count(requests, 0), start, next(requests, 0);
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
           want_next = in_place ? flush : next;
      for (size_t i = 0; i < requests; ++i) {
        if (b.requests[i].rows.empty() || slot[i] < 0) continue;
        int32_t const n = expected.emitted[i];
        want_selector[i] = want_kept[i] = n;
        if (n > 0) want_fresh[i] = 0;
        if (flush[i] == 1) {
          want_start[i] = (start[i] + count[i]) % places;
          want_count[i] = 0;
        }
        want_count[i] += n;
        want_next[i] = want_count[i] > places - 2 * round_rows;
      }
      on_each_executor([&](auto& on) {
        using executor = std::decay_t<decltype(on)>;
        launched<ratify::acceptance_policy, executor> all(on, b);
        using integers = buffer<int32_t, executor>;
        integers d_slot(on, slot), d_selector(on, selector), d_kept(on, kept), d_fresh(on, fresh), d_start(on, start),
            d_count(on, count), d_flush(on, flush), d_next(on, next);
        auto& c = all.p.cursors;
        c = {d_slot.data(),  d_selector.data(), d_kept.data(),  d_fresh.data(),
             d_start.data(), d_count.data(),    d_flush.data(), in_place ? d_flush.data() : d_next.data(),
             places,         round_rows};
        check_equal(all.run(), expected);
        CHECK(d_selector.read() == want_selector);
        CHECK(d_kept.read() == want_kept);
        CHECK(d_fresh.read() == want_fresh);
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
      next = want_next;
      flush = next;
      tag += 100;
    }
    CHECK(selector[3] == 7);
    CHECK(fresh[3] == 1);
  }
}

TEST_CASE("cursors that are not asked for or make no sense are left alone") {
  batch b;
  b.vocab = 3;
  b.max_drafts = 1;
  for (int i = 0; i < 5; ++i) b.requests.push_back(greedy(3, {1, 2}, {1}));
  std::vector<int32_t> const start{0, -1, 16, INT32_MAX, 15}, count{15, 0, 0, INT32_MAX, INT32_MIN}, flush(5, 1);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    launched<ratify::acceptance_policy, executor> all(on, b);
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

TEST_CASE("acceptance says which rule a launch breaks") {
  using operation = ratify::acceptance<ratify::acceptance_policy>;
  operation::params p;
  p.vocab = 4;
  auto const reason = [](operation::params const& q) { return std::string(operation::can_launch(q, host()).reason()); };
  CHECK(reason(p) == "");
  auto q = p;
  q.rows = -1;
  CHECK(reason(q) == "ratify::acceptance: rows must not be negative");
  q = p;
  q.requests = -1;
  CHECK(reason(q) == "ratify::acceptance: requests must not be negative");
  for (int vocab : {0, -1, 4194305}) {
    q = p;
    q.vocab = vocab;
    CHECK(reason(q) == "ratify::acceptance: vocab must be 1 to 4194304, so that sums of masses stay below 2^63");
  }
  q = p;
  for (int drafts : {-1, (1 << 30) + 1, INT32_MAX}) {
    q.max_drafts = drafts;
    CHECK(reason(q) == "ratify::acceptance: max_drafts must be 0 to 2^30");
  }
  q = p;
  q.end_count = -1;
  CHECK(reason(q) == "ratify::acceptance: end_count must not be negative");
  int32_t const id = 0;
  float const weight = 1.0f;
  q = p;
  q.draft_candidates.data = &id;
  q.candidates = 1;
  CHECK(reason(q) == "ratify::acceptance: draft_candidates and draft_candidate_q must be given together");
  q.draft_candidate_q.data = &weight;
  CHECK(reason(q) == "");
  for (int n : {0, -1, 4194305}) {
    q.candidates = n;
    CHECK(reason(q) == "ratify::acceptance: candidates must be 1 to 4194304 where draft_candidates are given");
  }
  q.draft_probs.data = &weight;
  CHECK(reason(q) ==
        "ratify::acceptance: at most one of draft_candidates and draft_probs may say what drafts were drawn from");
  q = p;
  q.shards = 0;
  CHECK(reason(q) == "ratify::acceptance: shards must be at least 1");
  for (auto const& [shards, each] : std::vector<std::pair<int, int>>{{2, 0}, {2, 1}, {2, 4}, {5, 1}, {INT32_MAX, 1}}) {
    q.shards = shards;
    q.shard_vocab = each;
    CHECK(reason(q) ==
          "ratify::acceptance: shards of shard_vocab ids must hold vocab ids, the last of them one or more; of "
          "acceptance_word, shard_vocab is the words of a summary, 1 to 512");
  }
  q.shards = 2;
  q.shard_vocab = 3;
  CHECK(reason(q) == "");
  q = p;
  int32_t cursor = 0;
  q.cursors.ring_start = &cursor;
  CHECK(reason(q) == "ratify::acceptance: cursors.ring_start and cursors.ring_count must be given together");
  q.cursors.ring_count = &cursor;
  CHECK(reason(q) == "ratify::acceptance: cursors.ring_places must be 16, 32 or 64, as in recurrence");
  q.cursors.ring_places = 16;
  for (int n : {0, 9}) {
    q.cursors.round_rows = n;
    CHECK(reason(q) ==
          "ratify::acceptance: cursors.round_rows must be 1 to ring_places / 2, so that a round finds room after a "
          "flush");
  }
  q.cursors.round_rows = 8;
  q.cursors.flush = q.cursors.next_flush = &cursor;
  CHECK(reason(q) == "");
  q.cursors.ring_start = q.cursors.ring_count = nullptr;
  CHECK(reason(q) ==
        "ratify::acceptance: cursors.flush and cursors.next_flush need cursors.ring_start and cursors.ring_count");
  q = p;
  q.rows = q.requests = 1;
  CHECK(operation::workspace_bytes(q, host()) == 4);
  CHECK(operation::launch(q, {}, host()).code() == ratify::status_code::workspace_too_small);
}

TEST_CASE("a summary says which rule a launch breaks") {
  using operation = ratify::acceptance_summary<ratify::acceptance_policy>;
  operation::params p;
  p.vocab = p.places = 4;
  auto const reason = [](operation::params const& q) { return std::string(operation::can_launch(q, host()).reason()); };
  CHECK(reason(p) == "");
  auto q = p;
  q.rows = -1;
  CHECK(reason(q) == "ratify::acceptance_summary: rows must not be negative");
  q = p;
  q.requests = -1;
  CHECK(reason(q) == "ratify::acceptance_summary: requests must not be negative");
  for (auto const& [first, vocab] : std::vector<std::pair<int, int>>{{-1, 4}, {0, 0}, {4194301, 4}, {INT32_MAX, 1}}) {
    q = p;
    q.first_id = first;
    q.vocab = vocab;
    CHECK(reason(q) ==
          "ratify::acceptance_summary: first_id must not be negative, vocab at least 1, and their sum at most 4194304");
  }
  q = p;
  for (int drafts : {-1, (1 << 30) + 1, INT32_MAX}) {
    q.max_drafts = drafts;
    CHECK(reason(q) == "ratify::acceptance_summary: max_drafts must be 0 to 2^30");
  }
  for (int places : {0, 513}) {
    q = p;
    q.places = places;
    CHECK(reason(q) == "ratify::acceptance_summary: places must be 1 to 512");
  }
  using words = ratify::acceptance<from_words<rejection>>;
  words::params w;
  w.vocab = 4;
  CHECK_FALSE(words::can_launch(w, host()));
  w.shard_vocab = 512;
  CHECK(words::can_launch(w, host()));
}

TEST_CASE("acceptance supports both rules and three logit formats") {
  CHECK(ratify::is_supported_acceptance<ratify::acceptance_policy>);
  CHECK(ratify::is_supported_acceptance<policy_f16>);
  CHECK(ratify::is_supported_acceptance<policy_bf16>);
  CHECK(ratify::is_supported_acceptance<rejection>);
}
