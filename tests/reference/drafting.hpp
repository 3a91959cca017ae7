// SPDX-License-Identifier: Apache-2.0
/// The drafter's operations: FP32 and integer twins in plain loops, and FP64 truth with error bounds.
#pragma once

#include <ratify/numeric.hpp>

#include "acceptance.hpp"
#include "arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace reference {

/// One request's walk over dense tensors; left and right [vocab, rank] are widened.
struct walk {
  bool sample = false;
  int draft_slots = 0, count = 0, rank = 0, vocab = 0;
  std::vector<float> unary;         // [draft_slots, count]
  std::vector<int32_t> candidates;  // [draft_slots, count]
  std::vector<float> project;       // [draft_slots, rank]
  int32_t anchor = 0;
  float temperature = 1.0f;
  int64_t seed = 0, position = 0;
};

struct walked {
  std::vector<int32_t> tokens;  // [draft_slots]
  std::vector<float> q;         // [draft_slots, count]
};

/// unary + dot(left * project, right): 32 chains of every 32nd element, added in pairs 16, 8, 4, 2 and 1 apart.
inline float pair_score(float unary, float const* left, float const* project, float const* right, int rank) {
  std::vector<float> sums(32, 0.0f);
  for (int i = 0; i < rank; ++i)
    sums[size_t(i) % 32] = fma_rn(mul_rn(left[i], project[i]), right[i], sums[size_t(i) % 32]);
  while (sums.size() > 1) {
    size_t const half = sums.size() / 2;
    for (size_t l = 0; l < half; ++l) sums[l] = add_rn(sums[l], sums[l + half]);
    sums.resize(half);
  }
  return add_rn(unary, sums[0]);
}

inline walked draft_walk(walk const& w, std::vector<float> const& left, std::vector<float> const& right) {
  ieee_environment const environment;
  walked out{std::vector<int32_t>(size_t(w.draft_slots), -1),
             std::vector<float>(size_t(w.draft_slots) * size_t(w.count), 0.0f)};
  if (w.sample && !(w.temperature >= 0.0f && w.temperature < INFINITY)) return out;
  int32_t token = w.anchor;
  for (int s = 0; s < w.draft_slots; ++s) {
    if (token < 0 || token >= w.vocab) return out;
    size_t const at = size_t(s) * size_t(w.count);
    struct entry {
      float score;
      int32_t id;
      int place;
    };
    std::vector<entry> order;
    for (int c = 0; c < w.count; ++c) {
      int32_t const id = w.candidates[at + size_t(c)];
      if (id < 0 || id >= w.vocab) continue;
      float const score =
          pair_score(w.unary[at + size_t(c)], &left[size_t(token) * size_t(w.rank)],
                     &w.project[size_t(s) * size_t(w.rank)], &right[size_t(id) * size_t(w.rank)], w.rank);
      if (score > -INFINITY) order.push_back({score, id, c});  // false for NaN
    }
    if (order.empty()) return out;
    std::sort(order.begin(), order.end(), [](entry const& a, entry const& b) {
      return a.score > b.score || (a.score == b.score && (a.id < b.id || (a.id == b.id && a.place < b.place)));
    });
    float const best = order[0].score;
    if (!w.sample || w.temperature < 1e-5f || best == INFINITY) {
      token = order[0].id;
      out.q[at + size_t(order[0].place)] = 1.0f;
    } else {
      row_distribution p;
      for (auto const& e : order) {
        p.ids.push_back(e.id);
        p.masses.push_back(mass(exp_ordered(div_rn(sub_rn(e.score, best), w.temperature))));
      }
      // FP64 holds the masses and their sum, so each becomes an FP32 by one rounding.
      float const total = static_cast<float>(static_cast<double>(p.total()));
      for (size_t i = 0; i < order.size(); ++i)
        out.q[at + size_t(order[i].place)] = div_rn(static_cast<float>(static_cast<double>(p.masses[i])), total);
      auto const position = static_cast<int64_t>(static_cast<uint64_t>(w.position) + static_cast<uint64_t>(s));
      token = inverse_cdf(p, random_word(w.seed, position, 3));
    }
    out.tokens[size_t(s)] = token;
  }
  return out;
}

