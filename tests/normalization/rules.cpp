// SPDX-License-Identifier: Apache-2.0
/// Every launch rule of the normalizations, by its text.
#include <ratify/normalization.cuh>

#include "support/refusal.hpp"

#include <cmath>

namespace {

using namespace ratify_test;

// Memory that a refused launch never touches.
ratify::f16 halves[8];
float floats[8];
int32_t positions[2];

ratify::rmsnorm<>::params rmsnorm_launch() {
  ratify::rmsnorm<>::params p;
  p.x = {halves, 4};
  p.residual = {floats, 4};
  p.residual_out = {floats, 4};
  p.weight = halves;
  p.out = {halves, 4};
  p.rows = 2;
  p.columns = 4;
  return p;
}

ratify::gated_rmsnorm<>::params gated_launch() {
  ratify::gated_rmsnorm<>::params p;
  p.x = p.z = {halves, 4, 2};
  p.weight = floats;
  p.out = {halves, 4, 2};
  p.rows = p.heads = p.head_dim = 2;
  return p;
}

ratify::qk_norm_rotary<>::params rotary_launch() {
  ratify::qk_norm_rotary<>::params p;
  p.x = {halves, 4, 2};
  p.weight = halves;
  p.cos = p.sin = floats;
  p.positions = positions;
  p.out = {halves, 4, 2};
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
  auto turns_nothing = good;  // then the tables are not read
  turns_nothing.rotary_dim = 0;
  turns_nothing.cos = turns_nothing.sin = nullptr;
  CHECK(op::can_launch(turns_nothing, host()));
  op::params none;
  none.heads = none.head_dim = 1;
  CHECK(op::launch(none, {}, host()));
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
