// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/decoder.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::decode_policy {
  using to = ratify::f16;
  static constexpr auto revision = ratify::decoder_revision::native;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::decode: the policy must derive from ratify::decode_policy
struct policy {
  using format = ratify::e4m3;
  using to = float;
  static constexpr auto revision = ratify::decoder_revision::reference;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::decode: format must be e4m3, e5m2 or e2m1x2
struct policy : ratify::decode_policy {
  using format = ratify::f16;
};
#elif RATIFY_CASE == 3
// EXPECT: ratify::decode: to must be float or f16
struct policy : ratify::decode_policy {
  using to = ratify::bf16;
};
#elif RATIFY_CASE == 4
// EXPECT: ratify::decode: revision must be a ratify::decoder_revision
struct policy : ratify::decode_policy {
  static constexpr int revision = 0;
};
#elif RATIFY_CASE == 5
// EXPECT: ratify::decode: revision must be reference unless format is e4m3
struct policy : ratify::decode_policy {
  using format = ratify::e5m2;
  static constexpr auto revision = ratify::decoder_revision::fp16_shift;
};
#endif

ratify::decode<policy>::params p;
