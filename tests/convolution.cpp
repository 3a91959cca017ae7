// SPDX-License-Identifier: Apache-2.0
#include <ratify/convolution.cuh>

#include "reference/convolution.hpp"
#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/far_memory.hpp"
#include "support/random.hpp"
#include "support/ranges.hpp"
#include "support/refusal.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace {

using namespace ratify_test;

using model = ratify::convolution_policy<>;
using narrow = ratify::convolution_policy<ratify::input_format<ratify::bf16>, ratify::weight_format<float>,
                                          ratify::output_format<float>, ratify::width<2>>;
using plain = ratify::convolution_policy<ratify::weight_format<ratify::bf16>, ratify::output_format<float>,
                                         ratify::width<3>, ratify::silu<false>>;
static_assert(ratify::is_supported_convolution<>);
static_assert(ratify::is_supported_convolution<ratify::width<2>, ratify::silu<false>>);
static_assert(!ratify::is_supported_convolution<ratify::width<5>>);
static_assert(!ratify::is_supported_convolution<ratify::input_format<float>>);
static_assert(!ratify::is_supported_convolution<ratify::head_dim<64>>);

template <class Policy>
using convolution_of = ratify::operation_with<ratify::convolution, Policy>;

template <class Policy>
using round_of = reference::convolution_round<typename Policy::input_format, typename Policy::weight_format>;

template <class Policy>
struct outcome {
  std::vector<typename Policy::output_format> out;
  std::vector<typename Policy::input_format> pool;
};

/// Params whose data live in device buffers; x and out rows are `padding` elements longer than the channels.
template <class Policy, class Executor>
outcome<Policy> run(Executor& on, round_of<Policy> const& r, int padding = 0) {
  using input = typename Policy::input_format;
  int const rows = static_cast<int>(r.x.size()) / r.channels, stride = r.channels + padding;
  std::vector<input> x(static_cast<size_t>(rows) * stride, input{0xffff});
  for (int t = 0; t < rows; ++t)
    std::copy_n(&r.x[static_cast<size_t>(t) * r.channels], r.channels, &x[static_cast<size_t>(t) * stride]);
  buffer<input, Executor> dx(on, x), dpool(on, r.pool);
  buffer<typename Policy::weight_format, Executor> dw(on, r.weight), db(on, r.bias);
  buffer<typename Policy::output_format, Executor> dout(on, x.size());
  buffer<int32_t, Executor> dslot(on, r.slot), dkept(on, r.kept), dfresh(on, r.fresh), dq(on, r.query_start);
  typename convolution_of<Policy>::params p;
  p.x = {dx.data(), stride};
  p.weight = dw.data();
  p.bias = r.bias.empty() ? nullptr : db.data();
  p.window_pool = dpool.data();
  p.slot_stride = static_cast<int64_t>(r.width - 1 + r.max_rows) * r.channels;
  p.pool_slots = static_cast<int64_t>(r.pool.size()) / p.slot_stride;
  p.slot = dslot.data();
  p.kept = dkept.data();
  p.fresh = r.fresh.empty() ? nullptr : dfresh.data();
  p.query_start = dq.data();
  p.out = {dout.data(), stride};
  p.rows = rows;
  p.requests = static_cast<int>(r.slot.size());
  p.channels = r.channels;
  p.max_rows = r.max_rows;
  auto const s = launch<convolution_of<Policy>>(p, on);
  REQUIRE_MESSAGE(s, std::string(s.reason()));
  outcome<Policy> got{{}, dpool.read()};
  auto const out = dout.read();
  for (int t = 0; t < rows; ++t)
    got.out.insert(got.out.end(), &out[static_cast<size_t>(t) * stride],
                   &out[static_cast<size_t>(t) * stride] + r.channels);
  return got;
}

