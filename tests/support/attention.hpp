// SPDX-License-Identifier: Apache-2.0
/// Attention launches for tests: random cases, and running one on an executor.
#pragma once

#include <ratify/attention.cuh>

#include "compare.hpp"
#include "executors.hpp"
#include "random.hpp"
#include "reference/attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

namespace ratify_test {

/// Attention policies of tests: a head size and a partition width, with further knobs; the decoder is `fp16_shift`,
/// which leaves more to the kernels than the others do.
template <int HeadDim, int Width, class... Knobs>
using shift_policy = ratify::attention_policy<ratify::head_dim<HeadDim>, ratify::partition_width<Width>,
                                              ratify::decoder<ratify::decoder_revision::fp16_shift>, Knobs...>;
/// The one that most tests run.
using verify_policy = shift_policy<256, 1024>;

template <class Policy>
using attention_case_of = reference::attention_case<typename Policy::q_format, typename Policy::kv_format>;

/// n values for a cache: 65521 random ones, again and again. That is a prime, so adjacent tokens and adjacent pages
/// never hold the same.
template <class Format>
std::vector<Format> cache_content(random_source& random, size_t n) {
  size_t const period = 65521;
  auto v = random.normals<Format>(std::min(n, period));
  v.resize(n);
  for (size_t i = period; i < n; ++i) v[i] = v[i - period];
  return v;
}

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
  c.q = random.normals<typename Policy::q_format>(static_cast<size_t>(c.query_start.back()) * q_heads * c.head_dim);
  c.k = cache_content<typename Policy::kv_format>(random, kv);
  c.v = cache_content<typename Policy::kv_format>(random, kv);
  c.k_scale = {random.uniform(0.2f, 2.0f)};
  c.v_scale = {random.uniform(0.2f, 2.0f)};
  return c;
}

/// Random heads, batch, rows, lengths around the edges of partitions and pages, page size, window, scales. Heads are a
/// tensor-parallel shard's or odd ones. Each draw has an amount of work that it stays below: rows * heads * tokens.
template <class Policy>
attention_case_of<Policy> random_attention_case(random_source& random) {
  int const width = Policy::partition_width;
  int const group = random.one_of({1, 2, 3, 6, 6, 7, 16, 24, random.integer(1, 24)});
  int const kv_heads = group > 12 ? 1 : random.one_of({1, 1, 2, 4});
  int const heads = kv_heads * group, requests = random.one_of({1, 1, 2, 3, 5, 8, random.integer(1, 16), 16});
  int64_t work = random.one_of({4000, 20000, 60000}) / (Policy::head_dim / 64);
  std::vector<int> rows, context;
  for (int r = 0; r < requests; ++r) {
    int n = random.one_of({0, 1, 1, 2, 5, 8, 8, 9, random.integer(1, 32), 32});
    n = std::min<int>(n, static_cast<int>(work / heads / 8));
    int const edge = width * random.integer(1, 2) + random.integer(-1, 1);
    int tokens =
        random.one_of({0, 1, 2, n, 15, 16, 17, random.integer(1, 200), edge, edge, random.integer(1, 2 * width)});
    if (n > 0) tokens = std::min(tokens, static_cast<int>(work / (heads * n)));
    work -= int64_t{n} * heads * tokens;
    rows.push_back(n);
    context.push_back(tokens);
  }
  int page_size = random.one_of({1, 3, 16, 64, 784, 1648, 3296});
  int64_t const most_elements = 1 << 22;  // large pages that hold a token each are memory and no case of their own
  if (int64_t{requests + 1} * page_size * kv_heads * Policy::head_dim > most_elements) page_size = 64;
  auto c = attention_case_with<Policy>(random, heads, kv_heads, rows, context, page_size);
  c.window = random.one_of({0, 0, 0, 1, 37, width, random.integer(1, 2 * width)});
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
    s +=
        " " + std::to_string(int64_t{c.query_start[r + 1]} - c.query_start[r]) + "/" + std::to_string(c.context_len[r]);
  return s;
}

