// SPDX-License-Identifier: Apache-2.0
/// The gated delta rule: FP32 twin in plain loops, and FP64 truth with an error bound.
#pragma once

#include "arithmetic.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

namespace reference {

struct recurrence_shape {
  int key_heads = 1, value_heads = 1, key_dim = 128, value_dim = 128;
  bool l2norm = true, vk = false;
  float scale = 1.0f;
  int64_t state_elements() const { return int64_t{value_heads} * key_dim * value_dim; }
};

/// Rows as FP32 values: q, k [rows, key_heads, key_dim], v [rows, value_heads, value_dim], g, beta [rows, value_heads].
struct recurrence_inputs {
  std::vector<float> q, k, v, g, beta;
};

/// What a launch finds and leaves: the pool [slots, slot_stride], and the lists of the requests. snapshot_slot is
/// [requests, sets * max_rows].
struct recurrence_round {
  std::vector<int32_t> query_start, initial_slot, selector, fresh, snapshot_slot;
  int max_rows = 1;
  std::vector<float> pool;
  int64_t slot_stride = 0;
  int sets = 1;
};

/// The sum of `terms(i)` over K keys: 8 lanes with every eighth key, a chain of fused multiply-adds in each, then a
/// tree.
template <class Terms>
float lane_sum(int keys, Terms&& terms) {
  float lane[8];
  for (int l = 0; l < 8; ++l) {
    lane[l] = 0.0f;
    for (int i = l; i < keys; i += 8) {
      auto const [a, b] = terms(i);
      lane[l] = fma_rn(a, b, lane[l]);
    }
  }
  for (int apart : {4, 2, 1})
    for (int l = 0; l < apart; ++l) lane[l] = add_rn(lane[l], lane[l + apart]);
  return lane[0];
}

struct pair_of_factors {
  float a, b;
};

/// x / sqrt(sum x^2 + 1e-6). Where the sum of squares is infinite or NaN: of the vector times 2^-70, without the 1e-6.
inline std::vector<float> l2norm(float const* from, int keys) {
  std::vector<float> x(from, from + keys);
  auto const square_sum = [&] { return lane_sum(keys, [&](int i) { return pair_of_factors{x[i], x[i]}; }); };
  float sum = square_sum();
  if (is_finite(sum)) {
    sum = add_rn(sum, 1e-6f);
  } else {
    for (float& value : x) value = mul_rn(value, 0x1p-70f);
    sum = square_sum();
  }
  float const factor = div_rn(1.0f, sqrt_rn(sum));
  for (float& value : x) value = mul_rn(value, factor);
  return x;
}

/// One row on one head's state [key_dim, value_dim] with given strides; writes value_dim outputs and, where they are
/// wanted, the key as used and the update's value_dim factors.
inline void recurrence_row(recurrence_shape const& s, recurrence_inputs const& in, int row, int head, float* state,
                           int key_stride, int value_stride, float* out, float* used_k = nullptr,
                           float* used_u = nullptr) {
  int const key_head = head / (s.value_heads / s.key_heads), K = s.key_dim, V = s.value_dim;
  size_t const at = (static_cast<size_t>(row) * s.key_heads + key_head) * K,
               gate = static_cast<size_t>(row) * s.value_heads + head;
  std::vector<float> k(&in.k[at], &in.k[at] + K), q(&in.q[at], &in.q[at] + K);
  if (s.l2norm) {
    k = l2norm(k.data(), K);
    q = l2norm(q.data(), K);
  }
  if (used_k != nullptr)
    for (int i = 0; i < K; ++i) used_k[i] = canonical(k[i]);
  float const decay = exp_ordered(in.g[gate]);
  for (int v = 0; v < V; ++v) {
    auto const S = [&](int i) -> float& { return state[i * key_stride + v * value_stride]; };
    for (int i = 0; i < K; ++i) S(i) = mul_rn(decay, S(i));
    float const dot = lane_sum(K, [&](int i) { return pair_of_factors{k[i], S(i)}; });
    float const u = mul_rn(in.beta[gate], sub_rn(in.v[gate * V + v], dot));
    if (used_u != nullptr) used_u[v] = canonical(u);
    for (int i = 0; i < K; ++i) S(i) = fma_rn(k[i], u, S(i));
    out[v] = mul_rn(s.scale, lane_sum(K, [&](int i) { return pair_of_factors{q[i], S(i)}; }));
  }
}

/// A launch in mode snapshots. @return out [rows, value_heads, value_dim], not rounded to a storage format.
inline std::vector<float> recurrence(recurrence_shape const& s, recurrence_inputs const& in, recurrence_round& r) {
  ieee_environment const environment;
  int const requests = static_cast<int>(r.query_start.size()) - 1, K = s.key_dim, V = s.value_dim;
  std::vector<float> out(in.v.size(), 0.0f);
  for (int request = 0; request < requests; ++request) {
    int const begin = r.query_start[request], n = r.query_start[request + 1] - begin;
    if (n == 0 || r.initial_slot[request] == -1) continue;
    int32_t const* const snapshots = &r.snapshot_slot[static_cast<size_t>(request) * r.sets * r.max_rows];
    int const selector = r.selector[request];
    int64_t const source = selector == 0 ? r.initial_slot[request] : snapshots[selector - 1];
    // Of two sets, the one that holds the state the request starts from is left alone.
    bool const from_first_set = selector >= 1 && selector <= r.max_rows;
    int32_t const* const written = snapshots + (r.sets == 2 && from_first_set ? r.max_rows : 0);
    std::vector<float> state(static_cast<size_t>(s.state_elements()), 0.0f);
    if (r.fresh.empty() || r.fresh[request] == 0)
      for (size_t i = 0; i < state.size(); ++i) state[i] = r.pool[source * r.slot_stride + i];
    for (int t = 0; t < n; ++t) {
      for (int head = 0; head < s.value_heads; ++head)
        recurrence_row(s, in, begin + t, head, &state[static_cast<size_t>(head) * K * V], s.vk ? 1 : V, s.vk ? K : 1,
                       &out[(static_cast<size_t>(begin + t) * s.value_heads + head) * V]);
      if (written[t] < 0) continue;
      for (size_t i = 0; i < state.size(); ++i) r.pool[written[t] * r.slot_stride + i] = canonical(state[i]);
    }
  }
  return out;
}

/// What a launch in mode replay finds and leaves: the pool [slots, slot_stride]; the rings [slots, places, heads, dim],
/// dense but for *_stride elements from slot to slot; and the lists of the requests.
struct replay_round {
  std::vector<int32_t> query_start, slot, ring_start, ring_count, flush, fresh;
  int max_rows = 1, places = 16;
  std::vector<float> pool, ring_k, ring_u, ring_g;
  int64_t slot_stride = 0, k_stride = 0, u_stride = 0, g_stride = 0;
};

/// A launch in mode replay. @return out, as above.
inline std::vector<float> recurrence_replay(recurrence_shape const& s, recurrence_inputs const& in, replay_round& r) {
  ieee_environment const environment;
  int const requests = static_cast<int>(r.query_start.size()) - 1, K = s.key_dim, V = s.value_dim;
  int const key_stride = s.vk ? 1 : V, value_stride = s.vk ? K : 1;
  std::vector<float> out(in.v.size(), 0.0f);
  for (int request = 0; request < requests; ++request) {
    int const begin = r.query_start[request], n = r.query_start[request + 1] - begin;
    if (n == 0 || r.slot[request] == -1) continue;
    int64_t const slot = r.slot[request];
    bool const fresh = !r.fresh.empty() && r.fresh[request] == 1;
    int const kept = r.ring_count[request];
    for (int head = 0; head < s.value_heads; ++head) {
      int const key_head = head / (s.value_heads / s.key_heads);
      auto const place = [&](int row) { return static_cast<int64_t>((r.ring_start[request] + row) % r.places); };
      auto const ring_k = [&](int row) {
        return &r.ring_k[slot * r.k_stride + (place(row) * s.key_heads + key_head) * K];
      };
      auto const ring_u = [&](int row) {
        return &r.ring_u[slot * r.u_stride + (place(row) * s.value_heads + head) * V];
      };
      auto const ring_g = [&](int row) { return &r.ring_g[slot * r.g_stride + place(row) * s.value_heads + head]; };
      float* const pool = &r.pool[slot * r.slot_stride + int64_t{head} * K * V];
      std::vector<float> state(pool, pool + K * V);
      if (fresh) state.assign(state.size(), 0.0f);
      for (int row = 0; row < kept; ++row)
        for (int i = 0; i < K; ++i)
          for (int v = 0; v < V; ++v) {
            float& S = state[static_cast<size_t>(i * key_stride + v * value_stride)];
            S = fma_rn(ring_k(row)[i], ring_u(row)[v], mul_rn(exp_ordered(*ring_g(row)), S));
          }
      if (fresh || r.flush[request] == 1)
        for (size_t i = 0; i < state.size(); ++i) pool[i] = canonical(state[i]);
      for (int t = 0; t < n; ++t) {
        size_t const gate = static_cast<size_t>(begin + t) * s.value_heads + head;
        recurrence_row(s, in, begin + t, head, state.data(), key_stride, value_stride, &out[gate * V], ring_k(kept + t),
                       ring_u(kept + t));
        *ring_g(kept + t) = canonical(in.g[gate]);
      }
    }
  }
  return out;
}

namespace truth {

/// The exact recurrence of one request in FP64 and, per value column, a bound on the 2-norm of the FP32 state's error
/// (docs/arithmetic.md derives it).
class recurrence {
 public:
  explicit recurrence(recurrence_shape const& s)
      : state(static_cast<size_t>(s.state_elements())),
        state_bound(static_cast<size_t>(s.value_heads) * s.value_dim),
        shape_(s) {}

