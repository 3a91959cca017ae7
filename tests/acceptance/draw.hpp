// SPDX-License-Identifier: Apache-2.0
/// A kernel of a user's own around `ratify::device::draw_token`: one block per draw.
#pragma once

#include "acceptance/batch.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace ratify_test {

/// Draws from rows of logits.
struct draws {
  std::vector<std::vector<float>> rows;  ///< one per draw, or one for all
  std::vector<ratify::device::sampling> how;
  std::vector<uint32_t> random;
};

/// The draws that a launch of rule coupled makes for requests of one row each.
inline draws one_row_each(batch const& b) {
  draws d;
  for (auto const& r : b.requests) {
    d.rows.push_back(r.rows[0]);
    d.how.push_back({r.temperature, r.top_p, r.top_k});
    d.random.push_back(reference::random_word(r.seed, r.position, 0));
  }
  return d;
}

template <int Threads>
struct draw_kernel {
  struct params {
    float const* logits;
    int vocab;
    int64_t stride;  ///< 0: all draws are from one row
    ratify::device::sampling const* how;
    uint32_t const* random;
    int32_t* token;
  };
  static constexpr char const* name = "draw_kernel";
  static constexpr int block_threads = Threads;
  template <class Block>
  using shared_storage = ratify::device::draw_storage<Block>;

  RATIFY_ANY_BLOCK
  template <class Block>
  RATIFY_HD static void run(Block const& block, params const& p, shared_storage<Block>& storage) {
    int const i = block.block_x();
    auto const out =
        ratify::device::draw_token(block, p.logits + i * p.stride, p.vocab, p.how[i], p.random[i], storage);
    if (block.thread() == 0) p.token[i] = out.token;
  }
};

/// The tokens that blocks of so many threads draw.
template <int Threads, class Executor>
std::vector<int32_t> draw(Executor& on, draws const& d) {
  size_t const vocab = d.rows[0].size();
  std::vector<float> flat;
  for (auto const& row : d.rows) flat.insert(flat.end(), row.begin(), row.end());
  buffer<float, Executor> logits(on, flat);
  buffer<ratify::device::sampling, Executor> how(on, d.how);
  buffer<uint32_t, Executor> random(on, d.random);
  buffer<int32_t, Executor> token(on, d.random.size());
  auto const s = on.run(ratify::stage<draw_kernel<Threads>>{
      {static_cast<int>(d.random.size())},
      {logits.data(), static_cast<int>(vocab), d.rows.size() > 1 ? static_cast<int64_t>(vocab) : 0, how.data(),
       random.data(), token.data()}});
  REQUIRE_MESSAGE(s, s.reason());
  return token.read();
}

/// Many draws from one row.
template <int Threads, class Executor>
std::vector<int32_t> draw(Executor& on, std::vector<float> const& logits, ratify::device::sampling how,
                          std::vector<uint32_t> const& random) {
  return draw<Threads>(on, {{logits}, std::vector<ratify::device::sampling>(random.size(), how), random});
}

}  // namespace ratify_test
