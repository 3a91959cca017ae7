// SPDX-License-Identifier: Apache-2.0
/// The one error channel, and the macros that write a support rule once.
#pragma once

#include <ratify/config.hpp>

RATIFY_BEGIN_NAMESPACE

enum class status_code : int {
  ok,
  unsupported,          ///< this policy, shape or card is not built; the caller's own path stays
  workspace_too_small,  ///< fewer bytes than `workspace_bytes` asked for
  no_device,            ///< no CUDA device, or no driver
  launch_failed,        ///< the runtime refused this launch; the reason is its text
  divergent_barrier     ///< host executor: threads of a block wait for a barrier that the others never reach
};

/// What a call came to: a code and a static text. Converts to true when all is well.
class status {
 public:
  constexpr status() = default;
  RATIFY_HD constexpr status(status_code code, char const* reason) : code_(code), reason_(reason) {}
  RATIFY_HD constexpr explicit operator bool() const { return code_ == status_code::ok; }
  RATIFY_HD constexpr status_code code() const { return code_; }
  /// Empty when ok. Lives as long as the program (divergent_barrier: until the executor's next launch).
  RATIFY_HD constexpr char const* reason() const { return reason_; }
 private:
  status_code code_ = status_code::ok;
  char const* reason_ = "";
};

RATIFY_END_NAMESPACE

// A rule list is a macro LIST(RULE) that expands RULE(name, (condition), "text") for each rule. These say what a list
// is expanded to: a predicate, the reason of the first rule that fails, a static_assert each.
#define RATIFY_RULE_TEST(name, condition, text) &&(condition)
#define RATIFY_RULE_REASON(name, condition, text) \
  if (!(condition)) return text;
#define RATIFY_RULE_ASSERT(name, condition, text) static_assert((condition), text);
