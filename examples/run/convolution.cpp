// SPDX-License-Identifier: Apache-2.0
#include <run/operation.hpp>

#include <ratify/convolution.cuh>

#include <algorithm>

namespace ratify_run {
namespace {

void run(task& t) {
  operand const x = t.in.tensor("x", {dtype::f16, dtype::bf16}, 2);
  operand const weight = t.in.tensor("weight", wide_formats, 2);
  int const channels = weight.extent(0), width = weight.extent(1);
  if (channels > x.extent(1))
    throw bad_input("tensor 'x': shape " + to_string(x.shape) + ", must have at least the " + std::to_string(channels) +
                    " channels of 'weight' in a row");
  operand const pool = t.in.tensor("window_pool", {x.type}, 3);
  if (pool.extent(2) != channels)
    throw bad_input("tensor 'window_pool': shape " + to_string(pool.shape) + ", must be [slots, W - 1 + T, " +
                    std::to_string(channels) + "], the channels of 'weight'");
  if (width < 2 || width > 4)
    throw unsupported("tensor 'weight': shape " + to_string(weight.shape) + "; width must be 2, 3 or 4 taps");
  int const most = pool.extent(1) - (width - 1);
  if (most < 0)
    throw bad_input("tensor 'window_pool': shape " + to_string(pool.shape) + ", must hold at least the " +
                    std::to_string(width - 1) + " inputs before a round in a slot");
  bool const has_bias = t.in.has("bias");
  operand const bias = has_bias ? t.in.tensor("bias", weight.type, {channels}) : weight;

  rounds const r = read_rounds(t.in, x.extent(0));
  for (int i = 0; i < r.requests(); ++i)
    if (r.rows(i) > most)
      throw bad_input("tensor 'query_start': request " + std::to_string(i) + " has " + std::to_string(r.rows(i)) +
                      " rows, must have at most T = " + std::to_string(most) + " of 'window_pool'");
  auto const slots = read_per_request(t.in, "slot", r, -1, pool.extent(0) - 1);
  auto kept = load_dense<int32_t>(t.in.tensor("kept", dtype::i32, {r.requests()}));
  slot_ledger used;
  for (int i = 0; i < r.requests(); ++i) {
    auto const at = static_cast<size_t>(i);
    if (r.rows(i) == 0 || slots[at] == -1) continue;
    if (kept[at] < 0 || kept[at] > most) bad_entry("kept", i, kept[at], "0 to T = " + std::to_string(most));
    used.write("slot", i, i, slots[at]);
  }
  auto const fresh = read_fresh(t.in, r, slots, "kept", kept);

  settings const extra = {{"input_format", x.type == dtype::f16 ? "f16" : "bf16"}, {"width", std::to_string(width)}};
  with_policy<ratify_examples::convolution_policies>(t.policy, extra, [&](auto chosen) {
    using operation_type = typename decltype(chosen)::template operation<ratify::convolution>;
    using input_format = typename operation_type::policy::input_format;
    t.on.visit([&](auto& on) {
      using executor_type = std::decay_t<decltype(on)>;
      auto windows = load<input_format>(pool, 2);
      // A launch wants a pool and room for a row, where the file has none for its requests without rows.
      if (windows.values.empty()) windows.values.resize(static_cast<size_t>(width) * static_cast<size_t>(channels));
      resident<input_format, executor_type> const x_there(on, load<input_format>(x, 1)), pool_there(on, windows);
      resident<float, executor_type> const weight_there(on, load_dense<float>(weight)),
          bias_there(on, load_dense<float>(bias));
      resident<int32_t, executor_type> const slot(on, slots), kept_there(on, kept), fresh_there(on, fresh),
          starts(on, r.start);
      shape_type const shape = {x.shape[0], channels};
      auto const out = room(on, shape, "out");

      typename operation_type::params p;
      p.x = x_there.rows();
      p.weight = weight_there.data();
      p.bias = has_bias ? bias_there.data() : nullptr;
      p.window_pool = pool_there.data();
      p.slot_stride = std::max(pool_there.stride(0), int64_t{width} * channels);
      p.slot = slot.data();
      p.kept = kept_there.data();
      p.fresh = t.in.has("fresh") ? fresh_there.data() : nullptr;
      p.query_start = starts.data();
      p.out = {out.data(), channels};
      p.rows = x.extent(0);
      p.requests = r.requests();
      p.channels = channels;
      p.max_rows = std::max(1, most);
      p.pool_slots = std::max<int64_t>(1, pool.shape[0]);
      launch<operation_type>(on, p);
      t.emit_rounded("out", shape, out.read(on));
      t.emit("window_pool", pool.shape, pool_there.read(on));
    });
  });
}

}  // namespace

extern operation const convolution;
operation const convolution{"convolution",
                            {"x", "weight", "bias", "window_pool", "slot", "kept", "query_start", "fresh"},
                            {"out", "window_pool"},
                            {},
                            run,
                            built<ratify_examples::convolution_policies>,
                            {"input_format", "width"}};

}  // namespace ratify_run
