// SPDX-License-Identifier: Apache-2.0
/// The projection equals its twin bit for bit, whatever the shape, the alignment and the sharing out of columns.
#include "support/projection.hpp"

namespace {

using namespace ratify_test;

template <int Splits>
using split = ratify::projection<ratify::output_format<float>, ratify::split_k<Splits>>;
template <int Splits, int Warps>
using warps = ratify::projection<ratify::output_format<float>, ratify::split_k<Splits>, ratify::column_warps<Warps>>;
using one_split = ratify::projection<ratify::split_k<1>>;
using scale_fp32 =
    ratify::projection<ratify::input_format<ratify::bf16>, ratify::output_format<float>, ratify::split_k<3>,
                       ratify::column_warps<2>, ratify::effective_scale<ratify::projection_scale::fp32>>;

/// An executor that says it has so many multiprocessors, by which a launch shares columns out.
template <class Executor>
struct shared_out {
  Executor& on;
  int count;
  template <class Kernel, class Architectures>
  ratify::status can_run() const {
    return on.template can_run<Kernel, Architectures>();
  }
  template <class Kernel, class Architectures>
  ratify::status run(ratify::stage<Kernel> const& s) const {
    return on.template run<Kernel, Architectures>(s);
  }
  int multiprocessors() const { return count; }
};

}  // namespace

TEST_CASE_TEMPLATE("projection equals its twin bit for bit on the demo's shapes", Operation, one_split,
                   ratify::projection<>) {
  random_source random(10);
  int const shapes[][2] = {{772, 256}, {1280, 256}, {1536, 256}, {256, 768}, {256, 256}, {264, 256}};
  for (auto const& s : shapes)
    for (int const rows : {1, 8}) check_projection<Operation>(random, rows, s[0], s[1], rows == 8);
}

TEST_CASE("projection equals its twin bit for bit on slices of the TP2 shapes with their splits") {
  random_source random(11);
  check_projection<split<7>>(random, 8, 34, 5120);
  check_projection<split<8>>(random, 8, 40, 8704);
  check_projection<split<9>>(random, 8, 33, 5120);
  check_projection<split<9>>(random, 3, 31, 3072);
  check_projection<split<5>>(random, 8, 32, 5120);
  check_projection<split<5>>(random, 20, 36, 1024 + 48);
}

TEST_CASE("projection equals its twin bit for bit on odd shapes") {
  random_source random(12);
  for (int round = 0; round < scaled(25); ++round) {
    int const rows = random.one_of({1, 8, random.integer(1, 40), random.integer(1, 40)});
    // Odd columns of scales, and the K of every TP: hidden, MLP down, outputs.
    int const k =
        random.one_of({16 * random.integer(1, 30), 16 * random.integer(1, 30), 16 * random.integer(1, 330), 5120,
                       random.one_of({17408, 8704, 4352, 2176}), random.one_of({6144, 3072, 1536, 768})});
    int const n = std::min(random.integer(1, 150), std::max(1, 400000 / (rows * k)));
    bool const bias = random.integer(0, 1) != 0;
    check_projection<one_split>(random, rows, n, k, bias);
    check_projection<split<5>>(random, rows, n, k, !bias);
    check_projection<scale_fp32>(random, rows, n, k, bias);
    switch (random.integer(0, 2)) {
      case 0:
        check_projection<split<7>>(random, rows, n, k, bias);
        break;
      case 1:
        check_projection<split<8>>(random, rows, n, k, bias);
        break;
      default:
        check_projection<split<9>>(random, rows, n, k, bias);
    }
    for (int i = 0; i < 4; ++i) count_shape();
  }
}

TEST_CASE_TEMPLATE("projection: bits do not depend on how many multiprocessors share the columns", Operation, split<1>,
                   split<7>, split<11>) {
  random_source random(22);
  auto const o = random_projection<ratify::f16>(random, 5, 300, 704);
  auto const expected = reference::projection(o, Operation::policy::split_k, false);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    for (int const count : {0, 1, 3, 7, 10, 80, 132, 300}) {
      CAPTURE(count);
      projection_memory<Operation, executor> memory(on, o, stored<ratify::f16>(o.x), o.rows);
      REQUIRE(Operation::launch(memory.p, {}, shared_out<executor>{on, count}));
      CHECK(bit_difference(memory.read(), expected) == "");
    }
  });
}

TEST_CASE_TEMPLATE("projection equals its twin bit for bit with any number of warps", Operation, warps<1, 8>,
                   warps<2, 7>, warps<3, 3>, warps<6, 5>, warps<32, 1>) {
  random_source random(23);
  for (int const rows : {2, 17})
    for (int const k : {64, 784, 2752}) check_projection<Operation>(random, rows, random.integer(1, 90), k);
}

TEST_CASE_TEMPLATE("projection: activations of any alignment", Operation, split<5>, scale_fp32) {
  using input = typename Operation::policy::input_format;
  random_source random(17);
  auto const o = random_projection<input>(random, 11, 70, 1040);
  auto const expected = stored<float>(reference::projection(o, Operation::policy::split_k, scales_in_fp32<Operation>));
  auto const x = stored<input>(o.x);
  for (int const gap : {1, 4, 8}) {
    std::vector<input> spread(static_cast<size_t>(o.rows) * (o.k + gap), ratify::convert<input>(NAN));
    for (int r = 0; r < o.rows; ++r) std::copy_n(x.begin() + r * o.k, o.k, spread.begin() + r * (o.k + gap));
    on_each_executor([&](auto& on) {
      projection_memory<Operation, std::decay_t<decltype(on)>> memory(on, o, spread, o.rows);
      auto const s = launch<Operation>(memory.p, on);
      REQUIRE_MESSAGE(s, s.reason());
      CHECK(bit_difference(memory.read(), expected) == "");
    });
  }
}

TEST_CASE("projection: weights on 8 bytes give the bits of weights on 16") {
  random_source random(17);
  auto o = random_projection<ratify::f16>(random, 8, 70, 160);
  auto const expected = reference::projection(o, 1, false);
  std::vector<uint8_t> shifted(8 + static_cast<size_t>(o.n) * o.k / 2);
  for (size_t i = 8; i < shifted.size(); ++i) shifted[i] = o.w_packed[i - 8];
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    projection_memory<split<1>, executor> memory(on, o, stored<ratify::f16>(o.x), o.rows);
    buffer<uint8_t, executor> packed(on, shifted);
    memory.p.w_packed = packed.data() + 8;
    REQUIRE(launch<split<1>>(memory.p, on));
    CHECK(bit_difference(memory.read(), expected) == "");
  });
}

TEST_CASE("projection: the error bound finds one wrong rounding") {
  random_source random(13);
  auto const o = random_projection<ratify::f16>(random, 1, 64, 512);
  auto const truth = reference::truth::projection(o, 1, false);
  auto const other = reference::projection(o, 1, true);  // unrounded scales are another sum
  CHECK(error_over_bound(other, truth.value, truth.bound) > 1.0);
}
