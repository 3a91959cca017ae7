// SPDX-License-Identifier: Apache-2.0
/// decode: storage codes to FP32 or FP16, exactly. The device functions (device/decoder.cuh) are what attention's inner
/// loop calls.
#pragma once

#include <ratify/detail/decoder_kernels.cuh>
#include <ratify/detail/machine/launch.cuh>

RATIFY_BEGIN_NAMESPACE

template <class Policy>
inline constexpr bool is_supported_decode = detail::decode_support<Policy>::value;

#if !defined(__CUDACC_RTC__)

/// values[i] = the value of codes[i]. Exact; every NaN code gives 0x7fffffff (FP16: 0x7fff); every revision gives the
/// same bits.
///
/// @tparam Policy derives from `decode_policy`
/// Parameters: `decode_params`: codes [count], one a byte (e2m1: the low nibble), any alignment; values [count], which
/// must not overlap codes. Reads each code once and writes 4 (FP16: 2) bytes a code. No workspace.
/// Status: unsupported with the rule's text; launch_failed.
/// Formats: OCP 8-bit Floating Point Specification (e4m3, e5m2), OCP Microscaling Formats (e2m1).
template <class Policy>
struct decode : detail::operation<decode<Policy>, decode_params<Policy>> {
  RATIFY_DECODE_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(decode_params<Policy> const& p) { return detail::decode_support<Policy>::reason(p); }
  static size_t scratch_bytes(decode_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(decode_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = detail::decode_kernel<Policy>;
    if (p.count == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(kernel::count(p))}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
