// SPDX-License-Identifier: Apache-2.0
/// Two policies on the same operands, the first of which drives: what a change of policy would do to a running program,
/// counted place by place, while the program goes on with the bits it had.
#pragma once

#include <ratify/cuda.cuh>
#include <ratify/detail/shadow_kernels.cuh>

RATIFY_BEGIN_NAMESPACE

/// Whether `shadow_copy<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_shadow_copy = shadow_copy_knobs::supports<Knobs...>;

/// Whether `shadow_compare<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_shadow_compare = shadow_compare_knobs::supports<Knobs...>;

#if !defined(__CUDACC_RTC__)

/// to = from, bit by bit. Reads and writes each element once. No workspace.
///
/// @tparam Knobs   knobs that differ from their defaults: shadow_policy.hpp lists them
/// Parameters: `shadow_copy_params`.
/// @return of `launch`: ok, invalid_argument, unsupported, no_device, launch_failed
template <class... Knobs>
struct shadow_copy : detail::operation<shadow_copy<Knobs...>, shadow_copy_params<shadow_copy_policy<Knobs...>>> {
  using policy = shadow_copy_policy<Knobs...>;
  using params = shadow_copy_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  static size_t scratch_bytes(params const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = shadow_copy_kernel<policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(kernel::count(p))}, p});
  }
};

/// Adds to a record how two tensors differ, bit by bit: a zero of the other sign or a NaN with other bits differs too.
/// Reads each element of both once. No workspace.
///
/// @tparam Knobs   knobs that differ from their defaults: shadow_policy.hpp lists them
/// Parameters: `shadow_compare_params`.
/// @return of `launch`: ok, invalid_argument, unsupported, no_device, launch_failed
template <class... Knobs>
struct shadow_compare
    : detail::operation<shadow_compare<Knobs...>, shadow_compare_params<shadow_compare_policy<Knobs...>>> {
  using policy = shadow_compare_policy<Knobs...>;
  using params = shadow_compare_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  static size_t scratch_bytes(params const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = shadow_compare_kernel<policy>;
    if (p.rows == 0) return {};
    int64_t const blocks = (kernel::count(p) + kernel::block_elements - 1) / kernel::block_elements;
    return visit(stage<kernel>{{static_cast<int>(blocks)}, p});
  }
};

/// A tensor that both arms of a `shadow` write.
template <class Format>
struct shadow_tensor {
  rows_view<Format> driver;  ///< [rows, columns] of the parameters of the driver
  rows_view<Format> shadow;  ///< [rows, columns]: the spare tensor in the parameters of the shadow
  int rows = 0;
  int64_t columns = 0;
  bool in_place = false;  ///< it is read before it is written: the spare tensor gets the contents of the driver's first
};

/// Runs `Drive` for the caller, then `Shadow` into spare tensors, and adds to a record how what they wrote differs.
///
/// The parameters of the shadow are those of the driver but for the policy, and for every tensor that is written: each
/// is a spare one of the caller, and is named as a `shadow_tensor`. Everything is enqueued; nothing is allocated and
/// nothing waited for. Captured in a graph, it counts at every replay. Wait for the stream before reading a record.
///
/// @tparam Drive, Shadow operations that differ in their policies, such as `attention<>` and `attention<pv_unroll<1>>`
template <class Drive, class Shadow>
struct shadow {
  /// Whether both arms would run.
  template <class Executor>
  static status can_launch(typename Drive::params const& driver, typename Shadow::params const& shadowed,
                           Executor const& on) {
    if (auto const s = Drive::can_launch(driver, on); !s) return s;
    return Shadow::can_launch(shadowed, on);
  }

  /// Bytes of scratch memory for both, which use it one after the other.
  template <class Executor>
  static size_t workspace_bytes(typename Drive::params const& driver, typename Shadow::params const& shadowed,
                                Executor const& on) {
    return detail::max_of(Drive::workspace_bytes(driver, on), Shadow::workspace_bytes(shadowed, on));
  }

  /// Launches both and compares what they wrote.
  /// `w`: at least `workspace_bytes`
  /// `record`: [1], of this place, in memory that the executor can reach
  /// @return the first status that is not ok. If it is the shadow's, the driver has run all the same.
  template <class Executor, class... Formats>
  static status launch(typename Drive::params const& driver, typename Shadow::params const& shadowed, workspace w,
                       shadow_record* record, Executor&& on, shadow_tensor<Formats> const&... tensors) {
    static_assert(sizeof...(tensors) > 0, "ratify::shadow: name at least one tensor to compare");
    status s;
    (void)((s = prepare(tensors, on)) && ...);
    // The driver runs whatever becomes of its shadow.
    if (auto const driven = Drive::launch(driver, w, on); !driven || !s) return driven ? s : driven;
    if (s = Shadow::launch(shadowed, w, on); !s) return s;
    int calls = 1;
    (void)((s = compare(tensors, record, calls, on), calls = tensors.rows > 0 ? 0 : calls, s) && ...);
    return s;
  }
 private:
  template <class Format, class Executor>
  static status prepare(shadow_tensor<Format> const& t, Executor& on) {
    if (!t.in_place) return {};
    using copy = shadow_copy<element_format<Format>>;
    typename copy::params p;
    p.from = {t.driver.data, t.driver.stride};
    p.to = t.shadow;
    p.rows = t.rows;
    p.columns = t.columns;
    return copy::launch(p, {}, on);
  }
  template <class Format, class Executor>
  static status compare(shadow_tensor<Format> const& t, shadow_record* record, int calls, Executor& on) {
    using compared = shadow_compare<element_format<Format>>;
    typename compared::params p;
    p.driver = {t.driver.data, t.driver.stride};
    p.shadow = {t.shadow.data, t.shadow.stride};
    p.record = record;
    p.calls = calls;
    p.rows = t.rows;
    p.columns = t.columns;
    return compared::launch(p, {}, on);
  }
};

/// What the records of all places amount to. Converts to true if each place was compared and no bit differed.
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
