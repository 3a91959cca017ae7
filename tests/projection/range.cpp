// SPDX-License-Identifier: Apache-2.0
/// Scales, weights and activations at the edges of their formats, non-finite ones, and the range in which no
/// intermediate result of a projection overflows (docs/arithmetic.md).
#include "support/bits.hpp"
#include "support/projection.hpp"

namespace {

using namespace ratify_test;

using one_split = ratify::projection<ratify::output_format<float>, ratify::split_k<1>>;
using scale_fp32 =
    ratify::projection<ratify::input_format<ratify::bf16>, ratify::output_format<float>, ratify::split_k<3>,
                       ratify::column_warps<2>, ratify::effective_scale<ratify::projection_scale::fp32>>;
template <ratify::projection_scale Scale>
using float_input =
    ratify::projection<ratify::input_format<float>, ratify::output_format<float>, ratify::effective_scale<Scale>>;
using float_matched = float_input<ratify::projection_scale::fp16>;
using float_fp32 = float_input<ratify::projection_scale::fp32>;

/// Operands whose weights are all of magnitude 1 times `scale`, in signs that alternate from column to column of K.
projection_operands alternating(int rows, int n, int k, uint8_t scale, float global) {
  projection_operands o;
  o.rows = rows;
  o.n = n;
  o.k = k;
  o.x.resize(static_cast<size_t>(rows) * k);
  o.w_packed.assign(static_cast<size_t>(n) * k / 2, 0xa2);  // codes 1 and -1
  o.w_scale.assign(static_cast<size_t>(n) * k / 16, ratify::e4m3{scale});
  o.w_global = {global};
  return o;
}

/// The bound of docs/arithmetic.md with its exact term for roundings to subnormal numbers.
template <class Operation>
reference::truth::projection_sum truth_of(projection_operands const& o) {
  auto truth = reference::truth::projection(o, Operation::policy::split_k, scales_in_fp32<Operation>);
  for (size_t i = 0; i < truth.bound.size(); ++i) {
    int const column = static_cast<int>(i) % o.n;
    double scales = 0;
    for (int at = 0; at < o.k && scales_in_fp32<Operation>; at += 16)
      scales += std::fabs(static_cast<double>(o.scale_fp32(column, at)));
    truth.bound[i] += std::ldexp(o.k + 16 * scales, -150) - std::ldexp(1.0, -140);
  }
  return truth;
}

template <class Operation>
void check_within_bound(projection_operands const& o) {
  auto const truth = truth_of<Operation>(o);
  on_each_executor([&](auto& on) {
    auto const got = run_projection<Operation>(on, o);
    CHECK(std::all_of(got.begin(), got.end(), [](float y) { return std::isfinite(y); }));
    CHECK(error_over_bound(got, truth.value, truth.bound) <= 1.0);
  });
}

}  // namespace

TEST_CASE("projection: scales and weights at the edges of FP16") {
  random_source random(14);
  auto o = random_projection<ratify::f16>(random, 8, 256, 64);
  for (size_t i = 0; i < o.w_scale.size(); ++i) o.w_scale[i].bits = static_cast<uint8_t>(i);  // every code, NaN too
  for (float const global : {1.0f, -1.0f, 0x1p-16f, 0x1.8p-18f, 0x1p-24f, 200.0f, 1e5f, 0.0f}) {
    CAPTURE(global);
    o.w_global = {global};
    auto const fp16 = reference::projection(o, 1, false);
    auto bf16_input = o;
    for (auto& x : bf16_input.x) x = ratify::to_float(ratify::convert<ratify::bf16>(x));
    auto const fp32 = reference::projection(bf16_input, 3, true);
    on_each_executor([&](auto& on) {
      CHECK(bit_difference(run_projection<one_split>(on, o), fp16) == "");
      CHECK(bit_difference(run_projection<scale_fp32>(on, bf16_input), fp32) == "");
    });
  }
}

