// SPDX-License-Identifier: Apache-2.0
/// What stands between the large operations of a round, at TP 1: 8 rows. In a round their operands were just written
/// and lie in L2; here they are rotated out of it like everything else.
#include <bench/card.hpp>
#include <bench/harness.hpp>
#include <bench/policies.hpp>
#include <ratify/activation.cuh>
#include <ratify/cache.cuh>
#include <ratify/embedding.cuh>
#include <ratify/normalization.cuh>

namespace bench {
namespace {

constexpr int rows = 8, hidden = 5120, mlp = 17408, value_heads = 48, q_heads = 24, kv_heads = 4, head_dim = 256;

/// One case: `launch(set)` works on elements set * (elements of a set) and up of each buffer.
void one_case(card const& on, options const& how, report& to, char const* name, std::string const& shape, double bytes,
              int sets, std::function<void(int)> launch) {
  measurement m;
  m.operation = name;
  m.shape = shape;
  m.bytes = bytes;
  m.rotated_bytes = bytes * sets;
  measure(std::move(m), on, {{"default", "as the round launches it", std::move(launch)}}, sets, how, to);
}

}  // namespace

void glue(card const& on, options const& how, report& to) {
  ratify::cuda_executor gpu(on.stream, {how.programmatic});
  auto const f32 = [&](size_t n) { return buffer<float>(on, n, uniform<float>{-1, 1}); };
  auto const f16 = [&](size_t n) { return buffer<ratify::f16>(on, n, uniform<ratify::f16>{-1, 1}); };
  auto const sets_of = [&](double bytes) { return rotated_sets(on, bytes); };
  {
    std::string const shape = "8x5120, residual";
    double const bytes = rows * hidden * (4.0 + 4 + 4 + 2) + 4.0 * hidden;
    int const sets = sets_of(bytes);
    size_t const all = static_cast<size_t>(sets) * rows * hidden;
    auto const x = f32(all), residual = f32(all), weight = f32(static_cast<size_t>(sets) * hidden);
    auto const out = f16(all);
    using type = ratify::rmsnorm<norm_policy>;
    if (how.wants_shape(shape))
      one_case(on, how, to, "rmsnorm", shape, bytes, sets, [&](int set) {
        int64_t const at = int64_t{set} * rows * hidden;
        type::params p{};
        p.x = {x.data() + at, hidden};
        p.residual = {residual.data() + at, hidden};
        p.residual_out = {residual.data() + at, hidden};
        p.weight = weight.data() + int64_t{set} * hidden;
        p.out = {out.data() + at, hidden};
        p.rows = rows;
        p.columns = hidden;
        check(type::launch(p, {}, gpu));
      });
  }
  {
    std::string const shape = "8x48x128";
    constexpr int dim = 128, width = value_heads * dim;
    double const bytes = rows * width * 6.0;
    int const sets = sets_of(bytes);
    size_t const all = static_cast<size_t>(sets) * rows * width;
    auto const x = f16(all), z = f16(all), out = f16(all);
    auto const weight = f32(dim);
    using type = ratify::gated_rmsnorm<ratify::gated_rmsnorm_policy>;
    if (how.wants_shape(shape))
      one_case(on, how, to, "gated_rmsnorm", shape, bytes, sets, [&](int set) {
        int64_t const at = int64_t{set} * rows * width;
        type::params p{};
        p.x = {x.data() + at, width, dim};
        p.z = {z.data() + at, width, dim};
        p.out = {out.data() + at, width, dim};
        p.weight = weight.data();
        p.rows = rows;
        p.heads = value_heads;
        p.head_dim = dim;
        check(type::launch(p, {}, gpu));
      });
  }
  {
    std::string const shape = "8x24x256, rotary 64";
    constexpr int width = q_heads * head_dim, rotary = 64, positions = 4096;
    double const bytes = rows * width * 4.0;
    int const sets = sets_of(bytes);
    size_t const all = static_cast<size_t>(sets) * rows * width;
    auto const x = f16(all), out = f16(all);
    auto const weight = f32(head_dim), cos = f32(positions * rotary / 2), sin = f32(positions * rotary / 2);
    buffer<int32_t> const at_positions(std::vector<int32_t>{4088, 4089, 4090, 4091, 4092, 4093, 4094, 4095});
    using type = ratify::qk_norm_rotary<rotary_policy>;
    if (how.wants_shape(shape))
      one_case(on, how, to, "qk_norm_rotary", shape, bytes, sets, [&](int set) {
        int64_t const at = int64_t{set} * rows * width;
        type::params p{};
        p.x = {x.data() + at, width, head_dim};
        p.weight = weight.data();
        p.cos = cos.data();
        p.sin = sin.data();
        p.positions = at_positions.data();
        p.out = {out.data() + at, width, head_dim};
        p.rows = rows;
        p.heads = q_heads;
        p.head_dim = head_dim;
        p.rotary_dim = rotary;
        p.max_position = positions;
        check(type::launch(p, {}, gpu));
      });
  }
  {
    std::string const shape = "8x4x256, e4m3";
    constexpr int width = kv_heads * head_dim, page = 64;
    double const bytes = rows * width * 6.0;
    int const sets = sets_of(bytes);
    size_t const all = static_cast<size_t>(sets) * rows * width;
    auto const k = f16(all), v = f16(all);
    buffer<ratify::e4m3> const pages(static_cast<size_t>(sets) * 2 * page * width);
    std::vector<int32_t> table;
    for (int s = 0; s < sets; ++s) table.push_back(s);
    buffer<int32_t> const tables(table), length(std::vector<int32_t>{48}), starts(std::vector<int32_t>{0, rows});
    buffer<float> const scale(std::vector<float>{0.25f});
    using type = ratify::append<ratify::append_policy>;
    if (how.wants_shape(shape))
      one_case(on, how, to, "append", shape, bytes, sets, [&](int set) {
        int64_t const at = int64_t{set} * rows * width, k_pages = int64_t{page} * width;
        type::params p{};
        p.k = {k.data() + at, width, head_dim};
        p.v = {v.data() + at, width, head_dim};
        p.k_pages = {pages.data(), 2 * k_pages, width, head_dim};
        p.v_pages = {pages.data() + k_pages, 2 * k_pages, width, head_dim};
        p.block_table = {tables.data() + set, 1};
        p.context_len = length.data();
        p.query_start = starts.data();
        p.k_scale = p.v_scale = scale.data();
        p.rows = rows;
        p.requests = 1;
        p.kv_heads = kv_heads;
        p.head_dim = head_dim;
        p.page_size = page;
        p.max_pages = 1;
        check(type::launch(p, {}, gpu));
      });
  }
  {
    std::string const shape = "8x48";
    double const bytes = rows * value_heads * 12.0;
    int const sets = 1024;  // 4.6 KB a set: the launch is all there is
    size_t const all = static_cast<size_t>(sets) * rows * value_heads;
    auto const a = f16(all), b = f16(all);
    auto const g = f32(all), beta = f32(all), a_log = f32(value_heads), bias = f32(value_heads);
    using type = ratify::gating<ratify::gating_policy>;
    if (how.wants_shape(shape))
      one_case(on, how, to, "gating", shape, bytes, sets, [&](int set) {
        int64_t const at = int64_t{set} * rows * value_heads;
        type::params p{};
        p.a = {a.data() + at, value_heads};
        p.b = {b.data() + at, value_heads};
        p.a_log = a_log.data();
        p.dt_bias = bias.data();
        p.g = g.data() + at;
        p.beta = beta.data() + at;
        p.rows = rows;
        p.value_heads = value_heads;
        check(type::launch(p, {}, gpu));
      });
  }
  {
    std::string const shape = "8x17408";
    double const bytes = rows * mlp * 6.0;
    int const sets = sets_of(bytes);
    size_t const all = static_cast<size_t>(sets) * rows * mlp;
    auto const x = f16(2 * all), out = f16(all);
    using type = ratify::silu_and_mul<ratify::silu_and_mul_policy>;
    if (how.wants_shape(shape))
      one_case(on, how, to, "silu_and_mul", shape, bytes, sets, [&](int set) {
        int64_t const at = int64_t{set} * rows * mlp;
        type::params p{};
        p.x = {x.data() + 2 * at, 2 * mlp};
        p.out = {out.data() + at, mlp};
        p.rows = rows;
        p.columns = mlp;
        check(type::launch(p, {}, gpu));
      });
  }
  {
    std::string const shape = "8x24x256";
    constexpr int width = q_heads * head_dim;
    double const bytes = rows * width * 8.0;
    int const sets = sets_of(bytes);
    size_t const all = static_cast<size_t>(sets) * rows * width;
    auto const x = f32(all);
    auto const gate = f16(all), out = f16(all);
    using type = ratify::sigmoid_gate<output_gate_policy>;
    if (how.wants_shape(shape))
      one_case(on, how, to, "sigmoid_gate", shape, bytes, sets, [&](int set) {
        int64_t const at = int64_t{set} * rows * width;
        type::params p{};
        p.x = {x.data() + at, width, head_dim};
        p.gate = {gate.data() + at, width, head_dim};
        p.out = {out.data() + at, width, head_dim};
        p.rows = rows;
        p.heads = q_heads;
        p.head_dim = head_dim;
        check(type::launch(p, {}, gpu));
      });
  }
  {
    std::string const shape = "8x5120 of 65536";
    constexpr int vocabulary = 65536;
    double const bytes = rows * hidden * 6.0;
    int const sets = sets_of(bytes);
    auto const table = f16(size_t{vocabulary} * hidden);
    auto const out = f32(static_cast<size_t>(sets) * rows * hidden);
    std::vector<int32_t> tokens;
    for (int i = 0; i < sets * rows; ++i)
      tokens.push_back(static_cast<int32_t>(random_bits(static_cast<uint64_t>(i), 5) % vocabulary));
    buffer<int32_t> const ids(tokens);
    using type = ratify::embedding<embedding_policy>;
    if (how.wants_shape(shape))
      one_case(on, how, to, "embedding", shape, bytes, sets, [&](int set) {
        type::params p{};
        p.table = table.data();
        p.tokens = ids.data() + set * rows;
        p.out = {out.data() + int64_t{set} * rows * hidden, hidden};
        p.rows = rows;
        p.columns = hidden;
        p.vocab = vocabulary;
        check(type::launch(p, {}, gpu));
      });
  }
}

}  // namespace bench
