// SPDX-License-Identifier: Apache-2.0
/// Verify attention: FP32 twin in plain loops, and FP64 truth with its error bound.
#pragma once

#include "reference/arithmetic.hpp"
#include "reference/guarded.hpp"

#include <ratify/numeric.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace reference {

/// A launch in dense host vectors. K and V are one vector each of [pages, page_size, kv_heads, head_dim].
template <class Q, class Kv>
struct attention_case {
  int head_dim = 64, q_heads = 1, kv_heads = 1, page_size = 16, max_pages = 1, window = 0;
  int64_t pool_pages = 0;  ///< 0: unknown
  bool causal = true, scale_per_head = false;
  float softmax_scale = 0.125f;
  std::vector<int32_t> query_start{0, 1}, context_len{1}, block_table{0};
  std::vector<Q> q;
  std::vector<Kv> k, v;
  std::vector<float> k_scale{1.0f}, v_scale{1.0f};

  int requests() const { return static_cast<int>(context_len.size()); }
  int rows() const { return static_cast<int>(q.size()) / (q_heads * head_dim); }
  int32_t page_of(int request, int t) const {
    return block_table[static_cast<size_t>(request) * max_pages + t / page_size];
  }
  bool is_in_pool(int32_t page) const { return page >= 0 && (pool_pages == 0 || page < pool_pages); }
  size_t kv_at(int request, int t, int kv_head) const {
    int64_t const page = page_of(request, t);
    return static_cast<size_t>(((page * page_size + t % page_size) * kv_heads + kv_head) * head_dim);
  }
  bool sees(int position, int context, int t) const {
    if (causal) return t <= position && (window == 0 || t > position - window);
    return t < context && (window == 0 || std::abs(position - t) < window);
  }
  /// For each row the request that owns it, -1 where none does.
  std::vector<int> owners() const {
    std::vector<int> owner(static_cast<size_t>(rows()), -1);
    int claimed = 0;  // rows before this one belong to earlier requests
    for (int r = 0; r < requests(); ++r) {
      int const begin = query_start[r], end = query_start[r + 1];
      if (begin < claimed || end > rows() || begin >= end) continue;
      std::fill(owner.begin() + begin, owner.begin() + end, r);
      claimed = end;
    }
    return owner;
  }
};

struct attention_result {
  std::vector<float> out, lse;
};

/// Computes the launch of a case: `attention(case, width)` is all that a test needs.
template <class Q, class Kv>
class attention_twin {
 public:
  attention_twin(attention_case<Q, Kv> const& c, int width) : c_(c), width_(width) {}

  attention_result run() const {
    ieee_environment const environment;
    size_t const n = static_cast<size_t>(c_.rows()) * c_.q_heads;
    attention_result r{std::vector<float>(n * c_.head_dim, 0.0f), std::vector<float>(n, -INFINITY)};
    auto const owners = c_.owners();
    for (int row = 0; row < c_.rows(); ++row)
      if (owners[row] >= 0 && c_.context_len[owners[row]] <= c_.max_pages * c_.page_size)
        for (int head = 0; head < c_.q_heads; ++head) compute(owners[row], row, head, r);
    return r;
  }
 private:
  /// The tokens of one partition that a row sees.
  struct partial {
    float maximum = -INFINITY, sum = 0.0f;
    std::vector<int> tokens;
    std::vector<float> score, weight;
    std::vector<float> out;
  };

  int group() const { return c_.q_heads / c_.kv_heads; }
  float k_scale(int head) const { return c_.k_scale[c_.scale_per_head ? head / group() : 0]; }

  /// softmax_scale * k_scale * dot(q, k), NaN if it is not finite.
  float score(int request, int row, int head, int t) const {
    Q const* const q = &c_.q[(static_cast<size_t>(row) * c_.q_heads + head) * c_.head_dim];
    Kv const* const k = &c_.k[c_.kv_at(request, t, head / group())];
    float dot = 0.0f;
    for (int d = 0; d < c_.head_dim; ++d) dot = fma_rn(ratify::to_float(k[d]), ratify::to_float(q[d]), dot);
    float const plain = mul_rn(mul_rn(c_.softmax_scale, k_scale(head)), dot);
    if (is_finite(plain)) return plain;
    return is_finite(dot) ? from_bits(canonical_nan_bits) : rescaled_score(q, k, k_scale(head));
  }

