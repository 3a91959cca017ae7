// SPDX-License-Identifier: Apache-2.0
// A shared library with a kernel of its own; without WITH_REVISION it says nothing of its revision.
#include <ratify/activation.cuh>
#include <ratify/host.hpp>
#include <ratify/revision.hpp>

#if defined(WITH_REVISION)
RATIFY_EXPORT_REVISION
#endif

extern "C" __attribute__((visibility("default"))) float module_silu(float gate, float x) {
  using op = ratify::silu_and_mul<ratify::input_format<float>, ratify::output_format<float>>;
  ratify::host_executor cpu(1);
  float in[2] = {gate, x}, out[1] = {0};
  op::params p;
  p.x = {in, 2};
  p.out = {out, 1};
  p.rows = p.columns = 1;
  return op::launch(p, {}, cpu) ? out[0] : -1.0f;
}
