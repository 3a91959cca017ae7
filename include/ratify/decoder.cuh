// SPDX-License-Identifier: Apache-2.0
/// decode: 8-bit and 4-bit codes to FP32 or FP16, exactly. The functions in device/decoder.cuh do the same for kernels
/// of your own; attention decodes its cache with the same code.
#pragma once

#include <ratify/cuda.cuh>
#include <ratify/detail/decoder_kernels.cuh>

RATIFY_BEGIN_NAMESPACE

/// Whether `decode<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_decode = decode_knobs::supports<Knobs...>;

#if !defined(__CUDACC_RTC__)

/// values[i] = the value of codes[i]. Exact; every NaN code gives 0x7fffffff (FP16: 0x7fff). Every decoder gives the
/// same bits; formats other than E4M3 have one and ignore the knob. Formats: OCP 8-bit Floating Point Specification
/// (e4m3, e5m2), OCP Microscaling Formats (e2m1: one code a byte, in the low nibble, whatever the high one holds).
///
/// @tparam Knobs knobs that differ from their defaults, in any order: decoder_policy.hpp lists them
/// Parameters: `decode_params`. Reads each code once and writes 4 bytes (FP16: 2) per code. No workspace.
/// @return of `launch`: ok, invalid_argument or unsupported with the rule's text, no_device, launch_failed
template <class... Knobs>
struct decode : detail::operation<decode<Knobs...>, decode_params<decode_policy<Knobs...>>> {
  using policy = decode_policy<Knobs...>;
  using params = decode_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  static size_t scratch_bytes(params const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = decode_kernel<policy>;
    if (p.count == 0) return {};
    return visit(stage<kernel>{{detail::elementwise_blocks<kernel>(kernel::count(p))}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
