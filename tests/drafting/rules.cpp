// SPDX-License-Identifier: Apache-2.0
/// Which of the drafter's operations compile, and which launches they refuse and why.
#include <ratify/drafting.cuh>

#include "support/refusal.hpp"

namespace {

using namespace ratify_test;

static_assert(ratify::is_supported_draft_walk<>);
static_assert(
    ratify::is_supported_draft_walk<ratify::mode<ratify::draft_mode::sample>, ratify::pair_format<ratify::bf16>>);
static_assert(!ratify::is_supported_draft_walk<ratify::pair_format<ratify::f16>>);
static_assert(!ratify::is_supported_draft_walk<ratify::input_format<float>>);
static_assert(ratify::is_supported_draft_convolution<>);
static_assert(ratify::is_supported_draft_convolution<ratify::base_format<float>, ratify::delta_format<ratify::bf16>>);
static_assert(!ratify::is_supported_draft_convolution<ratify::delta_format<double>>);

}  // namespace

TEST_CASE("draft_walk refuses a launch with its rule's text") {
  using operation = ratify::draft_walk<ratify::mode<ratify::draft_mode::sample>>;
  // Two requests of two slots, two candidates each, rank 1, two tokens.
  float unary[8] = {}, left[2] = {}, right[2] = {}, project[4] = {}, temperature[2] = {1, 1}, q[8] = {};
  int32_t candidates[8] = {}, anchor[2] = {}, tokens[4] = {};
  int64_t seed[2] = {}, position[2] = {};
  operation::params good;
  good.unary = {unary, 4, 2};
  good.candidates = {candidates, 4, 2};
  good.left = {left, 1};
  good.right = {right, 1};
  good.project = {project, 2, 1};
  good.anchor = anchor;
  good.temperature = temperature;
  good.seed = seed;
  good.position = position;
  good.tokens = {tokens, 2};
  good.q = {q, 4, 2};
  good.requests = good.draft_slots = good.candidate_count = good.vocab = 2;
  good.rank = 1;
  CHECK(operation::launch(good, {}, host()));

  invalid<operation>(good, "ratify::draft_walk: requests must not be negative", [](auto& p) { p.requests = -1; });
  invalid<operation>(good, "ratify::draft_walk: draft_slots must not be negative", [](auto& p) { p.draft_slots = -1; });
  for (int const n : {0, -1})
    invalid<operation>(good, "ratify::draft_walk: candidate_count must be at least 1 candidate per slot",
                       [&](auto& p) { p.candidate_count = n; });
  unsupported<operation>(good, "ratify::draft_walk: candidate_count must be at most 64 candidates per slot",
                         [](auto& p) { p.candidate_count = 65; });
  invalid<operation>(good, "ratify::draft_walk: rank must be at least 1 element", [](auto& p) { p.rank = 0; });
  invalid<operation>(good, "ratify::draft_walk: vocab must be at least 1 token", [](auto& p) { p.vocab = 0; });
  unsupported<operation>(good, "ratify::draft_walk: vocab must be at most 4194304 tokens, as in acceptance",
                         [](auto& p) { p.vocab = (1 << 22) + 1; });

  invalid<operation>(good, "ratify::draft_walk: unary must not be null", [](auto& p) { p.unary.data = nullptr; });
  invalid<operation>(good, "ratify::draft_walk: a stride of unary is smaller than what it steps over",
                     [](auto& p) { p.unary.head_stride = 1; });
  invalid<operation>(good, "ratify::draft_walk: candidates must not be null",
                     [](auto& p) { p.candidates.data = nullptr; });
  invalid<operation>(good, "ratify::draft_walk: a stride of candidates is smaller than what it steps over",
                     [](auto& p) { p.candidates.row_stride = 3; });
  invalid<operation>(good, "ratify::draft_walk: left must not be null", [](auto& p) { p.left.data = nullptr; });
  invalid<operation>(good, "ratify::draft_walk: a stride of left is smaller than what it steps over",
                     [](auto& p) { p.left.stride = 0; });
  invalid<operation>(good, "ratify::draft_walk: right must not be null", [](auto& p) { p.right.data = nullptr; });
  invalid<operation>(good, "ratify::draft_walk: a stride of right is smaller than what it steps over",
                     [](auto& p) { p.right.stride = -1; });
  invalid<operation>(good, "ratify::draft_walk: project must not be null", [](auto& p) { p.project.data = nullptr; });
  invalid<operation>(good, "ratify::draft_walk: a stride of project is smaller than what it steps over",
                     [](auto& p) { p.project.row_stride = 0; });
  invalid<operation>(good, "ratify::draft_walk: anchor must not be null", [](auto& p) { p.anchor = nullptr; });
  invalid<operation>(good, "ratify::draft_walk: temperature must not be null in mode sample",
                     [](auto& p) { p.temperature = nullptr; });
  invalid<operation>(good, "ratify::draft_walk: seed must not be null in mode sample",
                     [](auto& p) { p.seed = nullptr; });
  invalid<operation>(good, "ratify::draft_walk: position must not be null in mode sample",
                     [](auto& p) { p.position = nullptr; });
  invalid<operation>(good, "ratify::draft_walk: tokens must not be null", [](auto& p) { p.tokens.data = nullptr; });
  invalid<operation>(good, "ratify::draft_walk: a stride of tokens is smaller than what it steps over",
                     [](auto& p) { p.tokens.stride = 1; });
  invalid<operation>(good, "ratify::draft_walk: a stride of q is smaller than what it steps over",
                     [](auto& p) { p.q.row_stride = 2; });
  misaligned<operation>(
      good, "ratify::draft_walk: unary must be aligned to its elements", [](auto& q) -> auto& { return q.unary; });
  far_away<operation>(
      good, "ratify::draft_walk: the strides of unary reach over 2^63 bytes", [](auto& q) -> auto& { return q.unary; });
  misaligned<operation>(
      good, "ratify::draft_walk: candidates must be aligned to its elements",
      [](auto& q) -> auto& { return q.candidates; });
  far_away<operation>(
      good, "ratify::draft_walk: the strides of candidates reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.candidates; });
  misaligned<operation>(
      good, "ratify::draft_walk: left must be aligned to its elements", [](auto& q) -> auto& { return q.left; });
  far_away<operation>(
      good, "ratify::draft_walk: the strides of left reach over 2^63 bytes", [](auto& q) -> auto& { return q.left; });
  misaligned<operation>(
      good, "ratify::draft_walk: right must be aligned to its elements", [](auto& q) -> auto& { return q.right; });
  far_away<operation>(
      good, "ratify::draft_walk: the strides of right reach over 2^63 bytes", [](auto& q) -> auto& { return q.right; });
  misaligned<operation>(
      good, "ratify::draft_walk: project must be aligned to its elements", [](auto& q) -> auto& { return q.project; });
  far_away<operation>(
      good, "ratify::draft_walk: the strides of project reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.project; });
  misaligned<operation>(
      good, "ratify::draft_walk: anchor must be aligned to its elements", [](auto& q) -> auto& { return q.anchor; });
  misaligned<operation>(
      good, "ratify::draft_walk: temperature must be aligned to its elements",
      [](auto& q) -> auto& { return q.temperature; });
  misaligned<operation>(
      good, "ratify::draft_walk: seed must be aligned to its elements", [](auto& q) -> auto& { return q.seed; });
  misaligned<operation>(
      good, "ratify::draft_walk: position must be aligned to its elements",
      [](auto& q) -> auto& { return q.position; });
  misaligned<operation>(
      good, "ratify::draft_walk: tokens must be aligned to its elements", [](auto& q) -> auto& { return q.tokens; });
  far_away<operation>(
      good, "ratify::draft_walk: the strides of tokens reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.tokens; });
  misaligned<operation>(
      good, "ratify::draft_walk: q must be aligned to its elements", [](auto& q) -> auto& { return q.q; });
  far_away<operation>(
      good, "ratify::draft_walk: the strides of q reach over 2^63 bytes", [](auto& q) -> auto& { return q.q; });
  char const* const alias = "ratify::draft_walk: tokens and q must not be each other or an input";
  invalid<operation>(good, alias, [&](auto& p) { p.tokens.data = candidates; });
  invalid<operation>(good, alias, [&](auto& p) { p.tokens.data = anchor; });
  invalid<operation>(good, alias, [&](auto& p) { p.q.data = unary; });
  invalid<operation>(good, alias, [&](auto& p) { p.tokens.data = reinterpret_cast<int32_t*>(q); });

  // q may be left out, and mode argmax draws nothing.
  auto without = good;
  without.q = {};
  CHECK(operation::launch(without, {}, host()));
  ratify::draft_walk<>::params argmax;
  argmax.unary = good.unary;
  argmax.candidates = good.candidates;
  argmax.left = good.left;
  argmax.right = good.right;
  argmax.project = good.project;
  argmax.anchor = good.anchor;
  argmax.tokens = good.tokens;
  argmax.requests = argmax.draft_slots = argmax.candidate_count = argmax.vocab = 2;
  argmax.rank = 1;
  CHECK(ratify::draft_walk<>::launch(argmax, {}, host()));
  // Without a request or a slot there is nothing to do, and no tensor is needed.
  operation::params none;
  none.candidate_count = none.rank = none.vocab = 2;
  none.draft_slots = 3;
  CHECK(operation::launch(none, {}, host()));
  none.draft_slots = 0;
  none.requests = 3;
  CHECK(operation::launch(none, {}, host()));
}

TEST_CASE("draft_convolution refuses a launch with its rule's text") {
  using operation = ratify::draft_convolution<>;
  // Two requests of two slots, 16 channels.
  ratify::f16 x[64] = {}, base[32] = {}, delta[8] = {}, out[64] = {};
  operation::params good;
  good.x = {x, 32, 16};
  good.base = base;
  good.delta = {delta, 4, 2};
  good.out = {out, 32, 16};
  good.requests = good.draft_slots = 2;
  good.channels = 16;
  CHECK(operation::launch(good, {}, host()));

  invalid<operation>(good, "ratify::draft_convolution: requests must not be negative",
                     [](auto& p) { p.requests = -1; });
  invalid<operation>(good, "ratify::draft_convolution: draft_slots must not be negative",
                     [](auto& p) { p.draft_slots = -1; });
  for (int const n : {0, -16})
    invalid<operation>(good, "ratify::draft_convolution: channels must be at least 1",
                       [&](auto& p) { p.channels = n; });
  for (int const n : {8, 17, 5119})
    unsupported<operation>(
        good, "ratify::draft_convolution: channels must be a multiple of 16, because 16 of them share a delta",
        [&](auto& p) { p.channels = n; });
  unsupported<operation>(
      good, "ratify::draft_convolution: requests * draft_slots * channels must be at most 2^37, what a grid holds",
      [](auto& p) { p.requests = p.draft_slots = INT32_MAX; });
  invalid<operation>(good, "ratify::draft_convolution: x must not be null", [](auto& p) { p.x.data = nullptr; });
  invalid<operation>(good, "ratify::draft_convolution: a stride of x is smaller than what it steps over",
                     [](auto& p) { p.x.head_stride = 15; });
  invalid<operation>(good, "ratify::draft_convolution: base must not be null", [](auto& p) { p.base = nullptr; });
  invalid<operation>(good, "ratify::draft_convolution: delta must not be null",
                     [](auto& p) { p.delta.data = nullptr; });
  invalid<operation>(good, "ratify::draft_convolution: a stride of delta is smaller than what it steps over",
                     [](auto& p) { p.delta.head_stride = 1; });
  invalid<operation>(good, "ratify::draft_convolution: out must not be null", [](auto& p) { p.out.data = nullptr; });
  invalid<operation>(good, "ratify::draft_convolution: a stride of out is smaller than what it steps over",
                     [](auto& p) { p.out.row_stride = 0; });
  invalid<operation>(good,
                     "ratify::draft_convolution: out must not be x: each slot reads the input of the slot before it",
                     [&](auto& p) { p.out.data = x; });
  misaligned<operation>(
      good, "ratify::draft_convolution: x must be aligned to its elements", [](auto& q) -> auto& { return q.x; });
  far_away<operation>(
      good, "ratify::draft_convolution: the strides of x reach over 2^63 bytes", [](auto& q) -> auto& { return q.x; });
  misaligned<operation>(
      good, "ratify::draft_convolution: base must be aligned to its elements", [](auto& q) -> auto& { return q.base; });
  misaligned<operation>(
      good, "ratify::draft_convolution: delta must be aligned to its elements",
      [](auto& q) -> auto& { return q.delta; });
  far_away<operation>(
      good, "ratify::draft_convolution: the strides of delta reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.delta; });
  misaligned<operation>(
      good, "ratify::draft_convolution: out must be aligned to its elements", [](auto& q) -> auto& { return q.out; });
  far_away<operation>(
      good, "ratify::draft_convolution: the strides of out reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.out; });
  invalid<operation>(good, "ratify::draft_convolution: out must not be base or delta",
                     [&](auto& p) { p.out.data = base; });
  invalid<operation>(good, "ratify::draft_convolution: out must not be base or delta",
                     [&](auto& p) { p.out.data = delta; });
  operation::params none;
  none.channels = 5120;
  CHECK(operation::launch(none, {}, host()));
}
