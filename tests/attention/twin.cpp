// SPDX-License-Identifier: Apache-2.0
#include <ratify/attention.cuh>

#include "support/attention.hpp"
#include "support/random.hpp"

#include <doctest/doctest.h>

using namespace ratify_test;

namespace {

using ratify::decoder;
using ratify::decoder_revision;
using ratify::kv_format;
using ratify::output_format;
using ratify::pv_unroll;
using ratify::q_format;

template <int HeadDim, int Width, decoder_revision Revision, class... Knobs>
using policy =
    ratify::attention_policy<ratify::head_dim<HeadDim>, ratify::partition_width<Width>, decoder<Revision>, Knobs...>;

/// Compares random shapes with the twin.
template <class Policy>
void check_random_shapes(int stream, int shapes) {
  random_source random(static_cast<uint64_t>(stream));
  for (int round = 0; round < scaled(shapes); ++round) {
    auto const c = random_attention_case<Policy>(random);
    CAPTURE(describe(c));
    check_equal_to_twin<Policy>(c);
    count_shape();
  }
}

}  // namespace

TEST_CASE("attention equals its twin bit for bit over random shapes") { check_random_shapes<verify_policy>(10, 60); }

TEST_CASE_TEMPLATE("attention equals its twin for every partition width", Policy, shift_policy<256, 64>,
                   shift_policy<128, 128>, shift_policy<256, 256>, shift_policy<128, 2048, pv_unroll<1>>,
                   shift_policy<256, 4096>) {
  check_random_shapes<Policy>(11, 12);
}

TEST_CASE_TEMPLATE("attention: unroll and decoder revision move no bit", Policy,
                   policy<256, 1024, decoder_revision::bit_fields, pv_unroll<1>>,
                   policy<256, 1024, decoder_revision::reference, pv_unroll<4>>,
                   policy<256, 1024, decoder_revision::native, pv_unroll<16>>) {
  check_random_shapes<Policy>(12, 12);
}

TEST_CASE_TEMPLATE(
    "attention of other head sizes and formats equals its twin", Policy, shift_policy<64, 256, pv_unroll<4>>,
    policy<128, 1024, decoder_revision::reference, kv_format<ratify::f16>>,
    policy<64, 64, decoder_revision::reference, kv_format<ratify::bf16>>,
    policy<256, 1024, decoder_revision::reference, kv_format<ratify::e5m2>>,
    policy<64, 512, decoder_revision::native, pv_unroll<16>, q_format<float>, output_format<ratify::bf16>>,
    policy<128, 128, decoder_revision::reference, pv_unroll<4>, q_format<ratify::bf16>, kv_format<ratify::bf16>,
           output_format<ratify::f16>>) {
  check_random_shapes<Policy>(13, 12);
}

// Tiles of 48 query entries, which are taken where each block has one: beside a request of few entries, and cut by a
// window too.
TEST_CASE_TEMPLATE("attention: many query entries over many partitions equal the twin", Policy, shift_policy<256, 64>,
                   policy<128, 64, decoder_revision::reference, pv_unroll<16>, kv_format<ratify::f16>>,
                   policy<64, 64, decoder_revision::native, pv_unroll<4>>) {
  random_source random(15);
  // 102 partitions of 4 KV heads: more than the blocks that a card holds at once.
  auto c = attention_case_with<Policy>(random, 24, 4, {8, 1}, {64 * scaled(102) - 28, 70}, 64);
  c.window = 64 * scaled(102) - 500;
  check_equal_to_twin<Policy>(c);
}

TEST_CASE("attention: tiles of 48 query entries and 256 columns equal the twin") {
  // 12 tiles per request: 40 requests are as many as a card of 160 multiprocessors runs blocks at once; a host runs
  // few.
#if defined(__CUDACC__)
  int const requests = 40;
#else
  int const requests = 2;
#endif
  random_source random(28);
  std::vector<int> rows(static_cast<size_t>(requests), 8), context;
  for (int r = 0; r < requests; ++r) context.push_back(random.integer(513, 560));
  using wide = shift_policy<256, 256>;
  check_equal_to_twin<wide>(attention_case_with<wide>(random, 24, 4, rows, context, 64));
}
