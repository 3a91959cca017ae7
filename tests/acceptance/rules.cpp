// SPDX-License-Identifier: Apache-2.0
#include <ratify/acceptance.cuh>

#include "support/refusal.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace {

using namespace ratify_test;

using operation = ratify::acceptance<>;
using rejection = ratify::acceptance<ratify::rule<ratify::acceptance_rule::rejection>>;
using of_words = ratify::acceptance<ratify::logit_format<ratify::acceptance_word>>;
using summary = ratify::acceptance_summary<>;

/// Memory for every tensor: the launches below are refused, so that nothing is read.
struct memory {
  std::vector<int64_t> anything = std::vector<int64_t>(4096);
  /// Another place for each number.
  template <class T>
  T* as(int place = 0) {
    return reinterpret_cast<T*>(anything.data() + place * 64);
  }
};

/// Good parameters: 2 rows of one request with one draft, 4 ids.
template <class Operation>
typename Operation::params good(memory& m) {
  typename Operation::params p;
  p.logits = {m.as<typename Operation::policy::logit_format>(), 4};
  p.query_start = m.as<int32_t>();
  p.draft = {m.as<int32_t>(), 1};
  p.temperature = p.top_p = m.as<float>();
  p.top_k = p.limit = m.as<int32_t>();
  p.seed = p.position = m.as<int64_t>();
  p.tokens = m.as<int32_t>(1);
  p.emitted = m.as<int32_t>(2);
  p.accepted = m.as<int32_t>(3);
  p.finish = m.as<int32_t>(4);
  p.row_status = m.as<int32_t>(5);
  p.rows = 2;
  p.requests = p.max_drafts = 1;
  p.vocab = 4;
  if constexpr (std::is_same_v<Operation, of_words>) p.shard_vocab = 4;
  return p;
}

summary::params good_summary(memory& m) {
  summary::params p;
  p.logits = {m.as<float>(), 4};
  p.query_start = p.top_k = m.as<int32_t>();
  p.temperature = p.top_p = m.as<float>();
  p.words = {m.as<ratify::acceptance_word>(1), 4};
  p.rows = 2;
  p.requests = p.max_drafts = 1;
  p.vocab = p.places = 4;
  return p;
}

}  // namespace

TEST_CASE("acceptance refuses extents that contradict themselves or are not built") {
  memory m;
  auto const p = good<operation>(m);
  REQUIRE(operation::can_launch(p, host()));
  invalid<operation>(p, "ratify::acceptance: rows and requests must not be negative", [](auto& q) { q.rows = -1; });
  invalid<operation>(p, "ratify::acceptance: rows and requests must not be negative",
                     [](auto& q) { q.rows = 0, q.requests = -1; });
  invalid<operation>(p, "ratify::acceptance: requests must be at least 1 if there are rows",
                     [](auto& q) { q.requests = 0; });
  for (int const vocab : {0, -1})
    invalid<operation>(p, "ratify::acceptance: vocab must be at least 1 id", [&](auto& q) { q.vocab = vocab; });
  unsupported<operation>(
      p, "ratify::acceptance: vocab must be at most 4194304 ids, so that sums of masses stay below 2^63",
      [](auto& q) { q.vocab = q.logits.stride = 4194305; });
  invalid<operation>(p, "ratify::acceptance: max_drafts must not be negative", [](auto& q) { q.max_drafts = -1; });
  unsupported<operation>(p, "ratify::acceptance: max_drafts must be at most 2^30",
                         [](auto& q) { q.max_drafts = (1 << 30) + 1; });
  invalid<operation>(p, "ratify::acceptance: end_count must not be negative", [](auto& q) { q.end_count = -1; });
}

