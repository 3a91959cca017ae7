// SPDX-License-Identifier: Apache-2.0
#include <ratify/activation.cuh>
#include <ratify/recurrence.cuh>

#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/far_memory.hpp"
#include "support/random.hpp"
#include "support/ranges.hpp"
#include "support/recurrence.hpp"
#include "support/refusal.hpp"

#include <doctest/doctest.h>

namespace {

using namespace ratify_test;

/// The model's own.
struct model_policy : ratify::recurrence_policy {};
/// The schedule of a card, on fibers too.
struct lanes_policy : ratify::recurrence_policy {
  static constexpr int column_threads = 4;
};
/// The other layout, with half a warp a block.
struct vk_policy : ratify::recurrence_policy {
  using input_format = ratify::bf16;
  using output_format = float;
  static constexpr auto state_layout = ratify::recurrence_layout::vk;
  static constexpr int value_block = 2;
  static constexpr int column_threads = 8;
};
/// Small heads: contract cases and the sweep of schedules.
template <int ValueBlock, int ColumnThreads, bool L2norm = true>
struct small_policy : ratify::recurrence_policy {
  using input_format = ratify::bf16;
  using output_format = float;
  static constexpr int key_dim = 64, value_dim = 64;
  static constexpr bool l2norm = L2norm;
  static constexpr int value_block = ValueBlock, column_threads = ColumnThreads;
};
using small = small_policy<16, 0>;
using plain_small = small_policy<16, 0, false>;

/// The gates made inside, of formats that differ.
template <int ColumnThreads>
struct fused_policy : small_policy<16, ColumnThreads> {
  static constexpr bool fused_gating = true;
  using a_format = ratify::bf16;
  using b_format = ratify::f16;
};
struct fused_replay_policy : fused_policy<4> {
  static constexpr auto mode = ratify::recurrence_mode::replay;
  using a_format = float;
  using b_format = float;
};
struct wide_policy : ratify::recurrence_policy {
  static constexpr int value_block = 64;
};
struct wrong_mode_policy : ratify::recurrence_policy {
  static constexpr auto mode = static_cast<ratify::recurrence_mode>(3);
};
static_assert(ratify::is_supported_recurrence<model_policy>);

static_assert(!ratify::is_supported_recurrence<wide_policy>);
static_assert(ratify::is_supported_recurrence<fused_replay_policy>);
static_assert(!ratify::is_supported_recurrence<wrong_mode_policy>);

template <class Policy>
struct outcome {
  std::vector<typename Policy::output_format> out;
  std::vector<float> pool;
};

template <class Policy, class Executor>
using operands = snapshot_operands<Policy, Executor>;

template <class Policy, class Executor>
outcome<Policy> run(Executor& on, reference::recurrence_shape const& s, reference::recurrence_inputs const& in,
                    reference::recurrence_round const& r, int padding = 0) {
  operands<Policy, Executor> o(on, s, in, r, padding);
  buffer<float, Executor> pool(on, r.pool);
  o.p.state_pool = pool.data();
  o.p.slots = static_cast<int64_t>(r.pool.size()) / r.slot_stride;
  auto const status = launch<ratify::recurrence<Policy>>(o.p, on);
  REQUIRE_MESSAGE(status, status.reason());
  return {o.out.read(), pool.read()};
}

/// Requests of the given row counts, each with its own max_rows + 1 slots in shuffled places; slot_padding elements
/// between slots.
reference::recurrence_round make_round(random_source& random, reference::recurrence_shape const& s, int max_rows,
                                       std::vector<int> const& counts, int slot_padding = 0) {
  reference::recurrence_round r;
  r.max_rows = max_rows;
  r.slot_stride = s.state_elements() + slot_padding;
  std::vector<int32_t> slots(counts.size() * (static_cast<size_t>(max_rows) + 1) + 1);
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int32_t>(i);
  for (size_t i = slots.size(); i-- > 1;) std::swap(slots[i], slots[random.integer(0, static_cast<int>(i))]);
  size_t next = 0;
  r.query_start.push_back(0);
  for (int n : counts) {
    r.query_start.push_back(r.query_start.back() + n);
    r.initial_slot.push_back(slots[next++]);
    r.selector.push_back(0);
    for (int t = 0; t < max_rows; ++t) r.snapshot_slot.push_back(slots[next++]);
  }
  r.pool = random.normals<float>(slots.size() * static_cast<size_t>(r.slot_stride), 0.3f);
  return r;
}

/// Bits of outputs and pool against the twin on every executor.
template <class Policy>
void check_against_twin(reference::recurrence_shape const& s, reference::recurrence_inputs const& in,
                        reference::recurrence_round const& r, int padding = 0) {
  auto expected = r;
  auto const out = rounded<typename Policy::output_format>(reference::recurrence(s, in, expected));
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    if constexpr (Policy::column_threads == 1 && !std::is_same_v<executor, ratify::host_executor>) {
      operands<Policy, executor> o(on, s, in, r, padding);
      CHECK(std::string(ratify::recurrence<Policy>::can_launch(o.p, on).reason()) ==
            "ratify::recurrence: column_threads 1 is for the host executor; on a card take 0, 4 or 8");
    } else {
      auto const got = run<Policy>(on, s, in, r, padding);
      CHECK(bit_difference(got.out, out) == "");
      CHECK(bit_difference(got.pool, expected.pool) == "");
    }
  });
}

}  // namespace