  /// [value_heads, key_dim, value_dim] whatever the pool's layout.
  std::vector<double> state, state_bound;

  /// Takes over a state from the pool; its values are exact.
  void start(float const* from) {
    recurrence_shape const& s = shape_;
    for (int h = 0; h < s.value_heads; ++h)
      for (int i = 0; i < s.key_dim; ++i)
        for (int v = 0; v < s.value_dim; ++v)
          at(h, i, v) =
              from[static_cast<size_t>(h) * s.key_dim * s.value_dim + (s.vk ? v * s.key_dim + i : i * s.value_dim + v)];
    state_bound.assign(state_bound.size(), 0.0);
  }

  /// One row; appends value_heads * value_dim outputs and bounds of their FP32 error.
  void row(recurrence_inputs const& in, int row, std::vector<double>& out, std::vector<double>& out_bound) {
    recurrence_shape const& s = shape_;
    int const K = s.key_dim, V = s.value_dim;
    double const unit = 0x1p-24, sum_unit = (K / 8 + 3) * unit,
                 norm_unit = s.l2norm ? (0.5 * (K / 8 + 4) + 3) * unit : 0.0;
    for (int h = 0; h < s.value_heads; ++h) {
      size_t const from = (static_cast<size_t>(row) * s.key_heads + h / (s.value_heads / s.key_heads)) * K,
                   gate = static_cast<size_t>(row) * s.value_heads + h;
      double kk = 1.0, qq = 1.0;
      std::vector<double> const k = vector(&in.k[from], kk), q = vector(&in.q[from], qq);
      double const decay = std::exp(static_cast<double>(in.g[gate])), beta = in.beta[gate];
      for (int v = 0; v < V; ++v) {
        double dot = 0, before = 0, after = 0, o = 0;
        for (int i = 0; i < K; ++i) {
          at(h, i, v) *= decay;
          dot += k[i] * at(h, i, v);
          before += at(h, i, v) * at(h, i, v);
        }
        before = std::sqrt(before);
        double const difference = in.v[gate * V + v] - dot, u = beta * difference;
        for (int i = 0; i < K; ++i) {
          at(h, i, v) += k[i] * u;
          o += q[i] * at(h, i, v);
          after += at(h, i, v) * at(h, i, v);
        }
        after = std::sqrt(after);
        double& e = state_bound[static_cast<size_t>(h) * V + v];
        e = decay * e + 5 * unit * before;
        double const dot_error = (sum_unit + norm_unit) * kk * before;
        double const u_error = std::fabs(beta) * (dot_error + unit * std::fabs(difference)) + unit * std::fabs(u);
        e = e * std::fmax(1.0, std::fabs(1 - beta * kk * kk)) + kk * u_error + norm_unit * kk * std::fabs(u) +
            unit * after;
        out.push_back(s.scale * o);
        out_bound.push_back(1.01 * (std::fabs(s.scale) * (qq * e + (sum_unit + norm_unit) * qq * after) +
                                    unit * std::fabs(s.scale * o)) +
                            0x1p-140);
      }
    }
  }
 private:
  double& at(int head, int key, int value) {
    return state[(static_cast<size_t>(head) * shape_.key_dim + key) * shape_.value_dim + value];
  }
  std::vector<double> vector(float const* x, double& norm) const {
    double sum = 0;
    for (int i = 0; i < shape_.key_dim; ++i) sum += double{x[i]} * x[i];
    double const factor = shape_.l2norm ? 1 / std::sqrt(sum + double{1e-6f}) : 1.0;
    norm = std::sqrt(sum) * factor;
    std::vector<double> y;
    for (int i = 0; i < shape_.key_dim; ++i) y.push_back(x[i] * factor);
    return y;
  }
  recurrence_shape shape_;
};

}  // namespace truth
}  // namespace reference