TEST_CASE("acceptance refuses shards that do not hold the vocabulary") {
  memory m;
  auto const p = good<operation>(m);
  invalid<operation>(p, "ratify::acceptance: shards must be at least 1", [](auto& q) { q.shards = 0; });
  for (auto const& [shards, each] : std::vector<std::pair<int, int>>{{2, 0}, {2, 1}, {2, 4}, {5, 1}, {INT32_MAX, 1}})
    invalid<operation>(
        p, "ratify::acceptance: shards of shard_vocab ids must hold exactly vocab ids, the last of them at least one",
        [&, s = shards, e = each](auto& q) { q.shards = s, q.shard_vocab = e, q.shard_stride = 8; });
  auto sharded = p;
  sharded.shards = 2;
  sharded.shard_vocab = 3;
  sharded.shard_stride = 8;
  CHECK(operation::can_launch(sharded, host()));
  auto const words = good<of_words>(m);
  CHECK(of_words::can_launch(words, host()));
  invalid<of_words>(words, "ratify::acceptance: of acceptance_word, shard_vocab must be the words of one summary",
                    [](auto& q) { q.shard_vocab = 0; });
  unsupported<of_words>(words, "ratify::acceptance: of acceptance_word, shard_vocab must be at most 512 words",
                        [](auto& q) { q.shard_vocab = q.logits.stride = 513; });
}

TEST_CASE("acceptance refuses sources of drafts and cursors that are given in part") {
  memory m;
  auto p = good<rejection>(m);
  invalid<rejection>(p, "ratify::acceptance: draft_candidates and draft_candidate_q must be given together",
                     [&](auto& q) { q.draft_candidates.data = m.as<int32_t>(); });
  p.draft_candidates = {m.as<int32_t>(), 3, 3};
  p.draft_candidate_q = {m.as<float>(), 3, 3};
  p.candidates = 3;
  CHECK(rejection::can_launch(p, host()));
  invalid<rejection>(p,
                     "ratify::acceptance: at most one of draft_candidates and draft_probs may say what drafts were "
                     "drawn from",
                     [&](auto& q) {
                       q.draft_probs = {m.as<float>(), 4, 4};
                     });
  for (int const n : {0, -1})
    invalid<rejection>(p, "ratify::acceptance: candidates must be at least 1 if draft_candidates are given",
                       [&](auto& q) { q.candidates = n; });
  unsupported<rejection>(p, "ratify::acceptance: candidates must be at most 4194304",
                         [](auto& q) { q.candidates = 4194305; });
  auto const c = good<operation>(m);
  char const* const ignored = "ratify::acceptance: draft_candidates and draft_probs have no effect under rule coupled";
  invalid<operation>(c, ignored, [&](auto& q) { q.draft_probs = {m.as<float>(), 4, 4}; });
  invalid<operation>(c, ignored, [&](auto& q) {
    q.draft_candidates = p.draft_candidates;
    q.draft_candidate_q = p.draft_candidate_q;
    q.candidates = 3;
  });
  invalid<operation>(c, "ratify::acceptance: cursors.ring_start and cursors.ring_count must be given together",
                     [&](auto& q) { q.cursors.ring_start = m.as<int32_t>(); });
  invalid<operation>(c,
                     "ratify::acceptance: cursors.flush and cursors.next_flush need cursors.ring_start and "
                     "cursors.ring_count",
                     [&](auto& q) { q.cursors.flush = m.as<int32_t>(); });
  invalid<operation>(c,
                     "ratify::acceptance: cursors.flush and cursors.next_flush need cursors.ring_start and "
                     "cursors.ring_count",
                     [&](auto& q) { q.cursors.next_flush = m.as<int32_t>(); });
  auto ring = c;
  ring.cursors.ring_start = ring.cursors.ring_count = m.as<int32_t>();
  ring.cursors.flush = ring.cursors.next_flush = m.as<int32_t>();
  ring.cursors.round_rows = 8;
  unsupported<operation>(ring, "ratify::acceptance: cursors.ring_places must be 16, 32 or 64, as in recurrence",
                         [](auto& q) { q.cursors.ring_places = 24; });
  for (int const n : {0, -16})
    invalid<operation>(ring, "ratify::acceptance: cursors.ring_places must be at least 1 if there are rings",
                       [&](auto& q) { q.cursors.ring_places = n; });
  ring.cursors.ring_places = 16;
  CHECK(operation::can_launch(ring, host()));
  ring.max_drafts = ring.draft.stride = 7;
  CHECK(operation::can_launch(ring, host()));
  for (int const n : {1, 7})
    invalid<operation>(
        ring, "ratify::acceptance: cursors.round_rows must be at least max_drafts + 1, the most rows of a round",
        [&](auto& q) { q.cursors.round_rows = n; });
  for (int const n : {0, 9})
    invalid<operation>(ring,
                       "ratify::acceptance: cursors.round_rows must be 1 to ring_places / 2, so that a round finds "
                       "room after a flush",
                       [&](auto& q) { q.cursors.round_rows = n; });
}

