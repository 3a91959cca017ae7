// SPDX-License-Identifier: Apache-2.0
// Prints a digest of the results of ordered operations on fixed inputs, on the host executor. flags.py builds it
// with many compilers and flags; all of these programs must print the same.
#include <ratify/activation.cuh>
#include <ratify/attention.cuh>
#include <ratify/drafting.cuh>
#include <ratify/host.hpp>
#include <ratify/normalization.cuh>
#include <ratify/projection.cuh>
#include <ratify/recurrence.cuh>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

uint32_t state = 12345;
uint32_t word() { return state = state * 1664525u + 1013904223u, state >> 8; }

/// Values built from integers alone, so that no flag reaches them: any sign, a few exponents, all mantissas.
float number(int spread) {
  uint32_t const w = word();
  uint32_t const bits = (w & 1u) << 31 | (127u - (w >> 1) % static_cast<uint32_t>(spread)) << 23 | (w >> 1 & 0x7fffffu);
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class Format>
std::vector<Format> numbers(size_t n, int spread = 8) {
  std::vector<Format> v(n);
  for (auto& x : v) x = ratify::convert<Format>(number(spread));
  return v;
}
std::vector<float> negative_numbers(size_t n) {
  auto v = numbers<float>(n);
  for (auto& x : v) x = x > 0 ? -x : x;
  return v;
}

template <class Element>
void digest(char const* name, std::vector<Element> const& values) {
  uint64_t h = 1469598103934665603ull;
  auto const* const bytes = reinterpret_cast<unsigned char const*>(values.data());
  for (size_t i = 0; i < values.size() * sizeof(Element); ++i) h = (h ^ bytes[i]) * 1099511628211ull;
  std::printf("%-12s %016llx\n", name, static_cast<unsigned long long>(h));
}

template <class Operation>
void run(typename Operation::params const& p, ratify::host_executor& on) {
  std::vector<unsigned char> scratch(Operation::workspace_bytes(p, on) + 1);
  if (auto const s = Operation::launch(p, {scratch.data(), scratch.size()}, on); !s) {
    std::puts(s.reason());
    std::exit(1);
  }
}

// One request of 8 rows.
int32_t const starts[2] = {0, 8}, zero[1] = {0};
float const one = 1.0f;

void attention(ratify::host_executor& on) {
  using operation = ratify::attention<>;
  auto const q = numbers<ratify::f16>(8 * 2 * 256);
  auto const k = numbers<ratify::e4m3>(1536 * 256), v = numbers<ratify::e4m3>(1536 * 256);
  std::vector<int32_t> table(24);
  for (int i = 0; i < 24; ++i) table[static_cast<size_t>(i)] = i;
  int32_t const length[1] = {1500};
  std::vector<float> out(8 * 2 * 256), lse(16);
  operation::params p;
  p.q = {q.data(), 512, 256};
  p.k_pages = {k.data(), 64 * 256, 256, 256};
  p.v_pages = {v.data(), 64 * 256, 256, 256};
  p.block_table = {table.data(), 24};
  p.context_len = length;
  p.query_start = starts;
  p.k_scale = p.v_scale = &one;
  p.out = {out.data(), 512, 256};
  p.lse = lse.data();
  p.rows = 8;
  p.requests = p.kv_heads = 1;
  p.q_heads = 2;
  p.page_size = 64;
  p.max_pages = 24;
  p.max_context = 1536;
  p.softmax_scale = 0.0625f;
  run<operation>(p, on);
  digest("attention", out);
  digest("lse", lse);
}

/// q, k and v of 8 rows: one key head, two value heads.
struct recurrence_rows {
  std::vector<ratify::f16> q = numbers<ratify::f16>(8 * 128), k = numbers<ratify::f16>(8 * 128),
                           v = numbers<ratify::f16>(8 * 256);

  template <class Operation>
  typename Operation::params params(std::vector<float>& out) const {
    typename Operation::params p;
    p.q = {q.data(), 128, 128};
    p.k = {k.data(), 128, 128};
    p.v = {v.data(), 256, 128};
    p.slot_stride = 2 * 128 * 128;
    p.query_start = starts;
    p.out = {out.data(), 256, 128};
    p.rows = p.max_rows = 8;
    p.requests = p.key_heads = 1;
    p.value_heads = 2;
    p.scale = 0.0883883461f;
    return p;
  }
};

void snapshots(ratify::host_executor& on) {
  using operation = ratify::recurrence<ratify::output_format<float>>;
  recurrence_rows const rows;
  auto const g = negative_numbers(16);
  auto const beta = numbers<float>(16);
  auto pool = numbers<float>(9 * 2 * 128 * 128);
  int32_t const slots[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> out(8 * 256);
  auto p = rows.params<operation>(out);
  p.g = g.data();
  p.beta = beta.data();
  p.state_pool = pool.data();
  p.pool_slots = 9;
  p.initial_slot = p.selector = zero;
  p.snapshot_slot = {slots, 8};
  run<operation>(p, on);
  digest("recurrence", out);
  digest("states", pool);
}

void replay(ratify::host_executor& on) {
  using operation = ratify::recurrence<ratify::output_format<float>, ratify::mode<ratify::recurrence_mode::replay>,
                                       ratify::fused_gating<true>, ratify::a_format<float>, ratify::b_format<float>>;
  recurrence_rows const rows;
  auto const a = numbers<float>(16), b = numbers<float>(16), a_log = numbers<float>(2), dt_bias = numbers<float>(2);
  auto pool = numbers<float>(2 * 128 * 128), ring_k = numbers<float>(16 * 128), ring_u = numbers<float>(16 * 256);
  auto ring_g = negative_numbers(16 * 2);
  for (auto& x : ring_k) x *= 0.125f;
  int32_t const start[] = {13}, count[] = {8}, flush[] = {1};
  std::vector<float> out(8 * 256);
  auto p = rows.params<operation>(out);
  p.a = {a.data(), 2};
  p.b = {b.data(), 2};
  p.a_log = a_log.data();
  p.dt_bias = dt_bias.data();
  p.state_pool = pool.data();
  p.pool_slots = 1;
  p.slot = zero;
  p.ring_start = start;
  p.ring_count = count;
  p.flush = flush;
  p.ring_k = {ring_k.data(), 16 * 128};
  p.ring_u = {ring_u.data(), 16 * 256};
  p.ring_g = {ring_g.data(), 16 * 2};
  p.ring_places = 16;
  run<operation>(p, on);
  digest("replay", out);
  digest("checkpoint", pool);
  digest("ring_k", ring_k);
  digest("ring_u", ring_u);
  digest("ring_g", ring_g);
}

void projection(ratify::host_executor& on) {
  using operation = ratify::projection<ratify::output_format<float>, ratify::split_k<3>>;
  auto const x = numbers<ratify::f16>(8 * 512);
  auto const scale = numbers<ratify::e4m3>(100 * 32, 4);
  std::vector<uint8_t> packed(100 * 256);
  for (auto& b : packed) b = static_cast<uint8_t>(word());
  std::vector<float> y(800);
  operation::params p;
  p.x = {x.data(), 512};
  p.w_packed = packed.data();
  p.w_scale = scale.data();
  p.w_global = &one;
  p.y = {y.data(), 100};
  p.rows = 8;
  p.n = 100;
  p.k = 512;
  run<operation>(p, on);
  digest("projection", y);
}

void rmsnorm(ratify::host_executor& on) {
  using operation =
      ratify::rmsnorm<ratify::input_format<float>, ratify::output_format<float>, ratify::weight_format<float>>;
  auto const x = numbers<float>(8 * 100), w = numbers<float>(100);
  std::vector<float> out(800);
  operation::params p;
  p.x = {x.data(), 100};
  p.weight = w.data();
  p.out = {out.data(), 100};
  p.rows = 8;
  p.columns = 100;
  run<operation>(p, on);
  digest("rmsnorm", out);
}

void gating(ratify::host_executor& on) {
  using operation = ratify::gating<ratify::input_format<float>>;
  auto const a = numbers<float>(800, 12), b = numbers<float>(800, 12), rate = numbers<float>(8),
             bias = numbers<float>(8);
  std::vector<float> g(800), beta(800);
  operation::params p;
  p.a = {a.data(), 8};
  p.b = {b.data(), 8};
  p.a_log = rate.data();
  p.dt_bias = bias.data();
  p.g = g.data();
  p.beta = beta.data();
  p.rows = 100;
  p.value_heads = 8;
  run<operation>(p, on);
  digest("g", g);
  digest("beta", beta);
}

void walk(ratify::host_executor& on) {
  using operation = ratify::draft_walk<ratify::mode<ratify::draft_mode::sample>>;
  auto const unary = numbers<float>(7 * 16, 4), left = numbers<float>(50 * 100, 4), right = numbers<float>(50 * 100, 4),
             project = numbers<float>(7 * 100, 4);
  std::vector<int32_t> candidates(7 * 16), tokens(7);
  for (auto& c : candidates) c = static_cast<int32_t>(word() % 50);
  int64_t const seed = 5, position = 9;
  std::vector<float> q(7 * 16);
  operation::params p;
  p.unary = {unary.data(), 7 * 16, 16};
  p.candidates = {candidates.data(), 7 * 16, 16};
  p.left = {left.data(), 100};
  p.right = {right.data(), 100};
  p.project = {project.data(), 700, 100};
  p.anchor = zero;
  p.temperature = &one;
  p.seed = &seed;
  p.position = &position;
  p.tokens = {tokens.data(), 7};
  p.q = {q.data(), 7 * 16, 16};
  p.requests = 1;
  p.draft_slots = 7;
  p.candidate_count = 16;
  p.rank = 100;
  p.vocab = 50;
  run<operation>(p, on);
  digest("walk", tokens);
  digest("walk q", q);
}

void two_taps(ratify::host_executor& on) {
  using operation = ratify::draft_convolution<ratify::input_format<float>, ratify::base_format<float>,
                                              ratify::delta_format<float>, ratify::output_format<float>>;
  auto const x = numbers<float>(8 * 96), base = numbers<float>(2 * 96), delta = numbers<float>(8 * 12);
  std::vector<float> out(8 * 96);
  operation::params p;
  p.x = {x.data(), 8 * 96, 96};
  p.base = base.data();
  p.delta = {delta.data(), 8 * 12, 12};
  p.out = {out.data(), 8 * 96, 96};
  p.requests = 1;
  p.draft_slots = 8;
  p.channels = 96;
  run<operation>(p, on);
  digest("two taps", out);
}

}  // namespace

int main() {
  ratify::host_executor on(2);
  attention(on);
  snapshots(on);
  replay(on);
  projection(on);
  rmsnorm(on);
  gating(on);
  walk(on);
  two_taps(on);
}
