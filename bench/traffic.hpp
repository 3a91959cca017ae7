// SPDX-License-Identifier: Apache-2.0
/// The lower bound of a launch's memory traffic, from its parameters.
#pragma once

#include <common/round_operations.hpp>

namespace bench {

/// Bytes that have to come from memory or go there: weights, visible K and V, states and windows, and the rows of them
/// that the round adds. Activations and logits are taken to stay in L2: an operation that reads nothing else has 0.
struct traffic {
  int context;  ///< tokens in the cache

  template <class Params>
  double operator()(Params const&) const {
    return 0;
  }
  template <class Policy>
  double operator()(ratify::embedding_params<Policy> const& p) const {
    return 2.0 * p.rows * p.columns;
  }
  template <class Policy>
  double operator()(ratify::rmsnorm_params<Policy> const& p) const {
    return 4.0 * p.columns;
  }
  template <class Policy>
  double operator()(ratify::projection_params<Policy> const& p) const {
    return 9.0 / 16 * p.n * p.k;
  }
  template <class Policy>
  double operator()(ratify::convolution_params<Policy> const& p) const {
    // The weights, the window before the round, and the window with the round's inputs after it.
    constexpr int width = Policy::width;
    return 2.0 * p.channels * (width + width - 1 + width - 1 + p.max_rows);
  }
  template <class Policy>
  double operator()(ratify::gating_params<Policy> const& p) const {
    return 8.0 * p.value_heads;
  }
  template <class Policy>
  double operator()(ratify::recurrence_params<Policy> const& p) const {
    return 4.0 * static_cast<double>(p.slot_stride) * (1 + p.rows);
  }
  template <class Policy>
  double operator()(ratify::gated_rmsnorm_params<Policy> const& p) const {
    return 4.0 * p.head_dim;
  }
  template <class Policy>
  double operator()(ratify::qk_norm_rotary_params<Policy> const& p) const {
    return 4.0 * p.head_dim;
  }
  template <class Policy>
  double operator()(ratify::append_params<Policy> const& p) const {
    return 2.0 * p.rows * p.kv_heads * p.head_dim;
  }
  template <class Policy>
  double operator()(ratify::attention_params<Policy> const& p) const {
    return 2.0 * context * p.kv_heads * Policy::head_dim;
  }
};

}  // namespace bench