TEST_CASE("acceptance refuses null pointers") {
  memory m;
  auto const p = good<operation>(m);
  auto const null = [&](char const* text, auto change) { invalid<operation>(p, text, change); };
  null("ratify::acceptance: query_start must not be null", [](auto& q) { q.query_start = nullptr; });
  null("ratify::acceptance: temperature must not be null", [](auto& q) { q.temperature = nullptr; });
  null("ratify::acceptance: top_p must not be null", [](auto& q) { q.top_p = nullptr; });
  null("ratify::acceptance: top_k must not be null", [](auto& q) { q.top_k = nullptr; });
  null("ratify::acceptance: seed must not be null", [](auto& q) { q.seed = nullptr; });
  null("ratify::acceptance: position must not be null", [](auto& q) { q.position = nullptr; });
  null("ratify::acceptance: limit must not be null", [](auto& q) { q.limit = nullptr; });
  null("ratify::acceptance: end_tokens must not be null if there are any", [](auto& q) { q.end_count = 1; });
  null("ratify::acceptance: draft must not be null if max_drafts is above 0", [](auto& q) { q.draft.data = nullptr; });
  null("ratify::acceptance: tokens must not be null", [](auto& q) { q.tokens = nullptr; });
  null("ratify::acceptance: emitted must not be null", [](auto& q) { q.emitted = nullptr; });
  null("ratify::acceptance: accepted must not be null", [](auto& q) { q.accepted = nullptr; });
  null("ratify::acceptance: finish must not be null", [](auto& q) { q.finish = nullptr; });
  null("ratify::acceptance: logits must not be null", [](auto& q) { q.logits.data = nullptr; });
  null("ratify::acceptance: row_status must not be null", [](auto& q) { q.row_status = nullptr; });
  // What is not there need not be given.
  auto few = p;
  few.draft = {};
  few.max_drafts = 0;
  CHECK(operation::can_launch(few, host()));
  few.rows = 0;
  few.logits = {};
  few.row_status = nullptr;
  CHECK(operation::can_launch(few, host()));
  operation::params none;
  none.vocab = 4;
  CHECK(operation::can_launch(none, host()));
}

TEST_CASE("acceptance refuses strides that do not reach over what they step over") {
  memory m;
  char const* const logits =
      "ratify::acceptance: a stride of logits, or shard_stride, is smaller than what it steps over";
  auto p = good<rejection>(m);
  for (int64_t const stride : {3, 0, -4}) invalid<rejection>(p, logits, [&](auto& q) { q.logits.stride = stride; });
  p.shards = 2;
  p.shard_vocab = 2;
  p.logits.stride = 2;
  for (int64_t const stride : {3, 0, -4}) invalid<rejection>(p, logits, [&](auto& q) { q.shard_stride = stride; });
  p.shard_stride = 4;
  CHECK(rejection::can_launch(p, host()));
  p.logits.stride = 4;  // rows of a shard lie between those of the other
  p.shard_stride = 2;
  CHECK(rejection::can_launch(p, host()));
  p.requests = 2;
  p.max_drafts = 3;
  p.draft.stride = 3;
  CHECK(rejection::can_launch(p, host()));
  invalid<rejection>(p, "ratify::acceptance: a stride of draft is smaller than what it steps over",
                     [](auto& q) { q.draft.stride = 2; });
  auto dense = p;
  dense.draft_probs = {m.as<float>(), 12, 4};
  CHECK(rejection::can_launch(dense, host()));
  invalid<rejection>(dense, "ratify::acceptance: a stride of draft_probs is smaller than what it steps over",
                     [](auto& q) { q.draft_probs.head_stride = 3; });
  invalid<rejection>(dense, "ratify::acceptance: a stride of draft_probs is smaller than what it steps over",
                     [](auto& q) { q.draft_probs.row_stride = 11; });
  p.draft_candidates = {m.as<int32_t>(), 6, 2};
  p.draft_candidate_q = {m.as<float>(), 6, 2};
  p.candidates = 2;
  CHECK(rejection::can_launch(p, host()));
  invalid<rejection>(p, "ratify::acceptance: a stride of draft_candidates is smaller than what it steps over",
                     [](auto& q) { q.draft_candidates.row_stride = 5; });
  invalid<rejection>(p, "ratify::acceptance: a stride of draft_candidate_q is smaller than what it steps over",
                     [](auto& q) { q.draft_candidate_q.head_stride = 1; });
}

