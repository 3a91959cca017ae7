// SPDX-License-Identifier: Apache-2.0
/// Knobs of the gated delta rule.
#pragma once

#include <ratify/detail/policy.hpp>
#include <ratify/numeric.hpp>

/// `l2norm` is arithmetic: it changes bits. `value_block` and `column_threads` share the work out and change none.
#define RATIFY_RECURRENCE_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                                                      \
  FORMAT(op, input_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of q, k and v")                      \
  FORMAT(op, output_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of out")                            \
  NUMBER(op, key_dim, 128, value == 64 || value == 128, "64 or 128 elements", "elements of one key")                   \
  NUMBER(op, value_dim, 128, value == 64 || value == 128, "64 or 128 elements", "elements of one value")               \
  FLAG(op, l2norm, true, "whether q and k are replaced by x / sqrt(sum x^2 + 1e-6) first")                             \
  CHOICE(op, state_layout, recurrence_layout, kv, "kv or vk", "order of one head's state in the pool")                 \
  CHOICE(op, mode, recurrence_mode, snapshots, "snapshots, replay or read",                                            \
         "what a launch keeps of the states it passes through")                                                        \
  FLAG(op, fused_gating, false, "whether the launch takes a, b, a_log and dt_bias instead of g and beta")              \
  FORMAT(op, a_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of a, where gating is fused")            \
  FORMAT(op, b_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of b, where gating is fused")            \
  NUMBER(op, value_block, 16, value == 2 || value == 4 || value == 8 || value == 16 || value == 32,                    \
         "2, 4, 8, 16 or 32 value columns", "value columns of one block on a card")                                    \
  NUMBER(op, column_threads, 0, value == 0 || value == 1 || value == 4 || value == 8, "0, 1, 4 or 8 threads",          \
         "threads that share a value column: 1 is for the host executor alone; 0 takes 1 there and, on a card, 4 for " \
         "layout kv and 8 for vk, with which a warp reads and writes whole 32-byte sectors of the state")

RATIFY_BEGIN_NAMESPACE

/// What a launch keeps of the states it passes through.
enum class recurrence_mode {
  snapshots,  ///< the state after every row, each in a slot of its own
  replay,     ///< a checkpoint, and a short ring of what each row did to it
  read        ///< nothing: states are read and none is written
};

/// Order of one head's state in the pool.
enum class recurrence_layout {
  kv,  ///< [key_dim, value_dim]
  vk   ///< [value_dim, key_dim]
};

namespace detail {

template <>
struct choices<recurrence_mode> {
  static constexpr choice values[] = {
      {"snapshots", "ratify::recurrence_mode::snapshots"},
      {"replay", "ratify::recurrence_mode::replay"},
      {"read", "ratify::recurrence_mode::read"},
  };
};
template <>
struct choices<recurrence_layout> {
  static constexpr choice values[] = {
      {"kv", "ratify::recurrence_layout::kv"},
      {"vk", "ratify::recurrence_layout::vk"},
  };
};

}  // namespace detail

RATIFY_DEFINE_POLICY(recurrence, RATIFY_RECURRENCE_KNOBS, "ratify/recurrence.cuh", "recurrence_kernel<$>")

RATIFY_END_NAMESPACE
