// SPDX-License-Identifier: Apache-2.0
/// draft_convolution equals its twin bit for bit and is within its bound of FP64, at the edges of its range too.
#include "support/drafting.hpp"

#include <algorithm>

namespace {

using namespace ratify_test;

using taps_f16 = ratify::draft_convolution<>;
using taps_mixed = ratify::draft_convolution<ratify::input_format<ratify::bf16>, ratify::base_format<float>,
                                             ratify::delta_format<ratify::f16>, ratify::output_format<float>>;
using taps_float = ratify::draft_convolution<ratify::input_format<float>, ratify::base_format<float>,
                                             ratify::delta_format<float>, ratify::output_format<float>>;

template <class Format>
std::vector<float> widened(std::vector<Format> const& v) {
  std::vector<float> out;
  for (auto const x : v) out.push_back(ratify::to_float(x));
  return out;
}

template <class Operation, class Executor>
std::vector<typename Operation::policy::output_format> run_taps(Executor& on, reference::two_taps const& r,
                                                                int padding) {
  using input = typename Operation::policy::input_format;
  using delta = typename Operation::policy::delta_format;
  using output = typename Operation::policy::output_format;
  int const groups = r.channels / 16, stride = r.channels + padding, delta_stride = 2 * groups + padding;
  std::vector<input> x;
  std::vector<delta> d;
  std::vector<typename Operation::policy::base_format> base;
  append_rows(x, r.x, r.channels, padding, ratify::convert<input>(NAN));
  append_rows(d, r.delta, 2 * groups, padding, ratify::convert<delta>(NAN));
  for (float v : r.base) base.push_back(ratify::convert<typename Operation::policy::base_format>(v));
  buffer<input, Executor> dx(on, x);
  buffer<delta, Executor> dd(on, d);
  buffer<typename Operation::policy::base_format, Executor> db(on, base);
  buffer<output, Executor> dout(on, x.size());
  typename Operation::params p;
  p.x = {dx.data(), int64_t{r.draft_slots} * stride, stride};
  p.base = db.data();
  p.delta = {dd.data(), int64_t{r.draft_slots} * delta_stride, delta_stride};
  p.out = {dout.data(), int64_t{r.draft_slots} * stride, stride};
  p.requests = r.requests;
  p.draft_slots = r.draft_slots;
  p.channels = r.channels;
  auto const s = launch<Operation>(p, on);
  REQUIRE_MESSAGE(s, s.reason());
  std::vector<output> got;
  auto const all = dout.read();
  for (size_t i = 0; i < all.size(); ++i)
    if (i % size_t(stride) < size_t(r.channels)) got.push_back(all[i]);
  return got;
}

template <class Operation>
reference::two_taps make_taps(random_source& random, int requests, int draft_slots, int channels) {
  reference::two_taps r;
  r.requests = requests, r.draft_slots = draft_slots, r.channels = channels;
  size_t const rows = size_t(requests) * size_t(draft_slots);
  r.x = widened(random.normals<typename Operation::policy::input_format>(rows * size_t(channels)));
  r.base = widened(random.normals<typename Operation::policy::base_format>(2 * size_t(channels)));
  r.delta = widened(random.normals<typename Operation::policy::delta_format>(rows * 2 * size_t(channels / 16)));
  return r;
}

template <class Operation>
void check_taps(reference::two_taps const& r, int padding, bool finite = true) {
  using output = typename Operation::policy::output_format;
  std::vector<output> expected;
  for (float v : reference::draft_convolution(r)) expected.push_back(ratify::convert<output>(v));
  auto truth = reference::truth::draft_convolution(r);
  if (!std::is_same_v<output, float>)
    for (size_t i = 0; i < truth.value.size(); ++i) truth.bound[i] += 0x1p-11 * std::fabs(truth.value[i]) + 0x1p-24;
  on_each_executor([&](auto& on) {
    auto const got = run_taps<Operation>(on, r, padding);
    CHECK(bit_difference(got, expected) == "");
    if (finite) CHECK(error_over_bound(got, truth.value, truth.bound) <= 1.0);
  });
}

}  // namespace

