// SPDX-License-Identifier: Apache-2.0
/// Parameters and support rules of the drafter's operations.
#pragma once

#include <ratify/drafting_policy.hpp>
#include <ratify/status.hpp>
#include <ratify/views.hpp>

#define RATIFY_DRAFT_WALK_RULES(RULE)                                                                   \
  RULE(policy, (RATIFY_STD::is_base_of_v<draft_walk_policy, Policy>),                                   \
       "ratify::draft_walk: the policy must derive from ratify::draft_walk_policy")                     \
  RULE(pair_format, (detail::is_one_of_v<typename Policy::pair_format, float, bf16>),                   \
       "ratify::draft_walk: pair_format must be float or bf16")                                         \
  RULE(mode_type, (RATIFY_STD::is_same_v<RATIFY_STD::remove_cv_t<decltype(Policy::mode)>, draft_mode>), \
       "ratify::draft_walk: mode must be a ratify::draft_mode")                                         \
  RULE(mode,                                                                                            \
       (static_cast<draft_mode>(Policy::mode) == draft_mode::argmax ||                                  \
        static_cast<draft_mode>(Policy::mode) == draft_mode::sample),                                   \
       "ratify::draft_walk: mode must be draft_mode::argmax or draft_mode::sample")
#define RATIFY_DRAFT_WALK_LAUNCH_RULES(RULE)                                                           \
  RULE(requests, (p.requests >= 0), "ratify::draft_walk: requests must not be negative")               \
  RULE(slots, (p.slots >= 0), "ratify::draft_walk: slots must not be negative")                        \
  RULE(candidate_count, (p.candidate_count >= 1 && p.candidate_count <= detail::walk_most_candidates), \
       "ratify::draft_walk: candidate_count must be 1 to 64 candidates a slot")                        \
  RULE(rank, (p.rank >= 1), "ratify::draft_walk: rank must be at least 1")                             \
  RULE(vocab, (p.vocab >= 1 && p.vocab <= detail::walk_most_words),                                    \
       "ratify::draft_walk: vocab must be 1 to 4194304, as in acceptance")

#define RATIFY_DRAFT_CONVOLUTION_RULES(RULE)                                                      \
  RULE(policy, (RATIFY_STD::is_base_of_v<draft_convolution_policy, Policy>),                      \
       "ratify::draft_convolution: the policy must derive from ratify::draft_convolution_policy") \
  RULE(input_format, (detail::is_one_of_v<typename Policy::input_format, float, f16, bf16>),      \
       "ratify::draft_convolution: input_format must be float, f16 or bf16")                      \
  RULE(base_format, (detail::is_one_of_v<typename Policy::base_format, float, f16, bf16>),        \
       "ratify::draft_convolution: base_format must be float, f16 or bf16")                       \
  RULE(delta_format, (detail::is_one_of_v<typename Policy::delta_format, float, f16, bf16>),      \
       "ratify::draft_convolution: delta_format must be float, f16 or bf16")                      \
  RULE(output_format, (detail::is_one_of_v<typename Policy::output_format, float, f16, bf16>),    \
       "ratify::draft_convolution: output_format must be float, f16 or bf16")
#define RATIFY_DRAFT_CONVOLUTION_LAUNCH_RULES(RULE)                                                          \
  RULE(requests, (p.requests >= 0), "ratify::draft_convolution: requests must not be negative")              \
  RULE(slots, (p.slots >= 0), "ratify::draft_convolution: slots must not be negative")                       \
  RULE(channels, (p.channels >= 16 && p.channels % 16 == 0),                                                 \
       "ratify::draft_convolution: channels must be a multiple of 16, at least 16: a delta is shared by 16") \
  RULE(elements, (int64_t{p.requests} * p.slots <= detail::convolution_most_elements / p.channels),          \
       "ratify::draft_convolution: requests * slots * channels must be at most 2^37, or a grid cannot hold them")

RATIFY_BEGIN_NAMESPACE

namespace detail {
/// Candidates of a slot that a block's shared memory has room for.
inline constexpr int walk_most_candidates = 64;
inline constexpr int walk_most_words = 4194304;
inline constexpr int64_t convolution_most_elements = int64_t{1} << 37;
/// Channels that share a delta.
inline constexpr int draft_group = 16;
}  // namespace detail

/// One launch of `draft_walk`. Every pointer is the caller's and is read or written on the device.
template <class Policy>
struct draft_walk_params {
  using pair_format = typename Policy::pair_format;
  heads_view<float const> unary;         ///< [requests, slots, candidate_count]
  heads_view<int32_t const> candidates;  ///< [requests, slots, candidate_count]; one that is no token counts nothing
  rows_view<pair_format const> left;     ///< [vocab, rank], by the token before
  rows_view<pair_format const> right;    ///< [vocab, rank], by the candidate
  heads_view<float const> project;       ///< [requests, slots, rank]
  int32_t const* anchor = nullptr;       ///< [requests]: the token before slot 0
  float const* temperature = nullptr;    ///< [requests], below 1e-5 as argmax; read in mode sample alone
  int64_t const* seed = nullptr;         ///< [requests]; read in mode sample alone
  int64_t const* position = nullptr;     ///< [requests]: position of slot 0's token in the sequence; mode sample alone
  rows_view<int32_t> tokens;             ///< [requests, slots]; may be acceptance's `draft`
  heads_view<float> q;  ///< [requests, slots, candidate_count]; data nullptr: not asked for. May be acceptance's
                        ///< `draft_candidate_q`
  int requests = 0;
  int slots = 0;
  int candidate_count = 0;  ///< 1 to 64
  int rank = 0;
  int vocab = 0;
};

/// One launch of `draft_convolution`. Every pointer is the caller's.
template <class Policy>
struct draft_convolution_params {
  heads_view<typename Policy::input_format const> x;   ///< [requests, slots, channels]
  typename Policy::base_format const* base = nullptr;  ///< [2, channels] dense: of the slot itself, of the one before
  heads_view<typename Policy::delta_format const> delta;  ///< [requests, slots, 2 * (channels / 16)]: base's taps, each
                                                          ///< with an entry for 16 channels
  heads_view<typename Policy::output_format> out;         ///< [requests, slots, channels]
  int requests = 0;
  int slots = 0;
  int channels = 0;  ///< a multiple of 16
};

namespace detail {

template <class Policy>
struct draft_walk_support {
  static constexpr bool value = true RATIFY_DRAFT_WALK_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static constexpr char const* reason(draft_walk_params<Policy> const& p) {
    RATIFY_DRAFT_WALK_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

template <class Policy>
struct draft_convolution_support {
  static constexpr bool value = true RATIFY_DRAFT_CONVOLUTION_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static constexpr char const* reason(draft_convolution_params<Policy> const& p) {
    RATIFY_DRAFT_CONVOLUTION_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

}  // namespace detail

RATIFY_END_NAMESPACE
