// SPDX-License-Identifier: Apache-2.0
// Prints a digest of every ordered operation's results on fixed inputs, on the host executor. Built with many compilers
// and flags (flags.py), it must print the same.
#include <ratify/activation.cuh>
#include <ratify/attention.cuh>
#include <ratify/convolution.cuh>
#include <ratify/drafting.cuh>
#include <ratify/host.hpp>
#include <ratify/normalization.cuh>
#include <ratify/projection.cuh>
#include <ratify/recurrence.cuh>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

struct matched_recurrence : ratify::recurrence_policy {
  using output_format = float;
};

struct replayed_recurrence : matched_recurrence {
  static constexpr auto mode = ratify::recurrence_mode::replay;
  static constexpr bool fused_gating = true;
  using a_format = float;
  using b_format = float;
};

struct split_projection : ratify::projection_policy {
  using output_format = float;
  static constexpr int split_k = 3;
};

struct float_rmsnorm : ratify::rmsnorm_policy {
  using input_format = float;
  using output_format = float;
  using weight_format = float;
};

struct sampled_walk : ratify::draft_walk_policy {
  static constexpr auto mode = ratify::draft_mode::sample;
};

struct float_taps : ratify::draft_convolution_policy {
  using input_format = float;
  using base_format = float;
  using delta_format = float;
  using output_format = float;
};

struct float_gating : ratify::gating_policy {
  using input_format = float;
};

uint32_t state = 12345;
uint32_t word() { return state = state * 1664525u + 1013904223u, state >> 8; }

/// Values built from integers alone, so that no flag reaches them: sign, a few exponents, all mantissas.
float number(int spread) {
  uint32_t const w = word();
  return ratify::detail::from_bits((w & 1u) << 31 | (127u - (w >> 1) % static_cast<uint32_t>(spread)) << 23 |
                                   (w >> 1 & 0x7fffffu));
}
template <class T>
std::vector<T> numbers(size_t n, int spread = 8) {
  std::vector<T> v(n);
  for (auto& x : v) x = ratify::convert<T>(number(spread));
  return v;
}

