// SPDX-License-Identifier: Apache-2.0
/// Every launch rule of the elementwise operations, by its text.
#include <ratify/activation.cuh>

#include "support/refusal.hpp"

namespace {

using namespace ratify_test;

// Memory that a refused launch never touches.
ratify::f16 halves[16], more_halves[16];
float floats[8], more_floats[8], other_floats[8];

}  // namespace

TEST_CASE("gating refuses wrong launches, with the reason") {
  using op = ratify::gating<>;
  op::params good;
  good.a = good.b = {halves, 4};
  good.a_log = good.dt_bias = floats;
  good.g = more_floats;
  good.beta = other_floats;
  good.rows = 2;
  good.value_heads = 4;
  CHECK(op::can_launch(good, host()));
  invalid<op>(good, "ratify::gating: rows must not be negative", [](auto& p) { p.rows = -1; });
  invalid<op>(good, "ratify::gating: value_heads must be at least 1", [](auto& p) { p.value_heads = 0; });
  invalid<op>(good, "ratify::gating: a must not be null", [](auto& p) { p.a.data = nullptr; });
  invalid<op>(good, "ratify::gating: b must not be null", [](auto& p) { p.b.data = nullptr; });
  invalid<op>(good, "ratify::gating: a_log must not be null", [](auto& p) { p.a_log = nullptr; });
  invalid<op>(good, "ratify::gating: dt_bias must not be null", [](auto& p) { p.dt_bias = nullptr; });
  invalid<op>(good, "ratify::gating: g must not be null", [](auto& p) { p.g = nullptr; });
  invalid<op>(good, "ratify::gating: beta must not be null", [](auto& p) { p.beta = nullptr; });
  invalid<op>(good, "ratify::gating: a stride of a is smaller than what it steps over",
              [](auto& p) { p.a.stride = 3; });
  invalid<op>(good, "ratify::gating: a stride of b is smaller than what it steps over",
              [](auto& p) { p.b.stride = 0; });
  misaligned<op>(
      good, "ratify::gating: a must be aligned to its elements", [](auto& q) -> auto& { return q.a; });
  far_away<op>(
      good, "ratify::gating: the strides of a reach over 2^63 bytes", [](auto& q) -> auto& { return q.a; });
  misaligned<op>(
      good, "ratify::gating: b must be aligned to its elements", [](auto& q) -> auto& { return q.b; });
  far_away<op>(
      good, "ratify::gating: the strides of b reach over 2^63 bytes", [](auto& q) -> auto& { return q.b; });
  misaligned<op>(
      good, "ratify::gating: a_log must be aligned to its elements", [](auto& q) -> auto& { return q.a_log; });
  misaligned<op>(
      good, "ratify::gating: dt_bias must be aligned to its elements", [](auto& q) -> auto& { return q.dt_bias; });
  misaligned<op>(
      good, "ratify::gating: g must be aligned to its elements", [](auto& q) -> auto& { return q.g; });
  misaligned<op>(
      good, "ratify::gating: beta must be aligned to its elements", [](auto& q) -> auto& { return q.beta; });
  char const* const alias = "ratify::gating: g and beta must not be each other or an input";
  invalid<op>(good, alias, [](auto& p) { p.g = p.beta; });
  invalid<op>(good, alias, [](auto& p) { p.g = floats; });
  invalid<op>(good, alias, [](auto& p) { p.beta = reinterpret_cast<float*>(halves); });
  auto wide = good;  // the most bytes that there are
  wide.a.stride = (int64_t{1} << 62) - 6;
  CHECK(op::can_launch(wide, host()));
  invalid<op>(wide, "ratify::gating: the strides of a reach over 2^63 bytes", [](auto& p) { ++p.a.stride; });
  op::params none;
  none.value_heads = 1;
  CHECK(op::launch(none, {}, host()));
}

TEST_CASE("silu_and_mul refuses wrong launches, with the reason") {
  using op = ratify::silu_and_mul<>;
  op::params good;
  good.x = {halves, 8};
  good.out = {more_halves, 4};
  good.rows = 2;
  good.columns = 4;
  CHECK(op::can_launch(good, host()));
  invalid<op>(good, "ratify::silu_and_mul: rows must not be negative", [](auto& p) { p.rows = -1; });
  invalid<op>(good, "ratify::silu_and_mul: columns must be at least 1", [](auto& p) { p.columns = 0; });
  invalid<op>(good, "ratify::silu_and_mul: x must not be null", [](auto& p) { p.x.data = nullptr; });
  invalid<op>(good, "ratify::silu_and_mul: out must not be null", [](auto& p) { p.out.data = nullptr; });
  for (int const stride : {7, 4, 0})  // a row of x holds gates and what they multiply
    invalid<op>(good, "ratify::silu_and_mul: a stride of x is smaller than what it steps over",
                [&](auto& p) { p.x.stride = stride; });
  invalid<op>(good, "ratify::silu_and_mul: a stride of out is smaller than what it steps over",
              [](auto& p) { p.out.stride = 3; });
  misaligned<op>(
      good, "ratify::silu_and_mul: x must be aligned to its elements", [](auto& q) -> auto& { return q.x; });
  far_away<op>(
      good, "ratify::silu_and_mul: the strides of x reach over 2^63 bytes", [](auto& q) -> auto& { return q.x; });
  misaligned<op>(
      good, "ratify::silu_and_mul: out must be aligned to its elements", [](auto& q) -> auto& { return q.out; });
  far_away<op>(
      good, "ratify::silu_and_mul: the strides of out reach over 2^63 bytes", [](auto& q) -> auto& { return q.out; });
  invalid<op>(good, "ratify::silu_and_mul: out must not be x", [](auto& p) { p.out.data = halves; });
  op::params none;
  none.columns = 1;
  CHECK(op::launch(none, {}, host()));
}

