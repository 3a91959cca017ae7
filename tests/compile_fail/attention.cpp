// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/attention.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::attention_policy {
  static constexpr int head_dim = 64;
  static constexpr int pv_unroll = 1;
  using kv_format = ratify::bf16;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::attention: the policy must derive from ratify::attention_policy
struct policy {
  using q_format = ratify::f16;
  using kv_format = ratify::e4m3;
  using out_format = float;
  static constexpr int head_dim = 256, partition_width = 1024, pv_unroll = 8;
  static constexpr auto decoder = ratify::decoder_revision::fp16_shift;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::attention: q_format must be float, f16 or bf16
struct policy : ratify::attention_policy {
  using q_format = double;
};
#elif RATIFY_CASE == 3
// EXPECT: ratify::attention: kv_format must be e4m3, e5m2, f16 or bf16
struct policy : ratify::attention_policy {
  using kv_format = float;
};
#elif RATIFY_CASE == 4
// EXPECT: ratify::attention: out_format must be float, f16 or bf16
struct policy : ratify::attention_policy {
  using out_format = double;
};
#elif RATIFY_CASE == 5
// EXPECT: ratify::attention: head_dim must be 64, 128 or 256
struct policy : ratify::attention_policy {
  static constexpr int head_dim = 96;
};
#elif RATIFY_CASE == 6
// EXPECT: ratify::attention: partition_width must be a power of two from 64 to 4096 tokens
struct policy : ratify::attention_policy {
  static constexpr int partition_width = 96;
};
#elif RATIFY_CASE == 7
// EXPECT: ratify::attention: pv_unroll must be 1, 4, 8 or 16
struct policy : ratify::attention_policy {
  static constexpr int pv_unroll = 2;
};
#elif RATIFY_CASE == 8
// EXPECT: ratify::attention: decoder must be a ratify::decoder_revision
struct policy : ratify::attention_policy {
  static constexpr int decoder = 2;
};
#endif

ratify::attention<policy>::params p;
