// SPDX-License-Identifier: Apache-2.0
/// The named template arguments of all operations. An operation is chosen by naming the knobs that differ from their
/// defaults, in any order:
///
///   using verify = ratify::attention<ratify::head_dim<128>, ratify::kv_format<ratify::bf16>>;
///
/// Which knobs an operation has, their defaults and what they accept is listed in its NAME_policy.hpp. A knob that the
/// operation does not have, a value of another type, or one that is not accepted does not compile, and the error names
/// the knob. So it is whether the operation or its policy is named.
#pragma once

#include <ratify/config.hpp>

// Every knob once. FORMAT(name, ...): its argument is a storage format. VALUE(name, ...): its argument is a value. What
// follows the two macros is handed to each of them.
#define RATIFY_EVERY_KNOB(FORMAT, VALUE, ...) \
  FORMAT(a_format, __VA_ARGS__)               \
  FORMAT(b_format, __VA_ARGS__)               \
  FORMAT(base_format, __VA_ARGS__)            \
  FORMAT(code_format, __VA_ARGS__)            \
  FORMAT(delta_format, __VA_ARGS__)           \
  FORMAT(element_format, __VA_ARGS__)         \
  FORMAT(gate_format, __VA_ARGS__)            \
  FORMAT(input_format, __VA_ARGS__)           \
  FORMAT(kv_format, __VA_ARGS__)              \
  FORMAT(logit_format, __VA_ARGS__)           \
  FORMAT(output_format, __VA_ARGS__)          \
  FORMAT(pair_format, __VA_ARGS__)            \
  FORMAT(q_format, __VA_ARGS__)               \
  FORMAT(table_format, __VA_ARGS__)           \
  FORMAT(weight_format, __VA_ARGS__)          \
  VALUE(column_threads, __VA_ARGS__)          \
  VALUE(column_warps, __VA_ARGS__)            \
  VALUE(decoder, __VA_ARGS__)                 \
  VALUE(effective_scale, __VA_ARGS__)         \
  VALUE(fused_gating, __VA_ARGS__)            \
  VALUE(head_dim, __VA_ARGS__)                \
  VALUE(key_dim, __VA_ARGS__)                 \
  VALUE(l2norm, __VA_ARGS__)                  \
  VALUE(mode, __VA_ARGS__)                    \
  VALUE(partition_width, __VA_ARGS__)         \
  VALUE(pv_unroll, __VA_ARGS__)               \
  VALUE(rule, __VA_ARGS__)                    \
  VALUE(silu, __VA_ARGS__)                    \
  VALUE(split_k, __VA_ARGS__)                 \
  VALUE(state_layout, __VA_ARGS__)            \
  VALUE(unit_offset, __VA_ARGS__)             \
  VALUE(value_block, __VA_ARGS__)             \
  VALUE(value_dim, __VA_ARGS__)               \
  VALUE(width, __VA_ARGS__)

RATIFY_BEGIN_NAMESPACE

#define RATIFY_FORMAT_KNOB(name, unused) \
  template <class Format>                \
  struct name {};
#define RATIFY_VALUE_KNOB(name, unused) \
  template <auto Value>                 \
  struct name {};
RATIFY_EVERY_KNOB(RATIFY_FORMAT_KNOB, RATIFY_VALUE_KNOB, )
#undef RATIFY_FORMAT_KNOB
#undef RATIFY_VALUE_KNOB

namespace detail {

/// Whether a template argument is exactly a knob. A const or derived one is not: the search for a knob among the
/// arguments would pass over it and leave the default.
template <class Given>
inline constexpr bool is_knob = false;

#define RATIFY_FORMAT_KNOB(name, unused) \
  template <class Format>                \
  inline constexpr bool is_knob<name<Format>> = true;
#define RATIFY_VALUE_KNOB(name, unused) \
  template <auto Value>                 \
  inline constexpr bool is_knob<name<Value>> = true;
RATIFY_EVERY_KNOB(RATIFY_FORMAT_KNOB, RATIFY_VALUE_KNOB, )
#undef RATIFY_FORMAT_KNOB
#undef RATIFY_VALUE_KNOB

}  // namespace detail

RATIFY_END_NAMESPACE
