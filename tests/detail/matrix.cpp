// SPDX-License-Identifier: Apache-2.0
/// Matrix products of a warp: the layout of the fragments, and what the models of matrix units add up.
#include <ratify/host.hpp>

#include "support/compare.hpp"
#include "support/executors.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace {

using namespace ratify_test;
using ratify::bf16;
using ratify::f16;
using ratify::matrix_model;
using ratify::detail::matrix_sum;

float sum_of(matrix_model model, std::vector<float> const& a, std::vector<float> const& b, float c, int count = 16) {
  std::vector<f16> x(16, f16{0}), y(16, f16{0});
  for (size_t i = 0; i < a.size(); ++i) x[i] = ratify::convert<f16>(a[i]), y[i] = ratify::convert<f16>(b[i]);
  return matrix_sum(model, x.data(), y.data(), count, c);
}

/// The published model written down a second time, in long double: terms aligned to the largest exponent, cut off
/// after `kept` bits, summed, cut off to FP32.
template <class Format>
float long_double_model(Format const* a, Format const* b, int count, float c, int kept) {
  int const least = sizeof(Format) == 2 && std::is_same_v<Format, f16> ? -14 : -126;
  auto const exponent = [](long double x, int lowest) {
    int e = 0;
    (void)std::frexp(x, &e);
    return std::max(e - 1, lowest);
  };
  std::vector<long double> terms{c};
  std::vector<int> exponents{exponent(c, -126)};
  for (int i = 0; i < count; ++i) {
    long double const x = ratify::to_float(a[i]), y = ratify::to_float(b[i]);
    terms.push_back(x * y);
    exponents.push_back(exponent(x, least) + exponent(y, least));
  }
  int top = -1000000;
  for (size_t i = 0; i < terms.size(); ++i)
    if (terms[i] != 0) top = std::max(top, exponents[i]);
  long double sum = 0;
  for (long double const t : terms)
    if (t != 0) sum += std::ldexp(std::trunc(std::ldexp(t, kept - top)), top - kept);
  if (sum == 0) return 0.0f;
  int const quantum = std::max(exponent(sum, -126) - 23, -149);
  long double const cut = std::ldexp(std::trunc(std::ldexp(sum, -quantum)), quantum);
  if (std::fabs(cut) >= std::ldexp(1.0L, 128))
    return std::copysign(std::numeric_limits<float>::infinity(), cut > 0 ? 1.0f : -1.0f);
  return std::copysign(static_cast<float>(std::fabs(cut)), sum > 0 ? 1.0f : -1.0f);
}

template <class Format>
Format finite_bits(random_source& random, int kind) {
  constexpr bool half = std::is_same_v<Format, f16>;
  for (;;) {
    auto const word = static_cast<uint16_t>(random.word());
    int const exponent = half ? (word >> 10) & 31 : (word >> 7) & 255;
    if (exponent == (half ? 31 : 255)) continue;
    if (kind == 1) return Format{static_cast<uint16_t>(word & (half ? 0x83ffu : 0x807fu))};  // subnormal
    if (kind == 2) return ratify::convert<Format>(random.normal());
    return Format{word};
  }
}

template <class Format, int K, int N>
struct product_kernel {
  struct params {
    Format const* a;  ///< [16, 16 K]
    Format const* b;  ///< [8 N, 16 K], by column
    float* c;         ///< [16, 8 N]
  };
  static constexpr char const* name = "product_kernel";
  static constexpr int block_threads = 32;
  static constexpr ratify::kernel_needs needs{std::is_same_v<Format, f16> ? 750 : 800};
  template <class Block>
  struct shared_storage {
    alignas(16) Format a[K][16][16], b[K][N][8][16];
  };

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const lane = block.lane(), g = lane / 4, t = 2 * (lane % 4);
    for (int i = lane; i < 16 * 16 * K; i += 32) storage.a[i % (16 * K) / 16][i / (16 * K)][i % 16] = p.a[i];
    for (int i = lane; i < 8 * N * 16 * K; i += 32)
      storage.b[i % (16 * K) / 16][i / (16 * K) / 8][i / (16 * K) % 8][i % 16] = p.b[i];
    block.warp_barrier();
    ratify::detail::fragment_a a[K];
    ratify::detail::fragment_b b[K][N];
    ratify::detail::fragment_c c[N];
    int const row = lane % 8 + lane / 8 % 2 * 8, column = lane / 16 * 8;
    for (int k = 0; k < K; ++k) {
      block.load_matrices(a[k].word, &storage.a[k][row][column]);
      for (int n = 0; n < N; ++n) {
        uint32_t w[4];  // lanes 0 to 15 have the rows of two matrices, the others theirs again
        block.load_matrices(w, &storage.b[k][n][lane % 8][lane / 8 % 2 * 8]);
        b[k][n].word[0] = w[0];
        b[k][n].word[1] = w[1];
      }
    }
    for (int n = 0; n < N; ++n)
      for (int i = 0; i < 4; ++i) c[n].value[i] = p.c[(g + 8 * (i / 2)) * 8 * N + 8 * n + t + i % 2];
    block.template multiply<Format>(c, a, b);
    for (int n = 0; n < N; ++n)
      for (int i = 0; i < 4; ++i) p.c[(g + 8 * (i / 2)) * 8 * N + 8 * n + t + i % 2] = c[n].value[i];
  }
};

