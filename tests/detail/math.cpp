// SPDX-License-Identifier: Apache-2.0
/// Errors of the elementary functions against FP64, over a stride through all FP32 bit patterns. The bounds are those
/// that detail/math.cuh states.
#include <ratify/detail/math.cuh>

#include "reference/activation.hpp"
#include "support/bits.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

// keeps_nan: a NaN gives a NaN (log1p_unit is for [0, 1] alone).
struct exp_function {
  static constexpr bool keeps_nan = true;
  RATIFY_HD static float apply(float x) { return ratify::detail::exp_ordered(x); }
  static double truth(double x) { return std::exp(x); }
};
struct log_function {
  static constexpr bool keeps_nan = true;
  RATIFY_HD static float apply(float x) { return ratify::detail::log_ordered(x); }
  static double truth(double x) { return std::log(x); }
};
struct log1p_function {
  static constexpr bool keeps_nan = false;
  RATIFY_HD static float apply(float x) { return ratify::detail::log1p_unit(x); }
  static double truth(double x) { return std::log1p(x); }
};
struct softplus_function {
  static constexpr bool keeps_nan = true;
  RATIFY_HD static float apply(float x) { return ratify::detail::softplus_ordered(x); }
  static double truth(double x) { return reference::truth::softplus(x); }
};
struct sigmoid_function {
  static constexpr bool keeps_nan = true;
  RATIFY_HD static float apply(float x) { return ratify::detail::sigmoid_ordered(x); }
  static double truth(double x) { return reference::truth::sigmoid(x); }
};
struct silu_function {
  static constexpr bool keeps_nan = true;
  RATIFY_HD static float apply(float x) { return ratify::detail::silu_ordered(x); }
  static double truth(double x) { return std::isinf(x) && x < 0 ? 0.0 : reference::truth::silu(x); }
};
/// e^(2x) as the product of two exponentials with exponents of their own.
struct wide_exp_function {
  static constexpr bool keeps_nan = true;
  RATIFY_HD static float apply(float x) {
    using namespace ratify::detail;
    scaled_float const e = exp_split(x);
    return joined_float(mul_rn(e.value, e.value), e.exponent + e.exponent);
  }
  static double truth(double x) { return std::exp(2 * x); }
};
/// A number taken apart and put together again.
struct split_function {
  static constexpr bool keeps_nan = true;
  RATIFY_HD static float apply(float x) {
    ratify::detail::scaled_float const s = ratify::detail::split(x);
    return ratify::detail::joined_float(s.value, s.exponent);
  }
  static double truth(double x) { return x; }
};
struct rsqrt_function {
  static constexpr bool keeps_nan = true;
  RATIFY_HD static float apply(float x) { return ratify::detail::rsqrt_ordered(x); }
  static double truth(double x) { return 1 / std::sqrt(x); }
};

/// y[i] = the function at the FP32 of bits (i * stride), as a kernel stores it: with the one NaN.
template <class Function>
struct sweep_kernel {
  struct params {
    float* y;
    int64_t count;
    uint32_t stride;
  };
  static constexpr char const* name = "sweep_kernel";
  static constexpr int block_threads = 32;
  template <class Block>
  struct shared_storage {};

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>&) {
    int64_t const step = int64_t{block.grid_x()} * block_threads;
    for (int64_t i = int64_t{block.block_x()} * block_threads + block.thread(); i < p.count; i += step)
      p.y[i] =
          ratify::detail::canonical(Function::apply(ratify::detail::from_bits(static_cast<uint32_t>(i) * p.stride)));
  }
};

constexpr uint32_t stride = 4099;  // prime; a million points

struct worst_error {
  double normal = 0;     ///< ulp, of results that are normal numbers
  double subnormal = 0;  ///< units of 2^-149, of results that are not
};

