// SPDX-License-Identifier: Apache-2.0
/// The gated delta rule: batch 1, keys and values of 128, FP32 state, at the heads of TP 2 and TP 1.
#include <bench/card.hpp>
#include <bench/harness.hpp>
#include <bench/policies.hpp>
#include <ratify/recurrence.cuh>

namespace bench {
namespace {

using ratify::recurrence_mode;

struct heads {
  int key, value;
};

/// All operand sets of one case. A set has slots of its own: one for the state that it starts from, and one per row.
struct operands {
  static constexpr int dim = 128, capacity = 8, ring_places = 16, kept = 8;

  operands(card const& on, heads h, int rows, recurrence_mode mode)
      : h(h),
        rows(rows),
        slots(mode == recurrence_mode::snapshots ? 1 + rows : 1),
        state_bytes(4.0 * h.value * dim * dim),
        sets(rotated_sets(on, state_bytes * slots)),
        states(on, count(slots) * state_elements(), uniform<float>{-0.1f, 0.1f}),
        mixed(on, count(rows) * static_cast<size_t>(channels()), uniform<ratify::f16>{-1, 1}),
        g(on, count(rows * h.value), uniform<float>{-0.5f, -0.01f}),
        beta(on, count(rows * h.value), uniform<float>{0.1f, 0.9f}),
        out(count(rows * h.value) * dim),
        starts(std::vector<int32_t>{0, rows}),
        zero(std::vector<int32_t>(static_cast<size_t>(sets), 0)),
        one(std::vector<int32_t>{1}),
        ring_count(std::vector<int32_t>{kept}) {
    std::vector<int32_t> first, after;
    for (int s = 0; s < sets; ++s) {
      first.push_back(s * slots);
      for (int t = 0; t < capacity; ++t) after.push_back(t + 1 < slots ? s * slots + t + 1 : -1);
    }
    initial = buffer<int32_t>(first);
    snapshots = buffer<int32_t>(after);
    if (mode == recurrence_mode::replay) {
      ring_k = buffer<float>(on, count(ring_places * h.key) * dim, uniform<float>{-0.1f, 0.1f});
      ring_u = buffer<float>(on, count(ring_places * h.value) * dim, uniform<float>{-0.5f, 0.5f});
      ring_g = buffer<float>(on, count(ring_places * h.value), uniform<float>{-0.5f, -0.01f});
    }
  }

  size_t count(int each) const { return static_cast<size_t>(sets) * static_cast<size_t>(each); }
  size_t state_elements() const { return static_cast<size_t>(h.value) * dim * dim; }
  int channels() const { return (2 * h.key + h.value) * dim; }
  double bytes(recurrence_mode mode) const {
    double const rows_bytes = rows * (2.0 * channels() + 8.0 * h.value + 2.0 * h.value * dim);
    if (mode == recurrence_mode::read) return rows_bytes + state_bytes;
    if (mode == recurrence_mode::snapshots) return rows_bytes + state_bytes * (1 + rows);
    return rows_bytes + 2 * state_bytes + (kept + rows) * 4.0 * ((h.key + h.value) * dim + h.value);
  }

  template <class Operation>
  typename Operation::params params(int set) const {
    constexpr recurrence_mode mode = Operation::policy::mode;
    size_t const s = static_cast<size_t>(set), all_rows = static_cast<size_t>(rows);
    int64_t const c = channels();
    ratify::f16 const* const row = mixed.data() + s * all_rows * static_cast<size_t>(c);
    typename Operation::params p{};
    p.q = {row, c, dim};
    p.k = {row + h.key * dim, c, dim};
    p.v = {row + 2 * h.key * dim, c, dim};
    p.g = g.data() + s * all_rows * static_cast<size_t>(h.value);
    p.beta = beta.data() + s * all_rows * static_cast<size_t>(h.value);
    p.state_pool = states.data();
    p.slot_stride = static_cast<int64_t>(state_elements());
    p.pool_slots = int64_t{sets} * slots;
    p.query_start = starts.data();
    if constexpr (mode == recurrence_mode::replay) {
      p.slot = initial.data() + set;
      p.ring_start = zero.data();
      p.ring_count = ring_count.data();
      p.flush = one.data();
      p.ring_k = {ring_k.data(), int64_t{ring_places} * h.key * dim};
      p.ring_u = {ring_u.data(), int64_t{ring_places} * h.value * dim};
      p.ring_g = {ring_g.data(), int64_t{ring_places} * h.value};
      p.ring_places = ring_places;
    } else {
      p.initial_slot = initial.data() + set;
    }
    if constexpr (mode == recurrence_mode::snapshots) {
      p.selector = zero.data();
      p.snapshot_slot = {snapshots.data() + set * capacity, capacity};
    }
    p.out = {out.data() + s * all_rows * static_cast<size_t>(h.value) * dim, int64_t{h.value} * dim, dim};
    p.rows = rows;
    p.requests = 1;
    p.key_heads = h.key;
    p.value_heads = h.value;
    p.max_rows = capacity;
    p.scale = 0.088388346f;
    return p;
  }

  heads h;
  int rows, slots;
  double state_bytes;
  int sets;
  buffer<float> states;
  buffer<ratify::f16> mixed;
  buffer<float> g, beta;
  buffer<ratify::f16> out;
  buffer<int32_t> starts, zero, one, ring_count, initial, snapshots;
  buffer<float> ring_k, ring_u, ring_g;
};

template <recurrence_mode Mode, int ValueBlock>
using variant = ratify::recurrence<ratify::mode<Mode>, ratify::value_block<ValueBlock>>;

template <recurrence_mode Mode>
void one_case(card const& on, options const& settings, report& to, heads h, int rows, char const* what) {
  measurement m;
  m.operation = "recurrence";
  m.shape = "H" + std::to_string(h.key) + "/HV" + std::to_string(h.value) + " " + what;
  if (!settings.wants_shape(m.shape)) return;
  ratify::cuda_executor gpu(on.stream, {settings.programmatic});
  operands const o(on, h, rows, Mode);
  m.bytes = o.bytes(Mode);
  m.rotated_bytes = m.bytes * o.sets;
  auto const with = [&](auto operation) {
    using type = decltype(operation);
    check(type::can_launch(o.params<type>(0), gpu));
    return arm{name_of<type>(), [&](int set) { check(type::launch(o.params<type>(set), {}, gpu)); }};
  };
  measure(m, on, {with(variant<Mode, 8>{}), with(variant<Mode, 2>{}), with(variant<Mode, 16>{})}, o.sets, settings, to);
}

}  // namespace

void recurrence(card const& on, options const& settings, report& to) {
  for (heads h : {heads{8, 24}, heads{16, 48}}) {
    one_case<recurrence_mode::snapshots>(on, settings, to, h, 8, "8 snapshots");
    one_case<recurrence_mode::read>(on, settings, to, h, 8, "read");
    one_case<recurrence_mode::replay>(on, settings, to, h, 8, "replay of 8, flush");
    one_case<recurrence_mode::snapshots>(on, settings, to, h, 1, "one token");
  }
}

}  // namespace bench
