// SPDX-License-Identifier: Apache-2.0
/// A kernel of a caller's own, made of the device functions of the projection.
#include "support/projection.hpp"

namespace {

using namespace ratify_test;

/// One warp per 32 columns and 4 rows: each thread sums one column, K is not split, and the results are doubled, which
/// the library's kernel does not do.
struct doubled_kernel {
  static constexpr int rows_at_once = 4, staged_columns = 64;
  struct params {
    ratify::rows_view<ratify::bf16 const> x;
    ratify::device::projection_weights weights;
    float* y;  ///< [rows, n]
    int rows, n;
  };
  static constexpr char const* name = "doubled_kernel";
  static constexpr int block_threads = 32;
  using activations = ratify::device::staged_activations<ratify::bf16, rows_at_once, block_threads, staged_columns>;
  template <class Block>
  struct shared_storage {
    alignas(16) float stage[activations::floats];
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const k = p.weights.k, first_row = block.block_y() * rows_at_once;
    int const rows = p.rows - first_row < rows_at_once ? p.rows - first_row : rows_at_once;
    int const column = block.block_x() * block_threads + block.thread();
    activations staged(p.x, first_row, rows, 0, k, static_cast<uint32_t>(block.thread()));
    ratify::device::weight_columns<1> weights(p.weights, k);
    weights.open(0, p.weights, column < p.n ? column : p.n - 1, 0);
    float sum[1][rows_at_once] = {};
    for (int first = 0; first < k; first += staged_columns) {
      int const last = first + staged_columns < k ? first + staged_columns : k;
      block.barrier();  // the stage before is done with
      if (activations::can_fetch(p.x)) {
        staged.fetch(first);
        staged.put(storage.stage);
      } else {
        staged.copy(first, storage.stage);
      }
      block.barrier();
      ratify::device::accumulate_columns<ratify::projection_scale::fp16>(weights, storage.stage, first, last, sum);
    }
    for (int r = 0; r < rows && column < p.n; ++r) p.y[(first_row + r) * p.n + column] = 2 * sum[0][r];
  }
};

}  // namespace

TEST_CASE("projection: a caller's kernel of device functions has the bits of one split") {
  random_source random(28);
  for (int const k : {16, 80, 704}) {
    CAPTURE(k);
    auto const o = random_projection<ratify::bf16>(random, 7, 45, k);
    auto expected = reference::projection(o, 1, false);
    for (float& y : expected) y *= 2;
    for (int const gap : {0, 3}) {  // rows on 16 bytes, and not
      std::vector<ratify::bf16> x(static_cast<size_t>(o.rows) * (k + gap), ratify::bf16{0x7fff});
      for (int r = 0; r < o.rows; ++r)
        for (int i = 0; i < k; ++i)
          x[static_cast<size_t>(r) * (k + gap) + i] =
              ratify::convert<ratify::bf16>(o.x[static_cast<size_t>(r) * k + i]);
      on_each_executor([&](auto& on) {
        using executor = std::decay_t<decltype(on)>;
        buffer<ratify::bf16, executor> activations(on, x);
        buffer<uint8_t, executor> packed(on, o.w_packed);
        buffer<ratify::e4m3, executor> scale(on, o.w_scale);
        buffer<float, executor> global(on, o.w_global), y(on, expected.size());
        doubled_kernel::params const p{{activations.data(), k + gap},
                                       {packed.data(), scale.data(), global.data(), nullptr, 1, k},
                                       y.data(),
                                       o.rows,
                                       o.n};
        auto const s = on.run(ratify::stage<doubled_kernel>{{(o.n + 31) / 32, (o.rows + 3) / 4}, p});
        REQUIRE_MESSAGE(s, s.reason());
        CHECK(bit_difference(y.read(), expected) == "");
      });
    }
  }
}