/// Operands of one kind: 0 to 3 those of `finite_bits`, 4 large ones of one sign, 5 infinities and NaN among ones.
template <class Format>
Format operand(random_source& random, int kind) {
  if (kind == 4)
    return ratify::convert<Format>(std::ldexp(random.uniform(1.0f, 2.0f), std::is_same_v<Format, f16> ? 15 : 63));
  if (kind == 5) {
    float const inf = std::numeric_limits<float>::infinity();
    bool const rare = random.integer(0, 60) == 0;
    return ratify::convert<Format>(rare ? random.one_of({inf, -inf, inf - inf, 0.0f}) : random.one_of({1.0f, -1.0f}));
  }
  return finite_bits<Format>(random, kind);
}

/// What the kernel must give by the model.
template <class Format, int K, int N>
std::vector<float> modelled(matrix_model model, std::vector<Format> const& a, std::vector<Format> const& b,
                            std::vector<float> c) {
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8 * N; ++column)
      for (int k = 0; k < K; ++k) {
        float& sum = c[static_cast<size_t>(row * 8 * N + column)];
        sum = matrix_sum(model, &a[static_cast<size_t>((row * K + k) * 16)],
                         &b[static_cast<size_t>((column * K + k) * 16)], 16, sum);
      }
  return c;
}

template <class Format, int K, int N, class Executor>
void check_products(Executor& on, matrix_model model) {
  random_source random(41);
  for (int trial = 0; trial < scaled(24); ++trial) {
    int const kind = trial % 6;
    std::vector<Format> a(16 * 16 * K), b(8 * N * 16 * K);
    for (auto& x : a) x = operand<Format>(random, kind);
    for (auto& x : b) x = operand<Format>(random, kind);
    std::vector<float> c(16 * 8 * N);
    for (auto& x : c) x = random.normal();
    buffer<Format, Executor> of_a(on, a), of_b(on, b);
    buffer<float, Executor> of_c(on, c);
    auto const s = on.run(ratify::stage<product_kernel<Format, K, N>>{{1}, {of_a.data(), of_b.data(), of_c.data()}});
    REQUIRE_MESSAGE(s, s.reason());
    CAPTURE(kind);
    CHECK(bit_difference(of_c.read(), modelled<Format, K, N>(model, a, b, c)) == "");
  }
}

template <class Executor>
void check_products(Executor& on, matrix_model model) {
  check_products<f16, 1, 1>(on, model);
  check_products<f16, 3, 2>(on, model);
  check_products<bf16, 2, 3>(on, model);
}

}  // namespace

TEST_CASE("matrix: fragments of every shape multiply what their layouts say") {
  for (auto const model : {matrix_model::exact, matrix_model::turing, matrix_model::ampere, matrix_model::hopper}) {
    CAPTURE(static_cast<int>(model));
    ratify::host_options o;
    o.threads = 1;
    o.matrix = model;
    ratify::host_executor on(o);
    check_products(on, model);
  }
}

#if defined(__CUDACC__)
TEST_CASE("matrix: a card's products are to the bit those of its model") {
  if (!card_present()) return;
  cudaDeviceProp card{};
  require_success(cudaGetDeviceProperties(&card, 0));
  if (card.major < 8) return;  // its kernels are not in this test
  ratify::cuda_executor on(nullptr);
  check_products(on, card.major >= 9 ? matrix_model::hopper : matrix_model::ampere);
}
#endif

