// SPDX-License-Identifier: Apache-2.0
// Prints digests of single operations where a compiler's flags could change them: sums with a constant zero, divisions
// by what does not change, NaN, infinities and both zeros. Built with many compilers and flags (flags.py), it must
// print the same.
#include <ratify/detail/machine/floating_environment.hpp>
#include <ratify/detail/math.cuh>
#include <ratify/numeric.hpp>

#include <cstdio>
#include <vector>

namespace {

using namespace ratify::detail;

std::vector<float> operands() {
  std::vector<float> all;
  for (uint32_t const magnitude : {0u, 1u, 0x007fffffu, 0x00800000u, 0x3f800000u, 0x40400000u, 0x42c80000u, 0x43e00000u,
                                   0x7f7fffffu, 0x7f800000u, 0x7fc00000u, 0x7fffffffu})
    for (uint32_t const sign : {0u, 0x80000000u}) all.push_back(from_bits(magnitude | sign));
  uint32_t state = 12345;
  for (int i = 0; i < 1000; ++i) {
    state = state * 1664525u + 1013904223u;
    all.push_back(from_bits((state & 0x87ffffffu) + 0x3c000000u));
  }
  return all;
}

void print(char const* name, std::vector<float> const& results) {
  uint64_t h = 1469598103934665603ull;
  for (float const x : results) h = (h ^ bits(canonical(x))) * 1099511628211ull;
  std::printf("%-12s %016llx\n", name, static_cast<unsigned long long>(h));
}

template <class F>
void each(char const* name, F f) {
  std::vector<float> results;
  for (float const x : operands()) results.push_back(f(x));
  print(name, results);
}

/// Four quotients with one divisor, unrolled: where a compiler may, it takes the reciprocal once.
void divide(std::vector<float> const& a, float by, std::vector<float>& out) {
  for (size_t i = 0; i + 4 <= a.size(); i += 4) {
    out[i] = div_rn(a[i], by);
    out[i + 1] = div_rn(a[i + 1], by);
    out[i + 2] = div_rn(a[i + 2], by);
    out[i + 3] = div_rn(a[i + 3], by);
  }
}

}  // namespace

int main() {
  ordered_environment const environment;  // as kernels have it: some flags link code that flushes subnormals
  auto const all = operands();
  each("x + 0", [](float x) { return add_rn(x, 0.0f); });
  each("0 + x", [](float x) { return add_rn(0.0f, x); });
  each("0 - x", [](float x) { return sub_rn(0.0f, x); });
  each("x - x", [](float x) { return sub_rn(x, x); });
  each("x * 0", [](float x) { return mul_rn(x, 0.0f); });
  each("x / 3", [](float x) { return div_rn(x, 3.0f); });
  each("x / x", [](float x) { return div_rn(x, x); });
  each("fma", [](float x) { return fma_rn(x, 3.0f, fma_rn(x, 0.1f, 1.0f)); });
  for (float const by : {3.0f, all[30], all[40]}) {
    std::vector<float> quotients(all.size());
    divide(all, by, quotients);
    print("x / y", quotients);
  }
  each("less", [&](float x) {
    uint32_t below = 0;
    for (size_t i = 0; i < 24; ++i) below = below << 1 | (less(x, all[i]) ? 1u : 0u);
    return from_bits(0x3f800000u + (below & 0x7fffffu));
  });
  for (size_t i = 0; i < 24; ++i) each("max", [&](float x) { return max_rn(x, all[i]); });
  each("exp", exp_ordered);
  each("log", log_ordered);
  each("softplus", softplus_ordered);
  each("sigmoid", sigmoid_ordered);
  each("silu", silu_ordered);
  each("rsqrt", rsqrt_ordered);
  each("f16", [](float x) { return ratify::to_float(ratify::convert<ratify::f16>(x)); });
  each("bf16", [](float x) { return ratify::to_float(ratify::convert<ratify::bf16>(x)); });
  each("e4m3", [](float x) { return ratify::to_float(ratify::convert<ratify::e4m3>(x)); });
  each("e5m2", [](float x) { return ratify::to_float(ratify::convert<ratify::e5m2>(x)); });
}
