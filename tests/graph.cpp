// SPDX-License-Identifier: Apache-2.0
// L1: a launch touches what its parameters name and nothing else, so that it can be captured: a graph captured once
// replays with lengths and rows that change on the device. Without a CUDA compiler: launches repeated on the host.
#include "support/attention.hpp"
#include "support/compare.hpp"
#include "support/every_operation.hpp"

#include <doctest/doctest.h>

using namespace ratify_test;

TEST_CASE("L1 every operation launched twice with outputs and scratch poisoned gives the same bits") {
  on_each_executor([](auto& on) {
    int operations = 0;
    for_each_operation(on, [&](auto& operation) {
      CAPTURE(operation.name);
      ++operations;
      auto const poison = operation.results();
      REQUIRE(operation.launch());
      auto const first = operation.results();
      CHECK(first != poison);
      operation.reset(0x5a);  // other bytes: what a launch does not write differs, and so does what it reads unwritten
      REQUIRE(operation.launch());
      CHECK(bit_difference(operation.results(), first) == "");
    });
    CHECK(operations >= 20);
  });
}

#if defined(__CUDACC__)

TEST_CASE("L1 every operation captured on a non-default stream replays what it gives eagerly, outputs poisoned") {
  if (!card_present()) {
    MESSAGE("not run: no card is here");
    return;
  }
  cudaStream_t stream = nullptr;
  require_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ratify::cuda_executor on(stream);
  for_each_operation(on, [&](auto& operation) {
    CAPTURE(operation.name);
    auto const poison = operation.results();
    REQUIRE(operation.launch());
    auto const eager = operation.results();
    operation.reset(0xff);
    captured_graph graph(on, operation.launch);  // throws on an allocation, a synchronisation, a memset or a copy
    REQUIRE(graph.status());
    CHECK(graph.kernels() == static_cast<size_t>(operation.stages));
    CHECK(bit_difference(operation.results(), poison) == "");  // captured, not run
    for (int const byte : {0xff, 0x5a, 0}) {
      operation.reset(static_cast<unsigned char>(byte));
      graph.replay();
      CHECK(bit_difference(operation.results(), eager) == "");
    }
  });
  require_success(cudaStreamDestroy(stream));
}

TEST_CASE("L1 attention captured at length 1 replays at other lengths, outputs and scratch poisoned each time") {
  if (!card_present()) {
    MESSAGE("not run: no card is here");
    return;
  }
  using policy = ratify::attention_policy;
  using op = ratify::attention<policy>;
  constexpr int most = 5000, page = 64, pages = (most + page - 1) / page, rows = 8, heads = 2, d = 256;
  random_source random(60);
  auto c = attention_case_with<policy>(random, heads, 1, {rows}, {most}, page);
  cudaStream_t stream = nullptr;
  require_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ratify::cuda_executor on(stream);
  buffer<ratify::f16, ratify::cuda_executor> q(on, c.q);
  buffer<ratify::e4m3, ratify::cuda_executor> k(on, c.k), v(on, c.v);
  buffer<int32_t, ratify::cuda_executor> table(on, c.block_table), length(on, std::vector<int32_t>{1}),
      starts(on, c.query_start);
  buffer<float, ratify::cuda_executor> k_scale(on, c.k_scale), v_scale(on, c.v_scale), out(on, rows * heads * d),
      lse(on, rows * heads);
  op::params p;
  p.q = {q.data(), heads * d, d};
  p.k_pages = {k.data(), page * d, d, d};
  p.v_pages = {v.data(), page * d, d, d};
  p.block_table = {table.data(), c.max_pages};
  p.context_len = length.data();
  p.query_start = starts.data();
  p.k_scale = k_scale.data();
  p.v_scale = v_scale.data();
  p.out = {out.data(), heads * d, d};
  p.lse = lse.data();
  p.rows = rows;
  p.requests = p.kv_heads = 1;
  p.q_heads = heads;
  p.page_size = page;
  p.max_pages = pages;
  p.max_context = most;
  p.softmax_scale = c.softmax_scale;
  buffer<unsigned char, ratify::cuda_executor> scratch(on, op::workspace_bytes(p, on));
  std::vector<unsigned char> const poison(op::workspace_bytes(p, on), 0xff);
  std::vector<float> const no_value(rows * heads * d, NAN), no_lse(rows * heads, NAN);
  {
    captured_graph graph(on, [&] { return op::launch(p, {scratch.data(), poison.size()}, on); });
    REQUIRE(graph.status());
    for (int i = 0; i < 100; ++i) {
      c.context_len[0] = i == 0 ? 1 : random.integer(1, i % 10 == 9 ? most : 1100);
      CAPTURE(c.context_len[0]);
      length.write(c.context_len);
      out.write(no_value);
      lse.write(no_lse);
      scratch.write(poison);
      graph.replay();
      auto const expected = run_attention<policy>(host(), c);
      CHECK(bit_difference(out.read(), expected.out) == "");
      CHECK(bit_difference(lse.read(), expected.lse) == "");
    }
  }
  require_success(cudaStreamDestroy(stream));
}

#endif