/// The case with some of its requests alone; the cache stays as it is.
template <class Case>
Case some_requests(Case const& c, std::vector<int> const& list) {
  Case some = c;
  size_t const row = static_cast<size_t>(c.q_heads) * c.head_dim;
  some.query_start = {0};
  some.context_len.clear();
  some.block_table.clear();
  some.q.clear();
  for (int const request : list) {
    int const begin = c.query_start[request], end = c.query_start[request + 1];
    some.query_start.push_back(some.query_start.back() + end - begin);
    some.context_len.push_back(c.context_len[request]);
    some.block_table.insert(some.block_table.end(), c.block_table.begin() + request * c.max_pages,
                            c.block_table.begin() + (request + 1) * c.max_pages);
    some.q.insert(some.q.end(), c.q.begin() + static_cast<long>(begin * row),
                  c.q.begin() + static_cast<long>(end * row));
  }
  return some;
}

template <class Case>
Case only_request(Case const& c, int request) {
  return some_requests(c, {request});
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

/// A case in an executor's memory, and the params over it.
template <class Policy, class Executor>
class loaded_attention {
 public:
  using op = ratify::operation_with<ratify::attention, Policy>;
  using kv = typename Policy::kv_format;
  using output_format = typename Policy::output_format;

  /// @param max_context capacity handed to the launch; 0 = the longest request
  /// @param aligned_to the most that the cache is aligned to, in bytes: it begins at an odd multiple of this; 0 = as it
  /// comes
  loaded_attention(Executor& on, attention_case_of<Policy> const& c, attention_layout layout = attention_layout::dense,
                   int max_context = 0, size_t aligned_to = 0)
      : on_(on),
        pad_(layout == attention_layout::interleaved ? 24 : 0),
        q_row_(static_cast<size_t>(c.q_heads) * c.head_dim),
        rows_(static_cast<size_t>(c.rows())),
        q_(on, padded(c.q)),
        cache_(on, 2 * c.k.size() + 2 * aligned_to),
        table_(on, c.block_table),
        lengths_(on, c.context_len),
        starts_(on, c.query_start),
        k_scale_(on, c.k_scale),
        v_scale_(on, c.v_scale),
        lse_(on, rows_ * c.q_heads),
        out_(on, rows_ * (q_row_ + pad_)) {
    size_t const d = static_cast<size_t>(c.head_dim), token = static_cast<size_t>(c.kv_heads) * d;
    size_t skip = 0;
    while (aligned_to > 0 && reinterpret_cast<uintptr_t>(cache_.data() + skip) % (2 * aligned_to) != aligned_to) ++skip;
    std::vector<kv> cache(skip, kv{});
    bool const interleaved = layout == attention_layout::interleaved;  // a token's K heads, then its V heads
    if (interleaved)
      for (size_t t = 0; t < c.k.size(); t += token) {
        cache.insert(cache.end(), c.k.begin() + static_cast<long>(t), c.k.begin() + static_cast<long>(t + token));
        cache.insert(cache.end(), c.v.begin() + static_cast<long>(t), c.v.begin() + static_cast<long>(t + token));
      }
    else {
      cache.insert(cache.end(), c.k.begin(), c.k.end());
      cache.insert(cache.end(), c.v.begin(), c.v.end());
    }
    cache_.write(cache);
    int64_t const token_stride = static_cast<int64_t>(interleaved ? 2 * token : token);
    p.q = {q_.data(), static_cast<int64_t>(q_row_ + pad_), static_cast<int64_t>(d)};
    p.k_pages = {cache_.data() + skip, c.page_size * token_stride, token_stride, static_cast<int64_t>(d)};
    p.v_pages = p.k_pages;
    p.v_pages.data = p.k_pages.data + (interleaved ? token : c.k.size());
    p.block_table = {table_.data(), c.max_pages};
    p.context_len = lengths_.data();
    p.query_start = starts_.data();
    p.k_scale = k_scale_.data();
    p.v_scale = v_scale_.data();
    p.out = {out_.data(), static_cast<int64_t>(q_row_ + pad_), static_cast<int64_t>(d)};
    p.lse = lse_.data();
    p.rows = c.rows();
    p.requests = c.requests();
    p.q_heads = c.q_heads;
    p.kv_heads = c.kv_heads;
    p.scale_stride = c.scale_per_head;
    p.page_size = c.page_size;
    p.max_pages = c.max_pages;
    p.pool_pages = c.pool_pages;
    p.max_context =
        max_context > 0 ? max_context : std::max(1, *std::max_element(c.context_len.begin(), c.context_len.end()));
    if (c.rows() > 32) p.max_rows = most_rows(c);
    p.softmax_scale = c.softmax_scale;
    p.window = c.window;
    p.causal = c.causal;
  }

  reference::attention_result run() {
    auto const s = launch<op>(p, on_);
    REQUIRE_MESSAGE(s, s.reason());
    return result();
  }

  /// Other lengths, NaN in outputs, 0xFF bytes in scratch, for `enqueue` to be called or a graph of it to be replayed.
  void prepare(std::vector<int32_t> const& lengths) {
    lengths_.write(lengths);
    size_t const bytes = op::workspace_bytes(p, on_);
    if (!scratch_) scratch_.emplace(on_, bytes);
    scratch_->write(std::vector<unsigned char>(bytes, 0xff));
    out_.write(std::vector<output_format>(rows_ * (q_row_ + pad_), ratify::convert<output_format>(NAN)));
    lse_.write(std::vector<float>(lse_.read().size(), NAN));
  }
  /// After `prepare`: allocates nothing.
  ratify::status enqueue() { return op::launch(p, {scratch_->data(), op::workspace_bytes(p, on_)}, on_); }
  reference::attention_result result() const {
    reference::attention_result r{{}, lse_.read()};
    auto const all = out_.read();
    for (size_t i = 0; i < rows_; ++i)
      for (size_t j = 0; j < q_row_; ++j) r.out.push_back(ratify::to_float(all[i * (q_row_ + pad_) + j]));
    return r;
  }

  typename op::params p;
 private:
  /// Of one request, among those whose bounds do not contradict each other.
  static int most_rows(attention_case_of<Policy> const& c) {
    int most = 1;
    for (size_t r = 1; r < c.query_start.size(); ++r) {
      int64_t const rows = int64_t{c.query_start[r]} - c.query_start[r - 1];
      if (rows <= c.rows()) most = std::max(most, static_cast<int>(rows));
    }
    return most;
  }
  /// NaN between the rows of q.
  std::vector<typename Policy::q_format> padded(std::vector<typename Policy::q_format> const& q) const {
    std::vector<typename Policy::q_format> v(rows_ * (q_row_ + pad_), ratify::convert<typename Policy::q_format>(NAN));
    for (size_t r = 0; r < rows_; ++r)
      std::copy_n(q.begin() + static_cast<long>(r * q_row_), q_row_,
                  v.begin() + static_cast<long>(r * (q_row_ + pad_)));
    return v;
  }

  Executor& on_;
  size_t pad_, q_row_, rows_;
  buffer<typename Policy::q_format, Executor> q_;
  buffer<kv, Executor> cache_;
  buffer<int32_t, Executor> table_, lengths_, starts_;
  buffer<float, Executor> k_scale_, v_scale_, lse_;
  buffer<output_format, Executor> out_;
  std::optional<buffer<unsigned char, Executor>> scratch_;
};

template <class Policy, class Executor>
reference::attention_result run_attention(Executor& on, attention_case_of<Policy> const& c,
                                          attention_layout layout = attention_layout::dense, int max_context = 0) {
  return loaded_attention<Policy, Executor>(on, c, layout, max_context).run();
}

inline void check_equal(reference::attention_result const& got, reference::attention_result const& expected) {
  CHECK(bit_difference(got.out, expected.out) == "");
  CHECK(bit_difference(got.lse, expected.lse) == "");
}

/// What the twin gives, rounded as the policy stores it.
template <class Policy>
reference::attention_result attention_twin(attention_case_of<Policy> const& c) {
  auto expected = reference::attention(c, Policy::partition_width);
  for (float& x : expected.out) x = ratify::to_float(ratify::convert<typename Policy::output_format>(x));
  return expected;
}

/// Runs the case on every executor and compares with the twin, bit for bit.
template <class Policy>
void check_equal_to_twin(attention_case_of<Policy> const& c) {
  auto const expected = attention_twin<Policy>(c);
  on_each_executor([&](auto& on) { check_equal(run_attention<Policy>(on, c), expected); });
}

}  // namespace ratify_test
