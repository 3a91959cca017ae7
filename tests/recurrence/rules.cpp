// SPDX-License-Identifier: Apache-2.0
/// Launches that are refused, each with its reason.
#include <ratify/recurrence.cuh>

#include "support/recurrence.hpp"
#include "support/refusal.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace {

using namespace ratify_test;

static_assert(ratify::is_supported_recurrence<>);
static_assert(ratify::is_supported_recurrence<ratify::mode<recurrence_mode::replay>, ratify::fused_gating<true>>);
static_assert(!ratify::is_supported_recurrence<ratify::value_block<64>>);
static_assert(!ratify::is_supported_recurrence<ratify::mode<static_cast<recurrence_mode>(3)>>);
static_assert(!ratify::is_supported_recurrence<ratify::head_dim<64>>);

using snapshots = ratify::recurrence<>;
using replay = ratify::recurrence<ratify::mode<recurrence_mode::replay>>;
using reading = ratify::recurrence<ratify::mode<recurrence_mode::read>>;
using fused = ratify::recurrence<ratify::fused_gating<true>>;

/// Something for every pointer to point at: refusals look at no contents.
template <class Element, int Place = 0>
Element* somewhere() {
  static Element element{};
  return &element;
}

/// 8 rows of one request, 8 key heads and 24 value heads, two slots.
template <class Operation>
typename Operation::params launchable_rows() {
  typename Operation::params p;
  using input = typename Operation::policy::input_format;
  p.q = p.k = {somewhere<input>(), 8 * 128, 128};
  p.v = {somewhere<input>(), 24 * 128, 128};
  p.out = {somewhere<typename Operation::policy::output_format, 1>(), 24 * 128, 128};
  p.state_pool = somewhere<float>();
  p.slot_stride = 24 * 128 * 128;
  p.pool_slots = 2;
  p.query_start = somewhere<int32_t>();
  p.rows = p.max_rows = 8;
  p.requests = 1;
  p.key_heads = 8;
  p.value_heads = 24;
  return p;
}
snapshots::params launchable_snapshots() {
  auto p = launchable_rows<snapshots>();
  p.g = p.beta = somewhere<float>();
  p.initial_slot = p.selector = somewhere<int32_t>();
  p.snapshot_slot = {somewhere<int32_t>(), 8};
  return p;
}
replay::params launchable_replay() {
  auto p = launchable_rows<replay>();
  p.g = p.beta = somewhere<float>();
  p.slot = p.ring_start = p.ring_count = p.flush = somewhere<int32_t>();
  p.ring_places = 16;
  p.ring_k = {somewhere<float>(), 16 * 8 * 128};
  p.ring_u = {somewhere<float>(), 16 * 24 * 128};
  p.ring_g = {somewhere<float>(), 16 * 24};
  return p;
}

}  // namespace

