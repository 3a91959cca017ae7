// SPDX-License-Identifier: Apache-2.0
/// Parameters and support rules of the shadow's operations.
#pragma once

#include <ratify/shadow_policy.hpp>
#include <ratify/status.hpp>
#include <ratify/views.hpp>

#define RATIFY_SHADOW_RULES(RULE)                                                                     \
  RULE(policy, (RATIFY_STD::is_base_of_v<shadow_policy, Policy>),                                     \
       "ratify::shadow: the policy must derive from ratify::shadow_policy")                           \
  RULE(format, (detail::is_one_of_v<typename Policy::format, float, f16, bf16, e4m3, e5m2, int32_t>), \
       "ratify::shadow: format must be float, f16, bf16, e4m3, e5m2 or int32_t")
#define RATIFY_SHADOW_LAUNCH_RULES(RULE)                                              \
  RULE(rows, (p.rows >= 0), "ratify::shadow: rows must not be negative")              \
  RULE(columns, (p.columns > 0), "ratify::shadow: columns must be at least 1")        \
  RULE(elements, (p.rows <= 0 || p.columns <= detail::shadow_most_elements / p.rows), \
       "ratify::shadow: rows * columns must be at most 2^37 elements; compare a larger tensor in several pieces")

RATIFY_BEGIN_NAMESPACE

/// What is known of one place (a layer's operation, say). Lies in memory of the device, zeroed by the caller before the
/// first call; every compared launch adds to it.
struct shadow_record {
  uint64_t calls;               ///< launches compared
  uint64_t elements;            ///< of them, all tensors
  uint64_t differing_elements;  ///< whose bits differ
  uint64_t differing_bits;
  uint32_t largest_error;  ///< FP32 bits of the largest |driver - shadow|; +inf where one of the two is NaN
  uint32_t unused;
};

/// One launch of `shadow_copy`. Every pointer is the caller's.
template <class Policy>
struct shadow_copy_params {
  using format = typename Policy::format;
  rows_view<format const> from;  ///< [rows, columns]
  rows_view<format> to;          ///< [rows, columns]
  int rows = 0;
  int64_t columns = 0;
};

/// One launch of `shadow_compare`. Every pointer is the caller's.
template <class Policy>
struct shadow_compare_params {
  using format = typename Policy::format;
  rows_view<format const> driver;   ///< [rows, columns]
  rows_view<format const> shadow;   ///< [rows, columns]
  shadow_record* record = nullptr;  ///< [1]
  int calls = 1;                    ///< added to the record's: 0 where another tensor of the launch was counted
  int rows = 0;
  int64_t columns = 0;
};

namespace detail {

/// So that the blocks of a launch can be counted in an int.
inline constexpr int64_t shadow_most_elements = int64_t{1} << 37;

template <class Policy>
struct shadow_support {
  static constexpr bool value = true RATIFY_SHADOW_RULES(RATIFY_RULE_TEST);
  template <class Params>
  RATIFY_HD static constexpr char const* reason(Params const& p) {
    RATIFY_SHADOW_LAUNCH_RULES(RATIFY_RULE_REASON)
    return nullptr;
  }
};

}  // namespace detail

RATIFY_END_NAMESPACE
