// SPDX-License-Identifier: Apache-2.0
/// Verify attention: batch 1, 8 rows, head dim 256, E4M3 cache in pages of 64, capacities of 262144 tokens.
#include <bench/card.hpp>
#include <bench/harness.hpp>
#include <bench/policies.hpp>
#include <ratify/attention.cuh>

#include <numeric>
#include <random>

namespace bench {
namespace {

using ratify::decoder_revision;
using control = ratify::attention<ratify::decoder<decoder_revision::bit_fields>, ratify::pv_unroll<1>>;
using shift = ratify::attention<ratify::decoder<decoder_revision::fp16_shift>, ratify::pv_unroll<8>>;
using native = ratify::attention<ratify::decoder<decoder_revision::native>, ratify::pv_unroll<8>>;
using wide = ratify::attention<ratify::decoder<decoder_revision::fp16_shift>, ratify::pv_unroll<8>,
                               ratify::partition_width<1024>>;

struct heads {
  int q, kv;
};

/// All operand sets of one case. The pages of all sets lie in one pool.
struct operands {
  static constexpr int rows = 8, head_dim = 256, page_size = 64, capacity = 262144, table = capacity / page_size;

  operands(card const& on, heads h, int tokens)
      : h(h),
        tokens(tokens),
        set_bytes(2.0 * tokens * h.kv * head_dim),
        sets(rotated_sets(on, set_bytes)),
        k(on, pool(), uniform<ratify::e4m3>{-4, 4}),
        v(on, pool(), uniform<ratify::e4m3>{-4, 4}),
        q(on, static_cast<size_t>(sets) * q_elements(), uniform<ratify::f16>{-1, 1}),
        out(static_cast<size_t>(sets) * q_elements()),
        context_len(std::vector<int32_t>{tokens}),
        query_start(std::vector<int32_t>{0, rows}),
        scale(std::vector<float>{0.25f}) {
    // Pages in random order, as an allocator that has run for a while hands them out.
    std::vector<int32_t> order(static_cast<size_t>(sets) * static_cast<size_t>(pages()));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    std::vector<int32_t> rows_of_pages(static_cast<size_t>(sets) * table, 0);
    for (int s = 0; s < sets; ++s)
      std::copy_n(order.begin() + static_cast<int64_t>(s) * pages(), pages(),
                  rows_of_pages.begin() + static_cast<int64_t>(s) * table);
    block_table = buffer<int32_t>(rows_of_pages);
  }

  int pages() const { return tokens / page_size; }
  size_t pool() const { return static_cast<size_t>(sets) * static_cast<size_t>(tokens * h.kv) * head_dim; }
  size_t q_elements() const { return static_cast<size_t>(rows) * static_cast<size_t>(h.q) * head_dim; }

  template <class Operation>
  typename Operation::params params(int set) const {
    int64_t const token = int64_t{h.kv} * head_dim;
    typename Operation::params p{};
    p.q = {q.data() + static_cast<size_t>(set) * q_elements(), int64_t{h.q} * head_dim, head_dim};
    p.k_pages = {k.data(), page_size * token, token, head_dim};
    p.v_pages = {v.data(), page_size * token, token, head_dim};
    p.block_table = {block_table.data() + static_cast<int64_t>(set) * table, table};
    p.context_len = context_len.data();
    p.query_start = query_start.data();
    p.k_scale = p.v_scale = scale.data();
    p.out = {out.data() + static_cast<size_t>(set) * q_elements(), int64_t{h.q} * head_dim, head_dim};
    p.rows = rows;
    p.requests = 1;
    p.q_heads = h.q;
    p.kv_heads = h.kv;
    p.page_size = page_size;
    p.max_pages = table;
    p.pool_pages = int64_t{sets} * pages();
    p.max_context = p.total_context = capacity;
    p.softmax_scale = 1.0f / 16;
    return p;
  }

  heads h;
  int tokens;
  double set_bytes;
  int sets;
  buffer<ratify::e4m3> k, v;
  buffer<ratify::f16> q;
  buffer<float> out;
  buffer<int32_t> context_len, query_start, block_table;
  buffer<float> scale;
};

}  // namespace

void attention(card const& on, options const& settings, report& to) {
  ratify::cuda_executor gpu(on.stream, {settings.programmatic});
  for (heads h : {heads{12, 2}, heads{24, 4}})
    for (int tokens : {1024, 4096, 16384, 65536, 262144}) {
      measurement m;
      m.operation = "attention";
      m.shape = "hq" + std::to_string(h.q) + "/hkv" + std::to_string(h.kv) + " " + std::to_string(tokens) + " tokens";
      if (!settings.wants_shape(m.shape)) continue;
      operands const o(on, h, tokens);
      m.bytes = o.set_bytes + static_cast<double>(o.q_elements()) * (2 + 4);
      m.rotated_bytes = m.bytes * o.sets;
      buffer<unsigned char> scratch(control::workspace_bytes(o.params<control>(0), gpu));
      auto const with = [&](auto operation) {
        using type = decltype(operation);
        check(type::can_launch(o.params<type>(0), gpu));
        return arm{name_of<type>(), [&](int set) {
                     check(type::launch(o.params<type>(set), {scratch.data(), scratch.size()}, gpu));
                   }};
      };
      measure(m, on, {with(control{}), with(shift{}), with(native{}), with(wide{})}, o.sets, settings, to);
    }
}

}  // namespace bench
