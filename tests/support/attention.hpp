// SPDX-License-Identifier: Apache-2.0
/// Attention launches for tests: random cases, and running one on an executor.
#pragma once

#include <ratify/attention.cuh>

#include "executors.hpp"
#include "random.hpp"
#include "reference/attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace ratify_test {

template <class Policy>
using attention_case_of = reference::attention_case<typename Policy::q_format, typename Policy::kv_format>;

/// A case of given heads, rows and lengths per request, random content, pages in random order, and a page more than
/// needed.
template <class Policy>
attention_case_of<Policy> attention_case_with(random_source& random, int q_heads, int kv_heads, std::vector<int> rows,
                                              std::vector<int> context, int page_size) {
  attention_case_of<Policy> c;
  c.head_dim = Policy::head_dim;
  c.q_heads = q_heads;
  c.kv_heads = kv_heads;
  c.page_size = page_size;
  c.softmax_scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
  c.query_start = {0};
  for (int n : rows) c.query_start.push_back(c.query_start.back() + n);
  c.context_len.assign(context.begin(), context.end());
  c.max_pages = 1;
  int pages = 1;
  for (int n : context) {
    c.max_pages = std::max(c.max_pages, (n + page_size - 1) / page_size);
    pages += (n + page_size - 1) / page_size;
  }
  std::vector<int> order(static_cast<size_t>(pages));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<size_t>(random.integer(0, static_cast<int>(i) - 1))]);
  c.block_table.assign(context.size() * static_cast<size_t>(c.max_pages), 1 << 30);  // unlisted entries are no pages
  size_t next = 0;
  for (size_t r = 0; r < context.size(); ++r)
    for (int i = 0; i < (context[r] + page_size - 1) / page_size; ++i)
      c.block_table[r * static_cast<size_t>(c.max_pages) + i] = order[next++];
  size_t const kv = static_cast<size_t>(pages) * page_size * kv_heads * c.head_dim;
  c.q = random.normals<typename Policy::q_format>(static_cast<size_t>(c.rows()) * q_heads * c.head_dim);
  c.k = random.normals<typename Policy::kv_format>(kv);
  c.v = random.normals<typename Policy::kv_format>(kv);
  c.k_scale = {random.uniform(0.2f, 2.0f)};
  c.v_scale = {random.uniform(0.2f, 2.0f)};
  return c;
}

/// Random heads, batch, lengths around the edges of partitions and pages, window, scales.
template <class Policy>
attention_case_of<Policy> random_attention_case(random_source& random) {
  int const width = Policy::partition_width;
  int const kv_heads = random.one_of({1, 1, 2, 4}), group = random.one_of({1, 2, 3, 6});
  int const requests = random.integer(1, 3);
  std::vector<int> rows, context;
  for (int r = 0; r < requests; ++r) {
    rows.push_back(random.one_of({0, 1, 1, 2, 5, 8, 8, 9}));
    context.push_back(
        random.one_of({0, 1, 2, 15, 16, 17, random.integer(1, 200), std::min(width, 300) - 1, std::min(width, 300),
                       std::min(width, 300) + 1, random.integer(1, std::min(2 * width, 1400))}));
  }
  auto c = attention_case_with<Policy>(random, kv_heads * group, kv_heads, rows, context,
                                       random.one_of({1, 3, 16, 64, 1648}));
  c.window = random.one_of({0, 0, 0, 1, 37, 200});
  c.causal = random.integer(0, 4) > 0;
  if (random.integer(0, 2) == 0) {
    c.scale_per_head = true;
    c.k_scale = random.uniforms<float>(static_cast<size_t>(kv_heads), 0.2f, 2.0f);
    c.v_scale = random.uniforms<float>(static_cast<size_t>(kv_heads), 0.2f, 2.0f);
  }
  return c;
}

template <class Case>
std::string describe(Case const& c) {
  std::string s = "heads " + std::to_string(c.q_heads) + "/" + std::to_string(c.kv_heads) + " page " +
                  std::to_string(c.page_size) + " window " + std::to_string(c.window) +
                  (c.causal ? "" : " not causal") + ", rows/context";
  for (int r = 0; r < c.requests(); ++r)
    s += " " + std::to_string(c.query_start[r + 1] - c.query_start[r]) + "/" + std::to_string(c.context_len[r]);
  return s;
}

/// The case with one of its requests alone; the cache stays as it is.
template <class Case>
Case only_request(Case const& c, int request) {
  Case one = c;
  int const begin = c.query_start[request], end = c.query_start[request + 1];
  size_t const row = static_cast<size_t>(c.q_heads) * c.head_dim;
  one.query_start = {0, end - begin};
  one.context_len = {c.context_len[request]};
  one.block_table.assign(c.block_table.begin() + request * c.max_pages,
                         c.block_table.begin() + (request + 1) * c.max_pages);
  one.q.assign(c.q.begin() + static_cast<long>(begin * row), c.q.begin() + static_cast<long>(end * row));
  return one;
}

