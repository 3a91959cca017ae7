// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/recurrence.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::recurrence_policy {
  static constexpr int value_block = 2;
  static constexpr auto state_layout = ratify::recurrence_layout::vk;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::recurrence: the policy must derive from ratify::recurrence_policy
struct policy {
  using input_format = ratify::f16;
  using output_format = ratify::f16;
  static constexpr int key_dim = 128, value_dim = 128, value_block = 8, column_threads = 0;
  static constexpr bool l2norm = true, fused_gating = false;
  using a_format = ratify::f16;
  using b_format = ratify::f16;
  static constexpr auto state_layout = ratify::recurrence_layout::kv;
  static constexpr auto mode = ratify::recurrence_mode::snapshots;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::recurrence: input_format must be float, f16 or bf16
struct policy : ratify::recurrence_policy {
  using input_format = double;
};
#elif RATIFY_CASE == 3
// EXPECT: ratify::recurrence: output_format must be float, f16 or bf16
struct policy : ratify::recurrence_policy {
  using output_format = double;
};
#elif RATIFY_CASE == 4
// EXPECT: ratify::recurrence: key_dim must be 64 or 128 elements
struct policy : ratify::recurrence_policy {
  static constexpr int key_dim = 32;
};
#elif RATIFY_CASE == 5
// EXPECT: ratify::recurrence: value_dim must be 64 or 128 elements
struct policy : ratify::recurrence_policy {
  static constexpr int value_dim = 96;
};
#elif RATIFY_CASE == 6
// EXPECT: ratify::recurrence: mode must be recurrence_mode::snapshots, replay or read
struct policy : ratify::recurrence_policy {
  static constexpr auto mode = static_cast<ratify::recurrence_mode>(3);
};
#elif RATIFY_CASE == 7
// EXPECT: ratify::recurrence: state_layout must be recurrence_layout::kv or vk
struct policy : ratify::recurrence_policy {
  static constexpr auto state_layout = static_cast<ratify::recurrence_layout>(7);
};
#elif RATIFY_CASE == 8
// EXPECT: ratify::recurrence: value_block must be 2, 4, 8, 16 or 32 value columns
struct policy : ratify::recurrence_policy {
  static constexpr int value_block = 3;
};
#elif RATIFY_CASE == 9
// EXPECT: ratify::recurrence: column_threads must be 0, 1
struct policy : ratify::recurrence_policy {
  static constexpr int column_threads = 3;
};
#elif RATIFY_CASE == 10
// EXPECT: ratify::recurrence: a_format must be float, f16 or bf16
struct policy : ratify::recurrence_policy {
  static constexpr bool fused_gating = true;
  using a_format = double;
};
#elif RATIFY_CASE == 11
// EXPECT: ratify::recurrence: b_format must be float, f16 or bf16
struct policy : ratify::recurrence_policy {
  static constexpr bool fused_gating = true;
  using b_format = int;
};
#endif

ratify::recurrence<policy>::params p;
