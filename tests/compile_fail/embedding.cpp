// SPDX-License-Identifier: Apache-2.0
/// Each case but 0 is refused with the text it names.
#include <ratify/embedding.cuh>

#if RATIFY_CASE == 0
struct policy : ratify::embedding_policy {
  using table_format = float;
};
#elif RATIFY_CASE == 1
// EXPECT: ratify::embedding: the policy must derive from ratify::embedding_policy
struct policy {
  using table_format = ratify::f16;
  using output_format = ratify::f16;
};
#elif RATIFY_CASE == 2
// EXPECT: ratify::embedding: table_format must be float, f16 or bf16
struct policy : ratify::embedding_policy {
  using table_format = double;
};
#elif RATIFY_CASE == 3
// EXPECT: ratify::embedding: output_format must be float, f16 or bf16
struct policy : ratify::embedding_policy {
  using output_format = double;
};
#endif

ratify::embedding<policy>::params p;
