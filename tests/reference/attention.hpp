// SPDX-License-Identifier: Apache-2.0
/// Verify attention: FP32 twin in plain loops, and FP64 truth with its error bound.
#pragma once

#include <ratify/detail/machine/floating_environment.hpp>
#include <ratify/detail/math.cuh>
#include <ratify/numeric.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace reference {

/// A launch in dense host vectors. K and V are one vector each of [pages, page_size, kv_heads, head_dim].
template <class Q, class Kv>
struct attention_case {
  int head_dim = 64, q_heads = 1, kv_heads = 1, page_size = 16, max_pages = 1, window = 0;
  bool causal = true, scale_per_head = false;
  float softmax_scale = 0.125f;
  std::vector<int32_t> query_start{0, 1}, context_len{1}, block_table{0};
  std::vector<Q> q;
  std::vector<Kv> k, v;
  std::vector<float> k_scale{1.0f}, v_scale{1.0f};

  int requests() const { return static_cast<int>(context_len.size()); }
  int rows() const { return query_start.back(); }
  size_t kv_at(int request, int t, int kv_head) const {
    int64_t const page = block_table[static_cast<size_t>(request) * max_pages + t / page_size];
    return static_cast<size_t>(((page * page_size + t % page_size) * kv_heads + kv_head) * head_dim);
  }
  bool sees(int position, int context, int t) const {
    if (causal) return t <= position && (window == 0 || t > position - window);
    return t < context && (window == 0 || std::abs(position - t) < window);
  }
};

struct attention_result {
  std::vector<float> out, lse;
};

/// One partition of `width` tokens after the other: scores, maximum, weights, the sum in 16 lanes and a tree, PV as one
/// chain an element; then the partitions in ascending order.
template <class Q, class Kv>
attention_result attention(attention_case<Q, Kv> const& c, int width) {
  using namespace ratify::detail;
  using ratify::to_float;
  ordered_environment const environment;
  float const none = from_bits(0xff800000u), nan = from_bits(0x7fffffffu);
  int const d = c.head_dim, group = c.q_heads / c.kv_heads;
  attention_result r;
  r.out.assign(static_cast<size_t>(c.rows()) * c.q_heads * d, 0.0f);
  r.lse.assign(static_cast<size_t>(c.rows()) * c.q_heads, none);
  for (int request = 0; request < c.requests(); ++request)
    for (int row = c.query_start[request]; row < c.query_start[request + 1]; ++row)
      for (int head = 0; head < c.q_heads; ++head) {
        int const context = c.context_len[request], kv_head = head / group;
        int const position = context - (c.query_start[request + 1] - row);
        Q const* const q = &c.q[(static_cast<size_t>(row) * c.q_heads + head) * d];
        float const scale = mul_rn(c.softmax_scale, c.k_scale[c.scale_per_head ? kv_head : 0]);
        struct partial {
          float maximum, sum;
          std::vector<float> out;
        };
        std::vector<partial> partials;
        for (int begin = 0; begin < context; begin += width) {
          std::vector<int> tokens;
          for (int t = begin; t < std::min(begin + width, context); ++t)
            if (c.sees(position, context, t)) tokens.push_back(t);
          if (tokens.empty()) continue;
          std::vector<float> weight;
          float maximum = none;
          for (int t : tokens) {
            float dot = 0.0f;
            for (int i = 0; i < d; ++i)
              dot = fma_rn(to_float(c.k[c.kv_at(request, t, kv_head) + i]), to_float(q[i]), dot);
            float const score = mul_rn(scale, dot);
            weight.push_back(is_finite(score) ? score : nan);
            maximum = max_rn(maximum, weight.back());
          }
          float lane[16] = {};
          for (size_t i = 0; i < tokens.size(); ++i) {
            weight[i] = exp_ordered(sub_rn(weight[i], maximum));
            float& sum = lane[(tokens[i] - begin) % 16];
            sum = add_rn(sum, weight[i]);
          }
          for (int o = 8; o > 0; o /= 2)
            for (int i = 0; i < o; ++i) lane[i] = add_rn(lane[i], lane[i + o]);
          partials.push_back({maximum, lane[0], std::vector<float>(d, 0.0f)});
          for (size_t i = 0; i < tokens.size(); ++i)
            for (int j = 0; j < d; ++j)
              partials.back().out[j] =
                  fma_rn(weight[i], to_float(c.v[c.kv_at(request, tokens[i], kv_head) + j]), partials.back().out[j]);
        }
        if (partials.empty()) continue;
        float top = none, total = 0.0f;
        std::vector<float> out(d, 0.0f);
        for (auto const& p : partials) top = max_rn(top, p.maximum);
        for (auto const& p : partials) {
          float const w = exp_ordered(sub_rn(p.maximum, top));
          total = fma_rn(p.sum, w, total);
          for (int j = 0; j < d; ++j) out[j] = fma_rn(p.out[j], w, out[j]);
        }
        float const v_scale = c.v_scale[c.scale_per_head ? kv_head : 0];
        size_t const at = static_cast<size_t>(row) * c.q_heads + head;
        for (int j = 0; j < d; ++j) r.out[at * d + j] = canonical(mul_rn(v_scale, div_rn(out[j], total)));
        r.lse[at] = canonical(add_rn(top, log_ordered(total)));
      }
  return r;
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
          // d roundings of the chain, one of the scale, one of the product.
          score_error = std::max(score_error, (d + 2) * u * size * std::fabs(scale));
        }
        if (tokens.empty()) continue;
        double total = 0;
        std::vector<double> out(d, 0.0), size(d, 0.0);
        for (size_t i = 0; i < tokens.size(); ++i) {
          double const w = std::exp(score[i] - top);
          total += w;
          for (int j = 0; j < d; ++j) {
            double const v = ratify::to_float(c.v[c.kv_at(request, tokens[i], kv_head) + j]);
            out[j] += w * v;
            size[j] += w * std::fabs(v);
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
          r.out_bound[at * d + j] = std::fabs(v_scale) * size[j] / total * (pv + sum + 3 * u) * 1.01 + 0x1p-140;
        }
        r.lse[at] = top + std::log(total);
        r.lse_bound[at] = score_error + sum * 1.01 + 4 * u * (std::fabs(std::log(total)) + std::fabs(top) + 1);
      }
  return r;
}

}  // namespace truth
}  // namespace reference
