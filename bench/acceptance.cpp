// SPDX-License-Identifier: Apache-2.0
/// From logits to emitted tokens: 8 rows of 248320 FP32 logits of one request, temperature 1, top_p 0.95, and top_k 20
/// unless the shape says that either is off.
#include <bench/card.hpp>
#include <bench/harness.hpp>
#include <bench/policies.hpp>
#include <ratify/acceptance.cuh>

namespace bench {
namespace {

using coupled = ratify::acceptance<>;
using rejection = ratify::acceptance<ratify::rule<ratify::acceptance_rule::rejection>>;

constexpr int rows = 8, drafts = rows - 1, candidates = 16, vocabulary = 248320;

struct operands {
  operands(card const& on, int32_t k, float p)
      : sets(rotated_sets(on, 4.0 * rows * vocabulary)),
        logits(on, static_cast<size_t>(sets) * rows * vocabulary, logit{}),
        top_k(std::vector<int32_t>{k}),
        limit(std::vector<int32_t>{rows}),
        starts(std::vector<int32_t>{0, rows}),
        out(static_cast<size_t>(3 * rows)),
        top_p(std::vector<float>{p}),
        temperature(std::vector<float>{1}),
        seed(std::vector<int64_t>{7}) {
    std::vector<int32_t> d, c;
    for (int s = 0; s < sets; ++s)
      for (int i = 0; i < drafts; ++i) {
        d.push_back(static_cast<int32_t>(random_bits(static_cast<uint64_t>(s * drafts + i), 99) % vocabulary));
        for (int j = 0; j < candidates; ++j) c.push_back((d.back() + j * 977) % vocabulary);
      }
    draft = buffer<int32_t>(d);
    candidate = buffer<int32_t>(c);
    q = buffer<float>(on, c.size(), uniform<float>{0.01f, 1});
    scratch = buffer<unsigned char>(rejection::workspace_bytes(params<rejection>(0), ratify::cuda_executor(on.stream)));
  }

  template <class Operation>
  typename Operation::params params(int set) const {
    typename Operation::params p{};
    p.logits = {logits.data() + int64_t{set} * rows * vocabulary, vocabulary};
    p.query_start = starts.data();
    p.draft = {draft.data() + set * drafts, drafts};
    p.temperature = temperature.data();
    p.top_p = top_p.data();
    p.top_k = top_k.data();
    p.seed = p.position = seed.data();
    p.limit = limit.data();
    p.tokens = out.data();
    p.emitted = out.data() + rows;
    p.accepted = p.emitted + 1;
    p.finish = p.emitted + 2;
    p.row_status = out.data() + 2 * rows;
    if (std::is_same_v<Operation, rejection>) {
      p.draft_candidates = {candidate.data() + set * drafts * candidates, drafts * candidates, candidates};
      p.draft_candidate_q = {q.data() + set * drafts * candidates, drafts * candidates, candidates};
      p.candidates = candidates;
    }
    p.rows = rows;
    p.requests = 1;
    p.vocab = vocabulary;
    p.max_drafts = drafts;
    return p;
  }

  int sets;
  buffer<float> logits;
  buffer<int32_t> draft, candidate, top_k, limit, starts, out;
  buffer<float> q, top_p, temperature;
  buffer<int64_t> seed;
  buffer<unsigned char> scratch;
};

template <class Operation>
void one_case(card const& on, options const& settings, report& to, char const* what, int32_t top_k, float top_p) {
  measurement m;
  m.operation = "acceptance";
  m.shape = std::string("8x248320 ") + what;
  if (!settings.wants_shape(m.shape)) return;
  ratify::cuda_executor gpu(on.stream, {settings.programmatic});
  operands const o(on, top_k, top_p);
  m.bytes = 4.0 * rows * vocabulary;
  m.rotated_bytes = m.bytes * o.sets;
  check(Operation::can_launch(o.params<Operation>(0), gpu));
  auto const launch = [&](int set) {
    check(Operation::launch(o.params<Operation>(set), {o.scratch.data(), o.scratch.size()}, gpu));
  };
  measure(m, on, {{name_of<Operation>(), launch}}, o.sets, settings, to);
}

}  // namespace

void acceptance(card const& on, options const& settings, report& to) {
  one_case<coupled>(on, settings, to, "coupled", 20, 0.95f);
  one_case<rejection>(on, settings, to, "rejection", 20, 0.95f);
  one_case<coupled>(on, settings, to, "coupled, top_k off", 0, 0.95f);
  one_case<rejection>(on, settings, to, "rejection, top_k off", 0, 0.95f);
  one_case<coupled>(on, settings, to, "coupled, top_k and top_p off", 0, 1.0f);
}

}  // namespace bench