TEST_CASE_TEMPLATE("recurrence equals its twin bit for bit", Policy, model_policy, lanes_policy, vk_policy, small,
                   plain_small) {
  random_source random(1);
  for (int round = 0; round < scaled(5); ++round) {
    auto const e = random_recurrence_extent<Policy>(random, 32, true);
    auto const& counts = e.counts;
    auto const s = shape_of<Policy>(e.key_heads, e.value_heads);
    int const max_rows = e.max_rows;
    auto r = make_round(random, s, max_rows, counts, random.one_of({0, 1, 64}));
    for (size_t i = 0; i < counts.size(); ++i) {
      r.selector[i] = random.integer(0, max_rows);
      if (r.selector[i] == 0 && random.integer(0, 1))  // the slot it starts from is overwritten in the launch
        r.initial_slot[i] = r.snapshot_slot[i * static_cast<size_t>(max_rows)];
      else if (random.integer(0, 1) && max_rows > 1)  // not the one it starts from
        r.snapshot_slot[i * static_cast<size_t>(max_rows) + (r.selector[i] % max_rows)] = -1;
    }
    auto const in = make_inputs<Policy>(random, s, r.query_start.back());
    CAPTURE(s.key_heads);
    CAPTURE(s.value_heads);
    CAPTURE(max_rows);
    CAPTURE(counts.size());
    check_against_twin<Policy>(s, in, r, random.integer(0, 40));
    count_shape();
  }
}

TEST_CASE("recurrence of the demo's and each TP's head counts") {
  random_source random(2);
  struct {
    int key_heads, value_heads, rows;
  } const cases[] = {{1, 2, 8}, {16, 48, 1}, {8, 24, 2}, {4, 12, 3}, {2, 6, 8}};
  for (auto const& c : cases) {
    auto const s = shape_of<model_policy>(c.key_heads, c.value_heads);
    auto const r = make_round(random, s, c.rows, {c.rows});
    check_against_twin<model_policy>(s, make_inputs<model_policy>(random, s, c.rows), r);
  }
}

TEST_CASE("recurrence: 32 rows a request, more than shared storage holds at once") {
  random_source random(3);
  auto const s = shape_of<small>(1, 2);
  auto const r = make_round(random, s, 32, {32, 9});
  auto const in = make_inputs<small>(random, s, 41);
  check_against_twin<small>(s, in, r);
  check_against_twin<small_policy<8, 8>>(s, in, r);
}

TEST_CASE_TEMPLATE("recurrence: no bit depends on the schedule", Policy, small_policy<2, 8>, small_policy<4, 8>,
                   small_policy<32, 8>, small_policy<16, 1>) {
  random_source random(4);
  auto const s = shape_of<Policy>(1, 3);
  auto r = make_round(random, s, 5, {5, 2}, 3);
  r.selector = {3, 0};
  check_against_twin<Policy>(s, make_inputs<Policy>(random, s, 7), r, 5);
}