TEST_CASE("sigmoid_gate refuses wrong launches, with the reason") {
  using op = ratify::sigmoid_gate<>;
  op::params good;
  good.x = good.gate = {halves, 4, 2};
  good.out = {more_halves, 4, 2};
  good.rows = good.heads = good.head_dim = 2;
  CHECK(op::can_launch(good, host()));
  invalid<op>(good, "ratify::sigmoid_gate: rows must not be negative", [](auto& p) { p.rows = -1; });
  invalid<op>(good, "ratify::sigmoid_gate: heads must be at least 1", [](auto& p) { p.heads = 0; });
  invalid<op>(good, "ratify::sigmoid_gate: head_dim must be at least 1 element", [](auto& p) { p.head_dim = 0; });
  unsupported<op>(good, "ratify::sigmoid_gate: heads * head_dim must be less than 2^31 elements",
                  [](auto& p) { p.heads = p.head_dim = INT32_MAX; });
  invalid<op>(good, "ratify::sigmoid_gate: x must not be null", [](auto& p) { p.x.data = nullptr; });
  invalid<op>(good, "ratify::sigmoid_gate: gate must not be null", [](auto& p) { p.gate.data = nullptr; });
  invalid<op>(good, "ratify::sigmoid_gate: out must not be null", [](auto& p) { p.out.data = nullptr; });
  invalid<op>(good, "ratify::sigmoid_gate: a stride of x is smaller than what it steps over",
              [](auto& p) { p.x.row_stride = 3; });
  invalid<op>(good, "ratify::sigmoid_gate: a stride of gate is smaller than what it steps over",
              [](auto& p) { p.gate.head_stride = 0; });
  invalid<op>(good, "ratify::sigmoid_gate: a stride of out is smaller than what it steps over",
              [](auto& p) { p.out.row_stride = 2; });
  misaligned<op>(
      good, "ratify::sigmoid_gate: x must be aligned to its elements", [](auto& q) -> auto& { return q.x; });
  far_away<op>(
      good, "ratify::sigmoid_gate: the strides of x reach over 2^63 bytes", [](auto& q) -> auto& { return q.x; });
  misaligned<op>(
      good, "ratify::sigmoid_gate: gate must be aligned to its elements", [](auto& q) -> auto& { return q.gate; });
  far_away<op>(
      good, "ratify::sigmoid_gate: the strides of gate reach over 2^63 bytes", [](auto& q) -> auto& { return q.gate; });
  misaligned<op>(
      good, "ratify::sigmoid_gate: out must be aligned to its elements", [](auto& q) -> auto& { return q.out; });
  far_away<op>(
      good, "ratify::sigmoid_gate: the strides of out reach over 2^63 bytes", [](auto& q) -> auto& { return q.out; });
  auto in_place = good;
  in_place.x.data = more_halves;
  CHECK(op::can_launch(in_place, host()));
  char const* const alias = "ratify::sigmoid_gate: out may be x only in its format and with its strides";
  invalid<op>(in_place, alias, [](auto& p) { p.out.row_stride = 5; });
  invalid<op>(in_place, alias, [](auto& p) { p.x = {p.x.data, 6, 3}; });
  using widening = ratify::sigmoid_gate<ratify::output_format<float>>;
  widening::params other;
  other.x = other.gate = good.x;
  other.out = {more_floats, 4, 2};
  other.rows = other.heads = other.head_dim = 2;
  CHECK(widening::can_launch(other, host()));
  invalid<widening>(other, alias, [](auto& p) { p.out.data = reinterpret_cast<float*>(halves); });
  invalid<op>(good, "ratify::sigmoid_gate: out must not be gate", [](auto& p) {
    p.x.data = halves + 8;
    p.out.data = halves;
  });
  op::params none;
  none.heads = none.head_dim = 1;
  CHECK(op::launch(none, {}, host()));
}