TEST_CASE("recurrence: shapes that are refused") {
  auto const good = launchable_snapshots();
  CHECK(snapshots::can_launch(good, host()));
  invalid<snapshots>(good, "ratify::recurrence: rows and requests must not be negative", [](auto& p) { p.rows = -1; });
  invalid<snapshots>(good, "ratify::recurrence: rows and requests must not be negative",
                     [](auto& p) { p.rows = 0, p.requests = -1; });
  invalid<snapshots>(good, "ratify::recurrence: requests must be at least 1 if there are rows",
                     [](auto& p) { p.requests = 0; });
  unsupported<snapshots>(good, "ratify::recurrence: requests must be at most 65535",
                         [](auto& p) { p.requests = 65536; });
  for (int heads : {0, -8})
    invalid<snapshots>(good, "ratify::recurrence: value_heads must be a positive multiple of key_heads",
                       [&](auto& p) { p.key_heads = heads; });
  for (int heads : {0, 25, -24})
    invalid<snapshots>(good, "ratify::recurrence: value_heads must be a positive multiple of key_heads",
                       [&](auto& p) { p.value_heads = heads; });
  unsupported<snapshots>(good, "ratify::recurrence: value_heads must be at most 65535",
                         [](auto& p) { p.value_heads = 65536; });
  invalid<snapshots>(good, "ratify::recurrence: max_rows, the most rows of one request, must be at least 1",
                     [](auto& p) { p.max_rows = 0; });
  unsupported<snapshots>(good,
                         "ratify::recurrence: max_rows must be at most 32; split longer runs into several launches",
                         [](auto& p) { p.max_rows = 33; });
  invalid<snapshots>(good, "ratify::recurrence: pool_slots must not be negative", [](auto& p) { p.pool_slots = -1; });
  invalid<snapshots>(
      good, "ratify::recurrence: pool_slots, the slots that the pool holds, must be at least 1 if there are rows",
      [](auto& p) { p.pool_slots = 0; });
  for (float const scale : {0.0f, -0.0f, INFINITY, -INFINITY, NAN})
    invalid<snapshots>(good, "ratify::recurrence: scale must be finite and not 0", [&](auto& p) { p.scale = scale; });
}

TEST_CASE("recurrence: tensors that are refused, in every mode") {
  auto const good = launchable_snapshots();
  invalid<snapshots>(good, "ratify::recurrence: q must not be null", [](auto& p) { p.q.data = nullptr; });
  invalid<snapshots>(good, "ratify::recurrence: a stride of q is smaller than what it steps over",
                     [](auto& p) { p.q.row_stride = 8 * 128 - 1; });
  invalid<snapshots>(good, "ratify::recurrence: k must not be null", [](auto& p) { p.k.data = nullptr; });
  invalid<snapshots>(good, "ratify::recurrence: a stride of k is smaller than what it steps over",
                     [](auto& p) { p.k.head_stride = 0; });
  invalid<snapshots>(good, "ratify::recurrence: v must not be null", [](auto& p) { p.v.data = nullptr; });
  invalid<snapshots>(good, "ratify::recurrence: a stride of v is smaller than what it steps over",
                     [](auto& p) { p.v.head_stride = 127; });
  invalid<snapshots>(good, "ratify::recurrence: state_pool must not be null", [](auto& p) { p.state_pool = nullptr; });
  invalid<snapshots>(good,
                     "ratify::recurrence: slot_stride must be at least value_heads * key_dim * value_dim elements",
                     [](auto& p) { --p.slot_stride; });
  invalid<snapshots>(good, "ratify::recurrence: query_start must not be null",
                     [](auto& p) { p.query_start = nullptr; });
  invalid<snapshots>(good, "ratify::recurrence: out must not be null", [](auto& p) { p.out.data = nullptr; });
  invalid<snapshots>(good, "ratify::recurrence: a stride of out is smaller than what it steps over", [](auto& p) {
    p.out = {p.out.data, 0, 0};
  });
  invalid<snapshots>(good, "ratify::recurrence: g must not be null", [](auto& p) { p.g = nullptr; });
  invalid<snapshots>(good, "ratify::recurrence: beta must not be null", [](auto& p) { p.beta = nullptr; });
  // What one slot, one row or no row at all does not step over.
  auto few = good;
  few.pool_slots = 1;
  few.slot_stride = 0;
  few.rows = 1;
  few.q.row_stride = few.k.row_stride = few.v.row_stride = few.out.row_stride = 0;
  CHECK(snapshots::can_launch(few, host()));
  auto none = snapshots::params{};
  none.key_heads = none.value_heads = none.max_rows = 1;
  CHECK(snapshots::can_launch(none, host()));
  CHECK(snapshots::launch(none, {}, host()));
}