  /// Where the dot product overflows: the one of q and k times 2^-70 each, and the product of the mantissas, scaled.
  float rescaled_score(Q const* q, Kv const* k, float k_scale) const {
    float dot = 0.0f;
    bool finite = is_finite(k_scale);
    for (int d = 0; d < c_.head_dim; ++d) {
      float const a = ratify::to_float(k[d]), b = ratify::to_float(q[d]);
      finite = finite && is_finite(a) && is_finite(b);
      dot = fma_rn(mul_rn(a, 0x1p-70f), mul_rn(b, 0x1p-70f), dot);
    }
    if (!finite) return from_bits(canonical_nan_bits);
    int exponent[3];
    float const scales = mul_rn(std::frexp(c_.softmax_scale, &exponent[0]), std::frexp(k_scale, &exponent[1]));
    double const mantissa = mul_rn(scales, std::frexp(dot, &exponent[2]));
    auto const score = static_cast<float>(std::ldexp(mantissa, exponent[0] + exponent[1] + exponent[2] + 140));
    return is_finite(score) ? score : from_bits(canonical_nan_bits);
  }

  /// Scores, maximum, weights, their sum in 16 lanes and a tree, PV as one chain per element.
  partial partition(int request, int row, int head, std::vector<int> tokens, int begin) const {
    partial p;
    p.tokens = std::move(tokens);
    for (int const t : p.tokens) {
      p.score.push_back(score(request, row, head, t));
      p.maximum = max_rn(p.maximum, p.score.back());
    }
    float lane[16] = {};
    for (size_t i = 0; i < p.tokens.size(); ++i) {
      p.weight.push_back(exp_ordered(sub_rn(p.score[i], p.maximum)));
      float& sum = lane[(p.tokens[i] - begin) % 16];
      sum = add_rn(sum, p.weight[i]);
    }
    for (int o = 8; o > 0; o /= 2)
      for (int i = 0; i < o; ++i) lane[i] = add_rn(lane[i], lane[i + o]);
    p.sum = lane[0];
    p.out.assign(static_cast<size_t>(c_.head_dim), 0.0f);
    for (size_t i = 0; i < p.tokens.size(); ++i) {
      Kv const* const v = &c_.v[c_.kv_at(request, p.tokens[i], head / group())];
      for (int d = 0; d < c_.head_dim; ++d) p.out[d] = fma_rn(p.weight[i], ratify::to_float(v[d]), p.out[d]);
    }
    return p;
  }

  /// The mean of column d where the chain over all partitions is not finite: infinite values of V are kept out of the
  /// chains and counted where exp(score - top) is not 0, and where even these chains overflow, those of V times 2^-32
  /// stand in.
  float guarded_mean(int request, int head, std::vector<partial> const& partials, float top, float total, int d) const {
    float plain = 0.0f, scaled = 0.0f;
    bool nan = false, infinite[2] = {};
    for (partial const& p : partials) {
      float const w = exp_ordered(sub_rn(p.maximum, top));
      float part = p.out[d], part_scaled = mul_rn(p.out[d], 0x1p-32f);
      if (!is_finite(p.out[d])) {
        part = part_scaled = 0.0f;
        for (size_t i = 0; i < p.tokens.size(); ++i) {
          float const v = ratify::to_float(c_.v[c_.kv_at(request, p.tokens[i], head / group()) + d]);
          if (is_nan(v)) {
            nan = true;
          } else if (!is_finite(v)) {
            if (exp_ordered(sub_rn(p.score[i], top)) != 0.0f) infinite[std::signbit(v)] = true;
          } else {
            part = fma_rn(p.weight[i], v, part);
            part_scaled = fma_rn(p.weight[i], mul_rn(v, 0x1p-32f), part_scaled);
          }
        }
      }
      plain = fma_rn(part, w, plain);
      scaled = fma_rn(part_scaled, w, scaled);
    }
    return guarded_quotient(plain, scaled, total, nan, infinite);
  }

  void compute(int request, int row, int head, attention_result& r) const {
    int const context = c_.context_len[request], d = c_.head_dim;
    int const position = context - (c_.query_start[request + 1] - row);
    std::vector<partial> partials;
    for (int begin = 0; begin < context; begin += width_) {
      std::vector<int> tokens;
      for (int t = begin; t < std::min(begin + width_, context); ++t) {
        if (!c_.sees(position, context, t)) continue;
        if (!c_.is_in_pool(c_.page_of(request, t))) return;
        tokens.push_back(t);
      }
      if (!tokens.empty()) partials.push_back(partition(request, row, head, tokens, begin));
    }
    if (partials.empty()) return;
    float top = -INFINITY, total = 0.0f;
    std::vector<float> out(static_cast<size_t>(d), 0.0f);
    for (auto const& p : partials) top = max_rn(top, p.maximum);
    for (auto const& p : partials) {
      float const w = exp_ordered(sub_rn(p.maximum, top));
      total = fma_rn(p.sum, w, total);
      for (int j = 0; j < d; ++j) out[j] = fma_rn(p.out[j], w, out[j]);
    }
    float const v_scale = c_.v_scale[c_.scale_per_head ? head / group() : 0];
    size_t const at = static_cast<size_t>(row) * c_.q_heads + head;
    for (int j = 0; j < d; ++j) {
      bool const plain = is_finite(out[j]) || is_nan(total);
      float const mean = plain ? div_rn(out[j], total) : guarded_mean(request, head, partials, top, total, j);
      r.out[at * d + j] = canonical(mul_rn(v_scale, mean));
    }
    r.lse[at] = canonical(add_rn(top, log_ordered(total)));
  }

