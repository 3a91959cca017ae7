// SPDX-License-Identifier: Apache-2.0
// Plain C++ without Boost: policies, formats and support questions.
#include <ratify/activation.cuh>
#include <ratify/attention.cuh>

struct policy : ratify::attention_policy {
  static constexpr int head_dim = 96;
};

int main() {
  static_assert(ratify::is_supported_attention<ratify::attention_policy>);
  static_assert(!ratify::is_supported_attention<policy>);
  return ratify::to_float(ratify::convert<ratify::e4m3>(448.1f)) == 448.0f ? 0 : 1;
}