TEST_CASE("matrix: known sums of each model") {
  // One product far below the addend: Hopper keeps a bit more than Ampere, exact rounds to nearest.
  float const above = 1.0f + 0x1p-23f;
  CHECK(sum_of(matrix_model::hopper, {1.0f}, {0x1p-23f}, 1.0f) == above);
  CHECK(sum_of(matrix_model::hopper, {-1.0f}, {0x1p-24f}, above) == 1.0f);  // toward zero, where nearest ties to even
  // Two halves of the last bit come together in the sum: a quarter each is beyond Ampere's bits.
  CHECK(sum_of(matrix_model::ampere, {1, 1, 1, 1}, {0x1p-24f, 0x1p-24f, 0, 0}, 1.0f) == above);
  CHECK(sum_of(matrix_model::ampere, {0.5f, 0.5f, 0.5f, 0.5f}, {0x1p-24f, 0x1p-24f, 0x1p-24f, 0x1p-24f}, 1.0f) == 1.0f);
  CHECK(sum_of(matrix_model::hopper, {0.5f, 0.5f, 0.5f, 0.5f}, {0x1p-24f, 0x1p-24f, 0x1p-24f, 0x1p-24f}, 1.0f) ==
        above);
  // Eight products at a time: the first eight cancel before the rest come; sixteen at once are aligned to the largest.
  std::vector<float> ones(16, 0.0f), big(16, 0.0f);
  ones[0] = ones[1] = ones[15] = 1.0f;
  big[0] = 1024.0f, big[1] = -1024.0f, big[15] = 0x1p-20f;
  CHECK(sum_of(matrix_model::ampere, ones, big, 0.0f) == 0x1p-20f);
  CHECK(sum_of(matrix_model::hopper, ones, big, 0.0f) == 0.0f);
  CHECK(sum_of(matrix_model::exact, ones, big, 0.0f) == 0x1p-20f);
}

TEST_CASE("matrix: special values of each model") {
  float const inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  auto const bits_of = [](float x) { return ratify::detail::bits(x); };
  for (auto const model : {matrix_model::exact, matrix_model::turing, matrix_model::ampere, matrix_model::hopper}) {
    CAPTURE(static_cast<int>(model));
    CHECK(bits_of(sum_of(model, {nan}, {1.0f}, 0.0f)) == 0x7fffffffu);
    CHECK(bits_of(sum_of(model, {1.0f}, {1.0f}, -nan)) == 0x7fffffffu);
    CHECK(bits_of(sum_of(model, {inf}, {0.0f}, 0.0f)) == 0x7fffffffu);
    CHECK(bits_of(sum_of(model, {inf, 1.0f}, {1.0f, -inf}, 0.0f)) == 0x7fffffffu);
    CHECK(bits_of(sum_of(model, {inf}, {inf}, -inf)) == 0x7fffffffu);
    CHECK(sum_of(model, {inf}, {-2.0f}, 3.0f) == -inf);
    CHECK(sum_of(model, {1.0f}, {1.0f}, inf) == inf);
    CHECK(bits_of(sum_of(model, {1.0f, 1.0f}, {2.0f, -2.0f}, 0.0f)) == 0u);
    float const largest = std::numeric_limits<float>::max();
    CHECK(sum_of(model, {65504.0f}, {65504.0f}, largest) == largest);
    CHECK(sum_of(model, {}, {}, -0x1p-149f) == -0x1p-149f);  // a subnormal addend is kept
  }
  bf16 const large{0x7f00}, one{0x3f80}, two{0x4000};  // 2^127
  bf16 const a[16] = {large}, b[16] = {two};
  CHECK(matrix_sum(matrix_model::hopper, a, b, 16, 0.0f) == inf);
  bf16 const c[16] = {one};
  CHECK(matrix_sum(matrix_model::hopper, a, c, 16, -0x1p127f) == 0.0f);
}

TEST_CASE_TEMPLATE("matrix: the integer model equals the model in long double", Format, f16, bf16) {
  random_source random(42);
  for (int trial = 0; trial < scaled(20000); ++trial) {
    int const kind = random.integer(0, 3);
    Format a[16], b[16];
    for (auto& x : a) x = finite_bits<Format>(random, kind);
    for (auto& x : b) x = finite_bits<Format>(random, kind);
    float const c = kind == 1 ? ratify::detail::from_bits(static_cast<uint32_t>(random.word()) & 0x807fffffu)
                              : random.normal(std::ldexp(1.0f, random.integer(-30, 20)));
    for (int const count : {8, 16}) {
      CAPTURE(trial);
      CAPTURE(kind);
      CAPTURE(count);
      float const hopper = long_double_model(a, b, count, c, 25);
      CHECK(bit_difference<float>({matrix_sum(matrix_model::hopper, a, b, count, c)}, {hopper}) == "");
      float ampere = c;
      for (int k = 0; k < count && std::isfinite(ampere); k += 8)
        ampere = long_double_model(a + k, b + k, 8, ampere, 24);
      if (std::isfinite(ampere))
        CHECK(bit_difference<float>({matrix_sum(matrix_model::ampere, a, b, count, c)}, {ampere}) == "");
    }
  }
}
