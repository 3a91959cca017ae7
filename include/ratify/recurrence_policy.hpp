// SPDX-License-Identifier: Apache-2.0
/// Knobs of the gated delta rule. Derive and override by name; a misspelt knob compiles silently.
#pragma once

#include <ratify/numeric.hpp>

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

struct recurrence_policy {
  using input_format = f16;              ///< of q, k and v: f16, bf16 or float
  using output_format = f16;             ///< f16, bf16 or float
  static constexpr int key_dim = 128;    ///< elements of a key: 64 or 128
  static constexpr int value_dim = 128;  ///< elements of a value: 64 or 128
  static constexpr bool l2norm = true;   ///< q and k become x / sqrt(sum x^2 + 1e-6) first
  static constexpr auto state_layout = recurrence_layout::kv;
  static constexpr auto mode = recurrence_mode::snapshots;
  static constexpr bool fused_gating = false;  ///< the launch takes a, b, a_log and dt_bias instead of g and beta
  using a_format = f16;                        ///< of a, where gating is fused: f16, bf16 or float
  using b_format = f16;                        ///< of b, where gating is fused: f16, bf16 or float

  // Schedule: no bit depends on what follows.
  static constexpr int value_block = 16;    ///< value columns of a block on a card: 2, 4, 8, 16 or 32
  static constexpr int column_threads = 0;  ///< of a value column: 1 (host only), 4 or 8; 0 = 1 on the host, on a card
                                            ///< 4 for kv and 8 for vk, which read and write whole sectors
};

RATIFY_END_NAMESPACE
