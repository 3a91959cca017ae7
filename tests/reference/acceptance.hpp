// SPDX-License-Identifier: Apache-2.0
/// Acceptance: the integer twin by sorting, and FP64 truth.
#pragma once

#include <ratify/detail/floating_environment.hpp>
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

/// Ids in the order (logit descending, id ascending).
inline std::vector<int> order(std::vector<float> const& x) {
  std::vector<int> ids(x.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(),
            [&](int a, int b) { return x[size_t(a)] > x[size_t(b)] || (x[size_t(a)] == x[size_t(b)] && a < b); });
  return ids;
}

struct row_draw {
  int token = -1;
  int bad = 0;
  size_t kept = 0;  ///< entries the token was drawn from
};

inline row_draw draw(std::vector<float> const& x, float temperature, float top_p, int top_k, uint32_t random) {
  using namespace ratify::detail;
  ordered_environment const environment;
  float const infinity = INFINITY;
  if (!(temperature >= 0.0f && temperature < infinity && top_p >= 0.0f && top_p <= 1.0f && top_k >= -1))
    return {-1, 1, 0};
  bool some = false;
  for (float v : x) {
    if (std::isnan(v)) return {-1, 1, 0};
    some = some || v > -infinity;
  }
  if (!some) return {-1, 1, 0};
  int const best = static_cast<int>(std::max_element(x.begin(), x.end()) - x.begin());  // the first of equal ones
  float const maximum = x[size_t(best)];
  if (maximum == infinity || temperature < 1e-5f) return {best, 0, 1};

  std::vector<int> const ids = order(x);
  size_t kept = top_k > 0 ? std::min(x.size(), static_cast<size_t>(top_k)) : x.size();
  std::vector<uint64_t> masses(kept);
  uint64_t total = 0;
  for (size_t i = 0; i < kept; ++i) {
    masses[i] = mass(exp_ordered(div_rn(sub_rn(x[size_t(ids[i])], maximum), temperature)));
    total += masses[i];
  }
  // The prefix reaches top_p if sum * 2^s >= m * total, where top_p = m / 2^s.
  int exponent = 0;
  double const fraction = std::frexp(static_cast<double>(top_p), &exponent);
  auto const m = static_cast<uint64_t>(std::ldexp(fraction, 24));
  int const s = 24 - exponent;
  uint64_t sum = 0;
  for (size_t i = 0; i < kept; ++i) {
    sum += masses[i];
    // Beyond s = 60 any prefix reaches it: m * total < 2^87, and the first entry alone holds 2^40.
    if (s > 60 || (static_cast<uint128>(sum) << s) >= static_cast<uint128>(m) * total) {
      kept = i + 1;
      break;
    }
  }
  auto const point = static_cast<uint64_t>((static_cast<uint128>(random) * sum) >> 32);
  uint64_t running = 0;
  for (size_t i = 0; i < kept; ++i) {
    running += masses[i];
    if (running > point) return {ids[i], 0, kept};
  }
  return {-2, 0, kept};  // never
}

/// One request of acceptance, rule coupled.
struct request {
  std::vector<std::vector<float>> rows;  ///< one more than drafts
  std::vector<int32_t> draft;
  float temperature = 1.0f, top_p = 1.0f;
  int top_k = 0;
  int64_t seed = 0, position = 0;
  int limit = 1 << 30;
};

struct round {
  std::vector<int32_t> tokens, row_status;
  int32_t emitted = 0, accepted = 0, finish = 0;
};

inline round coupled(request const& r, std::vector<int32_t> const& end_tokens, size_t most_drafts) {
  round out;
  std::vector<int32_t> own;
  for (size_t t = 0; t < r.rows.size(); ++t) {
    int64_t const position = static_cast<int64_t>(static_cast<uint64_t>(r.position) + t);
    row_draw const d = draw(r.rows[t], r.temperature, r.top_p, r.top_k, random_word(r.seed, position, 0));
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