TEST_CASE("projection: each segment of columns has its own global scale") {
  random_source random(15);
  auto o = random_projection<ratify::f16>(random, 4, 100, 96);
  o.w_global = {0.5f, 7.0f, 0.001f, 2.0f};
  o.segment_end = {1, 33, 33, 100};  // the third is empty
  auto const expected = reference::projection(o, 1, false);
  on_each_executor([&](auto& on) { CHECK(bit_difference(run_projection<one_split>(on, o), expected) == ""); });
  // Ends that do not reach n leave columns without a scale: zeros, and no read past the list.
  o.segment_end = {1, 33, 33, 90};
  on_each_executor([&](auto& on) {
    auto const got = run_projection<one_split>(on, o);
    for (int row = 0; row < 4; ++row)
      for (int n = 0; n < 100; ++n) {
        size_t const i = static_cast<size_t>(row) * 100 + n;
        CHECK(bits(got[i]) == (n < 90 ? bits(expected[i]) : 0u));
      }
  });
}

TEST_CASE("projection: non-finite activations make their own row NaN or infinite, no other") {
  random_source random(16);
  auto o = random_projection<ratify::f16>(random, 8, 40, 64);
  auto const clean = reference::projection(o, 1, false);
  o.x[2 * 64 + 5] = INFINITY;
  o.x[5 * 64 + 7] = NAN;
  auto const expected = reference::projection(o, 1, false);
  on_each_executor([&](auto& on) {
    auto const got = run_projection<one_split>(on, o);
    CHECK(bit_difference(got, expected) == "");
    for (size_t i = 0; i < got.size(); ++i)
      if (i / 40 != 2 && i / 40 != 5) CHECK(bits(got[i]) == bits(clean[i]));
  });
}

TEST_CASE_TEMPLATE("projection: no intermediate result overflows while the sum of magnitudes is below 2^127", Operation,
                   float_matched, float_fp32) {
  random_source random(24);
  constexpr int rows = 3, n = 9, k = 1024;
  for (bool const cancels : {false, true}) {
    CAPTURE(cancels);
    auto o = alternating(rows, n, k, 0x38, 1.0f);
    // Signs follow those of the weights, or not: the whole sum is near 2^127, or near 0.
    for (size_t i = 0; i < o.x.size(); ++i) {
      float const size = random.uniform(0x1.fp116f, 0x1.ffp116f);
      o.x[i] = !cancels && i % 2 == 1 ? -size : size;
    }
    check_within_bound<Operation>(o);
    // Twice as much is outside: without cancellation the exact sum is no FP32 number either.
    for (float& x : o.x) x *= 2.2f;
    if (!cancels) on_each_executor([&](auto& on) { CHECK(std::isinf(run_projection<Operation>(on, o)[0])); });
  }
}

TEST_CASE("projection: the largest w_global of fp32 whose scales are all finite is 2^119") {
  random_source random(25);
  auto o = alternating(2, 5, 640, 0x7e, 0x1p119f);
  for (float& x : o.x) x = random.uniform(-0x1p-130f, 0x1p-130f);
  check_within_bound<float_fp32>(o);
  o.w_global = {0x1p120f};
  on_each_executor([&](auto& on) { CHECK_FALSE(std::isfinite(run_projection<float_fp32>(on, o)[0])); });
}

TEST_CASE("projection: group sums of fp32 may come near 2^127 under a subnormal scale") {
  random_source random(26);
  auto o = alternating(2, 5, 640, 0x01, 0x1p-121f);  // scales of 2^-130
  for (size_t i = 0; i < o.x.size(); ++i)
    o.x[i] = random.uniform(0x1.fp122f, 0x1.ffp122f) * (i % 2 == 0 ? 1.0f : -1.0f);
  check_within_bound<float_fp32>(o);
  // A group that is summed beyond FP32 is infinite, though the exact y is 2^-130 times as large.
  for (float& x : o.x) x *= 4.0f;
  on_each_executor([&](auto& on) { CHECK(std::isinf(run_projection<float_fp32>(on, o)[0])); });
}

TEST_CASE_TEMPLATE("projection: sums of subnormal products are within their bound", Operation, float_matched,
                   float_fp32) {
  random_source random(27);
  for (float const global : {1.0f, 0x1p-20f, 0x1p10f}) {
    CAPTURE(global);
    auto o = alternating(3, 7, 5120, 0x30, global);
    for (float& x : o.x) x = random.uniform(-0x1p-138f, 0x1p-138f);
    check_within_bound<Operation>(o);
  }
}
