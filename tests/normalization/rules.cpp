// SPDX-License-Identifier: Apache-2.0
/// Every launch rule of the normalizations, by its text.
#include <ratify/normalization.cuh>

#include "support/refusal.hpp"

#include <cmath>

namespace {

using namespace ratify_test;

// Memory that a refused launch never touches.
ratify::f16 halves[8], more_halves[8];
float floats[8], more_floats[8];
int32_t positions[2];

ratify::rmsnorm<>::params rmsnorm_launch() {
  ratify::rmsnorm<>::params p;
  p.x = {halves, 4};
  p.residual = {floats, 4};
  p.residual_out = {more_floats, 4};
  p.weight = halves;
  p.out = {more_halves, 4};
  p.rows = 2;
  p.columns = 4;
  return p;
}

ratify::gated_rmsnorm<>::params gated_launch() {
  ratify::gated_rmsnorm<>::params p;
  p.x = p.z = {halves, 4, 2};
  p.weight = floats;
  p.out = {more_halves, 4, 2};
  p.rows = p.heads = p.head_dim = 2;
  return p;
}

ratify::qk_norm_rotary<>::params rotary_launch() {
  ratify::qk_norm_rotary<>::params p;
  p.x = {halves, 4, 2};
  p.weight = halves;
  p.cos = p.sin = floats;
  p.positions = positions;
  p.out = {more_halves, 4, 2};
  p.rows = p.heads = p.head_dim = p.rotary_dim = p.max_position = 2;
  return p;
}

}  // namespace

TEST_CASE("rmsnorm refuses wrong launches, with the reason") {
  using op = ratify::rmsnorm<>;
  auto const good = rmsnorm_launch();
  CHECK(op::can_launch(good, host()));
  invalid<op>(good, "ratify::rmsnorm: rows must not be negative", [](auto& p) { p.rows = -1; });
  invalid<op>(good, "ratify::rmsnorm: columns must be at least 1", [](auto& p) { p.columns = 0; });
  for (int const columns : {(1 << 30) + 1, INT32_MAX})
    unsupported<op>(good, "ratify::rmsnorm: columns must be at most 2^30", [&](auto& p) { p.columns = columns; });
  for (float const eps : {-1e-6f, INFINITY, -INFINITY, NAN})
    invalid<op>(good, "ratify::rmsnorm: eps must be finite and at least 0", [&](auto& p) { p.eps = eps; });
  invalid<op>(good, "ratify::rmsnorm: x must not be null", [](auto& p) { p.x.data = nullptr; });
  invalid<op>(good, "ratify::rmsnorm: weight must not be null", [](auto& p) { p.weight = nullptr; });
  invalid<op>(good, "ratify::rmsnorm: out must not be null", [](auto& p) { p.out.data = nullptr; });
  for (int const stride : {3, 0, -4}) {
    invalid<op>(good, "ratify::rmsnorm: a stride of x is smaller than what it steps over",
                [&](auto& p) { p.x.stride = stride; });
    invalid<op>(good, "ratify::rmsnorm: a stride of residual is smaller than what it steps over",
                [&](auto& p) { p.residual.stride = stride; });
    invalid<op>(good, "ratify::rmsnorm: a stride of residual_out is smaller than what it steps over",
                [&](auto& p) { p.residual_out.stride = stride; });
    invalid<op>(good, "ratify::rmsnorm: a stride of out is smaller than what it steps over",
                [&](auto& p) { p.out.stride = stride; });
  }
}

TEST_CASE("rmsnorm takes what it needs and no more") {
  using op = ratify::rmsnorm<>;
  auto p = rmsnorm_launch();
  p.residual = {};
  p.residual_out = {};
  p.eps = -0.0f;
  CHECK(op::can_launch(p, host()));
  p.rows = 1;  // one row: no stride is stepped over
  p.x.stride = p.out.stride = 0;
  CHECK(op::can_launch(p, host()));
  p = {};
  p.columns = 4;  // no rows: nothing is read
  CHECK(op::launch(p, {}, host()));
  p.columns = 1 << 30;
  CHECK(op::can_launch(p, host()));
}