TEST_CASE_TEMPLATE("recurrence stays within its bound of FP64", Policy, model_policy, small, plain_small) {
  random_source random(5);
  using output = typename Policy::output_format;
  auto const s = shape_of<Policy>(2, 4);
  auto const r = make_round(random, s, 16, {16});
  auto const in = make_inputs<Policy>(random, s, 16);
  reference::truth::recurrence exact(s);
  exact.start(&r.pool[r.initial_slot[0] * r.slot_stride]);
  std::vector<double> out, bound;
  for (int t = 0; t < 16; ++t) exact.row(in, t, out, bound);
  if (!std::is_same_v<output, float>)
    for (size_t i = 0; i < out.size(); ++i) bound[i] += 0x1p-11 * std::fabs(out[i]) + 0x1p-25;
  on_each_executor([&](auto& on) {
    auto const got = run<Policy>(on, s, in, r);
    CHECK(error_over_bound(got.out, out, bound) <= 1.0);
    // The state: the 2-norm of each column's error.
    float const* const state = &got.pool[r.snapshot_slot[15] * r.slot_stride];
    for (int h = 0; h < 4; ++h)
      for (int v = 0; v < s.value_dim; ++v) {
        double error = 0;
        for (int i = 0; i < s.key_dim; ++i) {
          size_t const at = (static_cast<size_t>(h) * s.key_dim + i) * s.value_dim + v;
          error += (state[at] - exact.state[at]) * (state[at] - exact.state[at]);
        }
        REQUIRE(std::sqrt(error) <= 1.01 * exact.state_bound[static_cast<size_t>(h) * s.value_dim + v]);
      }
  });
}

TEST_CASE("G1 continuing from any snapshot equals the sequential run over accepted rows only") {
  random_source random(6);
  auto const s = shape_of<model_policy>(1, 2);
  auto const r = make_round(random, s, 4, {4});
  auto const in = make_inputs<model_policy>(random, s, 4), next = make_inputs<model_policy>(random, s, 1);
  int64_t const elements = s.state_elements();
  on_each_executor([&](auto& on) {
    auto const verified = run<model_policy>(on, s, in, r);
    for (int accepted = 1; accepted <= 4; ++accepted) {
      auto onward = r;
      onward.pool = verified.pool;
      onward.query_start = {0, 1};
      onward.selector = {accepted};
      auto const got = run<model_policy>(on, s, next, onward);
      // Row by row from the first state, the accepted rows and then the new one.
      auto plain = r;
      plain.query_start = {0, 1};
      outcome<model_policy> last;
      for (int t = 0; t <= accepted; ++t) {
        last = run<model_policy>(on, s, t < accepted ? some_rows(s, in, t, t + 1) : next, plain);
        plain.pool = last.pool;
        plain.selector = {1};
      }
      CHECK(bit_difference(got.out, last.out) == "");
      int64_t const at = r.snapshot_slot[0] * r.slot_stride;
      CHECK(bit_difference(slice(got.pool, at, elements), slice(last.pool, at, elements)) == "");
    }
  });
}

TEST_CASE("G2 recurrence: retired slots read and write nothing") {
  random_source random(7);
  auto const s = shape_of<small>(1, 2);
  for (int rows : {1, 4}) {
    // Eight patterned slots for the states and, past them, room for the snapshots of the rows before the last.
    auto r = make_round(random, s, rows, {rows, rows, rows});
    r.pool = random.normals<float>(16 * static_cast<size_t>(r.slot_stride));
    r.initial_slot = {3, -1, 5};
    r.selector = {0, 999, 0};  // a retired request's selector is not looked at, nor is fresh
    r.fresh = {0, 1, 0};
    for (int t = 0; t < rows; ++t) {
      bool const last = t == rows - 1;
      r.snapshot_slot[static_cast<size_t>(t)] = last ? 3 : 8 + t;
      r.snapshot_slot[static_cast<size_t>(rows + t)] = last ? 7 : -5;
      r.snapshot_slot[static_cast<size_t>(2 * rows + t)] = last ? 5 : 12 + t;
    }
    auto const in = make_inputs<small>(random, s, 3 * rows);
    check_against_twin<small>(s, in, r);
    on_each_executor([&](auto& on) {
      auto const got = run<small>(on, s, in, r);
      int64_t const width = int64_t{rows} * s.value_heads * s.value_dim;
      CHECK(bit_difference(slice(got.out, width, width), std::vector<float>(static_cast<size_t>(width))) == "");
      for (int slot : {0, 1, 2, 4, 6, 7})
        CHECK(bit_difference(slice(got.pool, slot * r.slot_stride, r.slot_stride),
                             slice(r.pool, slot * r.slot_stride, r.slot_stride)) == "");
      CHECK(bit_difference(slice(got.pool, 3 * r.slot_stride, r.slot_stride),
                           slice(r.pool, 3 * r.slot_stride, r.slot_stride)) != "");
    });
  }
}

