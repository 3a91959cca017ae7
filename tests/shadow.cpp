// SPDX-License-Identifier: Apache-2.0
/// The shadow: two policies on the same operands, the first of which drives, counted place by place.
#include <ratify/embedding.cuh>
#include <ratify/recurrence.cuh>
#include <ratify/shadow.cuh>

#include <doctest/doctest.h>

#include "support/bits.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"
#include "support/refusal.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace {

using ratify_test::buffer;
using ratify_test::on_each_executor;

uint32_t bits_of(float x) { return ratify_test::bits(x); }
uint32_t bits_of(int32_t x) { return static_cast<uint32_t>(x); }
template <class Format>
uint32_t bits_of(Format x) {
  return x.bits;
}
double value_of(int32_t x) { return x; }
template <class Format>
double value_of(Format x) {
  return static_cast<double>(ratify::to_float(x));
}

/// What a comparison must find, in plain loops.
template <class Format>
ratify::shadow_record twin(std::vector<Format> const& a, std::vector<Format> const& b) {
  ratify::shadow_record r{1, a.size(), 0, 0, 0, 0};
  float largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    int differing = 0;
    for (uint32_t x = bits_of(a[i]) ^ bits_of(b[i]); x != 0; x >>= 1) differing += static_cast<int>(x & 1);
    r.differing_bits += static_cast<uint64_t>(differing);
    r.differing_elements += differing != 0;
    if (differing == 0) continue;
    double const x = value_of(a[i]), y = value_of(b[i]);
    if (std::isnan(x) && std::isnan(y)) continue;
    double const error = std::isnan(x) || std::isnan(y) ? std::numeric_limits<double>::infinity() : std::fabs(x - y);
    largest = std::max(largest, static_cast<float>(error));
  }
  r.largest_error = bits_of(largest);
  return r;
}

template <class Format, class Executor, class Make>
void compare_formats(Executor& on, Make make) {
  for (int const rows : {1, 7, 41})
    for (int64_t const columns : {int64_t{1}, int64_t{130}, int64_t{517}}) {
      size_t const n = static_cast<size_t>(rows * columns);
      std::vector<Format> a, b;
      for (size_t i = 0; i < n; ++i) {
        a.push_back(make());
        b.push_back(i % 3 == 0 ? make() : a.back());
      }
      // Rows apart by more than their width, what lies between differs.
      int64_t const stride = columns + 3;
      std::vector<Format> wide(static_cast<size_t>(rows * stride), make());
      for (size_t i = 0; i < n; ++i)
        wide[i / static_cast<size_t>(columns) * static_cast<size_t>(stride) + i % static_cast<size_t>(columns)] = a[i];
      buffer<Format, Executor> x(on, wide), y(on, b);
      buffer<ratify::shadow_record, Executor> record(on, {{0, 0, 0, 0, 0, 0}});
      using operation = ratify::shadow_compare<ratify::element_format<Format>>;
      typename operation::params p;
      p.driver = {x.data(), stride};
      p.shadow = {y.data(), columns};
      p.record = record.data();
      p.rows = rows;
      p.columns = columns;
      REQUIRE(std::string(ratify_test::launch<operation>(p, on).reason()) == "");
      ratify::shadow_record const got = record.read().front(), want = twin(a, b);
      CHECK(got.calls == 1);
      CHECK(got.elements == want.elements);
      CHECK(got.differing_elements == want.differing_elements);
      CHECK(got.differing_bits == want.differing_bits);
      CHECK(got.largest_error == want.largest_error);
    }
}

using embed = ratify::embedding<>;

}  // namespace