/// x [requests, draft_slots, channels], base [2, channels], delta [requests, draft_slots, 2, channels / 16], widened.
struct two_taps {
  int requests = 0, draft_slots = 0, channels = 0;
  std::vector<float> x, base, delta;
};

/// Calls each(index, tap, weight_base, weight_delta, x) for the terms of every output, the older slot's first.
template <class Each>
void each_tap(two_taps const& r, Each&& each) {
  for (int q = 0; q < r.requests; ++q)
    for (int i = 0; i < r.draft_slots; ++i)
      for (int c = 0; c < r.channels; ++c)
        for (int t = 1; t >= 0; --t) {
          if (i - t < 0) continue;
          size_t const row = size_t(q) * size_t(r.draft_slots) + size_t(i);
          each(row * size_t(r.channels) + size_t(c), r.base[size_t(t) * size_t(r.channels) + size_t(c)],
               r.delta[(row * 2 + size_t(t)) * size_t(r.channels / 16) + size_t(c / 16)],
               r.x[(row - size_t(t)) * size_t(r.channels) + size_t(c)]);
        }
}

/// Not rounded to a storage format.
inline std::vector<float> draft_convolution(two_taps const& r) {
  ieee_environment const environment;
  std::vector<float> out(r.x.size(), 0.0f);
  each_tap(r, [&](size_t i, float base, float delta, float x) { out[i] = fma_rn(add_rn(base, delta), x, out[i]); });
  return out;
}

namespace truth {

struct values_and_bounds {
  std::vector<double> value, bound;
};

/// q of one slot after `previous` at a temperature (0: argmax is not asked here), for finite operands.
inline values_and_bounds draft_walk_q(walk const& w, int slot, int32_t previous, std::vector<float> const& left,
                                      std::vector<float> const& right) {
  double const u = 0x1p-24;
  size_t const at = size_t(slot) * size_t(w.count);
  std::vector<double> score(size_t(w.count), -INFINITY);
  double error = 0.0;
  for (int c = 0; c < w.count; ++c) {
    int32_t const id = w.candidates[at + size_t(c)];
    if (id < 0 || id >= w.vocab) continue;
    double dot = 0.0, magnitudes = 0.0, subnormals = w.rank;  // roundings to subnormal numbers
    for (int i = 0; i < w.rank; ++i) {
      double const term = double{left[size_t(previous) * size_t(w.rank) + size_t(i)]} *
                          double{w.project[size_t(slot) * size_t(w.rank) + size_t(i)]} *
                          double{right[size_t(id) * size_t(w.rank) + size_t(i)]};
      dot += term;
      magnitudes += std::fabs(term);
      subnormals += std::fabs(double{right[size_t(id) * size_t(w.rank) + size_t(i)]});
    }
    score[size_t(c)] = double{w.unary[at + size_t(c)]} + dot;
    error = std::max(
        error, ((w.rank + 31) / 32 + 6) * u * magnitudes + u * std::fabs(score[size_t(c)]) + 0x1p-150 * subnormals);
  }
  double const most = *std::max_element(score.begin(), score.end()), t = w.temperature;
  values_and_bounds out;
  double total = 0.0;
  for (double s : score) total += std::exp((s - most) / t);
  double const relative = 2.0 * error / t + 62.0 * u;
  for (double s : score) {
    double const q = std::exp((s - most) / t) / total;
    out.value.push_back(q);
    out.bound.push_back(1.01 * (q * (2.0 * relative + 2.0 * u) + (w.count + 1) * 0x1p-41));
  }
  return out;
}

inline values_and_bounds draft_convolution(two_taps const& r) {
  values_and_bounds out{std::vector<double>(r.x.size(), 0.0), std::vector<double>(r.x.size(), 0x1p-140)};
  each_tap(r, [&](size_t i, double base, double delta, double x) {
    out.value[i] += (base + delta) * x;
    out.bound[i] += 1.01 * 3 * 0x1p-24 * std::fabs((base + delta) * x);
  });
  return out;
}

}  // namespace truth
}  // namespace reference
