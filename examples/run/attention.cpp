// SPDX-License-Identifier: Apache-2.0
#include <run/operation.hpp>

#include <ratify/attention.cuh>

#include <algorithm>
#include <cmath>

namespace ratify_run {
namespace {

/// A pool with room for page 0, which may be read where the pool has no pages.
template <class Format>
array<Format> load_pool(operand const& pages) {
  auto pool = load<Format>(pages, 1);
  if (pages.shape[0] == 0)
    pool.values.resize(static_cast<size_t>(elements_of({pages.shape.begin() + 1, pages.shape.end()}, pages.name)));
  return pool;
}

void run(task& t) {
  operand const q = t.in.tensor("q", wide_formats, 3);
  rounds const r = read_rounds(t.in, q.extent(0));
  paged_cache c = read_cache(t.in, r);
  // Of a pool without pages, whose size 0 would mean "unknown", no entry names a page.
  if (c.pages == 0) std::fill(c.block_table.values.begin(), c.block_table.values.end(), -1);
  int const q_heads = q.extent(1), head_dim = q.extent(2);
  if (head_dim != c.head_dim)
    throw bad_input("tensor 'k_pages': shape " + to_string(c.k_pages.shape) + ", must have the " +
                    std::to_string(head_dim) + " elements a head of 'q'");
  auto const window = static_cast<int>(t.in.integer("window", 0, 0, INT32_MAX));
  bool const causal = t.in.integer("causal", 1, 0, 1) == 1;
  double const scale = t.in.number("softmax_scale", 1 / std::sqrt(static_cast<double>(head_dim)));

  int64_t longest = 0, total = 0;
  for (int i = 0; i < r.requests(); ++i) {
    int64_t const length = r.rows(i) > 0 ? c.context_len[static_cast<size_t>(i)] : 0;
    longest = std::max(longest, length);
    total += length;
  }

  std::string const kv_format = c.k_pages.type == dtype::f8_e4m3   ? "e4m3"
                                : c.k_pages.type == dtype::f8_e5m2 ? "e5m2"
                                : c.k_pages.type == dtype::f16     ? "f16"
                                                                   : "bf16";
  settings decided = {{"head_dim", std::to_string(head_dim)}, {"kv_format", kv_format}};
  if (kv_format != "e4m3") decided["decoder"] = "native";  // the other formats have one decoder
  with_policy<ratify_examples::attention_policies>(t.policy, decided, [&](auto chosen) {
    using operation_type = typename decltype(chosen)::template operation<ratify::attention>;
    using kv = typename operation_type::policy::kv_format;
    t.on.visit([&](auto& on) {
      using executor_type = std::decay_t<decltype(on)>;
      resident<float, executor_type> const q_there(on, load<float>(q, 1)), k_scale(on, c.k_scale),
          v_scale(on, c.v_scale);
      resident<kv, executor_type> const k(on, load_pool<kv>(c.k_pages)), v(on, load_pool<kv>(c.v_pages));
      resident<int32_t, executor_type> const table(on, c.block_table), lengths(on, c.context_len), starts(on, r.start);
      auto const out = room(on, q.shape, "out");
      auto const lse = room(on, {q.shape[0], q.shape[1]}, "lse");

      typename operation_type::params p;
      p.q = q_there.heads();
      p.k_pages = k.pages();
      p.v_pages = v.pages();
      p.block_table = {table.data(), std::max<int64_t>(1, table.stride(0))};
      p.context_len = lengths.data();
      p.query_start = starts.data();
      p.k_scale = k_scale.data();
      p.v_scale = v_scale.data();
      p.scale_stride = c.scale_stride;
      p.out = {out.data(), int64_t{q_heads} * head_dim, head_dim};
      p.lse = lse.data();
      p.rows = q.extent(0);
      p.requests = r.requests();
      p.max_rows = std::max(1, r.most_rows());
      p.q_heads = q_heads;
      p.kv_heads = c.kv_heads;
      p.page_size = c.page_size;
      p.max_pages = std::max(1, c.max_pages);
      p.pool_pages = c.pages;
      p.max_context = std::max<int64_t>(1, longest);
      p.total_context = total;
      p.softmax_scale = static_cast<float>(scale);
      p.window = window;
      p.causal = causal;
      launch<operation_type>(on, p);
      t.emit_rounded("out", q.shape, out.read(on));
      t.emit("lse", {q.shape[0], q.shape[1]}, lse.read(on));
    });
  });
}

void run_merge(task& t) {
  using operation_type = ratify::merge<>;
  operand const partial = t.in.tensor("out", {dtype::f32}, 4);
  shape_type const shape(partial.shape.begin() + 1, partial.shape.end()), columns(shape.begin(), shape.end() - 1);
  operand const partial_lse = t.in.tensor("lse", dtype::f32, {partial.shape[0], partial.shape[1], partial.shape[2]});
  t.on.visit([&](auto& on) {
    using executor_type = std::decay_t<decltype(on)>;
    resident<float, executor_type> const parts(on, load<float>(partial, 1)), part_lse(on, load<float>(partial_lse, 2));
    auto const out = room(on, shape, "out"), lse = room(on, columns, "lse");
    typename operation_type::params p;
    p.partial_out = parts.pages();
    p.partial_lse = {part_lse.data(), part_lse.stride(0)};
    p.out = {out.data(), shape[1] * shape[2], shape[2]};
    p.lse = lse.data();
    p.parts = partial.extent(0);
    p.rows = partial.extent(1);
    p.q_heads = partial.extent(2);
    p.head_dim = partial.extent(3);
    launch<operation_type>(on, p);
    t.emit_rounded("out", shape, out.read(on));
    t.emit("lse", columns, lse.read(on));
  });
}

}  // namespace

extern operation const attention, merge;
operation const merge{"merge", {"out", "lse"}, {"out", "lse"}, {}, run_merge, built<ratify_examples::merge_policies>};

operation const attention{
    "attention",
    {"q", "k_pages", "v_pages", "block_table", "context_len", "query_start", "k_scale", "v_scale"},
    {"out", "lse"},
    {"softmax_scale", "window", "causal"},
    run,
    built<ratify_examples::attention_policies>,
    {"head_dim", "kv_format"}};

}  // namespace ratify_run