TEST_CASE("G3 recurrence: a slot beyond 2^31 elements gives the same bits, snapshots too") {
  random_source random(8);
  auto const s = shape_of<small>(1, 1);
  auto near = make_round(random, s, 2, {2});
  near.initial_slot = {0};
  near.snapshot_slot = {1, 2};
  near.pool = random.normals<float>(3 * static_cast<size_t>(near.slot_stride));
  auto far = near;
  far.initial_slot = {2};
  far.snapshot_slot = {3, 1};
  far.slot_stride = (int64_t{1} << 30) + 64;
  auto const in = make_inputs<small>(random, s, 2);
  on_each_executor([&](auto& on) {
    auto const expected = run<small>(on, s, in, near);
    far_memory<float, std::decay_t<decltype(on)>> pool(on,
                                                       static_cast<size_t>(3 * far.slot_stride + s.state_elements()));
    if (pool.data() == nullptr) {
      MESSAGE("skipped on this executor: no room for 13 GB");
      return;
    }
    pool.write(static_cast<size_t>(2 * far.slot_stride), slice(near.pool, 0, near.slot_stride));
    operands<small, std::decay_t<decltype(on)>> o(on, s, in, far, 0);
    o.p.state_pool = pool.data();
    auto const status = launch<ratify::recurrence<small>>(o.p, on);
    REQUIRE_MESSAGE(status, status.reason());
    CHECK(bit_difference(o.out.read(), expected.out) == "");
    for (int t = 0; t < 2; ++t)
      CHECK(bit_difference(pool.read(static_cast<size_t>(far.snapshot_slot[t] * far.slot_stride), s.state_elements()),
                           slice(expected.pool, near.snapshot_slot[t] * near.slot_stride, near.slot_stride)) == "");
  });
}

TEST_CASE("G5 l2norm is x / sqrt(sum x^2 + 1e-6)") {
  // From a zero state with v = 1, beta = 1 and g = 0, every column of the state after one row is the key as used.
  auto const key_as_used = [](auto policy, std::vector<float> const& key) {
    using Policy = decltype(policy);
    auto s = shape_of<Policy>(1, 1);
    random_source random(9);
    auto r = make_round(random, s, 1, {1});
    r.fresh = {1};
    size_t const K = key.size();
    std::vector<float> stored;
    for (float x : key) stored.push_back(ratify::to_float(ratify::convert<typename Policy::input_format>(x)));
    reference::recurrence_inputs const in{stored, stored, std::vector<float>(K, 1.0f), {0.0f}, {1.0f}};
    check_against_twin<Policy>(s, in, r);
    auto const got = run<Policy>(host(), s, in, r);
    std::vector<float> column;
    for (size_t i = 0; i < K; ++i) column.push_back(got.pool[r.snapshot_slot[0] * r.slot_stride + i * K]);
    return column;
  };
  auto const norm = [](std::vector<float> const& v) {
    double sum = 0;
    for (float x : v) sum += double{x} * x;
    return std::sqrt(sum);
  };
  CHECK(norm(key_as_used(small{}, std::vector<float>(64, 1.25e-5f))) == doctest::Approx(0.0995).epsilon(0.005));
  CHECK(norm(key_as_used(small{}, std::vector<float>(64, 0.0f))) == 0.0);
  CHECK(norm(key_as_used(model_policy{}, std::vector<float>(128, 300.0f))) == doctest::Approx(1.0).epsilon(1e-6));
  for (float x : key_as_used(plain_small{}, std::vector<float>(64, 0.5f))) CHECK(x == 0.5f);
}

TEST_CASE("G6 the error against FP64 stays flat over 4096 tokens, and a rounded beta shows") {
  random_source random(10);
  int const tokens = 4096, rows = 8;
  auto const s = shape_of<small>(1, 1);
  auto in = make_inputs<small>(random, s, tokens);
  in.g = random.uniforms<float>(tokens, -0.05f, -0.001f);
  auto bent = in;
  for (float& b : bent.beta) b = ratify::to_float(ratify::convert<ratify::bf16>(b));
  auto r = make_round(random, s, rows, {rows});
  r.pool.assign(r.pool.size(), 0.0f);
  reference::truth::recurrence exact(s);
  exact.start(r.pool.data());
  std::vector<double> truth, bound;
  for (int t = 0; t < tokens; ++t) exact.row(in, t, truth, bound);

  on_each_executor([&](auto& on) {
    auto const sequence = [&](reference::recurrence_inputs const& from) {
      auto round = r;
      std::vector<float> out;
      for (int t = 0; t < tokens; t += rows) {
        auto const got = run<small>(on, s, some_rows(s, from, t, t + rows), round);
        out.insert(out.end(), got.out.begin(), got.out.end());
        round.pool = got.pool;
        round.selector = {rows};
      }
      return out;
    };
    auto const error = [&](std::vector<float> const& out, int from, int to) {  // relative 2-norm
      double sum = 0, all = 0;
      for (int i = from * s.value_dim; i < to * s.value_dim; ++i) {
        sum += (out[i] - truth[i]) * (out[i] - truth[i]);
        all += truth[i] * truth[i];
      }
      return std::sqrt(sum / all);
    };
    auto const out = sequence(in);
    CHECK(error_over_bound(out, truth, bound) <= 1.0);
    double const early = error(out, 256, 768), late = error(out, tokens - 512, tokens);
    CHECK(late < 1.5 * early);
    CHECK(late < 1e-6);
    CHECK(error(sequence(bent), tokens - 512, tokens) > 100 * late);
  });
}