TEST_CASE("acceptance refuses pointers off their elements, and spans that no memory has") {
  memory m;
  auto all = good<rejection>(m);
  all.requests = all.max_drafts = 2;
  all.draft.stride = 2;
  misaligned<rejection>(
      all, "ratify::acceptance: query_start must be aligned to its elements",
      [](auto& q) -> auto& { return q.query_start; });
  misaligned<rejection>(
      all, "ratify::acceptance: temperature must be aligned to its elements",
      [](auto& q) -> auto& { return q.temperature; });
  misaligned<rejection>(
      all, "ratify::acceptance: top_p must be aligned to its elements", [](auto& q) -> auto& { return q.top_p; });
  misaligned<rejection>(
      all, "ratify::acceptance: top_k must be aligned to its elements", [](auto& q) -> auto& { return q.top_k; });
  misaligned<rejection>(
      all, "ratify::acceptance: seed must be aligned to its elements", [](auto& q) -> auto& { return q.seed; });
  misaligned<rejection>(
      all, "ratify::acceptance: position must be aligned to its elements", [](auto& q) -> auto& { return q.position; });
  misaligned<rejection>(
      all, "ratify::acceptance: limit must be aligned to its elements", [](auto& q) -> auto& { return q.limit; });
  misaligned<rejection>(
      all, "ratify::acceptance: end_tokens must be aligned to its elements",
      [](auto& q) -> auto& { return q.end_tokens; });
  misaligned<rejection>(
      all, "ratify::acceptance: draft must be aligned to its elements", [](auto& q) -> auto& { return q.draft; });
  far_away<rejection>(
      all, "ratify::acceptance: the strides of draft reach over 2^63 bytes", [](auto& q) -> auto& { return q.draft; });
  misaligned<rejection>(
      all, "ratify::acceptance: tokens must be aligned to its elements", [](auto& q) -> auto& { return q.tokens; });
  misaligned<rejection>(
      all, "ratify::acceptance: emitted must be aligned to its elements", [](auto& q) -> auto& { return q.emitted; });
  misaligned<rejection>(
      all, "ratify::acceptance: accepted must be aligned to its elements", [](auto& q) -> auto& { return q.accepted; });
  misaligned<rejection>(
      all, "ratify::acceptance: finish must be aligned to its elements", [](auto& q) -> auto& { return q.finish; });
  misaligned<rejection>(
      all, "ratify::acceptance: cursors.slot must be aligned to its elements",
      [](auto& q) -> auto& { return q.cursors.slot; });
  misaligned<rejection>(
      all, "ratify::acceptance: cursors.selector must be aligned to its elements",
      [](auto& q) -> auto& { return q.cursors.selector; });
  misaligned<rejection>(
      all, "ratify::acceptance: cursors.kept must be aligned to its elements",
      [](auto& q) -> auto& { return q.cursors.kept; });
  misaligned<rejection>(
      all, "ratify::acceptance: cursors.fresh must be aligned to its elements",
      [](auto& q) -> auto& { return q.cursors.fresh; });
  misaligned<rejection>(
      all, "ratify::acceptance: cursors.stalled must be aligned to its elements",
      [](auto& q) -> auto& { return q.cursors.stalled; });
  auto ring = all;
  ring.cursors.ring_start = ring.cursors.ring_count = m.as<int32_t>();
  ring.cursors.ring_places = 16;
  ring.cursors.round_rows = 3;
  misaligned<rejection>(
      ring, "ratify::acceptance: cursors.ring_start must be aligned to its elements",
      [](auto& q) -> auto& { return q.cursors.ring_start; });
  misaligned<rejection>(
      ring, "ratify::acceptance: cursors.ring_count must be aligned to its elements",
      [](auto& q) -> auto& { return q.cursors.ring_count; });
  misaligned<rejection>(
      ring, "ratify::acceptance: cursors.flush must be aligned to its elements",
      [](auto& q) -> auto& { return q.cursors.flush; });
  misaligned<rejection>(
      ring, "ratify::acceptance: cursors.next_flush must be aligned to its elements",
      [](auto& q) -> auto& { return q.cursors.next_flush; });
  misaligned<rejection>(
      all, "ratify::acceptance: row_status must be aligned to its elements",
      [](auto& q) -> auto& { return q.row_status; });
  misaligned<rejection>(
      all, "ratify::acceptance: logits must be aligned to its elements", [](auto& q) -> auto& { return q.logits; });
  char const* const logits = "ratify::acceptance: the strides of logits reach over 2^63 bytes";
  invalid<rejection>(all, logits, [](auto& q) { q.logits.stride = int64_t{1} << 61; });
  invalid<rejection>(all, logits, [](auto& q) { q.shards = 2, q.shard_vocab = 2, q.shard_stride = int64_t{1} << 61; });
  auto dense = all;
  dense.draft_probs = {m.as<float>(), 8, 4};
  misaligned<rejection>(
      dense, "ratify::acceptance: draft_probs must be aligned to its elements",
      [](auto& q) -> auto& { return q.draft_probs; });
  far_away<rejection>(
      dense, "ratify::acceptance: the strides of draft_probs reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.draft_probs; });
  all.draft_candidates = {m.as<int32_t>(), 6, 3};
  all.draft_candidate_q = {m.as<float>(), 6, 3};
  all.candidates = 3;
  misaligned<rejection>(
      all, "ratify::acceptance: draft_candidates must be aligned to its elements",
      [](auto& q) -> auto& { return q.draft_candidates; });
  far_away<rejection>(
      all, "ratify::acceptance: the strides of draft_candidates reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.draft_candidates; });
  misaligned<rejection>(
      all, "ratify::acceptance: draft_candidate_q must be aligned to its elements",
      [](auto& q) -> auto& { return q.draft_candidate_q; });
  far_away<rejection>(
      all, "ratify::acceptance: the strides of draft_candidate_q reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.draft_candidate_q; });
  auto const few = good_summary(m);
  misaligned<summary>(
      few, "ratify::acceptance_summary: logits must be aligned to its elements",
      [](auto& q) -> auto& { return q.logits; });
  far_away<summary>(
      few, "ratify::acceptance_summary: the strides of logits reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.logits; });
  misaligned<summary>(
      few, "ratify::acceptance_summary: query_start must be aligned to its elements",
      [](auto& q) -> auto& { return q.query_start; });
  misaligned<summary>(
      few, "ratify::acceptance_summary: temperature must be aligned to its elements",
      [](auto& q) -> auto& { return q.temperature; });
  misaligned<summary>(
      few, "ratify::acceptance_summary: top_p must be aligned to its elements",
      [](auto& q) -> auto& { return q.top_p; });
  misaligned<summary>(
      few, "ratify::acceptance_summary: top_k must be aligned to its elements",
      [](auto& q) -> auto& { return q.top_k; });
  misaligned<summary>(
      few, "ratify::acceptance_summary: words must be aligned to its elements",
      [](auto& q) -> auto& { return q.words; });
  far_away<summary>(
      few, "ratify::acceptance_summary: the strides of words reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.words; });
}

TEST_CASE("acceptance refuses outputs in the place of other tensors") {
  memory m;
  auto p = good<rejection>(m);
  char const* const text =
      "ratify::acceptance: tokens, emitted, accepted, finish and row_status must not be each other or an input";
  invalid<rejection>(p, text, [](auto& q) { q.tokens = q.emitted; });
  invalid<rejection>(p, text, [](auto& q) { q.row_status = q.finish; });
  invalid<rejection>(p, text, [](auto& q) { q.draft.data = q.tokens; });
  invalid<rejection>(p, text, [](auto& q) { q.limit = q.accepted; });
  invalid<summary>(good_summary(m), "ratify::acceptance_summary: words must not be an input",
                   [](auto& q) { q.logits.data = reinterpret_cast<float const*>(q.words.data); });
}

TEST_CASE("acceptance_summary says which rule a launch breaks") {
  memory m;
  auto const p = good_summary(m);
  REQUIRE(summary::can_launch(p, host()));
  auto const bad = [&](char const* text, auto change) { invalid<summary>(p, text, change); };
  bad("ratify::acceptance_summary: rows and requests must not be negative", [](auto& q) { q.rows = -1; });
  bad("ratify::acceptance_summary: requests must be at least 1 if there are rows", [](auto& q) { q.requests = 0; });
  for (auto const& [first, vocab] : std::vector<std::pair<int, int>>{{-1, 4}, {0, 0}})
    bad("ratify::acceptance_summary: first_id must not be negative and vocab must be at least 1 id",
        [f = first, v = vocab](auto& q) { q.first_id = f, q.vocab = v; });
  for (int const first : {4194301, INT32_MAX})
    unsupported<summary>(p, "ratify::acceptance_summary: first_id + vocab must be at most 4194304 ids",
                         [&](auto& q) { q.first_id = first; });
  bad("ratify::acceptance_summary: max_drafts must not be negative", [](auto& q) { q.max_drafts = -1; });
  unsupported<summary>(p, "ratify::acceptance_summary: max_drafts must be at most 2^30",
                       [](auto& q) { q.max_drafts = (1 << 30) + 1; });
  bad("ratify::acceptance_summary: places must be at least 1 word", [](auto& q) { q.places = 0; });
  unsupported<summary>(p, "ratify::acceptance_summary: places must be at most 512 words",
                       [](auto& q) { q.places = 513; });
  bad("ratify::acceptance_summary: logits must not be null", [](auto& q) { q.logits.data = nullptr; });
  bad("ratify::acceptance_summary: a stride of logits is smaller than what it steps over",
      [](auto& q) { q.logits.stride = 3; });
  bad("ratify::acceptance_summary: query_start must not be null", [](auto& q) { q.query_start = nullptr; });
  bad("ratify::acceptance_summary: temperature must not be null", [](auto& q) { q.temperature = nullptr; });
  bad("ratify::acceptance_summary: top_p must not be null", [](auto& q) { q.top_p = nullptr; });
  bad("ratify::acceptance_summary: top_k must not be null", [](auto& q) { q.top_k = nullptr; });
  bad("ratify::acceptance_summary: words must not be null", [](auto& q) { q.words.data = nullptr; });
  bad("ratify::acceptance_summary: a stride of words is smaller than what it steps over",
      [](auto& q) { q.words.stride = 3; });
}

TEST_CASE("acceptance asks for scratch memory by its capacities") {
  memory m;
  auto p = good<operation>(m);
  CHECK(operation::workspace_bytes(p, host()) == 8);
  CHECK(operation::launch(p, {}, host()).code() == ratify::status_code::workspace_too_small);
  p.vocab = 248320;
  p.logits.stride = 248320;
  size_t const long_rows = operation::workspace_bytes(p, host());
  CHECK(long_rows > 2 * 40000);
  CHECK(long_rows < 2 * 45000);
  p.rows = 4;
  CHECK(operation::workspace_bytes(p, host()) == 2 * long_rows);
}

TEST_CASE("acceptance supports both rules and four logit formats") {
  CHECK(ratify::is_supported_acceptance<>);
  CHECK(ratify::is_supported_acceptance<ratify::logit_format<ratify::f16>>);
  CHECK(ratify::is_supported_acceptance<ratify::logit_format<ratify::bf16>>);
  CHECK(ratify::is_supported_acceptance<ratify::logit_format<ratify::acceptance_word>>);
  CHECK(ratify::is_supported_acceptance<ratify::rule<ratify::acceptance_rule::rejection>>);
  CHECK_FALSE(ratify::is_supported_acceptance<ratify::logit_format<double>>);
  CHECK_FALSE(ratify::is_supported_acceptance_summary<ratify::logit_format<ratify::acceptance_word>>);
  CHECK_FALSE(ratify::is_supported_acceptance_summary<ratify::rule<ratify::acceptance_rule::coupled>>);
}
