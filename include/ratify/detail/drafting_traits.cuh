// SPDX-License-Identifier: Apache-2.0
/// Launch rules and derived sizes of the drafter's operations.
#pragma once

#include <ratify/detail/drafting_tuning.hpp>
#include <ratify/detail/extents.hpp>
#include <ratify/drafting_params.hpp>
#include <ratify/status.hpp>

#define RATIFY_DRAFT_WALK_SHAPE_RULES(INVALID, UNSUPPORTED)                                          \
  INVALID(requests, (p.requests >= 0), "ratify::draft_walk: requests must not be negative")          \
  INVALID(draft_slots, (p.draft_slots >= 0), "ratify::draft_walk: draft_slots must not be negative") \
  INVALID(candidate_count, (p.candidate_count >= 1),                                                 \
          "ratify::draft_walk: candidate_count must be at least 1 candidate per slot")               \
  UNSUPPORTED(most_candidates, (p.candidate_count <= detail::draft_walk_most_candidates),            \
              "ratify::draft_walk: candidate_count must be at most 64 candidates per slot")          \
  INVALID(rank, (p.rank >= 1), "ratify::draft_walk: rank must be at least 1 element")                \
  INVALID(vocab, (p.vocab >= 1), "ratify::draft_walk: vocab must be at least 1 token")               \
  UNSUPPORTED(most_words, (p.vocab <= detail::draft_walk_most_words),                                \
              "ratify::draft_walk: vocab must be at most 4194304 tokens, as in acceptance")

#define RATIFY_DRAFT_WALK_TENSOR_RULES(INVALID, UNSUPPORTED)                                                         \
  RATIFY_REQUIRED_VIEW(INVALID, "draft_walk", unary, p.requests, p.draft_slots, p.candidate_count)                   \
  RATIFY_REQUIRED_VIEW(INVALID, "draft_walk", candidates, p.requests, p.draft_slots, p.candidate_count)              \
  RATIFY_REQUIRED_VIEW(INVALID, "draft_walk", left, p.vocab, p.rank)                                                 \
  RATIFY_REQUIRED_VIEW(INVALID, "draft_walk", right, p.vocab, p.rank)                                                \
  RATIFY_REQUIRED_VIEW(INVALID, "draft_walk", project, p.requests, p.draft_slots, p.rank)                            \
  RATIFY_REQUIRED_ARRAY(INVALID, "draft_walk", anchor)                                                               \
  INVALID(temperature_given, (Policy::mode != draft_mode::sample || p.temperature != nullptr),                       \
          "ratify::draft_walk: temperature must not be null in mode sample")                                         \
  RATIFY_OPTIONAL_ARRAY(INVALID, "draft_walk", temperature)                                                          \
  INVALID(seed_given, (Policy::mode != draft_mode::sample || p.seed != nullptr),                                     \
          "ratify::draft_walk: seed must not be null in mode sample")                                                \
  RATIFY_OPTIONAL_ARRAY(INVALID, "draft_walk", seed)                                                                 \
  INVALID(position_given, (Policy::mode != draft_mode::sample || p.position != nullptr),                             \
          "ratify::draft_walk: position must not be null in mode sample")                                            \
  RATIFY_OPTIONAL_ARRAY(INVALID, "draft_walk", position)                                                             \
  RATIFY_REQUIRED_VIEW(INVALID, "draft_walk", tokens, p.requests, p.draft_slots)                                     \
  RATIFY_OPTIONAL_VIEW(INVALID, "draft_walk", q, p.requests, p.draft_slots, p.candidate_count)                       \
  INVALID(                                                                                                           \
      in_place,                                                                                                      \
      (detail::are_apart({p.tokens.data, p.q.data}, {p.unary.data, p.candidates.data, p.left.data, p.right.data,     \
                                                     p.project.data, p.anchor, p.temperature, p.seed, p.position})), \
      "ratify::draft_walk: tokens and q must not be each other or an input")

#define RATIFY_DRAFT_CONVOLUTION_SHAPE_RULES(INVALID, UNSUPPORTED)                                                     \
  INVALID(requests, (p.requests >= 0), "ratify::draft_convolution: requests must not be negative")                     \
  INVALID(draft_slots, (p.draft_slots >= 0), "ratify::draft_convolution: draft_slots must not be negative")            \
  INVALID(channels, (p.channels >= 1), "ratify::draft_convolution: channels must be at least 1")                       \
  UNSUPPORTED(groups, (p.channels % detail::draft_convolution_group == 0),                                             \
              "ratify::draft_convolution: channels must be a multiple of 16, because 16 of them share a delta")        \
  UNSUPPORTED(elements, (int64_t{p.requests} * p.draft_slots <= detail::draft_convolution_most_elements / p.channels), \
              "ratify::draft_convolution: requests * draft_slots * channels must be at most 2^37, what a grid holds")

#define RATIFY_DRAFT_CONVOLUTION_TENSOR_RULES(INVALID, UNSUPPORTED)                                        \
  RATIFY_REQUIRED_VIEW(INVALID, "draft_convolution", x, p.requests, p.draft_slots, p.channels)             \
  RATIFY_REQUIRED_ARRAY(INVALID, "draft_convolution", base)                                                \
  RATIFY_REQUIRED_VIEW(INVALID, "draft_convolution", delta, p.requests, p.draft_slots,                     \
                       2 * (p.channels / detail::draft_convolution_group))                                 \
  RATIFY_REQUIRED_VIEW(INVALID, "draft_convolution", out, p.requests, p.draft_slots, p.channels)           \
  INVALID(in_place, (detail::begin_apart(p.out.data, p.x.data)),                                           \
          "ratify::draft_convolution: out must not be x: each slot reads the input of the slot before it") \
  INVALID(weights_in_place, (detail::are_apart({p.out.data}, {p.base, p.delta.data})),                     \
          "ratify::draft_convolution: out must not be base or delta")

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// The largest vocabulary, that of acceptance: a score and a token id share 64 bits.
inline constexpr int draft_walk_most_words = 4194304;
/// What a grid of blocks of 128 threads, one per element, holds with room to spare.
inline constexpr int64_t draft_convolution_most_elements = int64_t{1} << 37;
/// Channels that share a delta.
inline constexpr int draft_convolution_group = 16;

template <class Policy>
RATIFY_HD status launch_rules(draft_walk_params<Policy> const& p) {
  RATIFY_DRAFT_WALK_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.requests == 0 || p.draft_slots == 0) return {};
  RATIFY_DRAFT_WALK_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

template <class Policy>
RATIFY_HD status launch_rules(draft_convolution_params<Policy> const& p) {
  RATIFY_DRAFT_CONVOLUTION_SHAPE_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  if (p.requests == 0 || p.draft_slots == 0) return {};
  RATIFY_DRAFT_CONVOLUTION_TENSOR_RULES(RATIFY_RETURN_INVALID, RATIFY_RETURN_UNSUPPORTED)
  return {};
}

}  // namespace detail
RATIFY_END_NAMESPACE
