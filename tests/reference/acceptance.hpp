// SPDX-License-Identifier: Apache-2.0
/// Acceptance: the integer twin by sorting, and FP64 truth.
#pragma once

#include <ratify/detail/machine/floating_environment.hpp>
#include <ratify/detail/math.cuh>
#include <ratify/numeric.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace reference {

__extension__ typedef unsigned __int128 uint128;

/// Philox4x32-10 in the notation of its authors: rounds of two products with a bumped key.
inline std::vector<uint32_t> philox(std::vector<uint32_t> c, std::vector<uint32_t> k) {
  for (int round = 0; round < 10; ++round) {
    uint64_t const p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}

/// The first random word for a position, of a purpose.
inline uint32_t random_word(int64_t seed, int64_t position, uint32_t purpose) {
  auto const low = [](int64_t x) { return static_cast<uint32_t>(static_cast<uint64_t>(x)); };
  auto const high = [](int64_t x) { return static_cast<uint32_t>(static_cast<uint64_t>(x) >> 32); };
  return philox({low(position), high(position), purpose, 0}, {low(seed), high(seed)})[0];
}

/// round(2^40 e), half to even: the product is exact in FP64.
inline uint64_t mass(float e) { return static_cast<uint64_t>(std::nearbyint(std::ldexp(static_cast<double>(e), 40))); }

/// exp((logit - maximum) / temperature), each step rounded to FP32.
inline float exponential(float logit, float maximum, float temperature) {
  using namespace ratify::detail;
  ordered_environment const environment;
  return exp_ordered(div_rn(sub_rn(logit, maximum), temperature));
}

/// Ids in the order (logit descending, id ascending).
inline std::vector<int> order(std::vector<float> const& x) {
  std::vector<int> ids(x.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(),
            [&](int a, int b) { return x[size_t(a)] > x[size_t(b)] || (x[size_t(a)] == x[size_t(b)] && a < b); });
  return ids;
}

/// What a row's token is drawn from: kept entries in order, with their masses.
struct row_distribution {
  bool bad = false;
  std::vector<int> ids;
  std::vector<uint64_t> masses;
  uint64_t total() const { return std::accumulate(masses.begin(), masses.end(), uint64_t{0}); }
};

inline row_distribution distribution(std::vector<float> const& x, float temperature, float top_p, int top_k) {
  float const infinity = INFINITY;
  row_distribution const bad{true, {}, {}};
  if (!(temperature >= 0.0f && temperature < infinity && top_p >= 0.0f && top_p <= 1.0f && top_k >= -1)) return bad;
  bool some = false;
  for (float v : x) {
    if (std::isnan(v)) return bad;
    some = some || v > -infinity;
  }
  if (!some) return bad;
  int const best = static_cast<int>(std::max_element(x.begin(), x.end()) - x.begin());  // the first of equal ones
  float const maximum = x[size_t(best)];
  if (maximum == infinity || temperature < 1e-5f) return {false, {best}, {uint64_t{1} << 40}};

  row_distribution out{false, order(x), {}};
  if (top_k > 0 && static_cast<size_t>(top_k) < x.size()) out.ids.resize(size_t(top_k));
  for (int id : out.ids) out.masses.push_back(mass(exponential(x[size_t(id)], maximum, temperature)));
  uint64_t const total = out.total();
  // The prefix reaches top_p if sum * 2^s >= m * total, where top_p = m / 2^s.
  int exponent = 0;
  double const fraction = std::frexp(static_cast<double>(top_p), &exponent);
  auto const m = static_cast<uint64_t>(std::ldexp(fraction, 24));
  int const s = 24 - exponent;
  uint64_t sum = 0;
  for (size_t i = 0; i < out.ids.size(); ++i) {
    sum += out.masses[i];
    // Beyond s = 60 any prefix reaches it: m * total < 2^87, and the first entry alone holds 2^40.
    if (s > 60 || (static_cast<uint128>(sum) << s) >= static_cast<uint128>(m) * total) {
      out.ids.resize(i + 1);
      out.masses.resize(i + 1);
      break;
    }
  }
  return out;
}

/// The first entry whose cumulative mass exceeds floor(random * total / 2^32).
inline int inverse_cdf(row_distribution const& p, uint32_t random) {
  auto const point = static_cast<uint64_t>((static_cast<uint128>(random) * p.total()) >> 32);
  uint64_t running = 0;
  for (size_t i = 0; i < p.ids.size(); ++i) {
    running += p.masses[i];
    if (running > point) return p.ids[i];
  }
  return -2;  // never
}

struct row_draw {
  int token = -1;
  int bad = 0;
  size_t kept = 0;  ///< entries the token was drawn from
};

inline row_draw draw(std::vector<float> const& x, float temperature, float top_p, int top_k, uint32_t random) {
  auto const p = distribution(x, temperature, top_p, top_k);
  if (p.bad) return {-1, 1, 0};
  return {inverse_cdf(p, random), 0, p.ids.size()};
}

/// What a draft was drawn from: weights of candidates or, without candidates, of the whole vocabulary; no weights: the
/// draft was chosen.
struct draft_source {
  std::vector<int32_t> candidates;
  std::vector<float> weights;
};

/// Integers of the weights by id; empty: there is no such distribution.
inline std::vector<uint64_t> draft_masses(draft_source const& q, int32_t draft, size_t vocab) {
  std::vector<uint64_t> out(vocab, 0);
  if (q.weights.empty()) {
    out[size_t(draft)] = 1;
    return out;
  }
  float largest = 0.0f;
  for (int pass = 0; pass < 2; ++pass) {
    int exponent = 0;
    std::frexp(largest, &exponent);
    exponent = std::max(exponent, -125);
    for (size_t i = 0; i < q.weights.size(); ++i) {
      int64_t const id = q.candidates.empty() ? static_cast<int64_t>(i) : q.candidates[i];
      if (id < 0 || id >= static_cast<int64_t>(vocab)) continue;
      float const w = q.weights[i];
      if (!(w >= 0.0f && w < INFINITY)) return {};
      largest = std::max(largest, w);
      if (pass == 1)
        out[size_t(id)] += static_cast<uint64_t>(std::nearbyint(std::ldexp(static_cast<double>(w), 40 - exponent)));
    }
    if (largest == 0.0f) return {};
  }
  return out;
}

/// Rule rejection: what one row gives.
inline row_draw judge(std::vector<float> const& x, float temperature, float top_p, int top_k, int32_t draft,
                      draft_source const& source, uint32_t accept_random, uint32_t residual_random) {
  ratify::detail::ordered_environment const environment;
  auto p = distribution(x, temperature, top_p, top_k);
  if (p.bad) return {-1, 1, 0};
  if (draft >= 0 && draft < static_cast<int32_t>(x.size())) {
    auto q = draft_masses(source, draft, x.size());
    if (!q.empty()) {
      uint64_t const q_total = std::accumulate(q.begin(), q.end(), uint64_t{0}), p_total = p.total();
      for (auto& v : q) v = static_cast<uint64_t>(static_cast<uint128>(v) * p_total / q_total);
      uint64_t own = 0;
      for (size_t i = 0; i < p.ids.size(); ++i)
        if (p.ids[i] == draft) own = p.masses[i];
      if (static_cast<uint128>(accept_random) * q[size_t(draft)] < static_cast<uint128>(own) << 32)
        return {draft, 0, p.ids.size()};
      auto rest = p;
      for (size_t i = 0; i < p.ids.size(); ++i) rest.masses[i] -= std::min(rest.masses[i], q[size_t(p.ids[i])]);
      if (rest.total() > 0) p = rest;
    }
  }
  return {inverse_cdf(p, residual_random), 0, p.ids.size()};
}

/// One request of acceptance.
struct request {
  std::vector<std::vector<float>> rows;  ///< one more than drafts
  std::vector<int32_t> draft;
  std::vector<draft_source> source;  ///< of each draft, or empty: all were chosen
  float temperature = 1.0f, top_p = 1.0f;
  int top_k = 0;
  int64_t seed = 0, position = 0;
  int limit = 1 << 30;
};

struct round {
  std::vector<int32_t> tokens, row_status;
  int32_t emitted = 0, accepted = 0, finish = 0;
};

inline round accept(bool rejection, request const& r, std::vector<int32_t> const& end_tokens, size_t most_drafts) {
  round out;
  std::vector<int32_t> own;
  for (size_t t = 0; t < r.rows.size(); ++t) {
    int64_t const position = static_cast<int64_t>(static_cast<uint64_t>(r.position) + t);
    row_draw const d =
        rejection && t + 1 < r.rows.size()
            ? judge(r.rows[t], r.temperature, r.top_p, r.top_k, r.draft[t],
                    r.source.empty() ? draft_source{} : r.source[t], random_word(r.seed, position, 1),
                    random_word(r.seed, position, 2))
            : draw(r.rows[t], r.temperature, r.top_p, r.top_k, random_word(r.seed, position, rejection ? 2 : 0));
    own.push_back(d.token);
    out.row_status.push_back(d.bad);
  }
  if (r.limit <= 0) out.finish = 2;
  for (size_t t = 0; t < own.size() && out.finish == 0; ++t) {
    if (out.row_status[t] != 0) {
      out.finish = 3;
      break;
    }
    out.tokens.push_back(own[t]);
    bool const agrees = t + 1 < own.size() && r.draft[t] == own[t];
    out.accepted += agrees;
    if (std::find(end_tokens.begin(), end_tokens.end(), own[t]) != end_tokens.end())
      out.finish = 1;
    else if (static_cast<int>(out.tokens.size()) == r.limit)
      out.finish = 2;
    if (!agrees) break;
  }
  out.emitted = static_cast<int32_t>(out.tokens.size());
  out.tokens.resize(most_drafts + 1, -1);
  return out;
}

namespace truth {

/// The distribution a token is drawn from, by id, in FP64.
inline std::vector<double> distribution(std::vector<float> const& x, double temperature, double top_p, int top_k) {
  std::vector<int> const ids = order(x);
  std::vector<double> p(x.size(), 0.0);
  double const maximum = x[size_t(ids[0])];
  size_t const kept = top_k > 0 ? std::min(x.size(), static_cast<size_t>(top_k)) : x.size();
  double total = 0.0, sum = 0.0;
  for (size_t i = 0; i < kept; ++i) total += std::exp((x[size_t(ids[i])] - maximum) / temperature);
  for (size_t i = 0; i < kept && (i == 0 || sum < top_p * total); ++i) {
    p[size_t(ids[i])] = std::exp((x[size_t(ids[i])] - maximum) / temperature);
    sum += p[size_t(ids[i])];
  }
  for (double& v : p) v /= sum;
  return p;
}

}  // namespace truth
}  // namespace reference
