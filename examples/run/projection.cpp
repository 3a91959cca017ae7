// SPDX-License-Identifier: Apache-2.0
#include <run/operation.hpp>

#include <ratify/projection.cuh>

#include <numeric>

namespace ratify_run {
namespace {

/// Where each segment of the rows of W ends, if `w_global` has more than one number.
std::vector<int32_t> read_segment_ends(inputs const& in, operand const& w_global, int n) {
  if (in.text("segments") == nullptr) {
    if (w_global.shape[0] != 1)
      throw bad_input("tensor 'w_global': shape " + to_string(w_global.shape) +
                      ", must be [1] where metadata 'segments' does not say which rows each number is for");
    return {n};
  }
  std::vector<int64_t> const counts = in.integers("segments", 1);
  if (static_cast<int64_t>(counts.size()) != w_global.shape[0])
    throw bad_input("tensor 'w_global': shape " + to_string(w_global.shape) + ", must be [" +
                    std::to_string(counts.size()) + "], a number for each of metadata 'segments'");
  std::vector<int32_t> ends;
  int64_t end = 0;
  for (int64_t const count : counts) {
    end = count > n ? int64_t{n} + 1 : end + count;
    if (end > n) break;
    ends.push_back(static_cast<int32_t>(end));
  }
  if (end != n)
    throw bad_input("metadata 'segments': the counts must sum to the " + std::to_string(n) + " rows of 'w_packed'");
  return ends;
}

void run(task& t) {
  operand const x = t.in.tensor("x", {dtype::f16, dtype::bf16}, 2);
  int const k = x.extent(1);
  operand const w_packed = t.in.tensor("w_packed", {dtype::u8}, 2),
                w_scale = t.in.tensor("w_scale", {dtype::f8_e4m3}, 2);
  int const n = w_packed.extent(0);
  // A K that is no multiple of 16 has consistent shapes too; the library says whether it is built.
  auto const rounded = [&](int64_t found, int64_t part) { return found == k / part || found == (k + part - 1) / part; };
  if (!rounded(w_packed.shape[1], 2))
    throw bad_input("tensor 'w_packed': shape " + to_string(w_packed.shape) + ", must be [N, " + std::to_string(k / 2) +
                    "], half of the columns of 'x'");
  if (w_scale.shape[0] != n || !rounded(w_scale.shape[1], ratify::nvfp4_group))
    throw bad_input("tensor 'w_scale': shape " + to_string(w_scale.shape) + ", must be [" + std::to_string(n) + ", " +
                    std::to_string(k / ratify::nvfp4_group) + "]");
  operand const w_global = t.in.tensor("w_global", {dtype::f32}, 1);
  std::vector<int32_t> const ends = read_segment_ends(t.in, w_global, n);
  bool const has_bias = t.in.has("bias");
  operand const bias = has_bias ? t.in.tensor("bias", dtype::f32, {n}) : w_global;

  with_policy<ratify_examples::projection_policies>(t.policy, {}, [&](auto chosen) {
    using operation_type = typename decltype(chosen)::template operation<ratify::projection>;
    t.on.visit([&](auto& on) {
      using executor_type = std::decay_t<decltype(on)>;
      resident<float, executor_type> const there(on, load<float>(x, 1)), global(on, load_dense<float>(w_global)),
          bias_there(on, load_dense<float>(bias));
      resident<uint8_t, executor_type> const packed(on, load_dense<uint8_t>(w_packed));
      resident<ratify::e4m3, executor_type> const scale(on, load_dense<ratify::e4m3>(w_scale));
      resident<int32_t, executor_type> const segment_end(on, ends);
      shape_type const shape = {x.shape[0], n};
      auto const y = room(on, shape, "y");

      typename operation_type::params p;
      p.x = there.rows();
      p.w_packed = packed.data();
      p.w_scale = scale.data();
      p.w_global = global.data();
      p.segments = static_cast<int>(ends.size());
      p.segment_end = segment_end.data();
      p.bias = has_bias ? bias_there.data() : nullptr;
      p.y = {y.data(), n};
      p.rows = x.extent(0);
      p.n = n;
      p.k = k;
      launch<operation_type>(on, p);
      t.emit_rounded("y", shape, y.read(on));
    });
  });
}

}  // namespace

extern operation const projection;
operation const projection{"projection", {"x", "w_packed", "w_scale", "w_global", "bias"}, {"y"}, {"segments"},
                           run,          built<ratify_examples::projection_policies>};

}  // namespace ratify_run
