// SPDX-License-Identifier: Apache-2.0
/// One object of the linkage test: the same operations instantiated once more, by whichever compiler and for whichever
/// architecture this is compiled. RATIFY_PART names the function.
#include <ratify/activation.cuh>
#include <ratify/attention.cuh>
#include <ratify/cache.cuh>

#include "support/bits.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <chrono>
#include <cstdio>
#include <stdexcept>

namespace {

using namespace ratify_test;

void require(ratify::status s) {
  if (!s) throw std::runtime_error(s.reason());
}

void add_bits(std::vector<uint32_t>& bits, std::vector<float> const& v) {
  for (float x : v) bits.push_back(ratify_test::bits(x));
}

template <class Executor>
std::vector<uint32_t> run(Executor& on) {
  using ratify::e4m3;
  using ratify::f16;
  random_source random(7);
  std::vector<uint32_t> bits;
  {
    buffer<f16, Executor> a(on, random.normals<f16>(640)), b(on, random.normals<f16>(640));
    buffer<float, Executor> a_log(on, random.normals<float>(10)), dt_bias(on, random.normals<float>(10));
    buffer<float, Executor> g(on, 640), beta(on, 640);
    using gating = ratify::gating<>;
    gating::params p;
    p.a = {a.data(), 10};
    p.b = {b.data(), 10};
    p.a_log = a_log.data();
    p.dt_bias = dt_bias.data();
    p.g = g.data();
    p.beta = beta.data();
    p.rows = 64;
    p.value_heads = 10;
    require(launch<gating>(p, on));
    add_bits(bits, g.read());
    add_bits(bits, beta.read());
  }
  int const tokens = 96, dim = 256, page = 16;
  buffer<e4m3, Executor> k_pages(on, std::vector<e4m3>(tokens * dim)), v_pages(on, std::vector<e4m3>(tokens * dim));
  buffer<int32_t, Executor> table(on, std::vector<int32_t>{5, 3, 1, 0, 2, 4}),
      context(on, std::vector<int32_t>{tokens}), starts(on, std::vector<int32_t>{0, tokens});
  buffer<float, Executor> k_scale(on, std::vector<float>{0.02f}), v_scale(on, std::vector<float>{0.03f});
  {
    buffer<f16, Executor> k(on, random.normals<f16>(tokens * dim)), v(on, random.normals<f16>(tokens * dim));
    using append = ratify::append<>;
    append::params p;
    p.k = {k.data(), dim, dim};
    p.v = {v.data(), dim, dim};
    p.k_pages = {k_pages.data(), page * dim, dim, dim};
    p.v_pages = {v_pages.data(), page * dim, dim, dim};
    p.block_table = {table.data(), 6};
    p.context_len = context.data();
    p.query_start = starts.data();
    p.k_scale = k_scale.data();
    p.v_scale = v_scale.data();
    p.rows = tokens;
    p.requests = p.kv_heads = 1;
    p.head_dim = dim;
    p.page_size = page;
    p.max_pages = 6;
    require(launch<append>(p, on));
  }
  {
    buffer<f16, Executor> q(on, random.normals<f16>(8 * 4 * dim));
    buffer<int32_t, Executor> rows(on, std::vector<int32_t>{0, 8});
    buffer<float, Executor> out(on, 8 * 4 * dim), lse(on, 8 * 4);
    using attention = ratify::attention<>;
    attention::params p;
    p.q = {q.data(), 4 * dim, dim};
    p.k_pages = {k_pages.data(), page * dim, dim, dim};
    p.v_pages = {v_pages.data(), page * dim, dim, dim};
    p.block_table = {table.data(), 6};
    p.context_len = context.data();
    p.query_start = rows.data();
    p.k_scale = k_scale.data();
    p.v_scale = v_scale.data();
    p.out = {out.data(), 4 * dim, dim};
    p.lse = lse.data();
    p.rows = 8;
    p.requests = p.kv_heads = 1;
    p.q_heads = 4;
    p.page_size = page;
    p.max_pages = 6;
    p.max_context = p.total_context = tokens;
    p.softmax_scale = 0.0625f;
    require(launch<attention>(p, on));
    add_bits(bits, out.read());
    add_bits(bits, lse.read());
  }
  return bits;
}

}  // namespace

/// Bits of the results; every executor that this object can reach gives the same.
std::vector<uint32_t> RATIFY_PART() {
  std::vector<uint32_t> first;
  int executors = 0;
  double milliseconds = 0;
  on_each_executor([&](auto& on) {
    auto const start = std::chrono::steady_clock::now();
    auto const bits = run(on);
    if (executors++ == 0)
      milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (first.empty())
      first = bits;
    else if (bits != first)
      throw std::runtime_error("executors differ");
  });
#if defined(__CUDACC__)
  char const* const compiler = "nvcc";
#else
  char const* const compiler = "a C++ compiler";
#endif
  std::printf("object of %s: %d executor(s), %zu words, host executor %.1f ms\n", compiler, executors, first.size(),
              milliseconds);
  return first;
}