  attention_case<Q, Kv> const& c_;
  int width_;
};

/// One partition of `width` tokens after the other, then the partitions in ascending order.
template <class Q, class Kv>
attention_result attention(attention_case<Q, Kv> const& c, int width) {
  return attention_twin<Q, Kv>(c, width).run();
}

namespace truth {

struct attention_result {
  std::vector<double> out, lse;
  std::vector<double> out_bound, lse_bound;  ///< docs/arithmetic.md, "Attention", error bound
};

/// Softmax attention in FP64, and the bound on an FP32 result's distance from it.
template <class Q, class Kv>
attention_result attention(attention_case<Q, Kv> const& c, int width) {
  constexpr double u = 0x1p-24;
  int const d = c.head_dim, group = c.q_heads / c.kv_heads;
  attention_result r;
  size_t const n = static_cast<size_t>(c.rows()) * c.q_heads;
  r.out.assign(n * d, 0.0);
  r.out_bound.assign(n * d, 0.0);
  r.lse.assign(n, -INFINITY);
  r.lse_bound.assign(n, 0.0);
  for (int request = 0; request < c.requests(); ++request)
    for (int row = c.query_start[request]; row < c.query_start[request + 1]; ++row)
      for (int head = 0; head < c.q_heads; ++head) {
        int const context = c.context_len[request], kv_head = head / group;
        int const position = context - (c.query_start[request + 1] - row);
        size_t const at = static_cast<size_t>(row) * c.q_heads + head;
        double const scale = double{c.softmax_scale} * c.k_scale[c.scale_per_head ? kv_head : 0];
        double const v_scale = c.v_scale[c.scale_per_head ? kv_head : 0];
        std::vector<int> tokens;
        std::vector<double> score;
        double top = -INFINITY, score_error = 0;
        for (int t = 0; t < context; ++t) {
          if (!c.sees(position, context, t)) continue;
          double dot = 0, size = 0;
          for (int i = 0; i < d; ++i) {
            double const term =
                double{ratify::to_float(c.k[c.kv_at(request, t, kv_head) + i])} * ratify::to_float(c.q[at * d + i]);
            dot += term;
            size += std::fabs(term);
          }
          tokens.push_back(t);
          score.push_back(scale * dot);
          top = std::max(top, score.back());
          // d roundings of the chain, one of the scale, one of the product; and what underflows.
          score_error = std::max(score_error,
                                 (d + 2) * u * size * std::fabs(scale) + 0x1p-149 * (size + d * std::fabs(scale) + 1));
        }
        if (tokens.empty()) continue;
        double total = 0;
        std::vector<double> out(d, 0.0), size(d, 0.0), values(d, 0.0);
        for (size_t i = 0; i < tokens.size(); ++i) {
          double const w = std::exp(score[i] - top);
          total += w;
          for (int j = 0; j < d; ++j) {
            double const v = ratify::to_float(c.v[c.kv_at(request, tokens[i], kv_head) + j]);
            out[j] += w * v;
            size[j] += w * std::fabs(v);
            values[j] += std::fabs(v);
          }
        }
        double const partitions = std::ceil(double(context) / width), chain = std::min(width, context);
        // Relative error of one weight: its score's (doubled, as the maximum's own enters the lse), two rounded
        // differences of at most 104 where the weight is not 0, two exponentials of 2 ulp.
        double const weight = 2 * score_error + 2 * 104 * u + 2 * 4 * u;
        double const sum = weight + (chain / 16 + 4 + partitions + 1) * u;
        double const pv = weight + (chain + partitions + 1) * u;
        for (int j = 0; j < d; ++j) {
          r.out[at * d + j] = v_scale * out[j] / total;
          r.out_bound[at * d + j] =
              std::fabs(v_scale) * (size[j] / total * (pv + sum + 3 * u) * 1.01 + 0x1p-148 * values[j]) + 0x1p-140;
        }
        r.lse[at] = top + std::log(total);
        r.lse_bound[at] = score_error + sum * 1.01 + 4 * u * (std::fabs(std::log(total)) + std::fabs(top) + 1);
      }
  return r;
}

}  // namespace truth
}  // namespace reference
