// SPDX-License-Identifier: Apache-2.0
/// The kernels of the drafter's operations.
#pragma once

#include <ratify/detail/drafting_traits.cuh>
#include <ratify/detail/elementwise.cuh>
#include <ratify/detail/philox.cuh>
#include <ratify/device/drafting.cuh>
#include <ratify/device/sampling.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// One block per request, which walks its slots in order.
template <class Policy>
struct draft_walk_kernel {
  using params = draft_walk_params<Policy>;
  static constexpr char const* name = "draft_walk_kernel";
  static constexpr int block_threads = draft_walk_threads;
  template <class Block>
  using shared_storage = device::draft_storage<Block>;

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const request = block.block_x();
    int32_t token = p.anchor[request];
    float temperature = 0.0f;
    uint64_t seed = 0, position = 0;
    if constexpr (Policy::mode == draft_mode::sample) {
      temperature = p.temperature[request];
      seed = static_cast<uint64_t>(p.seed[request]);
      position = static_cast<uint64_t>(p.position[request]);
      if (!device::is_valid(device::without_cuts(temperature))) token = -1;
    }
    for (int s = 0; s < p.draft_slots; ++s) {
      uint32_t random = 0;
      if constexpr (Policy::mode == draft_mode::sample)
        random = random_bits(seed, position + static_cast<uint64_t>(s), random_purpose::draft_walk);
      device::draft_slot<typename Policy::pair_format> const slot{p.candidates.at(request, s),
                                                                  p.unary.at(request, s),
                                                                  p.candidate_count,
                                                                  p.left,
                                                                  p.right,
                                                                  p.project.at(request, s),
                                                                  p.rank,
                                                                  p.vocab};
      token = device::draft_token<Policy::mode>(block, token, slot, temperature, random,
                                                p.q.data != nullptr ? p.q.at(request, s) : nullptr, storage);
      if (block.thread() == 0) p.tokens.row(request)[s] = token;
    }
  }
};

/// One thread per element of out.
template <class Policy>
struct draft_convolution_kernel
    : elementwise_kernel<draft_convolution_kernel<Policy>, draft_convolution_params<Policy>> {
  using params = draft_convolution_params<Policy>;
  static constexpr char const* name = "draft_convolution_kernel";
  RATIFY_HD static int64_t count(params const& p) { return int64_t{p.requests} * p.draft_slots * p.channels; }
  RATIFY_HD static void element(params const& p, int64_t i) {
    int64_t const row = i / p.channels, c = i % p.channels, request = row / p.draft_slots, slot = row % p.draft_slots;
    auto const* const delta = p.delta.at(request, slot) + c / draft_convolution_group;
    bool const has_before = slot > 0;
    float before = 0.0f, base_before = 0.0f, delta_before = 0.0f;
    if (has_before) {
      before = to_float(p.x.at(request, slot - 1)[c]);
      base_before = to_float(p.base[p.channels + c]);
      delta_before = to_float(delta[p.channels / draft_convolution_group]);
    }
    p.out.at(request, slot)[c] = convert<typename Policy::output_format>(
        device::draft_convolution(has_before, before, base_before, delta_before, to_float(p.x.at(request, slot)[c]),
                                  to_float(p.base[c]), to_float(delta[0])));
  }
};

}  // namespace detail

using detail::draft_convolution_kernel;
using detail::draft_walk_kernel;

RATIFY_END_NAMESPACE
