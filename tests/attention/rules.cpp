// SPDX-License-Identifier: Apache-2.0
#include <ratify/attention.cuh>

#include "support/refusal.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace ratify_test;

namespace {

using op = ratify::attention<>;
constexpr int d = op::policy::head_dim;

/// A launch of two requests that nothing refuses: every tensor has room for 2 of each extent.
template <class Operation = op>
typename Operation::params good_params() {
  struct tensors {
    ratify::f16 q[2 * 4 * d];
    alignas(16) typename Operation::policy::kv_format k[2 * 16 * 2 * d], v[2 * 16 * 2 * d];
    int32_t table[2 * 2], lengths[2], starts[3];
    float scales[2], out[2 * 4 * d], lse[2 * 4];
  };
  static tensors t{};
  typename Operation::params p;
  p.q = {t.q, 4 * d, d};
  p.k_pages = {t.k, 16 * 2 * d, 2 * d, d};
  p.v_pages = {t.v, 16 * 2 * d, 2 * d, d};
  p.block_table = {t.table, 2};
  p.context_len = t.lengths;
  p.query_start = t.starts;
  p.k_scale = p.v_scale = t.scales;
  p.out = {t.out, 4 * d, d};
  p.lse = t.lse;
  p.rows = p.requests = p.kv_heads = 2;
  p.q_heads = 4;
  p.page_size = 16;
  p.max_pages = 2;
  p.pool_pages = 2;
  p.max_context = 32;
  p.softmax_scale = 0.0625f;
  return p;
}

}  // namespace

TEST_CASE("attention: what the launch rules accept") {
  auto p = good_params();
  CHECK(op::can_launch(p, host()));
  p.lse = nullptr;
  p.pool_pages = 0;
  p.max_rows = 32;
  p.window = INT32_MAX;
  p.total_context = 40;
  CHECK(op::can_launch(p, host()));
  p.q = {p.q.data, d, 2 * d};  // rows inside heads
  CHECK(op::can_launch(p, host()));
  p = good_params();
  p.pool_pages = 1;  // whose stride nothing is read by
  p.k_pages.page_stride = 0;
  CHECK(op::can_launch(p, host()));
  auto const s = op::launch(good_params(), {}, host());
  CHECK(s.code() == ratify::status_code::workspace_too_small);
  // Nothing to do: no tensor is looked at.
  op::params none;
  none.q_heads = none.kv_heads = none.page_size = 1;
  CHECK(op::can_launch(none, host()));
  CHECK(op::workspace_bytes(none, host()) == 0);
  CHECK(op::launch(none, {}, host()));
}

TEST_CASE("attention refuses contradicting shapes by name") {
  auto const p = good_params();
  for (int const field : {0, 1})
    invalid<op>(p, "ratify::attention: rows and requests must not be negative",
                [&](auto& p) { (field == 0 ? p.rows : p.requests) = -1; });
  invalid<op>(p, "ratify::attention: requests must be at least 1 if there are rows", [](auto& p) { p.requests = 0; });
  invalid<op>(p, "ratify::attention: max_rows must not be negative", [](auto& p) { p.max_rows = -1; });
  for (int const heads : {0, -4}) {
    invalid<op>(p, "ratify::attention: q_heads and kv_heads must be at least 1", [&](auto& p) { p.q_heads = heads; });
    invalid<op>(p, "ratify::attention: q_heads and kv_heads must be at least 1", [&](auto& p) { p.kv_heads = heads; });
  }
  invalid<op>(p, "ratify::attention: q_heads must be a multiple of kv_heads", [](auto& p) { p.q_heads = 3; });
  invalid<op>(p, "ratify::attention: page_size must be at least 1 token", [](auto& p) { p.page_size = 0; });
  invalid<op>(p, "ratify::attention: max_pages and pool_pages must not be negative", [](auto& p) { p.max_pages = -1; });
  invalid<op>(p, "ratify::attention: max_pages and pool_pages must not be negative",
              [](auto& p) { p.pool_pages = -1; });
  invalid<op>(p, "ratify::attention: max_context and total_context must not be negative",
              [](auto& p) { p.max_context = -1; });
  invalid<op>(p, "ratify::attention: max_context and total_context must not be negative",
              [](auto& p) { p.total_context = -1; });
  invalid<op>(p, "ratify::attention: max_context must be at least 1 token if there are rows",
              [](auto& p) { p.max_context = 0; });
  invalid<op>(p, "ratify::attention: max_pages * page_size must be at least max_context",
              [](auto& p) { p.max_context = 33; });
  invalid<op>(p, "ratify::attention: scale_stride must be 0 (one scale) or 1 (one per KV head)",
              [](auto& p) { p.scale_stride = 2; });
  for (float const scale : {0.0f, -0.0f, INFINITY, -INFINITY, NAN})
    invalid<op>(p, "ratify::attention: softmax_scale must be finite and not 0",
                [&](auto& p) { p.softmax_scale = scale; });
  invalid<op>(p, "ratify::attention: window must be 0 (none) or a number of tokens", [](auto& p) { p.window = -1; });
}

TEST_CASE("attention refuses shapes that are not built by name") {
  auto const p = good_params();
  unsupported<op>(p, "ratify::attention: max_rows, the most rows of one request, must be 0 (= rows) to 32",
                  [](auto& p) { p.max_rows = 33; });
  unsupported<op>(p, "ratify::attention: a request has at most 32 rows; say the most rows of one request in max_rows",
                  [](auto& p) { p.rows = 33; });
  unsupported<op>(p, "ratify::attention: at most 64 query heads may share a KV head", [](auto& p) { p.q_heads = 130; });
  unsupported<op>(p, "ratify::attention: q_heads must be at most 65535",
                  [](auto& p) { p.q_heads = p.kv_heads = 65536; });
  std::string const capacities =
      "ratify::attention: max_context must be at most 2^30 tokens and total_context (or requests * max_context) at "
      "most 2^36";
  unsupported<op>(p, capacities, [](auto& p) { p.max_context = (int64_t{1} << 30) + 1; });
  unsupported<op>(p, capacities, [](auto& p) { p.total_context = (int64_t{1} << 36) + 1; });
  unsupported<op>(p, capacities, [](auto& p) {
    p.max_context = 1 << 30;
    p.requests = 65;
  });
  // Alignment of pointers and strides: attention/pages.cpp.
}