TEST_CASE("shadow: counts of every format are those of plain loops") {
  on_each_executor([](auto& on) {
    ratify_test::random_source random(41);
    compare_formats<float>(on, [&] { return random.word() % 9 == 0 ? -0.0f : random.uniforms<float>(1, -2, 2)[0]; });
    auto const any16 = [&] { return static_cast<uint16_t>(random.word()); };
    compare_formats<ratify::f16>(on, [&] { return ratify::f16{any16()}; });
    compare_formats<ratify::bf16>(on, [&] { return ratify::bf16{any16()}; });
    compare_formats<ratify::e4m3>(on, [&] { return ratify::e4m3{static_cast<uint8_t>(random.word())}; });
    compare_formats<ratify::e5m2>(on, [&] { return ratify::e5m2{static_cast<uint8_t>(random.word())}; });
    compare_formats<int32_t>(on, [&] { return static_cast<int32_t>(random.word() % 2001) - 1000; });
    // Far apart: differences of up to 2^32 - 1, and floats whose difference exceeds FP32.
    compare_formats<int32_t>(on, [&] { return static_cast<int32_t>(static_cast<uint32_t>(random.word())); });
    compare_formats<int32_t>(on, [&] { return random.one_of({INT32_MIN, INT32_MIN + 1, -1, 0, INT32_MAX}); });
    compare_formats<float>(on, [&] { return random.one_of({3e38f, -3e38f, 1e38f, INFINITY, -INFINITY, 0.0f}); });
  });
}

TEST_CASE("shadow: one bit that differs in one layer is found, and the layer is named") {
  static constexpr int layers = 4, changed = 2, rows = 3, columns = 100, vocabulary = 10, rounds = 3;
  on_each_executor([](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    ratify_test::random_source random(42);
    auto const table = random.uniforms<ratify::f16>(vocabulary * columns, -1, 1);
    auto planted = table;
    planted[4 * columns + 17].bits ^= 1u;
    buffer<ratify::f16, executor> good(on, table), bad(on, planted);
    buffer<int32_t, executor> tokens(on, {7, 4, 0});
    buffer<float, executor> out(on, layers * rows * columns), spare(on, rows * columns);
    // One place more than there are layers: nobody covers it.
    buffer<ratify::shadow_record, executor> records(on, std::vector<ratify::shadow_record>(layers + 1));
    for (int round = 0; round < rounds; ++round)
      for (int layer = 0; layer < layers; ++layer) {
        embed::params p;
        p.table = good.data();
        p.tokens = tokens.data();
        p.out = {out.data() + layer * rows * columns, columns};
        p.rows = rows;
        p.columns = columns;
        p.vocab = vocabulary;
        embed::params q = p;
        if (layer == changed) q.table = bad.data();
        q.out = {spare.data(), columns};
        auto const s = ratify::shadow<embed, embed>::launch(p, q, {}, records.data() + layer, on,
                                                            ratify::shadow_tensor<float>{p.out, q.out, rows, columns});
        REQUIRE(std::string(s.reason()) == "");
      }
    auto const found = records.read();
    for (int layer = 0; layer < layers; ++layer) {
      auto const& r = found[static_cast<size_t>(layer)];
      CHECK(r.calls == rounds);
      CHECK(r.elements == rounds * rows * columns);
      CHECK(r.differing_elements == (layer == changed ? rounds : 0));
    }
    float const a = ratify::to_float(table[4 * columns + 17]), b = ratify::to_float(planted[4 * columns + 17]);
    CHECK(found[changed].largest_error == bits_of(std::fabs(a - b)));
    auto const verdict = ratify::judge(found.data(), layers);
    CHECK_FALSE(verdict);
    CHECK(verdict.differing == changed);
    CHECK(verdict.uncovered == -1);
    CHECK(verdict.differing_elements == rounds);
    // Without the planted layer all is well; with the place nobody covered it is not.
    CHECK(ratify::judge(found.data(), changed));
    auto const uncovered = ratify::judge(found.data() + changed + 1, layers - changed);
    CHECK_FALSE(uncovered);
    CHECK(uncovered.differing == -1);
    CHECK(uncovered.uncovered == layers - changed - 1);
    // The driver's results are its own.
    auto const driven = out.read();
    CHECK(bits_of(driven[static_cast<size_t>((changed * rows + 1) * columns + 17)]) == bits_of(a));
  });
}