template <class Policy>
round_of<Policy> make_round(random_source& random, int channels, int max_rows, std::vector<int> const& counts) {
  round_of<Policy> r;
  r.channels = channels;
  r.width = Policy::width;
  r.max_rows = max_rows;
  r.silu = Policy::silu;
  r.query_start.push_back(0);
  for (size_t i = 0; i < counts.size(); ++i) {
    r.query_start.push_back(r.query_start.back() + counts[i]);
    r.slot.push_back(static_cast<int>((2 * i + 1) % (2 * counts.size() + 1)));
    r.kept.push_back(random.integer(0, max_rows));
  }
  r.x = random.normals<typename Policy::input_format>(static_cast<size_t>(r.query_start.back()) * channels);
  r.weight = random.normals<typename Policy::weight_format>(static_cast<size_t>(channels) * r.width);
  r.pool = random.normals<typename Policy::input_format>((2 * counts.size() + 1) *
                                                         (static_cast<size_t>(r.width) - 1 + max_rows) * channels);
  return r;
}

template <class Policy>
void check_against_twin(round_of<Policy> const& r, int padding = 0) {
  using output = typename Policy::output_format;
  auto expected = r;
  auto const out = rounded<output>(reference::convolution(expected));
  auto truth = reference::truth::convolution(r);
  double const storage = std::is_same_v<output, float> ? 0.0 : 0x1p-11;
  for (size_t i = 0; i < truth.value.size(); ++i)
    truth.bound[i] += storage * std::fabs(truth.value[i]) + (storage > 0 ? 0x1p-24 : 0.0);
  on_each_executor([&](auto& on) {
    auto const got = run<Policy>(on, r, padding);
    CHECK(bit_difference(got.out, out) == "");
    CHECK(bit_difference(got.pool, expected.pool) == "");
    CHECK(error_over_bound(got.out, truth.value, truth.bound) <= 1.0);
  });
}

}  // namespace

TEST_CASE_TEMPLATE("convolution equals its twin bit for bit and FP64 within its bound", Policy, model, narrow, plain) {
  random_source random(1);
  for (int round = 0; round < scaled(16); ++round) {
    int const max_rows = random.one_of({1, 3, 8, 17, random.integer(1, 32), 32});
    int const channels = random.one_of({1, 33, 64, 130, random.integer(1, 700), 1280});
    int const requests = random.one_of({1, 2, 4, random.integer(1, 16), 16});
    std::vector<int> counts(static_cast<size_t>(std::max(1, std::min(requests, 60000 / (channels * max_rows)))));
    for (int& n : counts) n = random.integer(0, max_rows);
    counts.back() = max_rows;
    auto r = make_round<Policy>(random, channels, max_rows, counts);
    CAPTURE(max_rows);
    CAPTURE(channels);
    CAPTURE(counts.size());
    if (random.integer(0, 1)) r.bias = random.normals<typename Policy::weight_format>(static_cast<size_t>(r.channels));
    if (random.integer(0, 1)) {
      r.fresh.assign(counts.size(), 0);
      r.fresh[0] = 1;
      r.kept[0] = 0;
    }
    check_against_twin<Policy>(r, random.integer(0, 9));
    count_shape();
  }
}

TEST_CASE("convolution of the demo's and each TP's shapes") {
  random_source random(2);
  for (int channels : {512, 10240, 5120, 2560, 1280}) {
    auto r = make_round<model>(random, channels, 8, {8});
    check_against_twin<model>(r, 3136);
  }
}

