// SPDX-License-Identifier: Apache-2.0
/// NVFP4 projections of 8 rows at the shapes of TP 2 and TP 1.
#include <bench/card.hpp>
#include <bench/harness.hpp>
#include <bench/policies.hpp>
#include <bench/shape.hpp>
#include <ratify/projection.cuh>

namespace bench {
namespace {

/// One weight matrix, with K summed as a whole and in the parts that the round takes there.
template <example::part Where>
void one_case(card const& on, options const& settings, report& to, int n, int k) {
  measurement m;
  m.operation = "projection";
  m.shape = std::to_string(n) + "x" + std::to_string(k);
  if (!settings.wants_shape(m.shape)) return;
  ratify::cuda_executor gpu(on.stream, {settings.programmatic});
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
  auto const with = [&](auto operation) {
    using type = decltype(operation);
    return arm{name_of<type>(), [&](int set) {
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
  measure(m, on,
          {with(ratify::projection<ratify::split_k<1>>{}),
           with(ratify::projection<ratify::split_k<split_k_of<Where>()>>{})},
          sets, settings, to);
}

}  // namespace

void projection(card const& on, options const& settings, report& to) {
  using example::part;
  for (int ranks : {2, 1}) {
    example::geometry const g = shape_of(ranks);
    one_case<part::gate_up>(on, settings, to, 2 * g.mlp, g.hidden);
    one_case<part::down>(on, settings, to, g.hidden, g.mlp);
    one_case<part::gdn_in>(on, settings, to, padded_gdn_rows(g), g.hidden);
    one_case<part::gdn_out>(on, settings, to, g.hidden, g.gdn_values());  // the shape of attention_out, too
    one_case<part::attention_in>(on, settings, to, g.attention_rows(), g.hidden);
    one_case<part::head>(on, settings, to, g.vocabulary / ranks, g.hidden);
  }
}

}  // namespace bench
