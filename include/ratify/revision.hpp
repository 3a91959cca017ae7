// SPDX-License-Identifier: Apache-2.0
/// Refusing a compiled module of another revision: a shared library built from other headers may lay out parameters or
/// order sums differently, and nothing but this would tell. Headers whose contents differ are of different revisions,
/// whatever version they have.
///
/// In the module, once:        RATIFY_EXPORT_REVISION
/// In who loads the module:    ratify::check_revision(dlsym(handle, "ratify_module_revision"))
#pragma once

#include <ratify/detail/header_digest.hpp>
#include <ratify/status.hpp>

#define RATIFY_TEXT_OF(x) #x
#define RATIFY_TEXT(x) RATIFY_TEXT_OF(x)
/// What a module says of itself: version and contents of the headers it was compiled with.
#define RATIFY_REVISION                                                                              \
  "ratify " RATIFY_TEXT(RATIFY_VERSION_MAJOR) "." RATIFY_TEXT(RATIFY_VERSION_MINOR) "." RATIFY_TEXT( \
      RATIFY_VERSION_PATCH) " " RATIFY_HEADER_DIGEST

/// Exports the revision of a shared library under a C name.
#define RATIFY_EXPORT_REVISION \
  extern "C" __attribute__((visibility("default"), used)) char const ratify_module_revision[] = RATIFY_REVISION;

#if !defined(__CUDACC_RTC__)  // of the host
RATIFY_BEGIN_NAMESPACE

/// Judges the symbol `ratify_module_revision` of a module (its address, or nullptr where there is none).
/// @return ok; unsupported with the reason: no revision, or another one than these headers'
inline status check_revision(void const* module_revision) {
  if (module_revision == nullptr)
    return {status_code::unsupported, "ratify: the module exports no ratify_module_revision"};
  char const* theirs = static_cast<char const*>(module_revision);
  for (char const* ours = RATIFY_REVISION;; ++ours, ++theirs) {
    if (*ours != *theirs)
      return {status_code::unsupported, "ratify: the module was compiled for another revision of ratify"};
    if (*ours == '\0') return {};
  }
}

RATIFY_END_NAMESPACE
#endif