/// The largest errors over the domain `inside(x)`. The executors must agree to the bit.
template <class Function, class Inside>
worst_error measure(Inside&& inside) {
  int64_t const count = (int64_t{1} << 32) / stride;
  std::vector<float> y;
  on_each_executor([&](auto& on) {
    buffer<float, std::decay_t<decltype(on)>> out(on, static_cast<size_t>(count));
    auto const s = on.run(ratify::stage<sweep_kernel<Function>>{{64}, {out.data(), count, stride}});
    REQUIRE_MESSAGE(s, s.reason());
    if (y.empty())
      y = out.read();
    else
      CHECK(bit_difference(out.read(), y) == "");
  });
  worst_error worst;
  int lost_nans = 0;
  for (int64_t i = 0; i < count; ++i) {
    float const x = from_bits(static_cast<uint32_t>(i) * stride), got = y[static_cast<size_t>(i)];
    if (std::isnan(x)) {
      if (Function::keeps_nan && bits(got) != 0x7fffffffu) ++lost_nans;
      continue;
    }
    if (!inside(x)) continue;
    double const truth = Function::truth(x);
    // What rounds to infinity is infinite.
    if (std::fabs(truth) >= 0x1.ffffffp127 && std::isinf(got) && (got > 0) == (truth > 0)) continue;
    double& place = std::fabs(truth) < 0x1p-126 ? worst.subnormal : worst.normal;
    place = std::fmax(place, ulps(got, truth));
  }
  CHECK(lost_nans == 0);
  return worst;
}

bool anywhere(float) { return true; }

}  // namespace

TEST_CASE("exp") {
  auto const worst = measure<exp_function>(anywhere);
  MESSAGE("exp: " << worst.normal << " ulp, " << worst.subnormal << " quanta where subnormal");
  CHECK(worst.normal <= 1.02);
  CHECK(worst.subnormal <= 0.76);
  auto const f = exp_function::apply;
  CHECK(f(0.0f) == 1.0f);
  CHECK(f(-0.0f) == 1.0f);
  CHECK(f(INFINITY) == INFINITY);
  CHECK(bits(f(-INFINITY)) == 0u);
  CHECK(f(88.7228317f) < INFINITY);
  CHECK(f(std::nextafter(88.7228317f, 89.0f)) == INFINITY);
  CHECK(bits(f(-103.972f)) == 1u);
  CHECK(bits(f(-104.0f)) == 0u);
  CHECK(bits(f(from_bits(0xff800001u))) == 0x7fffffffu);
}

TEST_CASE("log") {
  auto const worst = measure<log_function>([](float x) { return x >= 0; });
  MESSAGE("log: " << worst.normal << " ulp");
  CHECK(worst.normal <= 2.0);
  auto const f = log_function::apply;
  CHECK(bits(f(1.0f)) == 0u);
  CHECK(f(0.0f) == -INFINITY);
  CHECK(f(-0.0f) == -INFINITY);
  CHECK(f(INFINITY) == INFINITY);
  for (float x : {-1.0f, -INFINITY, from_bits(0x80000001u), from_bits(0x7fc00000u), from_bits(0xff800001u)})
    CHECK(bits(f(x)) == 0x7fffffffu);
}

TEST_CASE("log1p on [0, 1]") {
  auto const worst = measure<log1p_function>([](float x) { return x >= 0 && x <= 1; });
  MESSAGE("log1p: " << worst.normal << " ulp, " << worst.subnormal << " quanta where subnormal");
  CHECK(worst.normal <= 2.0);
  CHECK(worst.subnormal <= 1.0);
  CHECK(bits(log1p_function::apply(0.0f)) == 0u);
}

TEST_CASE("softplus") {
  auto const worst = measure<softplus_function>(anywhere);
  MESSAGE("softplus: " << worst.normal << " ulp, " << worst.subnormal << " quanta where subnormal");
  CHECK(worst.normal <= 2.8);
  CHECK(worst.subnormal <= 1.51);
  auto const f = softplus_function::apply;
  CHECK(f(INFINITY) == INFINITY);
  CHECK(bits(f(-INFINITY)) == 0u);
  for (float x : {18.0f, 89.0f, 1e4f, 1e30f}) CHECK(f(x) == x);
  CHECK(f(-50.0f) > 0.0f);
  CHECK(bits(f(from_bits(0xffc00000u))) == 0x7fffffffu);
}