TEST_CASE("convolution in rounds equals one long run, whatever was rejected between") {
  // Each round carries drafts that are thrown away; the kept rows alone must show in what follows.
  random_source random(3);
  int const channels = 40, max_rows = 8;
  auto const line = random.normals<ratify::f16>(static_cast<size_t>(channels) * 64);
  auto all = make_round<model>(random, channels, 64, {64});
  all.x = line;
  all.fresh = {1};
  all.kept = {0};
  auto whole = all;
  auto const expected = rounded<ratify::f16>(reference::convolution(whole));
  on_each_executor([&](auto& on) {
    auto r = make_round<model>(random, channels, max_rows, {max_rows});
    r.weight = all.weight;
    r.kept = {0};
    r.fresh = {1};
    int done = 0;
    while (done < 64) {
      int const n = random.integer(1, max_rows), good = std::min(random.integer(1, n), 64 - done);
      r.query_start = {0, n};
      r.x = random.normals<ratify::f16>(static_cast<size_t>(n) * channels);
      std::copy_n(&line[static_cast<size_t>(done) * channels], good * channels, r.x.begin());
      auto const got = run<model>(on, r);
      std::vector<ratify::f16> const kept_rows(got.out.begin(), got.out.begin() + good * channels),
          expected_rows(expected.begin() + done * channels, expected.begin() + (done + good) * channels);
      REQUIRE(bit_difference(kept_rows, expected_rows) == "");
      r.pool = got.pool;
      r.kept = {good};
      r.fresh = {0};
      done += good;
    }
  });
}

TEST_CASE("G2 convolution: retired slots read and write nothing") {
  random_source random(4);
  for (int max_rows : {1, 4}) {
    auto r = make_round<plain>(random, 70, max_rows, {max_rows, max_rows, max_rows});
    r.pool = random.normals<ratify::f16>(8 * (2 + static_cast<size_t>(max_rows)) * 70);
    r.slot = {3, -1, 5};
    r.fresh = {0, 1, 0};
    r.kept[1] = 77;  // of a retired request: not looked at
    check_against_twin<plain>(r);
    on_each_executor([&](auto& on) {
      auto const got = run<plain>(on, r);
      std::vector<float> const zeros(static_cast<size_t>(max_rows) * 70, 0.0f),
          retired(got.out.begin() + max_rows * 70, got.out.begin() + 2 * max_rows * 70);
      CHECK(bit_difference(retired, zeros) == "");
      size_t const slot = (2 + static_cast<size_t>(max_rows)) * 70;
      for (size_t i = 0; i < got.pool.size(); ++i)
        if (i / slot != 3 && i / slot != 5) REQUIRE(got.pool[i].bits == r.pool[i].bits);
    });
  }
}

TEST_CASE("G3 convolution: a slot beyond 2^31 elements gives the same bits") {
  random_source random(8);
  auto const near = make_round<model>(random, 5, 3, {3});
  auto const expected = run<model>(host(), near);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    int64_t const stride = (int64_t{1} << 30) + 8, places = 6 * 5;
    far_memory<ratify::f16, executor> pool(on, static_cast<size_t>(2 * stride + places));
    if (pool.data() == nullptr) {
      MESSAGE("skipped on this executor: no room for 4 GB");
      return;
    }
    auto const at = near.slot[0] * places;
    pool.write(static_cast<size_t>(2 * stride),
               std::vector<ratify::f16>(near.pool.begin() + at, near.pool.begin() + at + places));
    buffer<ratify::f16, executor> x(on, near.x), w(on, near.weight), out(on, near.x.size());
    buffer<int32_t, executor> slot(on, std::vector<int32_t>{2}), kept(on, near.kept), starts(on, near.query_start);
    typename convolution_of<model>::params p;
    p.x = {x.data(), 5};
    p.weight = w.data();
    p.window_pool = pool.data();
    p.slot_stride = stride;
    p.slot = slot.data();
    p.kept = kept.data();
    p.query_start = starts.data();
    p.out = {out.data(), 5};
    p.rows = p.max_rows = 3;
    p.pool_slots = 3;
    p.requests = 1;
    p.channels = 5;
    auto const s = launch<convolution_of<model>>(p, on);
    REQUIRE_MESSAGE(s, std::string(s.reason()));
    CHECK(bit_difference(out.read(), expected.out) == "");
    CHECK(bit_difference(pool.read(static_cast<size_t>(2 * stride), static_cast<size_t>(places)),
                         std::vector<ratify::f16>(expected.pool.begin() + at, expected.pool.begin() + at + places)) ==
          "");
  });
}

