// SPDX-License-Identifier: Apache-2.0
/// The operations between the large ones: gates, norms, rotary, embedding.
#include <run/operation.hpp>

#include <ratify/activation.cuh>
#include <ratify/embedding.cuh>
#include <ratify/normalization.cuh>

namespace ratify_run {
namespace {

/// A norm's epsilon.
float read_eps(inputs const& in) {
  double const eps = in.number("eps", 1e-6);
  if (eps < 0) throw bad_input("metadata 'eps': " + *in.text("eps") + " is negative");
  return static_cast<float>(eps);
}

void run_gating(task& t) {
  operand const a = t.in.tensor("a", wide_formats, 2), b = t.in.tensor("b", wide_formats, a.shape);
  int const heads = a.extent(1);
  auto const a_log_values = load_dense<float>(t.in.tensor("a_log", dtype::f32, {heads}));
  auto const dt_bias_values = load_dense<float>(t.in.tensor("dt_bias", dtype::f32, {heads}));
  with_policy<ratify_examples::gating_policies>(t.policy, {}, [&](auto chosen) {
    using operation_type = typename decltype(chosen)::template operation<ratify::gating>;
    t.on.visit([&](auto& on) {
      using executor_type = std::decay_t<decltype(on)>;
      resident<float, executor_type> const a_there(on, load<float>(a, 1)), b_there(on, load<float>(b, 1)),
          a_log(on, a_log_values), dt_bias(on, dt_bias_values);
      auto const g = room(on, a.shape, "g"), beta = room(on, a.shape, "beta");
      typename operation_type::params p;
      p.a = a_there.rows();
      p.b = b_there.rows();
      p.a_log = a_log.data();
      p.dt_bias = dt_bias.data();
      p.g = g.data();
      p.beta = beta.data();
      p.rows = a.extent(0);
      p.value_heads = heads;
      launch<operation_type>(on, p);
      t.emit("g", a.shape, g.read(on));
      t.emit("beta", a.shape, beta.read(on));
    });
  });
}

void run_silu_and_mul(task& t) {
  operand const x = t.in.tensor("x", wide_formats, 2);
  if (x.extent(1) % 2 != 0)
    throw bad_input("tensor 'x': shape " + to_string(x.shape) + ", must be [rows, 2n]: an even number of columns");
  shape_type const shape = {x.shape[0], x.shape[1] / 2};
  with_policy<ratify_examples::silu_and_mul_policies>(t.policy, {}, [&](auto chosen) {
    using operation_type = typename decltype(chosen)::template operation<ratify::silu_and_mul>;
    t.on.visit([&](auto& on) {
      using executor_type = std::decay_t<decltype(on)>;
      resident<float, executor_type> const there(on, load<float>(x, 1));
      auto const out = room(on, shape, "out");
      typename operation_type::params p;
      p.x = there.rows();
      p.out = {out.data(), shape[1]};
      p.rows = x.extent(0);
      p.columns = static_cast<int>(shape[1]);
      launch<operation_type>(on, p);
      t.emit_rounded("out", shape, out.read(on));
    });
  });
}

void run_sigmoid_gate(task& t) {
  operand x = t.in.tensor("x");
  bool const one_head = x.shape.size() == 2;  // [rows, n] is one head of n
  x = t.in.tensor("x", wide_formats, one_head ? 2 : 3);
  operand gate = t.in.tensor("gate", wide_formats, x.shape);
  shape_type const shape = x.shape;
  if (one_head)
    for (operand* const o : {&x, &gate}) {
      o->shape.insert(o->shape.begin() + 1, 1);
      o->strides.insert(o->strides.begin() + 1, o->shape[2]);
    }
  with_policy<ratify_examples::sigmoid_gate_policies>(t.policy, {}, [&](auto chosen) {
    using operation_type = typename decltype(chosen)::template operation<ratify::sigmoid_gate>;
    t.on.visit([&](auto& on) {
      using executor_type = std::decay_t<decltype(on)>;
      resident<float, executor_type> const there(on, load<float>(x, 1)), gate_there(on, load<float>(gate, 1));
      auto const out = room(on, shape, "out");
      typename operation_type::params p;
      p.x = there.heads();
      p.gate = gate_there.heads();
      p.rows = x.extent(0);
      p.heads = x.extent(1);
      p.head_dim = x.extent(2);
      p.out = {out.data(), int64_t{p.heads} * p.head_dim, p.head_dim};
      launch<operation_type>(on, p);
      t.emit_rounded("out", shape, out.read(on));
    });
  });
}

void run_rmsnorm(task& t) {
  operand const x = t.in.tensor("x", wide_formats, 2);
  operand const weight = t.in.tensor("weight", wide_formats, shape_type{x.shape[1]});
  bool const has_residual = t.in.has("residual");
  operand const residual = has_residual ? t.in.tensor("residual", wide_formats, x.shape) : x;
  float const eps = read_eps(t.in);
  with_policy<ratify_examples::rmsnorm_policies>(t.policy, {}, [&](auto chosen) {
    using operation_type = typename decltype(chosen)::template operation<ratify::rmsnorm>;
    t.on.visit([&](auto& on) {
      using executor_type = std::decay_t<decltype(on)>;
      resident<float, executor_type> const there(on, load<float>(x, 1)), residual_there(on, load<float>(residual, 1)),
          weight_there(on, load_dense<float>(weight));
      auto const out = room(on, x.shape, "out"), sum = room(on, x.shape, "residual_out");
      typename operation_type::params p;
      p.x = there.rows();
      if (has_residual) {
        p.residual = residual_there.rows();
        p.residual_out = {sum.data(), x.shape[1]};
      }
      p.weight = weight_there.data();
      p.out = {out.data(), x.shape[1]};
      p.rows = x.extent(0);
      p.columns = x.extent(1);
      p.eps = eps;
      launch<operation_type>(on, p);
      t.emit_rounded("out", x.shape, out.read(on));
      if (has_residual) t.emit("residual_out", x.shape, sum.read(on));
    });
  });
}

void run_gated_rmsnorm(task& t) {
  operand const x = t.in.tensor("x", wide_formats, 3), z = t.in.tensor("z", wide_formats, x.shape);
  operand const weight = t.in.tensor("weight", wide_formats, shape_type{x.shape[2]});
  float const eps = read_eps(t.in);
  with_policy<ratify_examples::gated_rmsnorm_policies>(t.policy, {}, [&](auto chosen) {
    using operation_type = typename decltype(chosen)::template operation<ratify::gated_rmsnorm>;
    t.on.visit([&](auto& on) {
      using executor_type = std::decay_t<decltype(on)>;
      resident<float, executor_type> const x_there(on, load<float>(x, 1)), z_there(on, load<float>(z, 1)),
          weight_there(on, load_dense<float>(weight));
      auto const out = room(on, x.shape, "out");
      typename operation_type::params p;
      p.x = x_there.heads();
      p.z = z_there.heads();
      p.weight = weight_there.data();
      p.rows = x.extent(0);
      p.heads = x.extent(1);
      p.head_dim = x.extent(2);
      p.out = {out.data(), int64_t{p.heads} * p.head_dim, p.head_dim};
      p.eps = eps;
      launch<operation_type>(on, p);
      t.emit_rounded("out", x.shape, out.read(on));
    });
  });
}

void run_qk_norm_rotary(task& t) {
  operand const x = t.in.tensor("qk", wide_formats, 3);
  operand const weight = t.in.tensor("weight", wide_formats, shape_type{x.shape[2]});
  operand const cos = t.in.tensor("cos", {dtype::f32}, 2), sin = t.in.tensor("sin", dtype::f32, cos.shape);
  int const table_rows = cos.extent(0), half = cos.extent(1);
  if (half > x.extent(2) / 2)
    throw bad_input("tensor 'cos': shape " + to_string(cos.shape) + ", must have at most half of the " +
                    std::to_string(x.extent(2)) + " elements a head of 'qk'");
  auto const position_values = load_dense<int32_t>(t.in.tensor("positions", dtype::i32, {x.shape[0]}));
  for (size_t i = 0; i < position_values.size(); ++i)
    if (position_values[i] < 0 || position_values[i] >= table_rows)
      bad_entry("positions", static_cast<int64_t>(i), position_values[i],
                "0 to " + std::to_string(table_rows - 1) + ", a row of the tables");
  float const eps = read_eps(t.in);
  with_policy<ratify_examples::qk_norm_rotary_policies>(t.policy, {}, [&](auto chosen) {
    using operation_type = typename decltype(chosen)::template operation<ratify::qk_norm_rotary>;
    t.on.visit([&](auto& on) {
      using executor_type = std::decay_t<decltype(on)>;
      resident<float, executor_type> const there(on, load<float>(x, 1)), weight_there(on, load_dense<float>(weight)),
          cos_there(on, load_dense<float>(cos)), sin_there(on, load_dense<float>(sin));
      resident<int32_t, executor_type> const positions(on, position_values);
      auto const out = room(on, x.shape, "out");
      typename operation_type::params p;
      p.x = there.heads();
      p.weight = weight_there.data();
      p.cos = cos_there.data();
      p.sin = sin_there.data();
      p.positions = positions.data();
      p.rows = x.extent(0);
      p.heads = x.extent(1);
      p.head_dim = x.extent(2);
      p.out = {out.data(), int64_t{p.heads} * p.head_dim, p.head_dim};
      p.rotary_dim = 2 * half;
      p.max_position = table_rows;
      p.eps = eps;
      launch<operation_type>(on, p);
      t.emit_rounded("out", x.shape, out.read(on));
    });
  });
}

void run_embedding(task& t) {
  operand const table = t.in.tensor("table", wide_formats, 2), tokens = t.in.tensor("tokens", {dtype::i32}, 1);
  int const vocab = table.extent(0), columns = table.extent(1);
  auto const token_values = load_dense<int32_t>(tokens);
  for (size_t i = 0; i < token_values.size(); ++i)
    if (token_values[i] < 0 || token_values[i] >= vocab)
      bad_entry("tokens", static_cast<int64_t>(i), token_values[i],
                "0 to " + std::to_string(vocab - 1) + ", a row of 'table'");
  shape_type const shape = {tokens.shape[0], columns};
  with_policy<ratify_examples::embedding_policies>(t.policy, {}, [&](auto chosen) {
    using operation_type = typename decltype(chosen)::template operation<ratify::embedding>;
    t.on.visit([&](auto& on) {
      using executor_type = std::decay_t<decltype(on)>;
      resident<float, executor_type> const table_there(on, load_dense<float>(table));
      resident<int32_t, executor_type> const tokens_there(on, token_values);
      auto const out = room(on, shape, "out");
      typename operation_type::params p;
      p.table = table_there.data();
      p.tokens = tokens_there.data();
      p.out = {out.data(), columns};
      p.rows = tokens.extent(0);
      p.columns = columns;
      p.vocab = vocab;
      launch<operation_type>(on, p);
      t.emit_rounded("out", shape, out.read(on));
    });
  });
}

}  // namespace

extern operation const gating, silu_and_mul, sigmoid_gate, rmsnorm, gated_rmsnorm, qk_norm_rotary, embedding;
operation const gating{"gating",
                       {"a", "b", "a_log", "dt_bias"},
                       {"g", "beta"},
                       {},
                       run_gating,
                       built<ratify_examples::gating_policies>,
                       {},
                       false};
operation const silu_and_mul{
    "silu_and_mul", {"x"}, {"out"}, {}, run_silu_and_mul, built<ratify_examples::silu_and_mul_policies>};
operation const sigmoid_gate{
    "sigmoid_gate", {"x", "gate"}, {"out"}, {}, run_sigmoid_gate, built<ratify_examples::sigmoid_gate_policies>};
operation const rmsnorm{"rmsnorm",
                        {"x", "residual", "weight"},
                        {"out", "residual_out"},
                        {"eps"},
                        run_rmsnorm,
                        built<ratify_examples::rmsnorm_policies>};
operation const gated_rmsnorm{"gated_rmsnorm", {"x", "z", "weight"}, {"out"},
                              {"eps"},         run_gated_rmsnorm,    built<ratify_examples::gated_rmsnorm_policies>};
operation const qk_norm_rotary{"qk_norm_rotary",   {"qk", "weight", "cos", "sin", "positions"},    {"out"}, {"eps"},
                               run_qk_norm_rotary, built<ratify_examples::qk_norm_rotary_policies>};
operation const embedding{"embedding", {"table", "tokens"}, {"out"},
                          {},          run_embedding,       built<ratify_examples::embedding_policies>};

}  // namespace ratify_run
