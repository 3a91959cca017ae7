// SPDX-License-Identifier: Apache-2.0
// The second translation unit: the same operation instantiated again.
#include <ratify/activation.cuh>
#include <ratify/host.hpp>

float silu_elsewhere(ratify::host_executor& cpu, float gate, float x) {
  ratify::f16 in[2] = {ratify::convert<ratify::f16>(gate), ratify::convert<ratify::f16>(x)}, out[1];
  using op = ratify::silu_and_mul<>;
  op::params p;
  p.x = {in, 2};
  p.out = {out, 1};
  p.rows = p.columns = 1;
  return op::launch(p, {}, cpu) ? ratify::to_float(out[0]) : -1.0f;
}