TEST_CASE("G7 convolution: a fresh window is zeros whatever the slot holds") {
  random_source random(5);
  auto r = make_round<model>(random, 65, 4, {4, 3});
  r.bias = random.normals<ratify::f16>(65);
  r.kept = {0, 2};
  auto zeros = r;
  size_t const slot = (3 + 4) * 65;
  for (size_t i = 0; i < slot; ++i) {
    r.pool[r.slot[0] * slot + i] = {0xffff};
    zeros.pool[r.slot[0] * slot + i] = {0};
  }
  r.fresh = {1, 0};
  on_each_executor([&](auto& on) {
    auto const got = run<model>(on, r), expected = run<model>(on, zeros);
    CHECK(bit_difference(got.out, expected.out) == "");
    // All of the slot was written: 3 + 4 places.
    CHECK(bit_difference(got.pool, expected.pool) == "");
  });
}

TEST_CASE("convolution: requests without rows are not touched, ill-formed ones give zeros and write nothing") {
  random_source random(6);
  auto const good = make_round<plain>(random, 9, 4, {2, 4, 3});
  struct fault {
    char const* what;
    void (*apply)(round_of<plain>&);
  };
  fault const faults[] = {
      {"slot below -1", [](auto& r) { r.slot[1] = -2; }},
      {"slot past the pool", [](auto& r) { r.slot[1] = 7; }},
      {"kept below 0", [](auto& r) { r.kept[1] = -1; }},
      {"kept above T", [](auto& r) { r.kept[1] = 5; }},
      {"fresh with kept rows",
       [](auto& r) {
         r.fresh = {0, 1, 0}, r.kept[1] = 1;
       }},
      {"fresh neither 0 nor 1",
       [](auto& r) {
         r.fresh = {0, 2, 0}, r.kept[1] = 0;
       }},
  };
  auto expected = good;
  expected.slot[1] = -1;
  auto const expected_out = reference::convolution(expected);
  for (auto const& f : faults) {
    CAPTURE(f.what);
    auto r = good;
    f.apply(r);
    on_each_executor([&](auto& on) {
      auto const got = run<plain>(on, r);
      CHECK(bit_difference(got.out, expected_out) == "");
      CHECK(bit_difference(got.pool, expected.pool) == "");
    });
  }
  // Alone, and among so many requests without rows that a warp looks at the bounds together.
  for (auto const& range : ill_formed_ranges())
    for (size_t idle : {0, 40}) {
      CAPTURE(range.given[1]);
      auto r = good, meant = good;
      r.query_start = range.given;
      meant.query_start = range.meant;
      for (auto* const round : {&r, &meant}) {
        round->query_start.resize(round->query_start.size() + idle, round->query_start.back());
        round->slot.resize(round->slot.size() + idle, -7);
        round->kept.resize(round->slot.size());
      }
      for (int request : range.retired) meant.slot[static_cast<size_t>(request)] = -1;
      auto const out = reference::convolution(meant);
      on_each_executor([&](auto& on) {
        auto const got = run<plain>(on, r);
        CHECK(bit_difference(got.out, out) == "");
        CHECK(bit_difference(got.pool, meant.pool) == "");
      });
    }
  auto idle = good;
  idle.query_start = {0, 4, 4, 8};
  idle.x.resize(8 * 9);
  idle.slot[1] = -7;  // carried over, not looked at
  auto twin = idle;
  auto const out = reference::convolution(twin);
  on_each_executor([&](auto& on) {
    auto const got = run<plain>(on, idle);
    CHECK(bit_difference(got.out, out) == "");
    CHECK(bit_difference(got.pool, twin.pool) == "");
  });
}

