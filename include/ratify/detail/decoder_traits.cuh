// SPDX-License-Identifier: Apache-2.0
/// Parameters and support rules of `decode`.
#pragma once

#include <ratify/decoder_policy.hpp>
#include <ratify/status.hpp>

#define RATIFY_DECODE_RULES(RULE)                                                                             \
  RULE(policy, (RATIFY_STD::is_base_of_v<decode_policy, Policy>),                                             \
       "ratify::decode: the policy must derive from ratify::decode_policy")                                   \
  RULE(format, (detail::is_one_of_v<typename Policy::format, e4m3, e5m2, e2m1x2>),                            \
       "ratify::decode: format must be e4m3, e5m2 or e2m1x2")                                                 \
  RULE(to, (detail::is_one_of_v<typename Policy::to, float, f16>), "ratify::decode: to must be float or f16") \
  RULE(revision_type, (RATIFY_STD::is_same_v<decltype(Policy::revision), decoder_revision const>),            \
       "ratify::decode: revision must be a ratify::decoder_revision")                                         \
  RULE(revision,                                                                                              \
       (RATIFY_STD::is_same_v<typename Policy::format, e4m3> ||                                               \
        static_cast<decoder_revision>(Policy::revision) == decoder_revision::reference),                      \
       "ratify::decode: revision must be reference unless format is e4m3; the other formats have one decoder")
#define RATIFY_DECODE_LAUNCH_RULES(RULE)                                    \
  RULE(codes, (p.count >= 0), "ratify::decode: count must not be negative") \
  RULE(capacity, (p.count <= int64_t{0x7fffffff} * 512), "ratify::decode: count must be at most 2^40 - 512")

RATIFY_BEGIN_NAMESPACE

/// One launch of `decode`. Every pointer is the caller's.
template <class Policy>
struct decode_params {
  uint8_t const* codes = nullptr;         ///< [count], any alignment
  typename Policy::to* values = nullptr;  ///< [count]
  int64_t count = 0;
};

namespace detail {

template <class Policy>
struct decode_support {
  static constexpr bool value = true RATIFY_DECODE_RULES(RATIFY_RULE_TEST);
  RATIFY_HD static constexpr char const* reason(decode_params<Policy> const& p) {
    RATIFY_DECODE_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

}  // namespace detail

RATIFY_END_NAMESPACE