TEST_CASE("recurrence refuses pointers off their elements, and spans that no memory has") {
  auto good = launchable_snapshots();
  good.requests = 2;
  misaligned<snapshots>(
      good, "ratify::recurrence: q must be aligned to its elements", [](auto& q) -> auto& { return q.q; });
  far_away<snapshots>(
      good, "ratify::recurrence: the strides of q reach over 2^63 bytes", [](auto& q) -> auto& { return q.q; });
  misaligned<snapshots>(
      good, "ratify::recurrence: k must be aligned to its elements", [](auto& q) -> auto& { return q.k; });
  far_away<snapshots>(
      good, "ratify::recurrence: the strides of k reach over 2^63 bytes", [](auto& q) -> auto& { return q.k; });
  misaligned<snapshots>(
      good, "ratify::recurrence: v must be aligned to its elements", [](auto& q) -> auto& { return q.v; });
  far_away<snapshots>(
      good, "ratify::recurrence: the strides of v reach over 2^63 bytes", [](auto& q) -> auto& { return q.v; });
  misaligned<snapshots>(
      good, "ratify::recurrence: state_pool must be aligned to its elements",
      [](auto& q) -> auto& { return q.state_pool; });
  misaligned<snapshots>(
      good, "ratify::recurrence: query_start must be aligned to its elements",
      [](auto& q) -> auto& { return q.query_start; });
  misaligned<snapshots>(
      good, "ratify::recurrence: fresh must be aligned to its elements", [](auto& q) -> auto& { return q.fresh; });
  misaligned<snapshots>(
      good, "ratify::recurrence: out must be aligned to its elements", [](auto& q) -> auto& { return q.out; });
  far_away<snapshots>(
      good, "ratify::recurrence: the strides of out reach over 2^63 bytes", [](auto& q) -> auto& { return q.out; });
  misaligned<snapshots>(
      good, "ratify::recurrence: initial_slot must be aligned to its elements",
      [](auto& q) -> auto& { return q.initial_slot; });
  misaligned<snapshots>(
      good, "ratify::recurrence: selector must be aligned to its elements",
      [](auto& q) -> auto& { return q.selector; });
  misaligned<snapshots>(
      good, "ratify::recurrence: snapshot_slot must be aligned to its elements",
      [](auto& q) -> auto& { return q.snapshot_slot; });
  far_away<snapshots>(
      good, "ratify::recurrence: the strides of snapshot_slot reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.snapshot_slot; });
  misaligned<snapshots>(
      good, "ratify::recurrence: initial_slot must be aligned to its elements",
      [](auto& q) -> auto& { return q.initial_slot; });
  misaligned<snapshots>(
      good, "ratify::recurrence: g must be aligned to its elements", [](auto& q) -> auto& { return q.g; });
  misaligned<snapshots>(
      good, "ratify::recurrence: beta must be aligned to its elements", [](auto& q) -> auto& { return q.beta; });
  invalid<snapshots>(good, "ratify::recurrence: the strides of state_pool reach over 2^63 bytes",
                     [](auto& p) { p.slot_stride = int64_t{1} << 61; });
  auto const ring = launchable_replay();
  misaligned<replay>(
      ring, "ratify::recurrence: slot must be aligned to its elements", [](auto& q) -> auto& { return q.slot; });
  misaligned<replay>(
      ring, "ratify::recurrence: ring_start must be aligned to its elements",
      [](auto& q) -> auto& { return q.ring_start; });
  misaligned<replay>(
      ring, "ratify::recurrence: ring_count must be aligned to its elements",
      [](auto& q) -> auto& { return q.ring_count; });
  misaligned<replay>(
      ring, "ratify::recurrence: flush must be aligned to its elements", [](auto& q) -> auto& { return q.flush; });
  misaligned<replay>(
      ring, "ratify::recurrence: ring_k must be aligned to its elements", [](auto& q) -> auto& { return q.ring_k; });
  far_away<replay>(
      ring, "ratify::recurrence: the strides of ring_k reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.ring_k; });
  misaligned<replay>(
      ring, "ratify::recurrence: ring_u must be aligned to its elements", [](auto& q) -> auto& { return q.ring_u; });
  far_away<replay>(
      ring, "ratify::recurrence: the strides of ring_u reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.ring_u; });
  misaligned<replay>(
      ring, "ratify::recurrence: ring_g must be aligned to its elements", [](auto& q) -> auto& { return q.ring_g; });
  far_away<replay>(
      ring, "ratify::recurrence: the strides of ring_g reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.ring_g; });
}

TEST_CASE("recurrence refuses an output in the place of an input") {
  auto const good = launchable_snapshots();
  char const* const text = "ratify::recurrence: out must not be q, k, v or state_pool";
  invalid<snapshots>(good, text, [](auto& p) { p.q.data = reinterpret_cast<decltype(p.q.data)>(p.out.data); });
  invalid<snapshots>(good, text, [](auto& p) { p.k.data = reinterpret_cast<decltype(p.k.data)>(p.out.data); });
  invalid<snapshots>(good, text, [](auto& p) { p.v.data = reinterpret_cast<decltype(p.v.data)>(p.out.data); });
  invalid<snapshots>(good, text, [](auto& p) { p.out.data = reinterpret_cast<decltype(p.out.data)>(p.state_pool); });
}

TEST_CASE("recurrence: what mode snapshots takes") {
  auto const good = launchable_snapshots();
  for (int sets : {0, 3, -1})
    invalid<snapshots>(good, "ratify::recurrence: snapshot_sets must be 1 or 2",
                       [&](auto& p) { p.snapshot_sets = sets; });
  invalid<snapshots>(good, "ratify::recurrence: initial_slot must not be null",
                     [](auto& p) { p.initial_slot = nullptr; });
  invalid<snapshots>(good, "ratify::recurrence: selector must not be null", [](auto& p) { p.selector = nullptr; });
  invalid<snapshots>(good, "ratify::recurrence: snapshot_slot must not be null",
                     [](auto& p) { p.snapshot_slot.data = nullptr; });
  for (int sets : {1, 2})
    invalid<snapshots>(good, "ratify::recurrence: a stride of snapshot_slot is smaller than what it steps over",
                       [&](auto& p) { p.requests = 2, p.snapshot_sets = sets, p.snapshot_slot.stride = 8 * sets - 1; });
}

TEST_CASE("recurrence: what mode replay takes") {
  auto const good = launchable_replay();
  CHECK(replay::can_launch(good, host()));
  for (int places : {0, -16})
    invalid<replay>(good, "ratify::recurrence: ring_places must be at least 1",
                    [&](auto& p) { p.ring_places = places; });
  for (int places : {8, 15, 48, 128})
    unsupported<replay>(good, "ratify::recurrence: ring_places must be 16, 32 or 64",
                        [&](auto& p) { p.ring_places = places; });
  unsupported<replay>(good,
                      "ratify::recurrence: ring_places must be at least 2 * max_rows; take a longer ring or fewer rows",
                      [](auto& p) { p.max_rows = 9; });
  invalid<replay>(good, "ratify::recurrence: slot must not be null", [](auto& p) { p.slot = nullptr; });
  invalid<replay>(good, "ratify::recurrence: ring_start must not be null", [](auto& p) { p.ring_start = nullptr; });
  invalid<replay>(good, "ratify::recurrence: ring_count must not be null", [](auto& p) { p.ring_count = nullptr; });
  invalid<replay>(good, "ratify::recurrence: flush must not be null", [](auto& p) { p.flush = nullptr; });
  invalid<replay>(good, "ratify::recurrence: ring_k must not be null", [](auto& p) { p.ring_k.data = nullptr; });
  invalid<replay>(good, "ratify::recurrence: ring_u must not be null", [](auto& p) { p.ring_u.data = nullptr; });
  invalid<replay>(good, "ratify::recurrence: ring_g must not be null", [](auto& p) { p.ring_g.data = nullptr; });
  invalid<replay>(good, "ratify::recurrence: a stride of ring_k is smaller than what it steps over",
                  [](auto& p) { --p.ring_k.stride; });
  invalid<replay>(good, "ratify::recurrence: a stride of ring_u is smaller than what it steps over",
                  [](auto& p) { --p.ring_u.stride; });
  invalid<replay>(good, "ratify::recurrence: a stride of ring_g is smaller than what it steps over",
                  [](auto& p) { --p.ring_g.stride; });
}

TEST_CASE("recurrence: what mode read takes") {
  auto good = launchable_rows<reading>();
  good.g = good.beta = somewhere<float>();
  good.initial_slot = somewhere<int32_t>();
  CHECK(reading::can_launch(good, host()));
  invalid<reading>(good, "ratify::recurrence: initial_slot must not be null",
                   [](auto& p) { p.initial_slot = nullptr; });
}

TEST_CASE("recurrence: what fused gating takes") {
  auto good = launchable_rows<fused>();
  good.initial_slot = good.selector = somewhere<int32_t>();
  good.snapshot_slot = {somewhere<int32_t>(), 8};
  good.a = good.b = {somewhere<ratify::f16>(), 24};
  good.a_log = good.dt_bias = somewhere<float>();
  CHECK(fused::can_launch(good, host()));
  invalid<fused>(good, "ratify::recurrence: a must not be null", [](auto& p) { p.a.data = nullptr; });
  invalid<fused>(good, "ratify::recurrence: a stride of a is smaller than what it steps over",
                 [](auto& p) { p.a.stride = 23; });
  invalid<fused>(good, "ratify::recurrence: b must not be null", [](auto& p) { p.b.data = nullptr; });
  invalid<fused>(good, "ratify::recurrence: a stride of b is smaller than what it steps over",
                 [](auto& p) { p.b.stride = 0; });
  invalid<fused>(good, "ratify::recurrence: a_log must not be null", [](auto& p) { p.a_log = nullptr; });
  invalid<fused>(good, "ratify::recurrence: dt_bias must not be null", [](auto& p) { p.dt_bias = nullptr; });
  misaligned<fused>(
      good, "ratify::recurrence: a must be aligned to its elements", [](auto& q) -> auto& { return q.a; });
  far_away<fused>(
      good, "ratify::recurrence: the strides of a reach over 2^63 bytes", [](auto& q) -> auto& { return q.a; });
  misaligned<fused>(
      good, "ratify::recurrence: b must be aligned to its elements", [](auto& q) -> auto& { return q.b; });
  far_away<fused>(
      good, "ratify::recurrence: the strides of b reach over 2^63 bytes", [](auto& q) -> auto& { return q.b; });
  misaligned<fused>(
      good, "ratify::recurrence: a_log must be aligned to its elements", [](auto& q) -> auto& { return q.a_log; });
  misaligned<fused>(
      good, "ratify::recurrence: dt_bias must be aligned to its elements", [](auto& q) -> auto& { return q.dt_bias; });
}

namespace {

/// An executor that is not the host's, as far as `can_launch` asks.
struct another_executor {
  template <class Kernel, class Architectures>
  ratify::status can_run() const {
    return {};
  }
};

}  // namespace

TEST_CASE("recurrence: one thread per column is for the host executor") {
  using alone = ratify::recurrence<ratify::column_threads<1>>;
  auto p = launchable_rows<alone>();
  p.g = p.beta = somewhere<float>();
  p.initial_slot = p.selector = somewhere<int32_t>();
  p.snapshot_slot = {somewhere<int32_t>(), 8};
  CHECK(alone::can_launch(p, host()));
  ratify::status const s = alone::can_launch(p, another_executor{});
  CHECK(s.code() == ratify::status_code::unsupported);
  CHECK(std::string(s.reason()) ==
        "ratify::recurrence: column_threads 1 is for the host executor; on a card take 0, 4 or 8");
}
