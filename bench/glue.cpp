// SPDX-License-Identifier: Apache-2.0
/// The small operations between the large ones of a round, at TP 1 and 8 rows. In a round their operands were just
/// written and lie in L2; here they are rotated out of it like all others.
#include <bench/card.hpp>
#include <bench/harness.hpp>
#include <bench/policies.hpp>
#include <bench/shape.hpp>

namespace bench {
namespace {

using operations = example::round_operations<>;

constexpr int rows = round_rows, hidden = 5120, mlp = 17408, value_heads = 48, q_heads = 24, kv_heads = 4,
              head_dim = 256;

struct runner {
  card const& on;
  options const& settings;
  report& to;
  ratify::cuda_executor gpu;

  buffer<float> f32(size_t n) const { return {on, n, uniform<float>{-1, 1}}; }
  buffer<ratify::f16> f16(size_t n) const { return {on, n, uniform<ratify::f16>{-1, 1}}; }
  int sets_of(double bytes) const { return rotated_sets(on, bytes); }

  /// Measures an operation.
  /// @param bytes that one launch has to move
  /// @param params `params(set)` gives a launch over the operands of that set
  template <class Operation, class Params>
  void run(std::string const& shape, double bytes, int sets, Params const& params) const {
    measurement m;
    m.operation = Operation::policy::knobs::operation;
    m.shape = shape;
    if (!settings.wants_shape(shape)) return;
    m.bytes = bytes;
    m.rotated_bytes = bytes * sets;
    check(Operation::can_launch(params(0), gpu));
    measure(std::move(m), on,
            {{name_of<Operation>(), [&](int set) { check(Operation::launch(params(set), {}, gpu)); }}}, sets, settings,
            to);
  }
};

void rmsnorm(runner const& r) {
  using type = operations::rmsnorm;
  double const bytes = rows * hidden * (4.0 + 4 + 4 + 2) + 4.0 * hidden;
  int const sets = r.sets_of(bytes);
  size_t const elements = static_cast<size_t>(sets) * rows * hidden;
  auto const x = r.f32(elements), residual = r.f32(elements), weight = r.f32(static_cast<size_t>(sets) * hidden);
  auto const out = r.f16(elements);
  r.run<type>("8x5120, residual", bytes, sets, [&](int set) {
    int64_t const at = int64_t{set} * rows * hidden;
    type::params p{};
    p.x = {x.data() + at, hidden};
    p.residual = {residual.data() + at, hidden};
    p.residual_out = {residual.data() + at, hidden};
    p.weight = weight.data() + int64_t{set} * hidden;
    p.out = {out.data() + at, hidden};
    p.rows = rows;
    p.columns = hidden;
    return p;
  });
}

void gated_rmsnorm(runner const& r) {
  using type = operations::gated_rmsnorm;
  constexpr int dim = 128, width = value_heads * dim;
  double const bytes = rows * width * 6.0;
  int const sets = r.sets_of(bytes);
  size_t const elements = static_cast<size_t>(sets) * rows * width;
  auto const x = r.f16(elements), z = r.f16(elements), out = r.f16(elements);
  auto const weight = r.f32(dim);
  r.run<type>("8x48x128", bytes, sets, [&](int set) {
    int64_t const at = int64_t{set} * rows * width;
    type::params p{};
    p.x = {x.data() + at, width, dim};
    p.z = {z.data() + at, width, dim};
    p.out = {out.data() + at, width, dim};
    p.weight = weight.data();
    p.rows = rows;
    p.heads = value_heads;
    p.head_dim = dim;
    return p;
  });
}

void qk_norm_rotary(runner const& r) {
  using type = operations::qk_norm_rotary;
  constexpr int width = q_heads * head_dim, rotary = 64, positions = 4096;
  double const bytes = rows * width * 4.0;
  int const sets = r.sets_of(bytes);
  size_t const elements = static_cast<size_t>(sets) * rows * width;
  auto const x = r.f16(elements), out = r.f16(elements);
  auto const weight = r.f32(head_dim), cos = r.f32(positions * rotary / 2), sin = r.f32(positions * rotary / 2);
  buffer<int32_t> const at_positions(std::vector<int32_t>{4088, 4089, 4090, 4091, 4092, 4093, 4094, 4095});
  r.run<type>("8x24x256, rotary 64", bytes, sets, [&](int set) {
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
    return p;
  });
}

/// Every set has a page of its own for K, and V lies in the other half of the same buffer.
void append(runner const& r) {
  using type = operations::append;
  constexpr int width = kv_heads * head_dim;
  double const bytes = rows * width * 6.0;
  int const sets = r.sets_of(bytes);
  size_t const elements = static_cast<size_t>(sets) * rows * width;
  auto const k = r.f16(elements), v = r.f16(elements);
  buffer<ratify::e4m3> const pages(static_cast<size_t>(sets) * 2 * page_size * width);
  std::vector<int32_t> table;
  for (int s = 0; s < sets; ++s) table.push_back(s);
  buffer<int32_t> const tables(table), length(std::vector<int32_t>{48}), starts(std::vector<int32_t>{0, rows});
  buffer<float> const scale(std::vector<float>{0.25f});
  r.run<type>("8x4x256, e4m3", bytes, sets, [&](int set) {
    int64_t const at = int64_t{set} * rows * width, k_pages = int64_t{page_size} * width;
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
    p.page_size = page_size;
    p.max_pages = 1;
    p.pool_pages = sets;
    return p;
  });
}

void gating(runner const& r) {
  using type = operations::gating;
  double const bytes = rows * value_heads * 12.0;
  int const sets = 1024;  // of 4.6 KB each: what is measured is the launch
  size_t const elements = static_cast<size_t>(sets) * rows * value_heads;
  auto const a = r.f16(elements), b = r.f16(elements);
  auto const g = r.f32(elements), beta = r.f32(elements), a_log = r.f32(value_heads), bias = r.f32(value_heads);
  r.run<type>("8x48", bytes, sets, [&](int set) {
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
    return p;
  });
}

void silu_and_mul(runner const& r) {
  using type = operations::silu_and_mul;
  double const bytes = rows * mlp * 6.0;
  int const sets = r.sets_of(bytes);
  size_t const elements = static_cast<size_t>(sets) * rows * mlp;
  auto const x = r.f16(2 * elements), out = r.f16(elements);
  r.run<type>("8x17408", bytes, sets, [&](int set) {
    int64_t const at = int64_t{set} * rows * mlp;
    type::params p{};
    p.x = {x.data() + 2 * at, 2 * mlp};
    p.out = {out.data() + at, mlp};
    p.rows = rows;
    p.columns = mlp;
    return p;
  });
}

void sigmoid_gate(runner const& r) {
  using type = operations::sigmoid_gate;
  constexpr int width = q_heads * head_dim;
  double const bytes = rows * width * 8.0;
  int const sets = r.sets_of(bytes);
  size_t const elements = static_cast<size_t>(sets) * rows * width;
  auto const x = r.f32(elements);
  auto const gate = r.f16(elements), out = r.f16(elements);
  r.run<type>("8x24x256", bytes, sets, [&](int set) {
    int64_t const at = int64_t{set} * rows * width;
    type::params p{};
    p.x = {x.data() + at, width, head_dim};
    p.gate = {gate.data() + at, width, head_dim};
    p.out = {out.data() + at, width, head_dim};
    p.rows = rows;
    p.heads = q_heads;
    p.head_dim = head_dim;
    return p;
  });
}

void embedding(runner const& r) {
  using type = operations::embedding;
  constexpr int vocabulary = 65536;
  double const bytes = rows * hidden * 6.0;
  int const sets = r.sets_of(bytes);
  auto const table = r.f16(size_t{vocabulary} * hidden);
  auto const out = r.f32(static_cast<size_t>(sets) * rows * hidden);
  std::vector<int32_t> tokens;
  for (int i = 0; i < sets * rows; ++i)
    tokens.push_back(static_cast<int32_t>(random_bits(static_cast<uint64_t>(i), 5) % vocabulary));
  buffer<int32_t> const ids(tokens);
  r.run<type>("8x5120 of 65536", bytes, sets, [&](int set) {
    type::params p{};
    p.table = table.data();
    p.tokens = ids.data() + set * rows;
    p.out = {out.data() + int64_t{set} * rows * hidden, hidden};
    p.rows = rows;
    p.columns = hidden;
    p.vocab = vocabulary;
    return p;
  });
}

}  // namespace

void glue(card const& on, options const& settings, report& to) {
  runner const r{on, settings, to, ratify::cuda_executor(on.stream, {settings.programmatic})};
  rmsnorm(r);
  gated_rmsnorm(r);
  qk_norm_rotary(r);
  append(r);
  gating(r);
  silu_and_mul(r);
  sigmoid_gate(r);
  embedding(r);
}

}  // namespace bench
