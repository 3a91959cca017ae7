// SPDX-License-Identifier: Apache-2.0
#include <ratify/activation.cuh>
#include <ratify/host.hpp>

#include <cstdio>

float silu_elsewhere(ratify::host_executor& cpu, float gate, float x);

int main() {
  ratify::host_executor cpu(2);
  ratify::f16 in[2] = {ratify::convert<ratify::f16>(1.0f), ratify::convert<ratify::f16>(2.0f)}, out[1];
  using op = ratify::silu_and_mul<>;
  op::params p;
  p.x = {in, 2};
  p.out = {out, 1};
  p.rows = p.columns = 1;
  if (auto const s = op::launch(p, {}, cpu); !s) {
    std::puts(s.reason());
    return 1;
  }
  float const here = ratify::to_float(out[0]), there = silu_elsewhere(cpu, 1.0f, 2.0f);
  std::printf("silu(1) * 2 = %g and %g\n", here, there);
  return here == there && here > 1.46f && here < 1.463f ? 0 : 1;
}