TEST_CASE("gated_rmsnorm refuses wrong launches, with the reason") {
  using op = ratify::gated_rmsnorm<>;
  auto const good = gated_launch();
  CHECK(op::can_launch(good, host()));
  invalid<op>(good, "ratify::gated_rmsnorm: rows must not be negative", [](auto& p) { p.rows = -1; });
  invalid<op>(good, "ratify::gated_rmsnorm: heads must be at least 1", [](auto& p) { p.heads = 0; });
  invalid<op>(good, "ratify::gated_rmsnorm: head_dim must be at least 1 element", [](auto& p) { p.head_dim = 0; });
  for (int const dim : {(1 << 30) + 1, INT32_MAX})
    unsupported<op>(good, "ratify::gated_rmsnorm: head_dim must be at most 2^30 elements",
                    [&](auto& p) { p.head_dim = dim; });
  invalid<op>(good, "ratify::gated_rmsnorm: eps must be finite and at least 0", [](auto& p) { p.eps = NAN; });
  invalid<op>(good, "ratify::gated_rmsnorm: x must not be null", [](auto& p) { p.x.data = nullptr; });
  invalid<op>(good, "ratify::gated_rmsnorm: z must not be null", [](auto& p) { p.z.data = nullptr; });
  invalid<op>(good, "ratify::gated_rmsnorm: weight must not be null", [](auto& p) { p.weight = nullptr; });
  invalid<op>(good, "ratify::gated_rmsnorm: out must not be null", [](auto& p) { p.out.data = nullptr; });
  invalid<op>(good, "ratify::gated_rmsnorm: a stride of x is smaller than what it steps over",
              [](auto& p) { p.x.row_stride = 3; });
  invalid<op>(good, "ratify::gated_rmsnorm: a stride of z is smaller than what it steps over",
              [](auto& p) { p.z.head_stride = 1; });
  invalid<op>(good, "ratify::gated_rmsnorm: a stride of out is smaller than what it steps over",
              [](auto& p) { p.out.head_stride = 0; });
  op::params none;
  none.heads = none.head_dim = 1;
  CHECK(op::launch(none, {}, host()));
}

TEST_CASE("qk_norm_rotary refuses wrong launches, with the reason") {
  using op = ratify::qk_norm_rotary<>;
  auto const good = rotary_launch();
  CHECK(op::can_launch(good, host()));
  invalid<op>(good, "ratify::qk_norm_rotary: rows must not be negative", [](auto& p) { p.rows = -1; });
  invalid<op>(good, "ratify::qk_norm_rotary: heads must be at least 1", [](auto& p) { p.heads = -2; });
  invalid<op>(good, "ratify::qk_norm_rotary: head_dim must be at least 1 element", [](auto& p) { p.head_dim = 0; });
  unsupported<op>(good, "ratify::qk_norm_rotary: head_dim must be at most 2^30 elements",
                  [](auto& p) { p.head_dim = INT32_MAX; });
  for (int const rotary : {-2, 1, 4})
    invalid<op>(good, "ratify::qk_norm_rotary: rotary_dim must be even and 0 to head_dim",
                [&](auto& p) { p.rotary_dim = rotary; });
  invalid<op>(good, "ratify::qk_norm_rotary: max_position must not be negative", [](auto& p) { p.max_position = -1; });
  invalid<op>(good, "ratify::qk_norm_rotary: eps must be finite and at least 0", [](auto& p) { p.eps = -1.0f; });
  invalid<op>(good, "ratify::qk_norm_rotary: x must not be null", [](auto& p) { p.x.data = nullptr; });
  invalid<op>(good, "ratify::qk_norm_rotary: weight must not be null", [](auto& p) { p.weight = nullptr; });
  invalid<op>(good, "ratify::qk_norm_rotary: cos must not be null", [](auto& p) { p.cos = nullptr; });
  invalid<op>(good, "ratify::qk_norm_rotary: sin must not be null", [](auto& p) { p.sin = nullptr; });
  invalid<op>(good, "ratify::qk_norm_rotary: positions must not be null", [](auto& p) { p.positions = nullptr; });
  invalid<op>(good, "ratify::qk_norm_rotary: out must not be null", [](auto& p) { p.out.data = nullptr; });
  invalid<op>(good, "ratify::qk_norm_rotary: a stride of x is smaller than what it steps over",
              [](auto& p) { p.x.row_stride = 0; });
  invalid<op>(good, "ratify::qk_norm_rotary: a stride of out is smaller than what it steps over",
              [](auto& p) { p.out.row_stride = 2; });
  invalid<op>(good, "ratify::qk_norm_rotary: max_position must be at least 1 if there are rows",
              [](auto& p) { p.max_position = 0; });
  auto turns_nothing = good;  // then the tables are not read
  turns_nothing.rotary_dim = 0;
  turns_nothing.cos = turns_nothing.sin = nullptr;
  CHECK(op::can_launch(turns_nothing, host()));
  op::params none;
  none.heads = none.head_dim = 1;
  CHECK(op::launch(none, {}, host()));
}

