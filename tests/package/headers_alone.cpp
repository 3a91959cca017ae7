// SPDX-License-Identifier: Apache-2.0
// Plain C++ without Boost: knobs, formats and support questions.
#include <ratify/attention.cuh>

int main() {
  static_assert(ratify::is_supported_attention<>);
  static_assert(!ratify::is_supported_attention<ratify::head_dim<96>>);
  return ratify::to_float(ratify::convert<ratify::e4m3>(448.1f)) == 448.0f ? 0 : 1;
}