namespace {
using tuned = ratify::recurrence<ratify::output_format<float>>;
using plain = ratify::recurrence<ratify::output_format<float>, ratify::value_block<8>, ratify::column_threads<8>>;
}  // namespace

TEST_CASE("shadow: states that are written in place, from round to round") {
  static constexpr int rows = 3, dim = 128, pool_slots = rows + 1, state = dim * dim, channels = 3 * dim;
  on_each_executor([](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    using drive = tuned;
    ratify_test::random_source random(43);
    auto const states = random.uniforms<float>(pool_slots * state, -0.1f, 0.1f);
    buffer<float, executor> pool(on, states), alone(on, states), spare_pool(on, pool_slots * state);
    buffer<ratify::f16, executor> mixed(on, random.uniforms<ratify::f16>(rows * channels, -1, 1));
    buffer<float, executor> g(on, random.uniforms<float>(rows, -0.5f, -0.1f)),
        beta(on, random.uniforms<float>(rows, 0.1f, 0.9f));
    buffer<float, executor> out(on, rows * dim), spare_out(on, rows * dim);
    buffer<int32_t, executor> starts(on, {0, rows}), initial(on, std::vector<int32_t>{rows}), snapshots(on, {0, 1, 2}),
        selector(on, std::vector<int32_t>{2});
    auto const fill = [&](auto& p, float* states_of, float* to) {
      p.q = {mixed.data(), channels, dim};
      p.k = {mixed.data() + dim, channels, dim};
      p.v = {mixed.data() + 2 * dim, channels, dim};
      p.g = g.data();
      p.beta = beta.data();
      p.state_pool = states_of;
      p.slot_stride = state;
      p.pool_slots = pool_slots;
      p.query_start = starts.data();
      p.initial_slot = initial.data();
      p.selector = selector.data();
      p.snapshot_slot = {snapshots.data(), rows};
      p.out = {to, dim, dim};
      p.rows = rows;
      p.requests = 1;
      p.key_heads = p.value_heads = 1;
      p.max_rows = rows;
      p.scale = 0.088388346f;
    };
    drive::params p, without;
    plain::params q;
    fill(p, pool.data(), out.data());
    fill(q, spare_pool.data(), spare_out.data());
    fill(without, alone.data(), spare_out.data());
    buffer<ratify::shadow_record, executor> records(on, std::vector<ratify::shadow_record>(2));
    auto const round = [&](int place) {
      using both = ratify::shadow<drive, plain>;
      REQUIRE(both::can_launch(p, q, on));
      CHECK(both::workspace_bytes(p, q, on) == 0);
      return both::launch(
          p, q, {}, records.data() + place, on,
          ratify::shadow_tensor<float>{{out.data(), dim}, {spare_out.data(), dim}, rows, dim},
          ratify::shadow_tensor<float>{{pool.data(), state}, {spare_pool.data(), state}, pool_slots, state, true});
    };
    // Each round starts from what the one before left: the driver's states are the shadow's at every call.
    for (int i = 0; i < 3; ++i) REQUIRE(round(0));
    q.scale = 0.25f;  // what only the output feels
    REQUIRE(round(1));
    for (int i = 0; i < 4; ++i) REQUIRE(ratify_test::launch<drive>(without, on));
    auto const found = records.read();
    CHECK(found[0].calls == 3);
    CHECK(found[0].elements == 3 * (rows * dim + pool_slots * state));
    CHECK(found[0].differing_elements == 0);
    CHECK(found[1].calls == 1);
    CHECK(found[1].differing_elements > rows * dim / 2);
    CHECK(found[1].differing_elements <= rows * dim);
    CHECK(std::memcmp(pool.read().data(), alone.read().data(), states.size() * sizeof(float)) == 0);
  });
}

