// SPDX-License-Identifier: Apache-2.0
#include <run/operation.hpp>

#include <ratify/recurrence.cuh>

#include <algorithm>
#include <cmath>

namespace ratify_run {
namespace {

/// q, k and v, wherever they lie: each [rows, heads, dim].
struct operands {
  array<float> memory[3];  ///< q, k, v; or the mixed rows alone
  int64_t offset[3] = {0, 0, 0};
  bool mixed = false;
  int rows = 0, key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
};

operands read_operands(inputs const& in) {
  operands o;
  o.mixed = in.has("mixed");
  if (!o.mixed) {
    if (!in.has("q"))
      throw bad_input("tensor 'mixed': missing, and so is 'q', which with 'k' and 'v' would do instead");
    operand const q = in.tensor("q", wide_formats, 3), k = in.tensor("k", wide_formats, q.shape);
    operand const v = in.tensor("v", wide_formats, 3);
    if (v.shape[0] != q.shape[0])
      throw bad_input("tensor 'v': shape " + to_string(v.shape) + ", must have the " + std::to_string(q.shape[0]) +
                      " rows of 'q'");
    o.rows = q.extent(0), o.key_heads = q.extent(1), o.key_dim = q.extent(2);
    o.value_heads = v.extent(1), o.value_dim = v.extent(2);
    o.memory[0] = load<float>(q, 1), o.memory[1] = load<float>(k, 1), o.memory[2] = load<float>(v, 1);
    return o;
  }
  for (char const* const name : {"q", "k", "v"})
    if (in.has(name)) throw bad_input("tensor " + quote(name) + ": there is 'mixed', which holds it");
  operand const mixed = in.tensor("mixed", wide_formats, 2);
  auto const size = [&](char const* name) { return static_cast<int>(in.integer(name, 1, 1 << 20)); };
  o.rows = mixed.extent(0);
  o.key_heads = size("key_heads"), o.key_dim = size("key_dim");
  o.value_heads = size("value_heads"), o.value_dim = size("value_dim");
  char const* const names[3] = {"q_offset", "k_offset", "v_offset"};
  for (int i = 0; i < 3; ++i) {
    o.offset[i] = in.integer(names[i], 0, mixed.extent(1));
    int64_t const width = i < 2 ? int64_t{o.key_heads} * o.key_dim : int64_t{o.value_heads} * o.value_dim;
    if (o.offset[i] + width > mixed.shape[1])
      throw bad_input("metadata " + quote(names[i]) + ": " + std::to_string(width) + " elements from " +
                      std::to_string(o.offset[i]) + " on do not fit into the " + std::to_string(mixed.shape[1]) +
                      " of a row of 'mixed'");
  }
  o.memory[0] = load<float>(mixed, 1);
  return o;
}

/// What a mode takes of every request that is in the round; what it doesn't take stays empty.
struct selectors {
  std::vector<int32_t> slot, selector, fresh;     ///< slot: `initial_slot`, or `slot` in mode replay
  array<int32_t> snapshot;                        ///< mode snapshots
  int snapshot_sets = 1;                          ///< mode snapshots
  std::vector<int32_t> ring_start, count, flush;  ///< mode replay
  operand ring_k, ring_u, ring_g;                 ///< mode replay
  int places = 0;                                 ///< mode replay: R
  int most_rows = 1;
};

selectors read_snapshots(inputs const& in, rounds const& r, int64_t pool_slots) {
  selectors s;
  std::string const range = "-1 to " + std::to_string(pool_slots - 1) + ", a slot of 'state_pool'";
  s.slot = read_per_request(in, "initial_slot", r, -1, pool_slots - 1);
  operand const snapshot = in.tensor("snapshot_slot", {dtype::i32}, 2);
  if (snapshot.extent(0) != r.requests())
    throw bad_input("tensor 'snapshot_slot': shape " + to_string(snapshot.shape) + ", must be [" +
                    std::to_string(r.requests()) + ", T], a row for each request of query_start");
  s.snapshot_sets = static_cast<int>(in.integer("snapshot_sets", 1, 1, 2));
  int const named = snapshot.extent(1);
  if (named % s.snapshot_sets != 0)
    throw bad_input("tensor 'snapshot_slot': shape " + to_string(snapshot.shape) +
                    ", must have an even number of columns for snapshot_sets 2");
  s.most_rows = named / s.snapshot_sets;
  s.snapshot = load<int32_t>(snapshot, 1);
  s.selector = load_dense<int32_t>(in.tensor("selector", dtype::i32, {r.requests()}));
  s.fresh = read_fresh(in, r, s.slot, "selector", s.selector);
  slot_ledger used;
  for (int i = 0; i < r.requests(); ++i) {
    auto const at = static_cast<size_t>(i);
    if (r.rows(i) > s.most_rows)
      throw bad_input("tensor 'query_start': request " + std::to_string(i) + " has " + std::to_string(r.rows(i)) +
                      " rows, must have at most T = " + std::to_string(s.most_rows) + " of 'snapshot_slot'");
    if (r.rows(i) == 0 || s.slot[at] == -1) continue;
    int32_t const chosen = s.selector[at];
    if (chosen < 0 || chosen > named)
      bad_entry("selector", i, chosen, (s.snapshot_sets == 1 ? "0 to T = " : "0 to 2 T = ") + std::to_string(named));
    int32_t const* const row = s.snapshot.values.data() + i * s.snapshot.strides[0];
    // Of two sets of slots, the one that the selector does not name is written.
    int const first = s.snapshot_sets == 2 && chosen >= 1 && chosen <= s.most_rows ? s.most_rows : 0;
    for (int j = 0; j < named; ++j) {
      int64_t const entry = int64_t{i} * named + j;
      if (row[j] < -1 || row[j] >= pool_slots) bad_entry("snapshot_slot", entry, row[j], range);
      if (row[j] >= 0 && j >= first && j < first + s.most_rows) used.write("snapshot_slot", entry, i, row[j]);
    }
    if (!s.fresh.empty() && s.fresh[at] == 1) continue;
    if (chosen == 0) {
      used.read("initial_slot", i, i, s.slot[at]);
    } else if (row[chosen - 1] < 0) {
      bad_entry("snapshot_slot", int64_t{i} * named + chosen - 1, row[chosen - 1],
                "a slot, because the selector of request " + std::to_string(i) + " starts from it");
    } else {
      used.read("snapshot_slot", int64_t{i} * named + chosen - 1, i, row[chosen - 1]);
    }
  }
  used.check();
  return s;
}

selectors read_replay(inputs const& in, rounds const& r, int64_t pool_slots, operands const& o) {
  selectors s;
  s.slot = read_per_request(in, "slot", r, -1, pool_slots - 1);
  s.ring_k = in.tensor("ring_k", {dtype::f32}, 4);
  s.places = s.ring_k.extent(1);
  if (s.places == 0)
    throw bad_input("tensor 'ring_k': shape " + to_string(s.ring_k.shape) +
                    ", must have places for kept rows in a slot");
  shape_type const k = {pool_slots, s.places, o.key_heads, o.key_dim};
  if (s.ring_k.shape != k)
    throw bad_input("tensor 'ring_k': shape " + to_string(s.ring_k.shape) + ", must be " + to_string(k) +
                    ", for the slots of 'state_pool' and the keys of the rows");
  s.ring_u = in.tensor("ring_u", dtype::f32, {pool_slots, s.places, o.value_heads, o.value_dim});
  s.ring_g = in.tensor("ring_g", dtype::f32, {pool_slots, s.places, o.value_heads});
  s.ring_start = load_dense<int32_t>(in.tensor("ring_start", dtype::i32, {r.requests()}));
  s.count = load_dense<int32_t>(in.tensor("ring_count", dtype::i32, {r.requests()}));
  s.flush = load_dense<int32_t>(in.tensor("flush", dtype::i32, {r.requests()}));
  s.fresh = read_fresh(in, r, s.slot, "ring_count", s.count);
  s.most_rows = std::max(r.most_rows(), 1);
  slot_ledger used;
  for (int i = 0; i < r.requests(); ++i) {
    auto const at = static_cast<size_t>(i);
    if (r.rows(i) == 0 || s.slot[at] == -1) continue;
    // A ring too short for the rows is refused by can_launch, whatever is in it.
    if (s.places >= 2 * s.most_rows) {
      if (s.ring_start[at] < 0 || s.ring_start[at] >= s.places)
        bad_entry("ring_start", i, s.ring_start[at], "0 to R - 1 = " + std::to_string(s.places - 1));
      int const room = s.places - r.rows(i);
      if (s.count[at] < 0 || s.count[at] > room)
        bad_entry("ring_count", i, s.count[at],
                  "0 to " + std::to_string(room) + ", which leaves room for the request's " +
                      std::to_string(r.rows(i)) + " rows");
    }
    if (s.flush[at] != 0 && s.flush[at] != 1) bad_entry("flush", i, s.flush[at], "0 or 1");
    used.write("slot", i, i, s.slot[at]);
  }
  used.check();
  return s;
}

selectors read_read(inputs const& in, rounds const& r, int64_t pool_slots) {
  selectors s;
  s.slot = read_per_request(in, "initial_slot", r, -1, pool_slots - 1);
  s.fresh = read_fresh(in, r, s.slot, "fresh", std::vector<int32_t>(s.slot.size()));
  s.most_rows = std::max(r.most_rows(), 1);
  return s;
}

/// A pool, with room for one slot where it has none: a launch wants a pool, of which retired requests use nothing.
array<float> load_pool(operand const& pool, size_t dense) {
  auto loaded = load<float>(pool, dense);
  if (pool.shape[0] == 0) {
    shape_type const slot(pool.shape.begin() + 1, pool.shape.end());
    loaded.values.resize(static_cast<size_t>(std::max<int64_t>(1, elements_of(slot, pool.name))));
  }
  return loaded;
}

/// A tensor with slots outermost, dense inside a slot.
template <class Executor>
ratify::rows_view<float> by_slot(resident<float, Executor> const& r) {
  return {r.data(), r.stride(0)};
}

void run(task& t) {
  operands const o = read_operands(t.in);
  rounds const r = read_rounds(t.in, o.rows);
  operand const g = t.in.tensor("g", dtype::f32, {o.rows, o.value_heads});
  operand const beta = t.in.tensor("beta", dtype::f32, {o.rows, o.value_heads});
  bool const vk = t.policy.at("state_layout") == "vk";
  operand const pool = t.in.tensor("state_pool", {dtype::f32}, 4);
  shape_type const state = {pool.extent(0), o.value_heads, vk ? o.value_dim : o.key_dim, vk ? o.key_dim : o.value_dim};
  if (pool.shape != state)
    throw bad_input("tensor 'state_pool': shape " + to_string(pool.shape) + ", must be " + to_string(state) +
                    " with state_layout=" + t.policy.at("state_layout"));
  std::string const mode = t.policy.at("mode");
  selectors const s = mode == "snapshots" ? read_snapshots(t.in, r, pool.shape[0])
                      : mode == "replay"  ? read_replay(t.in, r, pool.shape[0], o)
                                          : read_read(t.in, r, pool.shape[0]);
  double const scale = t.in.number("scale", 1 / std::sqrt(static_cast<double>(o.key_dim)));
  settings const extra = {{"key_dim", std::to_string(o.key_dim)},
                          {"value_dim", std::to_string(o.value_dim)},
                          {"l2norm", std::to_string(t.in.integer("l2norm", 0, 0, 1))}};

  with_policy<ratify_examples::recurrence_policies>(t.policy, extra, [&](auto chosen) {
    using operation_type = typename decltype(chosen)::template operation<ratify::recurrence>;
    using policy = typename operation_type::policy;
    t.on.visit([&](auto& on) {
      using executor_type = std::decay_t<decltype(on)>;
      resident<float, executor_type> const first(on, o.memory[0]), second(on, o.memory[1]), third(on, o.memory[2]),
          g_there(on, load_dense<float>(g)), beta_there(on, load_dense<float>(beta)), states(on, load_pool(pool, 3));
      resident<int32_t, executor_type> const slot(on, s.slot), fresh(on, s.fresh), starts(on, r.start);
      shape_type const shape = {o.rows, o.value_heads, o.value_dim};
      auto const out = room(on, shape, "out");

      typename operation_type::params p;
      if (o.mixed) {
        p.q = {first.data() + o.offset[0], first.stride(0), o.key_dim};
        p.k = {first.data() + o.offset[1], first.stride(0), o.key_dim};
        p.v = {first.data() + o.offset[2], first.stride(0), o.value_dim};
      } else {
        p.q = first.heads();
        p.k = second.heads();
        p.v = third.heads();
      }
      p.g = g_there.data();
      p.beta = beta_there.data();
      p.state_pool = states.data();
      p.slot_stride = states.stride(0);
      p.query_start = starts.data();
      p.fresh = t.in.has("fresh") ? fresh.data() : nullptr;
      p.out = {out.data(), int64_t{o.value_heads} * o.value_dim, o.value_dim};
      p.rows = o.rows;
      p.requests = r.requests();
      p.key_heads = o.key_heads;
      p.value_heads = o.value_heads;
      p.max_rows = std::max(1, s.most_rows);
      p.scale = static_cast<float>(scale);
      p.pool_slots = std::max<int64_t>(1, pool.shape[0]);
      auto const finish = [&] {
        launch<operation_type>(on, p);
        t.emit_rounded("out", shape, out.read(on));
        t.emit("state_pool", pool.shape, states.read(on));
      };
      if constexpr (policy::mode == ratify::recurrence_mode::snapshots) {
        resident<int32_t, executor_type> const selector(on, s.selector), snapshot(on, s.snapshot);
        p.initial_slot = slot.data();
        p.selector = selector.data();
        p.snapshot_slot = snapshot.rows();
        p.snapshot_sets = s.snapshot_sets;
        finish();
      } else if constexpr (policy::mode == ratify::recurrence_mode::replay) {
        resident<int32_t, executor_type> const ring_start(on, s.ring_start), count(on, s.count), flush(on, s.flush);
        resident<float, executor_type> const k(on, load_pool(s.ring_k, 3)), u(on, load_pool(s.ring_u, 3)),
            rate(on, load_pool(s.ring_g, 2));
        p.slot = slot.data();
        p.ring_start = ring_start.data();
        p.ring_count = count.data();
        p.flush = flush.data();
        p.ring_places = s.places;
        p.ring_k = by_slot(k);
        p.ring_u = by_slot(u);
        p.ring_g = by_slot(rate);
        finish();
        t.emit("ring_k", s.ring_k.shape, k.read(on));
        t.emit("ring_u", s.ring_u.shape, u.read(on));
        t.emit("ring_g", s.ring_g.shape, rate.read(on));
      } else {
        p.initial_slot = slot.data();
        finish();
      }
    });
  });
}

/// Each mode has selectors of its own.
std::set<std::string> idle(settings const& policy) {
  std::string const& mode = policy.at("mode");
  std::set<std::string> names;
  if (mode != "snapshots") names.insert({"snapshot_slot", "selector"});
  if (mode != "replay") names.insert({"slot", "ring_k", "ring_u", "ring_g", "ring_start", "ring_count", "flush"});
  if (mode == "replay") names.insert("initial_slot");
  return names;
}

}  // namespace

extern operation const recurrence;
operation const recurrence{
    "recurrence",
    {"q", "k", "v", "mixed", "g", "beta", "state_pool", "query_start", "fresh", "initial_slot", "snapshot_slot",
     "selector", "slot", "ring_k", "ring_u", "ring_g", "ring_start", "ring_count", "flush"},
    {"out", "state_pool", "ring_k", "ring_u", "ring_g"},
    {"scale", "l2norm", "q_offset", "k_offset", "v_offset", "key_heads", "key_dim", "value_heads", "value_dim",
     "snapshot_sets"},
    run,
    built<ratify_examples::recurrence_policies>,
    {"key_dim", "value_dim", "l2norm"},
    true,
    idle};

}  // namespace ratify_run