TEST_CASE_TEMPLATE("G6 eight rows in one call equal eight calls of one row", Policy, model_policy, vk_policy) {
  random_source random(11);
  auto const s = shape_of<Policy>(1, 2);
  auto const r = make_round(random, s, 8, {8});
  auto const in = make_inputs<Policy>(random, s, 8);
  on_each_executor([&](auto& on) {
    auto const whole = run<Policy>(on, s, in, r);
    auto step = r;
    step.query_start = {0, 1};
    for (int t = 0; t < 8; ++t) {
      // The one row's state goes where the long call's row t put it.
      step.snapshot_slot[0] = r.snapshot_slot[static_cast<size_t>(t)];
      auto const got = run<Policy>(on, s, some_rows(s, in, t, t + 1), step);
      int64_t const width = int64_t{s.value_heads} * s.value_dim;
      REQUIRE(bit_difference(got.out, slice(whole.out, t * width, width)) == "");
      step.pool = got.pool;
      step.initial_slot = {step.snapshot_slot[0]};
    }
    CHECK(bit_difference(step.pool, whole.pool) == "");
  });
}

TEST_CASE("G7 a slot full of NaN bytes started fresh equals a zero state, beside a request that goes on") {
  random_source random(12);
  auto const s = shape_of<small>(1, 2);
  auto r = make_round(random, s, 3, {3, 2});
  r.fresh = {1, 0};
  r.selector = {0, 2};
  auto zero = r;
  zero.fresh.clear();
  for (int64_t i = 0; i < r.slot_stride; ++i) {
    zero.pool[zero.initial_slot[0] * r.slot_stride + i] = 0.0f;
    r.pool[r.initial_slot[0] * r.slot_stride + i] = ratify::detail::from_bits(0xffffffffu);
  }
  auto const in = make_inputs<small>(random, s, 5);
  check_against_twin<small>(s, in, r);
  on_each_executor([&](auto& on) {
    auto const got = run<small>(on, s, in, r), expected = run<small>(on, s, in, zero);
    CHECK(bit_difference(got.out, expected.out) == "");
    for (int32_t const slot : r.snapshot_slot)
      CHECK(bit_difference(slice(got.pool, slot * r.slot_stride, r.slot_stride),
                           slice(expected.pool, slot * r.slot_stride, r.slot_stride)) == "");
  });
}

TEST_CASE("G8 value heads pair with key heads in runs") {
  random_source random(13);
  for (int ratio : {2, 3}) {
    auto const s = shape_of<small>(2, 2 * ratio);
    auto const r = make_round(random, s, 3, {3});
    auto const in = make_inputs<small>(random, s, 3);
    on_each_executor([&](auto& on) {
      auto const all = run<small>(on, s, in, r);
      // Each value head alone with the key head it should have.
      for (int head = 0; head < s.value_heads; ++head) {
        auto const one = shape_of<small>(1, 1);
        int const K = s.key_dim, V = s.value_dim;
        reference::recurrence_inputs alone;
        auto const append = [](std::vector<float>& to, std::vector<float> const& from, int at, int n) {
          to.insert(to.end(), from.begin() + at, from.begin() + at + n);
        };
        for (int t = 0; t < 3; ++t) {
          append(alone.q, in.q, (t * 2 + head / ratio) * K, K);
          append(alone.k, in.k, (t * 2 + head / ratio) * K, K);
          append(alone.v, in.v, (t * s.value_heads + head) * V, V);
          alone.g.push_back(in.g[static_cast<size_t>(t * s.value_heads + head)]);
          alone.beta.push_back(in.beta[static_cast<size_t>(t * s.value_heads + head)]);
        }
        auto single = r;
        single.slot_stride = K * V;
        single.pool.clear();
        for (size_t slot = 0; slot < r.pool.size() / r.slot_stride; ++slot)
          append(single.pool, r.pool, static_cast<int>(slot * r.slot_stride) + head * K * V, K * V);
        auto const got = run<small>(on, one, alone, single);
        for (int t = 0; t < 3; ++t)
          CHECK(bit_difference(slice(got.out, t * V, V), slice(all.out, (t * s.value_heads + head) * V, V)) == "");
      }
    });
  }
}