TEST_CASE("shadow: a shadow that cannot run leaves the driver's result and says why") {
  on_each_executor([](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    buffer<ratify::f16, executor> table(on, std::vector<ratify::f16>(8, ratify::f16{0x3c00}));
    buffer<int32_t, executor> tokens(on, std::vector<int32_t>{1});
    buffer<float, executor> out(on, 4), spare(on, 4);
    buffer<ratify::shadow_record, executor> record(on, std::vector<ratify::shadow_record>(1));
    embed::params p;
    p.table = table.data();
    p.tokens = tokens.data();
    p.out = {out.data(), 4};
    p.rows = 1;
    p.columns = 4;
    p.vocab = 2;
    embed::params q = p;
    q.out = {spare.data(), 4};
    q.vocab = 0;
    using both = ratify::shadow<embed, embed>;
    CHECK_FALSE(both::can_launch(p, q, on));
    auto const s =
        both::launch(p, q, {}, record.data(), on, ratify::shadow_tensor<float>{p.out, {spare.data(), 4}, 1, 4});
    CHECK(s.code() == ratify::status_code::invalid_argument);
    CHECK(std::string(s.reason()) == "ratify::embedding: vocab must be at least 1 token");
    CHECK(out.read() == std::vector<float>(4, 1.0f));
    CHECK(record.read().front().calls == 0);
    // Nor does a record that is missing, or a spare tensor that cannot be filled, keep the driver from running.
    q.vocab = 2;
    p.rows = 0;
    CHECK(std::string(both::launch(p, q, {}, nullptr, on, ratify::shadow_tensor<float>{p.out, q.out, 1, 4}).reason()) ==
          "ratify::shadow_compare: record must not be null");
    p.rows = 1;
    buffer<float, executor> other(on, 4);
    p.out = {other.data(), 4};
    CHECK(std::string(
              both::launch(p, q, {}, record.data(), on, ratify::shadow_tensor<float>{p.out, {nullptr, 4}, 1, 4, true})
                  .reason()) == "ratify::shadow_copy: to must not be null");
    CHECK(other.read() == std::vector<float>(4, 1.0f));
  });
}

TEST_CASE("shadow_copy copies every format bit by bit and nothing else") {
  on_each_executor([](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    using operation = ratify::shadow_copy<ratify::element_format<ratify::e5m2>>;
    std::vector<ratify::e5m2> from;
    for (int i = 0; i < 256; ++i) from.push_back({static_cast<uint8_t>(i)});
    buffer<ratify::e5m2, executor> x(on, from), y(on, 4 * 70);
    operation::params p;
    p.from = {x.data(), 64};
    p.to = {y.data(), 70};
    p.rows = 4;
    p.columns = 60;
    REQUIRE(ratify_test::launch<operation>(p, on));
    auto const got = y.read();
    for (size_t i = 0; i < got.size(); ++i)
      CHECK(got[i].bits == (i % 70 < 60 ? from[i / 70 * 64 + i % 70].bits : 0xff));
  });
}