TEST_CASE_TEMPLATE("draft_convolution equals its twin and FP64 within its bound", Operation, taps_f16, taps_mixed) {
  random_source random(310);
  for (int round = 0; round < scaled(12); ++round) {
    check_taps<Operation>(
        make_taps<Operation>(random, random.one_of({1, 2, 3, random.integer(1, 16)}),
                             random.one_of({1, 2, 7, 8, 9, 32}), 16 * random.one_of({1, 2, 3, 9, 16})),
        random.integer(0, 5));
    count_shape();
  }
  check_taps<Operation>(make_taps<Operation>(random, 1, 8, 5120), 0);
}

TEST_CASE("draft_convolution: nothing before a request's first slot is read") {
  random_source random(311);
  auto r = make_taps<taps_mixed>(random, 3, 4, 32);
  // The tap on the slot before slot 0, and the last slots, which are nobody's past.
  for (int q = 0; q < 3; ++q) {
    for (int g = 0; g < 2; ++g) r.delta[size_t(q * 4 * 2 + 1) * 2 + size_t(g)] = q == 1 ? INFINITY : NAN;
    for (int c = 0; c < 32; ++c) r.x[size_t(q * 4 + 3) * 32 + size_t(c)] = NAN;
  }
  check_taps<taps_mixed>(r, 2, false);
  on_each_executor([&](auto& on) {
    auto const got = run_taps<taps_mixed>(on, r, 2);
    for (size_t i = 0; i < got.size(); ++i) CHECK(std::isnan(got[i]) == (i / 32 % 4 == 3));
  });
}

TEST_CASE("draft_convolution: no intermediate result overflows while the sum of magnitudes is below 2^127") {
  random_source random(312);
  auto r = make_taps<taps_float>(random, 2, 3, 32);
  auto const fill = [&](std::vector<float>& v, float low, float high) {
    for (float& x : v) x = random.uniform(low, high);
  };
  // Two taps of nearly 2^126 each; the weights of the second half of the requests cancel.
  fill(r.x, 0x1.8p60f, 0x1.fp60f);
  fill(r.base, 0x1p63f, 0x1.fp63f);
  fill(r.delta, 0x1p63f, 0x1.fp63f);
  for (size_t i = r.x.size() / 2; i < r.x.size(); ++i) r.x[i] = i / 32 % 2 == 0 ? r.x[i] : -r.x[i];
  check_taps<taps_float>(r, 1);
  // Weights whose sum is nearly 2^127, and inputs that are tiny.
  fill(r.base, 0x1.8p125f, 0x1.fp125f);
  fill(r.delta, 0x1.8p125f, 0x1.fp125f);
  fill(r.x, -0x1p-100f, 0x1p-100f);
  check_taps<taps_float>(r, 1);
  // A sum of weights beyond FP32 is infinite, though y would not be.
  std::fill(r.base.begin(), r.base.end(), 0x1.8p127f);
  std::fill(r.delta.begin(), r.delta.end(), 0x1.8p127f);
  on_each_executor([&](auto& on) {
    for (float const y : run_taps<taps_float>(on, r, 0)) CHECK_FALSE(std::isfinite(y));
  });
}

TEST_CASE("draft_convolution: sums of subnormal products are within their bound") {
  random_source random(313);
  auto r = make_taps<taps_float>(random, 3, 5, 48);
  for (float& x : r.x) x = random.uniform(-0x1p-130f, 0x1p-130f);
  for (float& w : r.base) w = random.uniform(-0x1p-10f, 0x1p-10f);
  for (float& w : r.delta) w = random.uniform(-0x1p-10f, 0x1p-10f);
  auto truth = reference::truth::draft_convolution(r);
  for (double& bound : truth.bound) bound += 0x1p-149 - 0x1p-140;  // the exact term instead of the generous one
  on_each_executor(
      [&](auto& on) { CHECK(error_over_bound(run_taps<taps_float>(on, r, 2), truth.value, truth.bound) <= 1.0); });
}
