// SPDX-License-Identifier: Apache-2.0
/// NVFP4 projections of 8 rows at the shapes of TP 2 and TP 1.
#include <bench/card.hpp>
#include <bench/harness.hpp>
#include <bench/policies.hpp>
#include <ratify/projection.cuh>

namespace bench {
namespace {

template <int SplitK>
void one_case(card const& on, options const& how, report& to, int n, int k) {
  measurement m;
  m.operation = "projection";
  m.shape = std::to_string(n) + "x" + std::to_string(k);
  if (!how.wants_shape(m.shape)) return;
  ratify::cuda_executor gpu(on.stream, {how.programmatic});
  constexpr int rows = 8;
  size_t const wide = static_cast<size_t>(n), deep = static_cast<size_t>(k);
  double const weights = static_cast<double>(n) * k * 9 / 16;
  m.bytes = weights + rows * 2.0 * (n + k);
  int const sets = rotated_sets(on, weights);
  size_t const all = static_cast<size_t>(sets);
  m.rotated_bytes = m.bytes * sets;
  buffer<uint8_t> const packed(on, all * wide * deep / 2, any_byte{});
  buffer<ratify::e4m3> const scale(on, all * wide * deep / 16, uniform<ratify::e4m3>{0.5f, 2});
  buffer<float> const global(std::vector<float>{0.0048f});
  buffer<ratify::f16> const x(on, all * deep * rows, uniform<ratify::f16>{-1, 1});
  buffer<ratify::f16> const y(all * wide * rows);
  auto const with = [&](auto policy) {
    using type = ratify::projection<decltype(policy)>;
    return arm{"split_k " + std::to_string(decltype(policy)::split_k), describe(policy), [&](int set) {
                 size_t const s = static_cast<size_t>(set);
                 typename type::params p{};
                 p.x = {x.data() + s * deep * rows, k};
                 p.w_packed = packed.data() + s * wide * deep / 2;
                 p.w_scale = scale.data() + s * wide * deep / 16;
                 p.w_global = global.data();
                 p.y = {y.data() + s * wide * rows, n};
                 p.rows = rows;
                 p.n = n;
                 p.k = k;
                 check(type::launch(p, {}, gpu));
               }};
  };
  measure(m, on, {with(projection_policy<1, ratify::f16>{}), with(projection_policy<SplitK, ratify::f16>{})}, sets, how,
          to);
}

}  // namespace

void projection(card const& on, options const& how, report& to) {
  // TP 2: MLP gate and up, down, GDN input, outputs, attention input, LM head; split counts as the round takes them.
  one_case<7>(on, how, to, 17408, 5120);
  one_case<8>(on, how, to, 5120, 8704);
  one_case<9>(on, how, to, 8256, 5120);
  one_case<9>(on, how, to, 5120, 3072);
  one_case<5>(on, how, to, 7168, 5120);
  one_case<4>(on, how, to, 124160, 5120);
  // TP 1.
  one_case<7>(on, how, to, 34816, 5120);
  one_case<8>(on, how, to, 5120, 17408);
  one_case<9>(on, how, to, 16480, 5120);
  one_case<9>(on, how, to, 5120, 6144);
  one_case<5>(on, how, to, 14336, 5120);
  one_case<4>(on, how, to, 248320, 5120);
}

}  // namespace bench
