// SPDX-License-Identifier: Apache-2.0
/// What draft_walk draws: shares of the random words, and the distribution that acceptance makes of it.
#include <ratify/acceptance.cuh>

#include "support/chi_square.hpp"
#include "support/drafting.hpp"

namespace {

using namespace ratify_test;
using rejection = ratify::acceptance<ratify::rule<ratify::acceptance_rule::rejection>>;

/// One block per random word: each draws for the same slot.
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
  // Two draft_slots, whose candidates' scores depend on the token before; the target's two rows are others.
  int const seeds = scaled(scale() < 1.0 ? 10000 : 30000);
  constexpr int vocab = 8, draft_slots = 2, count = 5, rank = 3;
  random_source random(305);
  std::vector<float> const left = random.normals<float>(vocab * rank), right = random.normals<float>(vocab * rank),
                           project = random.normals<float>(draft_slots * rank),
                           unary = random.normals<float>(draft_slots * count);
  std::vector<int32_t> const candidates{1, 3, 3, 6, -1, 0, 1, 2, 3, 7};
  std::vector<float> const logits{0.3f,  1.1f, -0.4f, 0.9f, -2.0f, 1.1f, -0.1f, -INFINITY, 0.1f, -0.3f, 0.8f,  1.5f,
                                  -1.0f, 0.2f, 0.4f,  0.6f, 0.0f,  2.0f, 1.0f,  0.5f,      0.1f, -1.0f, -2.0f, 0.3f};
  float const draft_temperature = 1.3f, temperature = 0.8f;
  std::vector<int64_t> seed, position;
  std::vector<int32_t> starts{0};
  for (int i = 0; i < seeds; ++i) {
    seed.push_back(i);
    position.push_back(5);
    starts.push_back(starts.back() + draft_slots + 1);
  }
  // The same for every seed: rows one after the other, or a number.
  auto const repeated = [&](auto const& row) {
    std::decay_t<decltype(row)> all;
    for (int i = 0; i < seeds; ++i) all.insert(all.end(), row.begin(), row.end());
    return all;
  };
  auto const same = [&](auto value) { return std::vector<decltype(value)>(size_t(seeds), value); };
  std::vector<std::vector<double>> p;
  for (int t = 0; t <= draft_slots; ++t)
    p.push_back(reference::truth::distribution({logits.begin() + t * vocab, logits.begin() + (t + 1) * vocab},
                                               temperature, 1.0, 0));

  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    using memory = buffer<float, executor>;
    using integers = buffer<int32_t, executor>;
    memory l(on, left), r(on, right), pr(on, repeated(project)), un(on, repeated(unary)),
        t(on, same(draft_temperature)), target_t(on, same(temperature)), top_p(on, same(1.0f)),
        q(on, size_t(seeds) * draft_slots * count);
    integers ca(on, repeated(candidates)), anchor(on, same(int32_t{4})), tokens(on, size_t(seeds) * draft_slots),
        top_k(on, same(int32_t{0})), limit(on, same(int32_t{9})), query(on, starts),
        out(on, size_t(seeds) * (draft_slots + 1)), emitted(on, size_t(seeds)), accepted(on, size_t(seeds)),
        finish(on, size_t(seeds)), status(on, size_t(seeds) * (draft_slots + 1));
    buffer<int64_t, executor> se(on, seed), po(on, position);
    walk_sample::params w;
    w.unary = {un.data(), draft_slots * count, count};
    w.candidates = {ca.data(), draft_slots * count, count};
    w.left = {l.data(), rank};
    w.right = {r.data(), rank};
    w.project = {pr.data(), draft_slots * rank, rank};
    w.anchor = anchor.data();
    w.temperature = t.data();
    w.seed = se.data();
    w.position = po.data();
    w.tokens = {tokens.data(), draft_slots};
    w.q = {q.data(), draft_slots * count, count};
    w.requests = seeds;
    w.draft_slots = draft_slots;
    w.candidate_count = count;
    w.rank = rank;
    w.vocab = vocab;
    REQUIRE(launch<walk_sample>(w, on));

    rejection::params a;
    memory rows(on, repeated(logits));
    a.logits = {rows.data(), vocab};
    a.query_start = query.data();
    a.draft = {tokens.data(), draft_slots};
    a.temperature = target_t.data();
    a.top_p = top_p.data();
    a.top_k = top_k.data();
    a.seed = se.data();
    a.position = po.data();
    a.limit = limit.data();
    a.draft_candidates = w.candidates;
    a.draft_candidate_q = {q.data(), draft_slots * count, count};
    a.candidates = count;
    a.tokens = out.data();
    a.emitted = emitted.data();
    a.accepted = accepted.data();
    a.finish = finish.data();
    a.row_status = status.data();
    a.rows = seeds * (draft_slots + 1);
    a.requests = seeds;
    a.vocab = vocab;
    a.max_drafts = draft_slots;
    REQUIRE(launch<rejection>(a, on));

    // The drafts follow q, the emitted tokens p.
    auto const drafts = tokens.read(), text = out.read(), ends = emitted.read();
    auto const shares = q.read();
    std::vector<double> drafted_p(vocab, 0.0);
    for (int c = 0; c < count; ++c)
      if (candidates[size_t(c)] >= 0) drafted_p[size_t(candidates[size_t(c)])] += double{shares[size_t(c)]};
    std::vector<int> drafted(vocab, 0);
    std::vector<std::vector<int>> counts(draft_slots + 1, std::vector<int>(vocab, 0));
    for (int i = 0; i < seeds; ++i) {
      ++drafted[size_t(drafts[size_t(i) * draft_slots])];
      for (int32_t s = 0; s < ends[size_t(i)]; ++s)
        ++counts[size_t(s)][size_t(text[size_t(i) * (draft_slots + 1) + size_t(s)])];
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