TEST_CASE("G9 a mixed row's padding full of NaN is never read") {
  random_source random(14);
  auto const s = shape_of<model_policy>(1, 2);
  auto const r = make_round(random, s, 2, {2});
  auto const in = make_inputs<model_policy>(random, s, 2);
  on_each_executor([&](auto& on) {
    auto const dense = run<model_policy>(on, s, in, r), padded = run<model_policy>(on, s, in, r, 3136);
    CHECK(bit_difference(padded.out, dense.out) == "");
    CHECK(bit_difference(padded.pool, dense.pool) == "");
  });
}

TEST_CASE("recurrence: ill-formed requests give zeros and write nothing, those without rows are not touched") {
  random_source random(15);
  auto const s = shape_of<small>(1, 1);
  auto const good = make_round(random, s, 4, {2, 4, 3});
  auto const in = make_inputs<small>(random, s, 9);
  struct fault {
    char const* what;
    void (*apply)(reference::recurrence_round&);
  };
  fault const faults[] = {
      {"initial_slot below -1", [](auto& r) { r.initial_slot[1] = -2; }},
      {"initial_slot past the pool", [](auto& r) { r.initial_slot[1] = 1 << 20; }},
      {"selector below 0", [](auto& r) { r.selector[1] = -1; }},
      {"selector above T", [](auto& r) { r.selector[1] = 5; }},
      {"selector of a snapshot that is none", [](auto& r) { r.selector[1] = 2, r.snapshot_slot[5] = -1; }},
      {"snapshot_slot below -1", [](auto& r) { r.snapshot_slot[7] = -2; }},
      {"snapshot_slot past the pool", [](auto& r) { r.snapshot_slot[6] = 1 << 20; }},
      {"fresh with a selector",
       [](auto& r) {
         r.fresh = {0, 1, 0}, r.selector[1] = 1;
       }},
      {"fresh neither 0 nor 1",
       [](auto& r) {
         r.fresh = {0, -1, 0};
       }},
  };
  auto expected = good;
  expected.initial_slot[1] = -1;
  auto const expected_out = reference::recurrence(s, in, expected);
  for (auto const& f : faults) {
    CAPTURE(f.what);
    auto r = good;
    f.apply(r);
    on_each_executor([&](auto& on) {
      auto const got = run<small>(on, s, in, r);
      CHECK(bit_difference(got.out, expected_out) == "");
      CHECK(bit_difference(got.pool, expected.pool) == "");
    });
  }
  for (auto const& range : ill_formed_ranges()) {
    CAPTURE(range.given[1]);
    auto r = good, meant = good;
    r.query_start = range.given;
    meant.query_start = range.meant;
    for (int request : range.retired) meant.initial_slot[static_cast<size_t>(request)] = -1;
    auto const out = reference::recurrence(s, in, meant);
    on_each_executor([&](auto& on) {
      auto const got = run<small>(on, s, in, r);
      CHECK(bit_difference(got.out, out) == "");
      CHECK(bit_difference(got.pool, meant.pool) == "");
    });
  }
  auto idle = good;
  idle.query_start = {0, 4, 4, 8};
  idle.initial_slot[1] = -9;  // carried over, not looked at
  idle.selector[1] = 77;
  check_against_twin<small>(s, some_rows(s, in, 0, 8), idle);
}