TEST_CASE("attention says at compile time what its policies may be") {
  CHECK(ratify::is_supported_attention<ratify::head_dim<64>, ratify::kv_format<ratify::bf16>>);
  CHECK(!ratify::is_supported_attention<ratify::head_dim<96>>);
  CHECK(!ratify::is_supported_attention<ratify::kv_format<float>>);
  CHECK(!ratify::is_supported_attention<ratify::silu<true>>);
}

TEST_CASE("attention refuses missing tensors and strides that overlap by name") {
  auto const p = good_params();
  invalid<op>(p, "ratify::attention: q must not be null", [](auto& p) { p.q.data = nullptr; });
  invalid<op>(p, "ratify::attention: k_pages must not be null", [](auto& p) { p.k_pages.data = nullptr; });
  invalid<op>(p, "ratify::attention: v_pages must not be null", [](auto& p) { p.v_pages.data = nullptr; });
  invalid<op>(p, "ratify::attention: block_table must not be null", [](auto& p) { p.block_table.data = nullptr; });
  invalid<op>(p, "ratify::attention: context_len must not be null", [](auto& p) { p.context_len = nullptr; });
  invalid<op>(p, "ratify::attention: query_start must not be null", [](auto& p) { p.query_start = nullptr; });
  invalid<op>(p, "ratify::attention: k_scale must not be null", [](auto& p) { p.k_scale = nullptr; });
  invalid<op>(p, "ratify::attention: v_scale must not be null", [](auto& p) { p.v_scale = nullptr; });
  invalid<op>(p, "ratify::attention: out must not be null", [](auto& p) { p.out.data = nullptr; });
  for (int64_t const stride : {int64_t{0}, int64_t{-1024}, int64_t{d - 1}}) {
    invalid<op>(p, "ratify::attention: a stride of q is smaller than what it steps over",
                [&](auto& p) { p.q.head_stride = stride; });
    invalid<op>(p, "ratify::attention: a stride of k_pages is smaller than what it steps over",
                [&](auto& p) { p.k_pages.token_stride = stride; });
    invalid<op>(p, "ratify::attention: a stride of v_pages is smaller than what it steps over", [&](auto& p) {
      p.v_pages.page_stride = stride;
      p.pool_pages = 0;
    });
    invalid<op>(p, "ratify::attention: a stride of out is smaller than what it steps over",
                [&](auto& p) { p.out.row_stride = stride; });
  }
  invalid<op>(p, "ratify::attention: a stride of q is smaller than what it steps over",
              [](auto& p) { p.q.row_stride = 4 * d - 1; });
  invalid<op>(p, "ratify::attention: a stride of out is smaller than what it steps over",
              [](auto& p) { p.out = {p.out.data}; });
  invalid<op>(p, "ratify::attention: a stride of block_table is smaller than what it steps over",
              [](auto& p) { p.block_table.stride = 1; });
}

TEST_CASE("attention refuses pointers off their elements, and spans that no memory has") {
  auto const good = good_params();
  misaligned<op>(
      good, "ratify::attention: q must be aligned to its elements", [](auto& q) -> auto& { return q.q; });
  far_away<op>(
      good, "ratify::attention: the strides of q reach over 2^63 bytes", [](auto& q) -> auto& { return q.q; });
  far_away<op>(
      good, "ratify::attention: the strides of k_pages reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.k_pages; });
  far_away<op>(
      good, "ratify::attention: the strides of v_pages reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.v_pages; });
  misaligned<op>(
      good, "ratify::attention: block_table must be aligned to its elements",
      [](auto& q) -> auto& { return q.block_table; });
  far_away<op>(
      good, "ratify::attention: the strides of block_table reach over 2^63 bytes",
      [](auto& q) -> auto& { return q.block_table; });
  misaligned<op>(
      good, "ratify::attention: context_len must be aligned to its elements",
      [](auto& q) -> auto& { return q.context_len; });
  misaligned<op>(
      good, "ratify::attention: query_start must be aligned to its elements",
      [](auto& q) -> auto& { return q.query_start; });
  misaligned<op>(
      good, "ratify::attention: k_scale must be aligned to its elements", [](auto& q) -> auto& { return q.k_scale; });
  misaligned<op>(
      good, "ratify::attention: v_scale must be aligned to its elements", [](auto& q) -> auto& { return q.v_scale; });
  misaligned<op>(
      good, "ratify::attention: out must be aligned to its elements", [](auto& q) -> auto& { return q.out; });
  far_away<op>(
      good, "ratify::attention: the strides of out reach over 2^63 bytes", [](auto& q) -> auto& { return q.out; });
  misaligned<op>(
      good, "ratify::attention: lse must be aligned to its elements", [](auto& q) -> auto& { return q.lse; });
  using halves = ratify::attention<ratify::kv_format<ratify::f16>>;
  auto const half = good_params<halves>();
  misaligned<halves>(
      half, "ratify::attention: k_pages must be aligned to its elements", [](auto& q) -> auto& { return q.k_pages; });
  misaligned<halves>(
      half, "ratify::attention: v_pages must be aligned to its elements", [](auto& q) -> auto& { return q.v_pages; });
}