TEST_CASE("convolution: NaN and infinities are data, and stay in their channel") {
  random_source random(7);
  auto r = make_round<model>(random, 6, 4, {4});
  r.x[0] = {0xfe01};               // a NaN with a payload: copied to the pool as it is
  r.x[1] = {0x7c00};               // +inf
  r.weight[1 * 4 + 3] = {0xbc00};  // -1 times it: silu(-inf) is -0
  r.weight[1 * 4 + 2] = {0};
  auto twin = r;
  auto const out = rounded<ratify::f16>(reference::convolution(twin));
  on_each_executor([&](auto& on) {
    auto const got = run<model>(on, r);
    CHECK(bit_difference(got.out, out) == "");
    CHECK(bit_difference(got.pool, twin.pool) == "");
    CHECK(got.out[0].bits == 0x7fff);
    CHECK(got.out[1].bits == 0x8000);
  });
}

TEST_CASE("convolution: rows that no request names are zeros") {
  random_source random(9);
  std::vector<int32_t> many(40, 7);  // so many requests that the lanes of a warp look at the bounds together
  many[0] = 2;
  many[1] = many[2] = 5;
  for (auto const& starts : {std::vector<int32_t>{0, 3, 3, 7}, std::vector<int32_t>{2, 5, 5, 7}, many})
    for (int channels : {3, 70}) {
      CAPTURE(starts.size());
      std::vector<int> counts;
      for (size_t i = 0; i + 1 < starts.size(); ++i) counts.push_back(starts[i + 1] - starts[i]);
      auto r = make_round<plain>(random, channels, 4, counts);
      r.query_start = starts;
      r.x = random.normals<ratify::f16>(21 * static_cast<size_t>(channels));  // the capacity of a graph
      check_against_twin<plain>(r, 2);
    }
}

TEST_CASE("convolution stays within its bound at the ends of its range") {
  random_source random(10);
  // FP32 weights: |bias| + sum |weight x| just below the largest FP32, and sums that are subnormal.
  for (float const size : {0x1p125f, 0x1p-127f, 0x1p-142f}) {
    CAPTURE(size);
    auto r = make_round<narrow>(random, 65, 4, {4, 3});
    auto const within_one = [&](auto& values) {
      for (auto& x : values) x = ratify::convert<std::decay_t<decltype(x)>>(random.uniform(-1.0f, 1.0f));
    };
    within_one(r.x);
    within_one(r.pool);
    r.bias.resize(65);
    for (auto* const values : {&r.weight, &r.bias})
      for (float& x : *values) x = size * random.uniform(-2.0f, 2.0f);
    check_against_twin<narrow>(r);
    on_each_executor([&](auto& on) {
      for (float const y : run<narrow>(on, r).out) REQUIRE(std::isfinite(y));
    });
  }
}

