// SPDX-License-Identifier: Apache-2.0
/// Combining softmax partials in a fixed order, and weighted sums whose values overflow or are infinite. For kernels of
/// your own too.
#pragma once

#include <ratify/detail/math.cuh>
#include <ratify/detail/meta.hpp>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// A weighted sum that gives the weighted mean where a plain chain of multiply-adds does not: beside that chain runs
/// one of the values times 2^-32, which cannot overflow for up to 2^31 weights of at most 1; infinities and NaN are
/// kept out of both and counted. For the rare element whose plain chain gave an infinity or NaN.
class guarded_sum {
 public:
  /// Adds value * weight.
  /// `counts`: whether the value counts if it is infinite: that its weight has not vanished
  RATIFY_HD void add(float value, float weight, bool counts) {
    using namespace detail;
    if (is_nan(value)) {
      has_nan_ = true;
    } else if (!is_finite(value)) {
      if (counts) (bits(value) >> 31 ? has_minus_infinity_ : has_infinity_) = true;
    } else {
      plain_ = fma_rn(value, weight, plain_);
      scaled_ = fma_rn(mul_rn(value, 0x1p-32f), weight, scaled_);
    }
  }

  /// Adds another such sum times a weight.
  RATIFY_HD void add(guarded_sum const& part, float weight) {
    plain_ = detail::fma_rn(part.plain_, weight, plain_);
    scaled_ = detail::fma_rn(part.scaled_, weight, scaled_);
    has_nan_ = has_nan_ || part.has_nan_;
    has_infinity_ = has_infinity_ || part.has_infinity_;
    has_minus_infinity_ = has_minus_infinity_ || part.has_minus_infinity_;
  }

  /// The sum divided by the sum of the weights: NaN if a NaN or infinities of both signs were added, the infinity if
  /// one counts, else a finite number, as a mean of finite numbers is.
  RATIFY_HD float mean(float weights) const {
    using namespace detail;
    if (has_nan_ || (has_infinity_ && has_minus_infinity_)) return from_bits(canonical_nan_bits);
    if (has_infinity_ || has_minus_infinity_) return from_bits(has_infinity_ ? 0x7f800000u : 0xff800000u);
    if (is_finite(plain_)) return div_rn(plain_, weights);
    float const scaled = div_rn(scaled_, weights);
    // Rounding may carry the mean of the largest numbers past them.
    constexpr uint32_t limit = 0x6f800000u, largest = 0x7f7fffffu;  // 2^96 and the largest finite number
    if (bits(magnitude(scaled)) >= limit) return from_bits((bits(scaled) & 0x80000000u) | largest);
    return mul_rn(scaled, 0x1p32f);
  }
 private:
  float plain_ = 0.0f, scaled_ = 0.0f;
  bool has_nan_ = false, has_infinity_ = false, has_minus_infinity_ = false;
};

/// Softmax partials combined, for one output element.
struct combined_softmax {
  float maximum;   ///< the largest maximum; -inf if there was no partial
  float total;     ///< sum of the partials' sums, each times exp(its maximum - the largest)
  float weighted;  ///< the partials' values summed likewise; not finite if the chain overflowed or met such a value

  /// The mean of the values; 0 if all partials are empty.
  RATIFY_HD float value() const { return detail::bits(total) == 0 ? 0.0f : detail::div_rn(weighted, total); }
  /// The logarithm of the sum of exp(score); -inf if all partials are empty.
  RATIFY_HD float lse() const { return detail::canonical(detail::add_rn(maximum, detail::log_ordered(total))); }
  /// Whether `value` must be computed again by a guarded_sum. A row whose weights are NaN is NaN either way.
  RATIFY_HD bool needs_guard() const { return !detail::is_finite(weighted) && !detail::is_nan(total); }
};

/// Shared storage of combine_partials: the weights and sums of `Capacity` partials.
template <int Capacity>
struct combine_run {
  float weight[Capacity];  ///< exp(maximum - the largest maximum); first of all, each thread's own largest maximum
  float sum[Capacity];
};

/// Combines softmax partials in ascending order. Part j in [begin, end) has a maximum, a sum of exp(score - maximum)
/// and a value per output element, the sum of the values times those exponentials: `maximum(j)` and `sum(j)`, the same
/// for every thread of the block, and `value(j)`, the calling thread's. A part whose sum is +0 is empty, and its value
/// does not matter.
///
/// @tparam Ahead values that a thread loads before it uses the first of them
RATIFY_ANY_BLOCK
template <int Ahead, class Block, int Capacity, class Maximum, class Sum, class Value>
RATIFY_HD combined_softmax combine_partials(Block const& block, int begin, int end, Maximum&& maximum, Sum&& sum,
                                            Value&& value, combine_run<Capacity>& run) {
  using namespace detail;
  static_assert(Block::threads <= Capacity, "ratify: a block has more threads than a run has places");
  float top = from_bits(0xff800000u);
  for (int j = begin + block.thread(); j < end; j += Block::threads) top = max_rn(top, maximum(j));
  run.weight[block.thread()] = top;
  block.barrier();
  for (int i = 0; i < Block::threads; ++i) top = max_rn(top, run.weight[i]);
  combined_softmax result{top, 0.0f, 0.0f};
  for (int first = begin; first < end; first += Capacity) {
    int const count = min_of(Capacity, end - first);
    block.barrier();
    for (int i = block.thread(); i < count; i += Block::threads) {
      run.weight[i] = exp_ordered(sub_rn(maximum(first + i), top));
      run.sum[i] = sum(first + i);
    }
    block.barrier();
    auto const add = [&](float v, int i) {
      if (bits(run.sum[i]) == 0) return;
      result.total = fma_rn(run.sum[i], run.weight[i], result.total);
      result.weighted = fma_rn(v, run.weight[i], result.weighted);
    };
    int i = 0;
    for (; i + Ahead <= count; i += Ahead) {
      float v[Ahead];
      RATIFY_UNROLL
      for (int a = 0; a < Ahead; ++a) v[a] = value(first + i + a);
      RATIFY_UNROLL
      for (int a = 0; a < Ahead; ++a) add(v[a], i + a);
    }
    for (; i < count; ++i) add(value(first + i), i);
  }
  return result;
}

}  // namespace device
RATIFY_END_NAMESPACE