TEST_CASE("shadow_copy and shadow_compare refuse a launch with its rule's text") {
  using namespace ratify_test;
  using copy = ratify::shadow_copy<>;
  using compare = ratify::shadow_compare<>;
  static_assert(ratify::is_supported_shadow_copy<ratify::element_format<int32_t>>);
  static_assert(!ratify::is_supported_shadow_copy<ratify::element_format<double>>);
  static_assert(ratify::is_supported_shadow_compare<ratify::element_format<ratify::e4m3>>);
  static_assert(!ratify::is_supported_shadow_compare<ratify::input_format<float>>);
  float a[6] = {}, b[6] = {};
  ratify::shadow_record record{};
  copy::params c;
  c.from = {a, 3};
  c.to = {b, 3};
  c.rows = 2;
  c.columns = 3;
  CHECK(copy::launch(c, {}, host()));
  invalid<copy>(c, "ratify::shadow_copy: rows must not be negative", [](auto& p) { p.rows = -1; });
  invalid<copy>(c, "ratify::shadow_copy: columns must be at least 1 element", [](auto& p) { p.columns = 0; });
  unsupported<copy>(
      c, "ratify::shadow_copy: rows * columns must be at most 2^37 elements; take a larger tensor in several pieces",
      [](auto& p) {
        p.rows = 1 << 20;
        p.columns = (int64_t{1} << 17) + 1;
      });
  invalid<copy>(c, "ratify::shadow_copy: from must not be null", [](auto& p) { p.from.data = nullptr; });
  invalid<copy>(c, "ratify::shadow_copy: a stride of from is smaller than what it steps over",
                [](auto& p) { p.from.stride = 2; });
  invalid<copy>(c, "ratify::shadow_copy: to must not be null", [](auto& p) { p.to.data = nullptr; });
  invalid<copy>(c, "ratify::shadow_copy: a stride of to is smaller than what it steps over",
                [](auto& p) { p.to.stride = 0; });
  misaligned<copy>(
      c, "ratify::shadow_copy: from must be aligned to its elements", [](auto& q) -> auto& { return q.from; });
  far_away<copy>(
      c, "ratify::shadow_copy: the strides of from reach over 2^63 bytes", [](auto& q) -> auto& { return q.from; });
  misaligned<copy>(
      c, "ratify::shadow_copy: to must be aligned to its elements", [](auto& q) -> auto& { return q.to; });
  far_away<copy>(
      c, "ratify::shadow_copy: the strides of to reach over 2^63 bytes", [](auto& q) -> auto& { return q.to; });
  invalid<copy>(c, "ratify::shadow_copy: to must not be from", [&](auto& p) { p.to.data = a; });

  compare::params d;
  d.driver = {a, 3};
  d.shadow = {b, 3};
  d.record = &record;
  d.rows = 2;
  d.columns = 3;
  CHECK(compare::launch(d, {}, host()));
  invalid<compare>(d, "ratify::shadow_compare: rows must not be negative", [](auto& p) { p.rows = -1; });
  invalid<compare>(d, "ratify::shadow_compare: columns must be at least 1 element", [](auto& p) { p.columns = -1; });
  unsupported<compare>(
      d, "ratify::shadow_compare: rows * columns must be at most 2^37 elements; take a larger tensor in several pieces",
      [](auto& p) {
        p.rows = 1 << 20;
        p.columns = (int64_t{1} << 17) + 1;
      });
  invalid<compare>(d, "ratify::shadow_compare: calls must not be negative", [](auto& p) { p.calls = -1; });
  invalid<compare>(d, "ratify::shadow_compare: driver must not be null", [](auto& p) { p.driver.data = nullptr; });
  invalid<compare>(d, "ratify::shadow_compare: a stride of driver is smaller than what it steps over",
                   [](auto& p) { p.driver.stride = 1; });
  invalid<compare>(d, "ratify::shadow_compare: shadow must not be null", [](auto& p) { p.shadow.data = nullptr; });
  invalid<compare>(d, "ratify::shadow_compare: a stride of shadow is smaller than what it steps over",
                   [](auto& p) { p.shadow.stride = -3; });
  invalid<compare>(d, "ratify::shadow_compare: record must not be null", [](auto& p) { p.record = nullptr; });
  misaligned<compare>(
      d, "ratify::shadow_compare: driver must be aligned to its elements", [](auto& q) -> auto& { return q.driver; });
  far_away<compare>(
      d, "ratify::shadow_compare: the strides of driver reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.driver; });
  misaligned<compare>(
      d, "ratify::shadow_compare: shadow must be aligned to its elements", [](auto& q) -> auto& { return q.shadow; });
  far_away<compare>(
      d, "ratify::shadow_compare: the strides of shadow reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.shadow; });
  misaligned<compare>(
      d, "ratify::shadow_compare: record must be aligned to its elements", [](auto& q) -> auto& { return q.record; });
  // Without rows there is nothing to do, and no tensor is needed.
  copy::params nothing;
  nothing.columns = 1;
  CHECK(copy::launch(nothing, {}, host()));
}
