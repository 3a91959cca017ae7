// SPDX-License-Identifier: Apache-2.0
/// Which projections compile, which launches are refused and why, and which `split_k` is recommended.
#include <ratify/projection.cuh>

#include "support/refusal.hpp"

namespace {

using namespace ratify_test;
using operation = ratify::projection<>;

static_assert(ratify::is_supported_projection<>);
static_assert(ratify::is_supported_projection<ratify::split_k<32>, ratify::column_warps<1>>);
static_assert(ratify::is_supported_projection<ratify::effective_scale<ratify::projection_scale::fp32>>);
static_assert(!ratify::is_supported_projection<ratify::split_k<33>>);
static_assert(!ratify::is_supported_projection<ratify::split_k<0>>);
static_assert(!ratify::is_supported_projection<ratify::input_format<ratify::e4m3>>);
static_assert(!ratify::is_supported_projection<ratify::head_dim<64>>);
static_assert(!ratify::is_supported_projection<ratify::split_k<5>, ratify::column_warps<7>>);

// The default is what is recommended for the shapes of a layer.
static_assert(operation::policy::split_k == ratify::recommended_split_k(5120, 8704, 132));
static_assert(ratify::recommended_split_k(17408, 5120, 132) == 8);
static_assert(ratify::recommended_split_k(34816, 5120, 132) == 8);
static_assert(ratify::recommended_split_k(124160, 5120, 132) == 1);
static_assert(ratify::recommended_split_k(248320, 5120, 132) == 1);
// Half the card: half the columns keep it busy.
static_assert(ratify::recommended_split_k(62080, 5120, 66) == 1 && ratify::recommended_split_k(62000, 5120, 66) == 8);
// No more splits than blocks of 64 columns, and one at least.
static_assert(ratify::recommended_split_k(256, 512, 132) == 8 && ratify::recommended_split_k(256, 448, 132) == 7);
static_assert(ratify::recommended_split_k(256, 80, 132) == 2 && ratify::recommended_split_k(256, 16, 132) == 1);
static_assert(ratify::is_supported_projection<ratify::split_k<ratify::recommended_split_k(17408, 5120, 132)>>);

}  // namespace

TEST_CASE("projection refuses a launch with its rule's text") {
  alignas(16) uint8_t weights[48] = {};
  ratify::f16 x[32] = {}, y[4] = {};
  ratify::e4m3 scales[4] = {};
  float global[2] = {};
  operation::params good;
  good.x = {x, 16};
  good.w_packed = weights;
  good.w_scale = scales;
  good.w_global = global;
  good.y = {y, 2};
  good.rows = 2;
  good.n = 2;
  good.k = 16;
  CHECK(operation::launch(good, {}, host()));

  invalid<operation>(good, "ratify::projection: rows must not be negative", [](auto& p) { p.rows = -1; });
  for (int const n : {0, -1})
    invalid<operation>(good, "ratify::projection: n must be at least 1 column", [&](auto& p) { p.n = n; });
  for (int const k : {0, -16})
    invalid<operation>(good, "ratify::projection: k must be at least 1 column", [&](auto& p) { p.k = k; });
  for (int const k : {8, 24})
    unsupported<operation>(
        good, "ratify::projection: k must be a multiple of 16, the columns that share a scale; pad x and W with zeros",
        [&](auto& p) { p.k = k; });
  unsupported<operation>(good, "ratify::projection: n and k must be at most 2^30",
                         [](auto& p) { p.n = (1 << 30) + 1; });
  unsupported<operation>(good, "ratify::projection: n and k must be at most 2^30",
                         [](auto& p) { p.k = (1 << 30) + 16; });
  invalid<operation>(good, "ratify::projection: segments must be at least 1", [](auto& p) { p.segments = 0; });
  invalid<operation>(good, "ratify::projection: segment_end must not be null if there is more than one segment",
                     [](auto& p) { p.segments = 2; });

  invalid<operation>(good, "ratify::projection: x must not be null", [](auto& p) { p.x.data = nullptr; });
  for (int const stride : {0, 15, -16})
    invalid<operation>(good, "ratify::projection: a stride of x is smaller than what it steps over",
                       [&](auto& p) { p.x.stride = stride; });
  invalid<operation>(good, "ratify::projection: w_packed must not be null", [](auto& p) { p.w_packed = nullptr; });
  invalid<operation>(good, "ratify::projection: w_scale must not be null", [](auto& p) { p.w_scale = nullptr; });
  invalid<operation>(good, "ratify::projection: w_global must not be null", [](auto& p) { p.w_global = nullptr; });
  invalid<operation>(good, "ratify::projection: y must not be null", [](auto& p) { p.y.data = nullptr; });
  for (int const stride : {0, 1, -2})
    invalid<operation>(good, "ratify::projection: a stride of y is smaller than what it steps over",
                       [&](auto& p) { p.y.stride = stride; });
  unsupported<operation>(good, "ratify::projection: w_packed must be aligned to 8 bytes",
                         [](auto& p) { p.w_packed += 4; });
  misaligned<operation>(
      good, "ratify::projection: x must be aligned to its elements", [](auto& q) -> auto& { return q.x; });
  far_away<operation>(
      good, "ratify::projection: the strides of x reach over 2^63 bytes", [](auto& q) -> auto& { return q.x; });
  misaligned<operation>(
      good, "ratify::projection: w_global must be aligned to its elements",
      [](auto& q) -> auto& { return q.w_global; });
  misaligned<operation>(
      good, "ratify::projection: segment_end must be aligned to its elements",
      [](auto& q) -> auto& { return q.segment_end; });
  misaligned<operation>(
      good, "ratify::projection: bias must be aligned to its elements", [](auto& q) -> auto& { return q.bias; });
  misaligned<operation>(
      good, "ratify::projection: y must be aligned to its elements", [](auto& q) -> auto& { return q.y; });
  far_away<operation>(
      good, "ratify::projection: the strides of y reach over 2^63 bytes", [](auto& q) -> auto& { return q.y; });
  char const* const alias = "ratify::projection: y must not be an input";
  invalid<operation>(good, alias, [&](auto& p) { p.y.data = x; });
  invalid<operation>(good, alias, [&](auto& p) { p.y.data = reinterpret_cast<ratify::f16*>(weights); });
  invalid<operation>(good, alias, [&](auto& p) { p.y.data = reinterpret_cast<ratify::f16*>(global); });

  // One row is not stepped over, and without rows no tensor is needed.
  auto one = good;
  one.rows = 1;
  one.x.stride = one.y.stride = 0;
  CHECK(operation::launch(one, {}, host()));
  operation::params none;
  none.n = 2;
  none.k = 16;
  CHECK(operation::launch(none, {}, host()));
}