/// The same content of a one-request case in pages of another size, in order.
template <class Case>
Case with_page_size(Case const& c, int page_size) {
  Case out = c;
  out.page_size = page_size;
  out.max_pages = (c.context_len[0] + page_size - 1) / page_size;
  out.block_table.resize(static_cast<size_t>(out.max_pages));
  std::iota(out.block_table.begin(), out.block_table.end(), 0);
  size_t const token = static_cast<size_t>(c.kv_heads) * c.head_dim;
  out.k.assign(static_cast<size_t>(out.max_pages) * page_size * token, {});
  out.v = out.k;
  for (int t = 0; t < c.context_len[0]; ++t) {
    std::copy_n(c.k.begin() + static_cast<long>(c.kv_at(0, t, 0)), token,
                out.k.begin() + static_cast<long>(out.kv_at(0, t, 0)));
    std::copy_n(c.v.begin() + static_cast<long>(c.kv_at(0, t, 0)), token,
                out.v.begin() + static_cast<long>(out.kv_at(0, t, 0)));
  }
  return out;
}

enum class attention_layout { dense, interleaved };

/// @param max_context capacity handed to the launch; 0 = the longest request
template <class Policy, class Executor>
reference::attention_result run_attention(Executor& on, attention_case_of<Policy> const& c,
                                          attention_layout layout = attention_layout::dense, int max_context = 0) {
  using op = ratify::attention<Policy>;
  using kv = typename Policy::kv_format;
  size_t const d = static_cast<size_t>(c.head_dim), token = static_cast<size_t>(c.kv_heads) * d;
  size_t const pad = layout == attention_layout::interleaved ? 24 : 0;  // between rows of q and out
  size_t const q_row = c.q_heads * d, rows = static_cast<size_t>(c.rows());

  std::vector<typename Policy::q_format> q(rows * (q_row + pad), ratify::convert<typename Policy::q_format>(NAN));
  for (size_t r = 0; r < rows; ++r)
    std::copy_n(c.q.begin() + static_cast<long>(r * q_row), q_row, q.begin() + static_cast<long>(r * (q_row + pad)));
  buffer<typename Policy::q_format, Executor> dq(on, q);

  // Interleaved: a token's K heads, then its V heads.
  std::vector<kv> cache = c.k;
  if (layout == attention_layout::interleaved) {
    cache.resize(2 * c.k.size());
    for (size_t t = 0; t < c.k.size() / token; ++t) {
      std::copy_n(c.k.begin() + static_cast<long>(t * token), token, cache.begin() + static_cast<long>(2 * t * token));
      std::copy_n(c.v.begin() + static_cast<long>(t * token), token,
                  cache.begin() + static_cast<long>((2 * t + 1) * token));
    }
  } else {
    cache.insert(cache.end(), c.v.begin(), c.v.end());
  }
  buffer<kv, Executor> dcache(on, cache);
  buffer<int32_t, Executor> table(on, c.block_table), lengths(on, c.context_len), starts(on, c.query_start);
  buffer<float, Executor> k_scale(on, c.k_scale), v_scale(on, c.v_scale), lse(on, rows * c.q_heads);
  buffer<float, Executor> out(on, rows * (q_row + pad));

  typename op::params p;
  int64_t const token_stride = static_cast<int64_t>(layout == attention_layout::interleaved ? 2 * token : token);
  p.q = {dq.data(), static_cast<int64_t>(q_row + pad), static_cast<int64_t>(d)};
  p.k_pages = {dcache.data(), c.page_size * token_stride, token_stride, static_cast<int64_t>(d)};
  p.v_pages = p.k_pages;
  p.v_pages.data = dcache.data() + (layout == attention_layout::interleaved ? token : c.k.size());
  p.block_table = {table.data(), c.max_pages};
  p.context_len = lengths.data();
  p.query_start = starts.data();
  p.k_scale = k_scale.data();
  p.v_scale = v_scale.data();
  p.out = {out.data(), static_cast<int64_t>(q_row + pad), static_cast<int64_t>(d)};
  p.lse = lse.data();
  p.rows = c.rows();
  p.requests = c.requests();
  p.q_heads = c.q_heads;
  p.kv_heads = c.kv_heads;
  p.scale_stride = c.scale_per_head;
  p.page_size = c.page_size;
  p.max_pages = c.max_pages;
  p.max_context = max_context > 0 ? max_context : *std::max_element(c.context_len.begin(), c.context_len.end());
  p.softmax_scale = c.softmax_scale;
  p.window = c.window;
  p.causal = c.causal;
  auto const s = launch<op>(p, on);
  REQUIRE_MESSAGE(s, s.reason());

  reference::attention_result r{{}, lse.read()};
  auto const padded = out.read();
  for (size_t i = 0; i < rows; ++i)
    r.out.insert(r.out.end(), padded.begin() + static_cast<long>(i * (q_row + pad)),
                 padded.begin() + static_cast<long>(i * (q_row + pad) + q_row));
  return r;
}

}  // namespace ratify_test