namespace {

struct wide_gates : ratify::gating_policy {
  using input_format = float;
};

/// Puts a, b, a_log and dt_bias into the launch; `gates` holds what the separate operation makes of them.
template <class Policy, class Executor>
struct fused_gates {
  using a_format = typename Policy::a_format;
  using b_format = typename Policy::b_format;
  fused_gates(Executor& on, random_source& random, int rows, int heads)
      : rows_(rows),
        heads_(heads),
        // Rows have two elements of padding.
        a(on, random.normals<a_format>(static_cast<size_t>(rows) * (heads + 2), 3.0f)),
        b(on, random.normals<b_format>(static_cast<size_t>(rows) * (heads + 2), 3.0f)),
        a_log(on, ends(random, heads, 100.0f, 10.0f)),
        dt_bias(on, ends(random, heads, -200.0f, 1e4f)),
        g(on, static_cast<size_t>(rows) * heads),
        beta(on, static_cast<size_t>(rows) * heads) {
    auto const wide = [](auto const& v) {
      std::vector<float> out;
      for (auto const x : v) out.push_back(ratify::to_float(x));
      return out;
    };
    buffer<float, Executor> wide_a(on, wide(a.read())), wide_b(on, wide(b.read()));
    ratify::gating<wide_gates>::params p;
    p.a = {wide_a.data(), heads + 2};
    p.b = {wide_b.data(), heads + 2};
    p.a_log = a_log.data();
    p.dt_bias = dt_bias.data();
    p.g = g.data();
    p.beta = beta.data();
    p.rows = rows;
    p.value_heads = heads;
    auto const status = launch<ratify::gating<wide_gates>>(p, on);
    REQUIRE_MESSAGE(status, status.reason());
  }
  /// Ordinary numbers, and in the first two places those where an exponential overflows.
  static std::vector<float> ends(random_source& random, int n, float first, float second) {
    auto v = random.normals<float>(static_cast<size_t>(n), 0.5f);
    v[0] = first;
    if (n > 1) v[1] = second;
    return v;
  }
  template <class Params>
  void give(Params& p) {
    p.a = {a.data(), heads_ + 2};
    p.b = {b.data(), heads_ + 2};
    p.a_log = a_log.data();
    p.dt_bias = dt_bias.data();
  }
  int rows_, heads_;
  buffer<a_format, Executor> a;
  buffer<b_format, Executor> b;
  buffer<float, Executor> a_log, dt_bias, g, beta;
};

}  // namespace

TEST_CASE_TEMPLATE("recurrence: fused gating equals the separate operation and then the recurrence, bit for bit",
                   Policy, fused_policy<0>, fused_policy<8>) {
  random_source random(17);
  auto const s = shape_of<Policy>(1, 3);
  auto const r = make_round(random, s, 11, {11, 3});
  auto in = make_inputs<Policy>(random, s, 14);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    fused_gates<Policy, executor> gates(on, random, 14, 3);
    operands<Policy, executor> o(on, s, in, r, 0);
    gates.give(o.p);
    buffer<float, executor> pool(on, r.pool);
    o.p.state_pool = pool.data();
    o.p.slots = static_cast<int64_t>(r.pool.size()) / r.slot_stride;
    auto const status = launch<ratify::recurrence<Policy>>(o.p, on);
    REQUIRE_MESSAGE(status, status.reason());
    in.g = gates.g.read();
    in.beta = gates.beta.read();
    auto const expected = run<small>(on, s, in, r);
    CHECK(bit_difference(o.out.read(), expected.out) == "");
    CHECK(bit_difference(pool.read(), expected.pool) == "");
  });
}

TEST_CASE("recurrence: fused gating puts its g into the ring") {
  random_source random(18);
  auto const s = shape_of<fused_replay_policy>(1, 2);
  auto in = make_inputs<fused_replay_policy>(random, s, 9);
  on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    fused_gates<fused_replay_policy, executor> gates(on, random, 9, 2);
    row_operands<fused_replay_policy, executor> o(on, s, in, {0, 9}, {}, 9, 0);
    gates.give(o.p);
    reference::replay_round r;
    r.query_start = {0, 9};
    r.slot = r.ring_count = {0};
    r.ring_start = {30};
    r.flush = {1};
    r.max_rows = 9;
    r.places = 32;
    r.pool = random.normals<float>(static_cast<size_t>(s.state_elements()));
    r.slot_stride = s.state_elements();
    r.k_stride = 32 * 64, r.u_stride = 32 * 2 * 64, r.g_stride = 32 * 2;
    r.ring_k.assign(static_cast<size_t>(r.k_stride), 0.0f);
    r.ring_u.assign(static_cast<size_t>(r.u_stride), 0.0f);
    r.ring_g.assign(static_cast<size_t>(r.g_stride), 0.0f);
    buffer<float, executor> pool(on, r.pool), k(on, r.ring_k), u(on, r.ring_u), g(on, r.ring_g);
    buffer<int32_t, executor> zero(on, std::vector<int32_t>{0}), start(on, r.ring_start), flush(on, r.flush);
    o.p.state_pool = pool.data();
    o.p.slot_stride = r.slot_stride;
    o.p.slots = 1;
    o.p.slot = o.p.ring_count = zero.data();
    o.p.ring_start = start.data();
    o.p.flush = flush.data();
    o.p.ring_places = 32;
    o.p.ring_k = {k.data(), r.k_stride};
    o.p.ring_u = {u.data(), r.u_stride};
    o.p.ring_g = {g.data(), r.g_stride};
    auto const status = launch<ratify::recurrence<fused_replay_policy>>(o.p, on);
    REQUIRE_MESSAGE(status, status.reason());
    in.g = gates.g.read();
    in.beta = gates.beta.read();
    auto const out = reference::recurrence_replay(s, in, r);
    CHECK(bit_difference(o.out.read(), out) == "");
    CHECK(bit_difference(pool.read(), r.pool) == "");
    CHECK(bit_difference(k.read(), r.ring_k) == "");
    CHECK(bit_difference(u.read(), r.ring_u) == "");
    CHECK(bit_difference(g.read(), r.ring_g) == "");
  });
}

