// SPDX-License-Identifier: Apache-2.0
/// Two policies on the same operands, the first of which drives: what a change of policy would do to a running program,
/// counted place by place, while the program goes on with the bits it had.
#pragma once

#include <ratify/detail/machine/launch.cuh>
#include <ratify/detail/shadow_kernels.cuh>

RATIFY_BEGIN_NAMESPACE

template <class Policy>
inline constexpr bool is_supported_shadow = detail::shadow_support<Policy>::value;

#if !defined(__CUDACC_RTC__)

/// to = from. Reads and writes each element once. No workspace. Status: unsupported with the rule's text;
/// launch_failed.
///
/// @tparam Policy derives from `shadow_policy`
template <class Policy>
struct shadow_copy : detail::operation<shadow_copy<Policy>, shadow_copy_params<Policy>> {
  RATIFY_SHADOW_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(shadow_copy_params<Policy> const& p) { return detail::shadow_support<Policy>::reason(p); }
  static size_t scratch_bytes(shadow_copy_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(shadow_copy_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = detail::shadow_copy_kernel<Policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(kernel::count(p))}, p});
  }
};

/// Adds to a record how two tensors differ, bit by bit: a zero of the other sign or a NaN with other bits differs too.
/// Reads each element of both once. No workspace. Status: unsupported with the rule's text; launch_failed.
///
/// @tparam Policy derives from `shadow_policy`
template <class Policy>
struct shadow_compare : detail::operation<shadow_compare<Policy>, shadow_compare_params<Policy>> {
  RATIFY_SHADOW_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(shadow_compare_params<Policy> const& p) {
    return detail::shadow_support<Policy>::reason(p);
  }
  static size_t scratch_bytes(shadow_compare_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(shadow_compare_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = detail::shadow_compare_kernel<Policy>;
    if (p.rows == 0) return {};
    int64_t const blocks = (kernel::count(p) + kernel::block_elements - 1) / kernel::block_elements;
    return visit(stage<kernel>{{static_cast<int>(blocks)}, p});
  }
};

/// A tensor that both arms of a `shadow` write.
template <class Format>
struct shadow_tensor {
  rows_view<Format> driver;  ///< [rows, columns] of the driver's parameters
  rows_view<Format> shadow;  ///< [rows, columns], the spare tensor of the shadow's parameters
  int rows = 0;
  int64_t columns = 0;
  bool in_place = false;  ///< read before it is written: the spare gets the driver's contents first
};

namespace detail {
template <class Format>
struct shadow_of : shadow_policy {
  using format = Format;
};
}  // namespace detail

/// Runs `Driver` for the caller, then `Shadow` into spare tensors, and adds to a record how what they wrote differs.
///
/// The shadow's parameters are the driver's but for the policy and for every tensor that is written, which is a spare
/// one of the caller's; each of those is named as a `shadow_tensor`. All is enqueued, nothing is allocated and nothing
/// waited for; captured in a graph it counts at every replay. Whoever reads the records waits for the stream first.
///
/// @tparam Driver, Shadow operations of two policies, such as `attention<A>` and `attention<B>`
template <class Driver, class Shadow>
struct shadow {
  /// Whether both arms would run.
  template <class Executor>
  static status can_launch(typename Driver::params const& driver, typename Shadow::params const& shadowed,
                           Executor const& on) {
    if (auto const s = Driver::can_launch(driver, on); !s) return s;
    return Shadow::can_launch(shadowed, on);
  }

  /// Bytes of scratch for both, which use it in turn.
  template <class Executor>
  static size_t workspace_bytes(typename Driver::params const& driver, typename Shadow::params const& shadowed,
                                Executor const& on) {
    return detail::max_of(Driver::workspace_bytes(driver, on), Shadow::workspace_bytes(shadowed, on));
  }

  /// Launches both and compares what they wrote; `record` is of this place, in memory of the device.
  /// @return the first status that is not ok. If it is the shadow's, the driver has run all the same.
  template <class Executor, class... Formats>
  static status launch(typename Driver::params const& driver, typename Shadow::params const& shadowed, workspace w,
                       shadow_record* record, Executor& on, shadow_tensor<Formats> const&... tensors) {
    static_assert(sizeof...(tensors) > 0, "ratify::shadow: name at least one tensor to compare");
    status s;
    (void)((s = prepare(tensors, on)) && ...);
    // The driver runs whatever becomes of its shadow.
    if (auto const driven = Driver::launch(driver, w, on); !driven || !s) return driven ? s : driven;
    if (s = Shadow::launch(shadowed, w, on); !s) return s;
    int calls = 1;
    (void)((s = compare(tensors, record, calls, on), calls = tensors.rows > 0 ? 0 : calls, s) && ...);
    return s;
  }
 private:
  template <class Format, class Executor>
  static status prepare(shadow_tensor<Format> const& t, Executor& on) {
    if (!t.in_place) return {};
    shadow_copy_params<detail::shadow_of<Format>> p;
    p.from = {t.driver.data, t.driver.stride};
    p.to = t.shadow;
    p.rows = t.rows;
    p.columns = t.columns;
    return shadow_copy<detail::shadow_of<Format>>::launch(p, {}, on);
  }
  template <class Format, class Executor>
  static status compare(shadow_tensor<Format> const& t, shadow_record* record, int calls, Executor& on) {
    shadow_compare_params<detail::shadow_of<Format>> p;
    p.driver = {t.driver.data, t.driver.stride};
    p.shadow = {t.shadow.data, t.shadow.stride};
    p.record = record;
    p.calls = calls;
    p.rows = t.rows;
    p.columns = t.columns;
    return shadow_compare<detail::shadow_of<Format>>::launch(p, {}, on);
  }
};

/// What the records of all places come to. Good: each place was compared, and no bit differed.
struct shadow_verdict {
  int64_t uncovered = -1;  ///< the first place that was never compared, or -1
  int64_t differing = -1;  ///< the first place where bits differ, or -1
  uint64_t elements = 0, differing_elements = 0;
  explicit operator bool() const { return uncovered < 0 && differing < 0; }
};

/// Judges records that were read back to the host.
inline shadow_verdict judge(shadow_record const* records, int64_t places) {
  shadow_verdict v;
  for (int64_t i = 0; i < places; ++i) {
    shadow_record const& r = records[i];
    if (v.uncovered < 0 && (r.calls == 0 || r.elements == 0)) v.uncovered = i;
    if (v.differing < 0 && r.differing_elements > 0) v.differing = i;
    v.elements += r.elements;
    v.differing_elements += r.differing_elements;
  }
  return v;
}

#endif

RATIFY_END_NAMESPACE
