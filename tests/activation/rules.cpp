// SPDX-License-Identifier: Apache-2.0
/// Every launch rule of the elementwise operations, by its text.
#include <ratify/activation.cuh>

#include "support/refusal.hpp"

namespace {

using namespace ratify_test;

// Memory that a refused launch never touches.
ratify::f16 halves[16];
float floats[8];

}  // namespace

TEST_CASE("gating refuses wrong launches, with the reason") {
  using op = ratify::gating<>;
  op::params good;
  good.a = good.b = {halves, 4};
  good.a_log = good.dt_bias = floats;
  good.g = good.beta = floats;
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
  op::params none;
  none.value_heads = 1;
  CHECK(op::launch(none, {}, host()));
}

TEST_CASE("silu_and_mul refuses wrong launches, with the reason") {
  using op = ratify::silu_and_mul<>;
  op::params good;
  good.x = {halves, 8};
  good.out = {halves, 4};
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
  op::params none;
  none.columns = 1;
  CHECK(op::launch(none, {}, host()));
}

TEST_CASE("sigmoid_gate refuses wrong launches, with the reason") {
  using op = ratify::sigmoid_gate<>;
  op::params good;
  good.x = good.gate = {halves, 4, 2};
  good.out = {halves, 4, 2};
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
  op::params none;
  none.heads = none.head_dim = 1;
  CHECK(op::launch(none, {}, host()));
}
