// SPDX-License-Identifier: Apache-2.0
/// decode and append: codes to numbers, and new rows into the paged cache.
#include <run/operation.hpp>

#include <ratify/cache.cuh>
#include <ratify/decoder.cuh>

#include <algorithm>
#include <map>

namespace ratify_run {
namespace {

void run_decode(task& t) {
  operand const codes = t.in.tensor("codes", {dtype::u8}, 1);
  (void)codes.extent(0);
  settings decided;  // the other formats have one decoder, which is by definition
  if (t.policy.at("code_format") != "e4m3" && t.policy.at("decoder") == "0") decided["decoder"] = "native";
  with_policy<ratify_examples::decode_policies>(
      t.policy, decided,
      [&](auto chosen) {
        using operation_type = typename decltype(chosen)::template operation<ratify::decode>;
        using output = typename operation_type::policy::output_format;
        t.on.visit([&](auto& on) {
          using executor_type = std::decay_t<decltype(on)>;
          resident<uint8_t, executor_type> const there(on, load_dense<uint8_t>(codes));
          auto const values = room(on, codes.shape, "values", output{});
          typename operation_type::params p;
          p.codes = there.data();
          p.values = values.data();
          p.count = codes.shape[0];
          launch<operation_type>(on, p);
          t.emit("values", codes.shape, values.read(on));
        });
      },
      true);
}

/// No two rows may write one token of a page.
void check_written(paged_cache const& c, rounds const& r) {
  std::map<int64_t, int> written;
  for (int i = 0; i < r.requests(); ++i) {
    int64_t const length = c.context_len[static_cast<size_t>(i)];
    if (r.rows(i) == 0) continue;
    for (int64_t token = std::max<int64_t>(0, length - r.rows(i)); token < length; ++token) {
      int const page = c.page_of(i, token);
      if (!c.is_in_pool(page)) continue;
      auto const [found, is_new] = written.insert({int64_t{page} * c.page_size + token % c.page_size, i});
      if (!is_new)
        throw bad_input("tensor 'block_table': requests " + std::to_string(found->second) + " and " +
                        std::to_string(i) + " both write token " + std::to_string(token % c.page_size) + " of page " +
                        std::to_string(page));
    }
  }
}

void run_append(task& t) {
  operand const k = t.in.tensor("k", wide_formats, 3), v = t.in.tensor("v", wide_formats, k.shape);
  rounds const r = read_rounds(t.in, k.extent(0));
  paged_cache const c = read_cache(t.in, r);
  if (k.extent(1) != c.kv_heads || k.extent(2) != c.head_dim)
    throw bad_input("tensor 'k': shape " + to_string(k.shape) + ", must be [rows, " + std::to_string(c.kv_heads) +
                    ", " + std::to_string(c.head_dim) + "] as 'k_pages'");
  check_written(c, r);

  auto const format = [&](auto of) { return dtype_of<decltype(of)> == c.k_pages.type; };
  settings const extra = {{"kv_format", format(ratify::e4m3{})   ? "e4m3"
                                        : format(ratify::e5m2{}) ? "e5m2"
                                        : format(ratify::f16{})  ? "f16"
                                                                 : "bf16"}};
  with_policy<ratify_examples::append_policies>(t.policy, extra, [&](auto chosen) {
    using operation_type = typename decltype(chosen)::template operation<ratify::append>;
    using kv = typename operation_type::policy::kv_format;
    t.on.visit([&](auto& on) {
      using executor_type = std::decay_t<decltype(on)>;
      resident<float, executor_type> const k_there(on, load<float>(k, 1)), v_there(on, load<float>(v, 1)),
          k_scale(on, c.k_scale), v_scale(on, c.v_scale);
      resident<kv, executor_type> const k_pages(on, load<kv>(c.k_pages, 1)), v_pages(on, load<kv>(c.v_pages, 1));
      resident<int32_t, executor_type> const table(on, c.block_table), lengths(on, c.context_len), starts(on, r.start);

      typename operation_type::params p;
      p.k = k_there.heads();
      p.v = v_there.heads();
      p.k_pages = k_pages.pages_to_write();
      p.v_pages = v_pages.pages_to_write();
      p.block_table = table.rows();
      p.context_len = lengths.data();
      p.query_start = starts.data();
      p.k_scale = k_scale.data();
      p.v_scale = v_scale.data();
      p.scale_stride = c.scale_stride;
      p.rows = k.extent(0);
      p.requests = r.requests();
      p.kv_heads = c.kv_heads;
      p.head_dim = c.head_dim;
      p.page_size = c.page_size;
      p.max_pages = c.max_pages;
      p.pool_pages = c.pages;
      launch<operation_type>(on, p);
      t.emit("k_pages", c.k_pages.shape, k_pages.read(on));
      t.emit("v_pages", c.v_pages.shape, v_pages.read(on));
    });
  });
}

}  // namespace

extern operation const decode, append;
operation const decode{"decode", {"codes"}, {"values"}, {}, run_decode, built<ratify_examples::decode_policies>,
                       {},       false};
operation const append{
    "append",
    {"k", "v", "k_pages", "v_pages", "block_table", "context_len", "query_start", "k_scale", "v_scale"},
    {"k_pages", "v_pages"},
    {},
    run_append,
    built<ratify_examples::append_policies>,
    {"kv_format"},
    false};

}  // namespace ratify_run
