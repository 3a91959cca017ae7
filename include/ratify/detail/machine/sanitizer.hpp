// SPDX-License-Identifier: Apache-2.0
/// What sanitizers must be told about fibers, because they cannot see a switch of stacks. Without them, nothing.
#pragma once

#include <ratify/config.hpp>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RATIFY_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define RATIFY_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define RATIFY_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#define RATIFY_THREAD_SANITIZER 1
#endif

#if defined(RATIFY_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(RATIFY_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(char const* file, int line);
void AnnotateIgnoreReadsEnd(char const* file, int line);
void AnnotateIgnoreWritesBegin(char const* file, int line);
void AnnotateIgnoreWritesEnd(char const* file, int line);
}
#endif

// A switch of fibers is one function, so that ThreadSanitizer sees the same calls on both sides.
#if defined(RATIFY_THREAD_SANITIZER)
#define RATIFY_CHECKED_SWITCH RATIFY_NOINLINE
#else
#define RATIFY_CHECKED_SWITCH
#endif

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Memory that AddressSanitizer reports when it is touched, until it is allowed again.
struct address_checker {
#if defined(RATIFY_ADDRESS_SANITIZER)
  static constexpr bool present = true;
  static void forbid(void const* p, size_t bytes) { __asan_poison_memory_region(p, bytes); }
  static void allow(void const* p, size_t bytes) { __asan_unpoison_memory_region(p, bytes); }
#else
  static constexpr bool present = false;
  static void forbid(void const*, size_t) {}
  static void allow(void const*, size_t) {}
#endif
};

/// ThreadSanitizer takes each fiber for a thread. Nothing orders what two of them do but `release` and `acquire` at one
/// place: a switch from one to the other does not, although they share a CPU thread.
///
/// It keeps each fiber's call stack, from calls that it puts into functions; one that ends as another fiber than it
/// began would take a frame from the wrong stack. Hence no function here is one when it runs.
struct thread_checker {
#if defined(RATIFY_THREAD_SANITIZER)
  static constexpr bool present = true;
  /// The thread or fiber that runs.
  RATIFY_INLINE static void* current() { return __tsan_get_current_fiber(); }
  RATIFY_INLINE static void switch_to(void* fiber) { __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync); }
  /// The name that reports give to the fiber that runs; 63 characters are kept.
  RATIFY_INLINE static void set_name(char const* name) { __tsan_set_fiber_name(current(), name); }
  RATIFY_INLINE static void release(void* place) { __tsan_release(place); }
  RATIFY_INLINE static void acquire(void* place) { __tsan_acquire(place); }
  /// From here on memory accesses of this thread or fiber are the executor's own and not recorded.
  RATIFY_INLINE static void hide() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  RATIFY_INLINE static void show() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  /// A fiber that starts hidden.
  RATIFY_INLINE static void* create() {
    void* const me = current();
    void* const fiber = __tsan_create_fiber(0);
    switch_to(fiber);
    hide();
    switch_to(me);
    return fiber;
  }
  RATIFY_INLINE static void destroy(void* fiber) {
    void* const me = current();
    switch_to(fiber);
    show();
    switch_to(me);
    __tsan_destroy_fiber(fiber);
  }
#else
  static constexpr bool present = false;
  static void* current() { return nullptr; }
  static void switch_to(void*) {}
  static void set_name(char const*) {}
  static void release(void*) {}
  static void acquire(void*) {}
  static void hide() {}
  static void show() {}
  static void* create() { return nullptr; }
  static void destroy(void*) {}
#endif

  /// Hides for its lifetime.
  struct hidden {
    RATIFY_INLINE hidden() { hide(); }
    RATIFY_INLINE ~hidden() { show(); }
    hidden(hidden const&) = delete;
    hidden& operator=(hidden const&) = delete;
  };
  /// Shows for its lifetime, inside something hidden.
  struct shown {
    RATIFY_INLINE shown() { show(); }
    RATIFY_INLINE ~shown() { hide(); }
    shown(shown const&) = delete;
    shown& operator=(shown const&) = delete;
  };
};

}  // namespace detail
RATIFY_END_NAMESPACE