TEST_CASE("convolution: a refused launch says why") {
  using operation = ratify::convolution<>;
  operation::params good;
  ratify::f16 number{}, result{};
  int32_t const index = 0;
  good.x = {&number, 5};
  good.weight = good.window_pool = &number;
  good.slot = good.kept = good.query_start = &index;
  good.out = {&result, 5};
  good.rows = 8;
  good.requests = 1;
  good.channels = 5;
  good.max_rows = 8;
  good.slot_stride = 55;
  good.pool_slots = 2;
  CHECK(operation::can_launch(good, host()));
  invalid<operation>(good, "ratify::convolution: rows and requests must not be negative", [](auto& p) { p.rows = -1; });
  invalid<operation>(good, "ratify::convolution: rows and requests must not be negative",
                     [](auto& p) { p.requests = -1; });
  invalid<operation>(good, "ratify::convolution: requests must be at least 1 if there are rows",
                     [](auto& p) { p.requests = 0; });
  unsupported<operation>(good, "ratify::convolution: requests must be at most 65535",
                         [](auto& p) { p.requests = 65536; });
  invalid<operation>(good, "ratify::convolution: channels must be at least 1", [](auto& p) { p.channels = 0; });
  invalid<operation>(good, "ratify::convolution: max_rows, the most rows of one request, must be at least 1",
                     [](auto& p) { p.max_rows = 0; });
  unsupported<operation>(good, "ratify::convolution: max_rows must be at most 2^30",
                         [](auto& p) { p.max_rows = INT32_MAX, p.slot_stride = int64_t{1} << 40; });
  invalid<operation>(good, "ratify::convolution: pool_slots must not be negative", [](auto& p) { p.pool_slots = -1; });
  invalid<operation>(
      good, "ratify::convolution: pool_slots, the slots that the pool holds, must be at least 1 if there are rows",
      [](auto& p) { p.pool_slots = 0; });
  invalid<operation>(good, "ratify::convolution: x must not be null", [](auto& p) { p.x.data = nullptr; });
  invalid<operation>(good, "ratify::convolution: a stride of x is smaller than what it steps over",
                     [](auto& p) { p.x.stride = 4; });
  invalid<operation>(good, "ratify::convolution: weight must not be null", [](auto& p) { p.weight = nullptr; });
  invalid<operation>(good, "ratify::convolution: window_pool must not be null",
                     [](auto& p) { p.window_pool = nullptr; });
  invalid<operation>(good,
                     "ratify::convolution: slot_stride must be at least (width - 1 + max_rows) * channels elements",
                     [](auto& p) { p.slot_stride = 54; });
  invalid<operation>(good, "ratify::convolution: slot must not be null", [](auto& p) { p.slot = nullptr; });
  invalid<operation>(good, "ratify::convolution: kept must not be null", [](auto& p) { p.kept = nullptr; });
  invalid<operation>(good, "ratify::convolution: query_start must not be null",
                     [](auto& p) { p.query_start = nullptr; });
  invalid<operation>(good, "ratify::convolution: out must not be null", [](auto& p) { p.out.data = nullptr; });
  invalid<operation>(good, "ratify::convolution: a stride of out is smaller than what it steps over",
                     [](auto& p) { p.out.stride = 0; });
  misaligned<operation>(
      good, "ratify::convolution: x must be aligned to its elements", [](auto& q) -> auto& { return q.x; });
  far_away<operation>(
      good, "ratify::convolution: the strides of x reach over 2^63 bytes", [](auto& q) -> auto& { return q.x; });
  misaligned<operation>(
      good, "ratify::convolution: weight must be aligned to its elements", [](auto& q) -> auto& { return q.weight; });
  misaligned<operation>(
      good, "ratify::convolution: bias must be aligned to its elements", [](auto& q) -> auto& { return q.bias; });
  misaligned<operation>(
      good, "ratify::convolution: window_pool must be aligned to its elements",
      [](auto& q) -> auto& { return q.window_pool; });
  misaligned<operation>(
      good, "ratify::convolution: slot must be aligned to its elements", [](auto& q) -> auto& { return q.slot; });
  misaligned<operation>(
      good, "ratify::convolution: kept must be aligned to its elements", [](auto& q) -> auto& { return q.kept; });
  misaligned<operation>(
      good, "ratify::convolution: fresh must be aligned to its elements", [](auto& q) -> auto& { return q.fresh; });
  misaligned<operation>(
      good, "ratify::convolution: query_start must be aligned to its elements",
      [](auto& q) -> auto& { return q.query_start; });
  misaligned<operation>(
      good, "ratify::convolution: out must be aligned to its elements", [](auto& q) -> auto& { return q.out; });
  far_away<operation>(
      good, "ratify::convolution: the strides of out reach over 2^63 bytes", [](auto& q) -> auto& { return q.out; });
  invalid<operation>(good, "ratify::convolution: the strides of window_pool reach over 2^63 bytes",
                     [](auto& p) { p.slot_stride = int64_t{1} << 62; });
  invalid<operation>(good, "ratify::convolution: out must not be x", [&](auto& p) { p.out.data = &number; });
  auto few = good;
  few.pool_slots = few.rows = 1;
  few.slot_stride = few.x.stride = few.out.stride = 0;
  CHECK(operation::can_launch(few, host()));
  operation::params none;
  none.channels = none.max_rows = 1;
  CHECK(operation::can_launch(none, host()));
  CHECK(operation::launch(none, {}, host()));
}