TEST_CASE("rmsnorm refuses pointers off their elements, and spans that no memory has") {
  using op = ratify::rmsnorm<>;
  auto const good = rmsnorm_launch();
  misaligned<op>(
      good, "ratify::rmsnorm: x must be aligned to its elements", [](auto& q) -> auto& { return q.x; });
  far_away<op>(
      good, "ratify::rmsnorm: the strides of x reach over 2^63 bytes", [](auto& q) -> auto& { return q.x; });
  misaligned<op>(
      good, "ratify::rmsnorm: residual must be aligned to its elements", [](auto& q) -> auto& { return q.residual; });
  far_away<op>(
      good, "ratify::rmsnorm: the strides of residual reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.residual; });
  misaligned<op>(
      good, "ratify::rmsnorm: residual_out must be aligned to its elements",
      [](auto& q) -> auto& { return q.residual_out; });
  far_away<op>(
      good, "ratify::rmsnorm: the strides of residual_out reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.residual_out; });
  misaligned<op>(
      good, "ratify::rmsnorm: weight must be aligned to its elements", [](auto& q) -> auto& { return q.weight; });
  misaligned<op>(
      good, "ratify::rmsnorm: out must be aligned to its elements", [](auto& q) -> auto& { return q.out; });
  far_away<op>(
      good, "ratify::rmsnorm: the strides of out reach over 2^63 bytes", [](auto& q) -> auto& { return q.out; });
}

TEST_CASE("gated_rmsnorm refuses pointers off their elements, and spans that no memory has") {
  using op = ratify::gated_rmsnorm<>;
  auto const good = gated_launch();
  misaligned<op>(
      good, "ratify::gated_rmsnorm: x must be aligned to its elements", [](auto& q) -> auto& { return q.x; });
  far_away<op>(
      good, "ratify::gated_rmsnorm: the strides of x reach over 2^63 bytes", [](auto& q) -> auto& { return q.x; });
  misaligned<op>(
      good, "ratify::gated_rmsnorm: z must be aligned to its elements", [](auto& q) -> auto& { return q.z; });
  far_away<op>(
      good, "ratify::gated_rmsnorm: the strides of z reach over 2^63 bytes", [](auto& q) -> auto& { return q.z; });
  misaligned<op>(
      good, "ratify::gated_rmsnorm: weight must be aligned to its elements", [](auto& q) -> auto& { return q.weight; });
  misaligned<op>(
      good, "ratify::gated_rmsnorm: out must be aligned to its elements", [](auto& q) -> auto& { return q.out; });
  far_away<op>(
      good, "ratify::gated_rmsnorm: the strides of out reach over 2^63 bytes", [](auto& q) -> auto& { return q.out; });
}

TEST_CASE("qk_norm_rotary refuses pointers off their elements, and spans that no memory has") {
  using op = ratify::qk_norm_rotary<>;
  auto const good = rotary_launch();
  misaligned<op>(
      good, "ratify::qk_norm_rotary: x must be aligned to its elements", [](auto& q) -> auto& { return q.x; });
  far_away<op>(
      good, "ratify::qk_norm_rotary: the strides of x reach over 2^63 bytes", [](auto& q) -> auto& { return q.x; });
  misaligned<op>(
      good, "ratify::qk_norm_rotary: weight must be aligned to its elements",
      [](auto& q) -> auto& { return q.weight; });
  misaligned<op>(
      good, "ratify::qk_norm_rotary: cos must be aligned to its elements", [](auto& q) -> auto& { return q.cos; });
  misaligned<op>(
      good, "ratify::qk_norm_rotary: sin must be aligned to its elements", [](auto& q) -> auto& { return q.sin; });
  misaligned<op>(
      good, "ratify::qk_norm_rotary: positions must be aligned to its elements",
      [](auto& q) -> auto& { return q.positions; });
  misaligned<op>(
      good, "ratify::qk_norm_rotary: out must be aligned to its elements", [](auto& q) -> auto& { return q.out; });
  far_away<op>(
      good, "ratify::qk_norm_rotary: the strides of out reach over 2^63 bytes", [](auto& q) -> auto& { return q.out; });
}

TEST_CASE("rmsnorm refuses outputs in the place of other tensors") {
  using op = ratify::rmsnorm<>;
  auto const good = rmsnorm_launch();
  auto in_place = good;
  in_place.out.data = halves;
  in_place.weight = more_halves;
  in_place.residual_out.data = floats;
  CHECK(op::can_launch(in_place, host()));
  invalid<op>(in_place, "ratify::rmsnorm: out may be x only in its format and with its stride",
              [](auto& p) { p.out.stride = 5; });
  invalid<op>(in_place, "ratify::rmsnorm: residual_out may be residual only with its stride",
              [](auto& p) { p.residual.stride = 5; });
  in_place.rows = 1;  // then no stride is stepped over
  in_place.out.stride = in_place.residual.stride = 0;
  CHECK(op::can_launch(in_place, host()));
  using widening = ratify::rmsnorm<ratify::output_format<float>>;
  widening::params other;
  other.x = good.x;
  other.weight = more_halves;
  other.out = {more_floats, 4};
  other.rows = 2;
  other.columns = 4;
  CHECK(widening::can_launch(other, host()));
  invalid<widening>(other, "ratify::rmsnorm: out may be x only in its format and with its stride",
                    [](auto& p) { p.out.data = reinterpret_cast<float*>(halves); });
  char const* const out = "ratify::rmsnorm: out must not be residual or weight";
  invalid<op>(good, out, [](auto& p) { p.weight = more_halves; });
  invalid<op>(good, out, [](auto& p) { p.out.data = reinterpret_cast<ratify::f16*>(floats); });
  char const* const residual_out = "ratify::rmsnorm: residual_out must not be x, weight or out";
  invalid<op>(good, residual_out, [](auto& p) { p.residual_out.data = reinterpret_cast<float*>(halves); });
  invalid<op>(good, residual_out, [](auto& p) { p.residual_out.data = reinterpret_cast<float*>(more_halves); });
}

TEST_CASE("gated_rmsnorm and qk_norm_rotary refuse outputs in the place of other tensors") {
  using gated = ratify::gated_rmsnorm<>;
  auto in_place = gated_launch();
  in_place.out.data = halves;
  CHECK(gated::can_launch(in_place, host()));
  char const* const same = "ratify::gated_rmsnorm: out may be x or z only in its format and with its strides";
  invalid<gated>(in_place, same, [](auto& p) { p.x.row_stride = 5; });
  invalid<gated>(in_place, same, [](auto& p) { p.z = {p.z.data, 6, 3}; });
  invalid<gated>(in_place, "ratify::gated_rmsnorm: out must not be weight",
                 [](auto& p) { p.out.data = reinterpret_cast<ratify::f16*>(floats); });
  using rotary = ratify::qk_norm_rotary<>;
  auto turned = rotary_launch();
  turned.x.data = more_halves;
  CHECK(rotary::can_launch(turned, host()));
  invalid<rotary>(turned, "ratify::qk_norm_rotary: out may be x only in its format and with its strides", [](auto& p) {
    p.out = {p.out.data, 6, 3};
  });
  char const* const apart = "ratify::qk_norm_rotary: out must not be weight, cos, sin or positions";
  invalid<rotary>(turned, apart, [](auto& p) { p.out.data = halves; });
  invalid<rotary>(turned, apart, [](auto& p) { p.out.data = reinterpret_cast<ratify::f16*>(floats); });
  invalid<rotary>(turned, apart, [](auto& p) { p.out.data = reinterpret_cast<ratify::f16*>(positions); });
}

TEST_CASE("more blocks than a grid holds are refused") {
  auto p = gated_launch();
  p.rows = p.heads = INT32_MAX;
  p.head_dim = 1;
  p.x.row_stride = p.z.row_stride = p.out.row_stride = INT32_MAX;
  p.x.head_stride = p.z.head_stride = p.out.head_stride = 1;
  unsupported<ratify::gated_rmsnorm<>>(p, "ratify: the shape needs more blocks than a grid holds", [](auto&) {});
  p.rows = 8;
  p.heads = 48;
  CHECK(ratify::gated_rmsnorm<>::can_launch(p, host()));
}