TEST_CASE("recurrence: NaN and infinities are data, and stay in their column") {
  random_source random(16);
  auto const s = shape_of<small>(1, 1);
  auto const r = make_round(random, s, 2, {2});
  auto in = make_inputs<small>(random, s, 2);
  in.v[5] = NAN;
  in.v[6] = INFINITY;
  in.g[1] = -INFINITY;
  check_against_twin<small>(s, in, r);
  check_against_twin<small_policy<8, 8>>(s, in, r);
  on_each_executor([&](auto& on) {
    auto const got = run<small>(on, s, in, r);
    for (int i = 0; i < 64; ++i) CHECK(std::isfinite(got.out[static_cast<size_t>(i)]) == (i != 5 && i != 6));
  });
}

TEST_CASE("recurrence: a refused launch says why") {
  using operation = ratify::recurrence<model_policy>;
  operation::params good;
  good.rows = 8;
  good.requests = 1;
  good.key_heads = 8;
  good.value_heads = 24;
  good.max_rows = 8;
  good.slot_stride = 24 * 128 * 128;
  int32_t const index = 0;
  float const gate = 0.0f;
  good.initial_slot = good.selector = good.snapshot_slot.data = &index;
  good.g = good.beta = &gate;
  auto const reason = [&](auto change) { return refusal<operation>(good, change); };
  CHECK(reason([](auto&) {}) == "");
  CHECK(reason([](auto& p) { p.rows = 0, p.requests = 0; }) == "");
  CHECK(reason([](auto& p) { p.rows = -1; }) == "ratify::recurrence: rows must not be negative");
  CHECK(reason([](auto& p) { p.requests = 65536; }) ==
        "ratify::recurrence: requests must be 1 to 65535 (0 where there are no rows)");
  CHECK(reason([](auto& p) { p.key_heads = 0; }) == "ratify::recurrence: key_heads must be at least 1");
  CHECK(reason([](auto& p) { p.value_heads = 25; }) ==
        "ratify::recurrence: value_heads must be a multiple of key_heads, at most 65535");
  CHECK(reason([](auto& p) { p.max_rows = 33; }) ==
        "ratify::recurrence: max_rows must be 1 to 32 rows a request; split longer runs into several launches");
  CHECK(reason([](auto& p) { --p.slot_stride; }) ==
        "ratify::recurrence: slot_stride must be at least value_heads * key_dim * value_dim elements");
  std::string const selectors =
      "ratify::recurrence: a selector is missing; mode snapshots takes initial_slot, selector and snapshot_slot, mode "
      "replay slot, ring_start, ring_count and flush, mode read initial_slot";
  CHECK(reason([](auto& p) { p.initial_slot = nullptr; }) == selectors);
  CHECK(reason([](auto& p) { p.selector = nullptr; }) == selectors);
  CHECK(reason([](auto& p) { p.snapshot_slot.data = nullptr; }) == selectors);
  CHECK(reason([](auto& p) { p.rows = 0, p.selector = nullptr; }) == "");
  CHECK(reason([](auto& p) { p.beta = nullptr; }) ==
        "ratify::recurrence: gates are missing; give g and beta, with fused_gating a, b, a_log and dt_bias");
  ratify::recurrence<fused_policy<0>>::params fused;
  fused.rows = fused.requests = fused.key_heads = fused.value_heads = fused.max_rows = 1;
  fused.slot_stride = 64 * 64;
  fused.initial_slot = fused.selector = fused.snapshot_slot.data = &index;
  ratify::bf16 const a{};
  ratify::f16 const b{};
  fused.a.data = &a;
  fused.b.data = &b;
  fused.a_log = &gate;
  CHECK(std::string(ratify::recurrence<fused_policy<0>>::can_launch(fused, host()).reason()) ==
        "ratify::recurrence: gates are missing; give g and beta, with fused_gating a, b, a_log and dt_bias");
  fused.dt_bias = &gate;
  CHECK(ratify::recurrence<fused_policy<0>>::can_launch(fused, host()));
}