void digest(char const* name, void const* data, size_t bytes) {
  uint64_t h = 1469598103934665603ull;
  for (size_t i = 0; i < bytes; ++i) h = (h ^ static_cast<unsigned char const*>(data)[i]) * 1099511628211ull;
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

/// Eight rows of one request: one key head, two value heads.
struct recurrence_rows {
  std::vector<ratify::f16> q = numbers<ratify::f16>(8 * 128), k = numbers<ratify::f16>(8 * 128),
                           v = numbers<ratify::f16>(8 * 256);
  int32_t starts[2] = {0, 8};

  template <class Policy>
  typename ratify::recurrence<Policy>::params params(std::vector<float>& out) const {
    typename ratify::recurrence<Policy>::params p;
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

}  // namespace

int main() {
  ratify::host_executor on(2);
  int32_t const starts[2] = {0, 8}, zero[1] = {0}, length[1] = {1500};
  float const one = 1.0f;
  {
    using op = ratify::attention<ratify::attention_policy>;
    auto const q = numbers<ratify::f16>(8 * 2 * 256);
    auto const k = numbers<ratify::e4m3>(1536 * 256), v = numbers<ratify::e4m3>(1536 * 256);
    std::vector<int32_t> table(24);
    for (int i = 0; i < 24; ++i) table[static_cast<size_t>(i)] = i;
    std::vector<float> out(8 * 2 * 256), lse(16);
    op::params p;
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
    run<op>(p, on);
    digest("attention", out.data(), out.size() * sizeof(float));
    digest("lse", lse.data(), lse.size() * sizeof(float));
  }
  {
    using op = ratify::recurrence<matched_recurrence>;
    recurrence_rows const rows;
    auto g = numbers<float>(16), beta = numbers<float>(16), pool = numbers<float>(9 * 2 * 128 * 128);
    for (auto& x : g) x = ratify::detail::negate(ratify::detail::magnitude(x));
    int32_t const slots[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    std::vector<float> out(8 * 256);
    auto p = rows.params<matched_recurrence>(out);
    p.g = g.data();
    p.beta = beta.data();
    p.state_pool = pool.data();
    p.initial_slot = p.selector = zero;
    p.snapshot_slot = {slots, 8};
    run<op>(p, on);
    digest("recurrence", out.data(), out.size() * sizeof(float));
    digest("states", pool.data(), pool.size() * sizeof(float));
  }
  {
    using op = ratify::recurrence<replayed_recurrence>;
    recurrence_rows const rows;
    auto const a = numbers<float>(16), b = numbers<float>(16), a_log = numbers<float>(2), dt_bias = numbers<float>(2);
    auto pool = numbers<float>(2 * 128 * 128), ring_k = numbers<float>(16 * 128), ring_u = numbers<float>(16 * 256),
         ring_g = numbers<float>(16 * 2);
    for (auto& x : ring_g) x = ratify::detail::negate(ratify::detail::magnitude(x));
    for (auto& x : ring_k) x *= 0.125f;
    int32_t const start[] = {13}, count[] = {8}, flush[] = {1};
    std::vector<float> out(8 * 256);
    auto p = rows.params<replayed_recurrence>(out);
    p.a = {a.data(), 2};
    p.b = {b.data(), 2};
    p.a_log = a_log.data();
    p.dt_bias = dt_bias.data();
    p.state_pool = pool.data();
    p.slot = zero;
    p.ring_start = start;
    p.ring_count = count;
    p.flush = flush;
    p.ring_k = {ring_k.data(), 16 * 128};
    p.ring_u = {ring_u.data(), 16 * 256};
    p.ring_g = {ring_g.data(), 16 * 2};
    p.ring_places = 16;
    run<op>(p, on);
    digest("replay", out.data(), out.size() * sizeof(float));
    digest("checkpoint", pool.data(), pool.size() * sizeof(float));
    digest("ring_k", ring_k.data(), ring_k.size() * sizeof(float));
    digest("ring_u", ring_u.data(), ring_u.size() * sizeof(float));
    digest("ring_g", ring_g.data(), ring_g.size() * sizeof(float));
  }
  {
    using op = ratify::projection<split_projection>;
    auto const x = numbers<ratify::f16>(8 * 512);
    auto const scale = numbers<ratify::e4m3>(100 * 32, 4);
    std::vector<uint8_t> packed(100 * 256);
    for (auto& b : packed) b = static_cast<uint8_t>(word());
    std::vector<float> y(800);
    op::params p;
    p.x = {x.data(), 512};
    p.w_packed = packed.data();
    p.w_scale = scale.data();
    p.w_global = &one;
    p.y = {y.data(), 100};
    p.rows = 8;
    p.n = 100;
    p.k = 512;
    run<op>(p, on);
    digest("projection", y.data(), y.size() * sizeof(float));
  }
  {
    using op = ratify::rmsnorm<float_rmsnorm>;
    auto const x = numbers<float>(8 * 100), w = numbers<float>(100);
    std::vector<float> out(800);
    op::params p;
    p.x = {x.data(), 100};
    p.weight = w.data();
    p.out = {out.data(), 100};
    p.rows = 8;
    p.columns = 100;
    run<op>(p, on);
    digest("rmsnorm", out.data(), out.size() * sizeof(float));
  }
  {
    using op = ratify::gating<float_gating>;
    auto const a = numbers<float>(800, 12), b = numbers<float>(800, 12), rate = numbers<float>(8),
               bias = numbers<float>(8);
    std::vector<float> g(800), beta(800);
    op::params p;
    p.a = {a.data(), 8};
    p.b = {b.data(), 8};
    p.a_log = rate.data();
    p.dt_bias = bias.data();
    p.g = g.data();
    p.beta = beta.data();
    p.rows = 100;
    p.value_heads = 8;
    run<op>(p, on);
    digest("g", g.data(), g.size() * sizeof(float));
    digest("beta", beta.data(), beta.size() * sizeof(float));
  }
  {
    using op = ratify::draft_walk<sampled_walk>;
    auto const unary = numbers<float>(7 * 16, 4), left = numbers<float>(50 * 100, 4),
               right = numbers<float>(50 * 100, 4), project = numbers<float>(7 * 100, 4);
    std::vector<int32_t> candidates(7 * 16), tokens(7);
    for (auto& c : candidates) c = static_cast<int32_t>(word() % 50);
    int64_t const seed = 5, position = 9;
    std::vector<float> q(7 * 16);
    op::params p;
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
    p.slots = 7;
    p.candidate_count = 16;
    p.rank = 100;
    p.vocab = 50;
    run<op>(p, on);
    digest("walk", tokens.data(), tokens.size() * sizeof(int32_t));
    digest("walk q", q.data(), q.size() * sizeof(float));
  }
  {
    using op = ratify::draft_convolution<float_taps>;
    auto const x = numbers<float>(8 * 96), base = numbers<float>(2 * 96), delta = numbers<float>(8 * 12);
    std::vector<float> out(8 * 96);
    op::params p;
    p.x = {x.data(), 8 * 96, 96};
    p.base = base.data();
    p.delta = {delta.data(), 8 * 12, 12};
    p.out = {out.data(), 8 * 96, 96};
    p.requests = 1;
    p.slots = 8;
    p.channels = 96;
    run<op>(p, on);
    digest("two taps", out.data(), out.size() * sizeof(float));
  }
}
