// SPDX-License-Identifier: Apache-2.0
/// What the tests of draft_walk share: requests, launches with gaps between rows, and comparisons with the twin.
#pragma once

#include <ratify/drafting.cuh>

#include "compare.hpp"
#include "executors.hpp"
#include "random.hpp"
#include "reference/drafting.hpp"

#include <doctest/doctest.h>

namespace ratify_test {

using walk_argmax = ratify::draft_walk<>;
using walk_sample = ratify::draft_walk<ratify::mode<ratify::draft_mode::sample>>;
using walk_sample_bf16 =
    ratify::draft_walk<ratify::mode<ratify::draft_mode::sample>, ratify::pair_format<ratify::bf16>>;

template <class Operation>
constexpr bool samples = Operation::policy::mode == ratify::draft_mode::sample;

/// Requests of one launch, which share the tables.
struct walk_batch {
  std::vector<float> left, right;  // [vocab, rank]
  std::vector<reference::walk> requests;
};

struct walk_outputs {
  std::vector<int32_t> tokens;
  std::vector<float> q;
};

template <class T, class Member>
std::vector<T> each_request(walk_batch const& b, Member member) {
  std::vector<T> v;
  for (auto const& r : b.requests) v.push_back(member(r));
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
template <class Operation, class Executor>
walk_outputs run_walk(Executor& on, walk_batch const& b, int padding = 0) {
  using pair = typename Operation::policy::pair_format;
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
      dtemperature(on, each_request<float>(b, [](auto const&r) { return r.temperature; }));
  buffer<int32_t, Executor> dcandidates(on, candidates),
      danchor(on, each_request<int32_t>(b, [](auto const&r) { return r.anchor; }));
  buffer<int64_t, Executor> dseed(on, each_request<int64_t>(b, [](auto const&r) { return r.seed; })),
      dposition(on, each_request<int64_t>(b, [](auto const&r) { return r.position; }));
  buffer<int32_t, Executor> dtokens(on, b.requests.size() * size_t(any.draft_slots));
  buffer<float, Executor> dq(on, b.requests.size() * any.unary.size());
  typename Operation::params p;
  int const each_unary = any.count + padding, each_project = any.rank + padding;
  p.unary = {dunary.data(), int64_t{any.draft_slots} * each_unary, each_unary};
  p.candidates = {dcandidates.data(), int64_t{any.draft_slots} * each_unary, each_unary};
  p.left = {dleft.data(), any.rank + padding};
  p.right = {dright.data(), any.rank + padding + 1};
  p.project = {dproject.data(), int64_t{any.draft_slots} * each_project, each_project};
  p.anchor = danchor.data();
  if (samples<Operation>) {
    p.temperature = dtemperature.data();
    p.seed = dseed.data();
    p.position = dposition.data();
  }
  p.tokens = {dtokens.data(), any.draft_slots};
  p.q = {dq.data(), int64_t{any.draft_slots} * any.count, any.count};
  p.requests = static_cast<int>(b.requests.size());
  p.draft_slots = any.draft_slots;
  p.candidate_count = any.count;
  p.rank = any.rank;
  p.vocab = any.vocab;
  auto const s = launch<Operation>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  walk_outputs const out{dtokens.read(), dq.read()};
  p.q.data = nullptr;  // not asked for: the same tokens
  REQUIRE(launch<Operation>(p, on));
  CHECK(bit_difference(dtokens.read(), out.tokens) == "");
  return out;
}

inline walk_outputs walk_twin(walk_batch const& b) {
  walk_outputs out;
  for (auto const& r : b.requests) {
    auto const one = reference::draft_walk(r, b.left, b.right);
    out.tokens.insert(out.tokens.end(), one.tokens.begin(), one.tokens.end());
    out.q.insert(out.q.end(), one.q.begin(), one.q.end());
  }
  return out;
}

template <class Operation>
walk_batch make_walks(random_source& random, int requests, int draft_slots, int count, int rank, int vocab) {
  walk_batch b;
  // As the policy's format stores them.
  auto const table = [&] {
    std::vector<float> v;
    for (auto const x : random.normals<typename Operation::policy::pair_format>(size_t(vocab) * size_t(rank)))
      v.push_back(ratify::to_float(x));
    return v;
  };
  b.left = table();
  b.right = table();
  for (int i = 0; i < requests; ++i) {
    reference::walk r;
    r.sample = samples<Operation>;
    r.draft_slots = draft_slots, r.count = count, r.rank = rank, r.vocab = vocab;
    size_t const n = size_t(draft_slots) * size_t(count);
    r.unary = random.normals<float>(n, 2.0f);
    for (size_t c = 0; c < n; ++c) r.candidates.push_back(random.integer(0, vocab - 1));
    r.project = random.normals<float>(size_t(draft_slots) * size_t(rank), 1.0f / std::sqrt(static_cast<float>(rank)));
    r.anchor = random.integer(0, vocab - 1);
    r.temperature = random.one_of({0.5f, 0.7f, 1.0f, 3.0f});
    r.seed = static_cast<int64_t>(random.word());
    r.position = random.one_of<int64_t>({0, 7, (int64_t{1} << 32) - 1, int64_t{1} << 40, -1});
    b.requests.push_back(r);
  }
  return b;
}

template <class Operation>
void check_walks(walk_batch const& b, int padding = 0) {
  auto const expected = walk_twin(b);
  on_each_executor([&](auto& on) {
    auto const got = run_walk<Operation>(on, b, padding);
    CHECK(bit_difference(got.tokens, expected.tokens) == "");
    CHECK(bit_difference(got.q, expected.q) == "");
  });
}

}  // namespace ratify_test