TEST_CASE("sigmoid") {
  auto const worst = measure<sigmoid_function>(anywhere);
  MESSAGE("sigmoid: " << worst.normal << " ulp, " << worst.subnormal << " quanta where subnormal");
  CHECK(worst.normal <= 2.41);
  CHECK(worst.subnormal <= 0.76);
  auto const f = sigmoid_function::apply;
  CHECK(f(0.0f) == 0.5f);
  CHECK(f(INFINITY) == 1.0f);
  CHECK(bits(f(-INFINITY)) == 0u);
  CHECK(bits(f(from_bits(0xffc00000u))) == 0x7fffffffu);
}

TEST_CASE("silu") {
  auto const worst = measure<silu_function>([](float x) { return x >= -87.0f; });
  MESSAGE("silu: " << worst.normal << " ulp, " << worst.subnormal << " quanta where subnormal");
  CHECK(worst.normal <= 3.2);
  CHECK(worst.subnormal <= 0.5);
  // Below, the sigmoid is subnormal: its rounding times x.
  auto const below = measure<silu_function>([](float x) { return x < -87.0f; });
  CHECK(below.normal <= 53.0);
  CHECK(below.subnormal <= 53.0);
  auto const f = silu_function::apply;
  CHECK(bits(f(0.0f)) == 0u);
  CHECK(bits(f(-0.0f)) == 0x80000000u);
  CHECK(f(INFINITY) == INFINITY);
  CHECK(bits(f(-INFINITY)) == 0x80000000u);
  CHECK(bits(f(-1e30f)) == 0x80000000u);
  CHECK(std::isnan(f(from_bits(0xffc00000u))));
}

TEST_CASE("rsqrt") {
  auto const worst = measure<rsqrt_function>([](float x) { return x >= 0; });
  MESSAGE("rsqrt: " << worst.normal << " ulp");
  CHECK(worst.normal <= 1.5);
  auto const f = rsqrt_function::apply;
  CHECK(f(4.0f) == 0.5f);
  CHECK(f(0.0f) == INFINITY);
  CHECK(f(-0.0f) == -INFINITY);
  CHECK(bits(f(INFINITY)) == 0u);
  CHECK(std::isnan(f(-1.0f)));
}

TEST_CASE("exponents kept apart: products of exponentials, and of numbers that FP32 does not hold") {
  auto const worst = measure<wide_exp_function>(anywhere);
  CHECK(worst.normal <= 3.1);  // twice an exponential's, and the product's rounding
  CHECK(worst.subnormal <= 2.6);
  auto const same = measure<split_function>(anywhere);
  CHECK(same.normal == 0);
  CHECK(same.subnormal == 0);
  auto const f = wide_exp_function::apply;
  CHECK(f(INFINITY) == INFINITY);
  CHECK(bits(f(-INFINITY)) == 0u);
  for (uint32_t const u : {0x00000001u, 0x007fffffu, 0x00800000u, 0x3f800000u, 0x7f7fffffu}) {
    auto const s = ratify::detail::split(from_bits(u));
    CHECK(s.value >= 1);
    CHECK(s.value < 2);
    CHECK(std::ldexp(static_cast<double>(s.value), s.exponent) == from_bits(u));
  }
  CHECK(bits(ratify::detail::split(-0.0f).value) == 0x80000000u);
  using ratify::detail::joined_float;
  CHECK(joined_float(1.0f, 1000000) == INFINITY);
  CHECK(bits(joined_float(-1.0f, -1000000)) == 0x80000000u);
  CHECK(joined_float(1.5f, 127) == 0x1.8p127f);
  CHECK(joined_float(8.0f, -152) == 0x1p-149f);
  CHECK(bits(joined_float(from_bits(0x3f800001u), -150)) == 1u);  // a little more than half a quantum
  CHECK(bits(joined_float(1.0f, -150)) == 0u);                    // half of one: to even
}

TEST_CASE("a sum and what rounding took from it") {
  auto const one = ratify::detail::two_sum(1e8f, -3.25f);
  CHECK(static_cast<double>(one.sum) + one.lost == 1e8 - 3.25);
  auto const other = ratify::detail::two_sum(-3.25f, 1e8f);
  CHECK(other.sum == one.sum);
  CHECK(other.lost == one.lost);
}
