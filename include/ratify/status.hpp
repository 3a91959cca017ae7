// SPDX-License-Identifier: Apache-2.0
/// The one error channel: a code and a reason. And the macros that write a launch rule once.
#pragma once

#include <ratify/config.hpp>

RATIFY_BEGIN_NAMESPACE

enum class status_code : int {
  ok,
  /// The caller's parameters contradict themselves: a null pointer, a stride that is too small, a negative extent,
  /// an output in the place of an input. This
  /// is a fault of the calling program; another implementation would be given the same wrong numbers.
  invalid_argument,
  /// The parameters are consistent, but this shape, alignment or card is not built. An engine keeps its own path.
  unsupported,
  workspace_too_small,  ///< fewer bytes than `workspace_bytes` asked for
  no_device,            ///< no CUDA device, or no driver
  launch_failed,        ///< the CUDA runtime refused this launch; the reason is the runtime's text
  divergent_barrier     ///< host executor: some threads of a block wait at a barrier that the others never reach
};

/// The result of a call: a code and a text that says why. Converts to true if the call succeeded.
class [[nodiscard]] status {
 public:
  constexpr status() = default;
  RATIFY_HD constexpr status(status_code code, char const* reason) : code_(code), reason_(reason) {}
  RATIFY_HD constexpr explicit operator bool() const { return code_ == status_code::ok; }
  RATIFY_HD constexpr status_code code() const { return code_; }
  /// Empty if the call succeeded. The text lives as long as the program, except that the text of `divergent_barrier`
  /// and of a check of device contents belongs to the executor and lives until its next launch.
  RATIFY_HD constexpr char const* reason() const { return reason_; }
 private:
  status_code code_ = status_code::ok;
  char const* reason_ = "";
};

RATIFY_END_NAMESPACE

// The launch rules of an operation are a macro LIST(INVALID, UNSUPPORTED) that expands one of its two parameters, as
// KIND(name, (condition on p), "text"), per rule. With these two it becomes the body of a function that returns the
// status of the first rule that `p` breaks.
#define RATIFY_RETURN_INVALID(name, condition, text) \
  if (!(condition)) return {::ratify::status_code::invalid_argument, text};
#define RATIFY_RETURN_UNSUPPORTED(name, condition, text) \
  if (!(condition)) return {::ratify::status_code::unsupported, text};

// A rule about a policy is RULE(name, (condition), "text"). With these two it becomes part of a predicate, or an
// assertion.
#define RATIFY_TEST_RULE(name, condition, text) &&(condition)
#define RATIFY_ASSERT_RULE(name, condition, text) static_assert((condition), text);
