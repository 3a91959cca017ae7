// SPDX-License-Identifier: Apache-2.0
// L1: a launch touches what its parameters name and nothing else, so that it can be captured: a graph that is captured
// once can be replayed with other lengths and rows, which the kernels read on the device. Where this is not compiled
// for a card, launches are repeated on the host.
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
      operation.reset(0x5a);  // what a launch fails to write, or reads without having written it, now differs
      REQUIRE(operation.launch());
      CHECK(bit_difference(operation.results(), first) == "");
    });
    CHECK(operations >= 24);
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
    CHECK(bit_difference(operation.results(), poison) == "");  // a capture runs nothing
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
  using policy = ratify::attention_policy<>;
  constexpr int most = 5000;
  random_source random(60);
  auto c = attention_case_with<policy>(random, 2, 1, {8}, {most}, 64);
  cudaStream_t stream = nullptr;
  require_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  {
    ratify::cuda_executor on(stream);
    loaded_attention<policy, ratify::cuda_executor> loaded(on, c, attention_layout::dense, most);
    loaded.prepare({1});
    captured_graph graph(on, [&] { return loaded.enqueue(); });
    REQUIRE(graph.status());
    for (int i = 0; i < 100; ++i) {
      c.context_len[0] = i == 0 ? 1 : random.integer(1, i % 10 == 9 ? most : 1100);
      CAPTURE(c.context_len[0]);
      loaded.prepare(c.context_len);
      graph.replay();
      auto const got = loaded.result(), expected = run_attention<policy>(host(), c);
      CHECK(bit_difference(got.out, expected.out) == "");
      CHECK(bit_difference(got.lse, expected.lse) == "");
    }
  }
  require_success(cudaStreamDestroy(stream));
}

#endif
