// SPDX-License-Identifier: Apache-2.0
/// The gated delta rule on columns of a state held by threads, for kernels of your own.
///
/// A value column (all keys of one value element) is cut into 8 lanes: lane l holds keys l, l + 8, l + 16, ... Every
/// sum over keys is a chain of fused multiply-adds inside a lane, then a tree over lanes. `Threads` threads share a
/// column: with 8, thread j is lane j; with 1, the thread holds all lanes. Element n of a thread's keys is key 8 * (n /
/// lanes) + j + Threads * (n % lanes), where lanes = 8 / Threads.
///
/// A row changes the state by its decay, its key and u = beta * (v - k . s). Where these three have been kept, a state
/// is taken over the row again without any sum, to the same bits.
#pragma once

#include <ratify/detail/math.cuh>
#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// Lanes of a column that one of its `Threads` threads holds.
template <int Threads>
inline constexpr int recurrence_lanes = 8 / Threads;

/// The key that element n of thread j's keys is.
template <int Threads>
RATIFY_HD constexpr int recurrence_key(int n, int j) {
  return 8 * (n / recurrence_lanes<Threads>)+j + Threads * (n % recurrence_lanes<Threads>);
}

/// Who holds a key: thread `j` of those that share the column, as element `n` of its keys.
struct recurrence_place {
  int j;
  int n;
};
template <int Threads>
RATIFY_HD constexpr recurrence_place recurrence_place_of(int key) {
  return {key % 8 % Threads, key / 8 * recurrence_lanes<Threads> + key % 8 / Threads};
}

/// Sums over the lanes of `Columns` columns, pairs 4 apart first, then 2, then 1; every thread of a column gets the
/// sum in `sum`. `partial[m]` is lane j + Threads * m. `LaneStride` threads lie between neighbouring lanes. All threads
/// of a warp call together.
RATIFY_ANY_BLOCK
template <int Threads, int LaneStride, int Columns, class Block>
RATIFY_HD inline void recurrence_lane_sum(Block const& block, float (&partial)[recurrence_lanes<Threads>][Columns],
                                          float (&sum)[Columns]) {
  RATIFY_UNROLL
  for (int half = recurrence_lanes<Threads> / 2; half > 0; half /= 2) {
    RATIFY_UNROLL
    for (int m = 0; m < half; ++m) {
      // 1 * a + b is a + b to the bit, and host compilers turn it into vectors, which the barrier in add_rn prevents.
      RATIFY_UNROLL
      for (int c = 0; c < Columns; ++c) partial[m][c] = detail::fma_rn(1.0f, partial[m][c], partial[m + half][c]);
    }
  }
  RATIFY_UNROLL
  for (int c = 0; c < Columns; ++c) sum[c] = partial[0][c];
  if constexpr (Threads > 1) {
    RATIFY_UNROLL
    for (int apart = Threads / 2; apart > 0; apart /= 2) {
      RATIFY_UNROLL
      for (int c = 0; c < Columns; ++c) sum[c] = detail::add_rn(sum[c], block.shuffle_xor(sum[c], apart * LaneStride));
    }
  }
}

/// The sum of squares of a vector that `Threads` threads share like a column's keys. All threads of a warp call
/// together.
RATIFY_ANY_BLOCK
template <int Threads, int LaneStride, int Keys, class Block>
RATIFY_HD inline float recurrence_square_sum(Block const& block, float const (&x)[Keys]) {
  constexpr int lanes = recurrence_lanes<Threads>;
  float partial[lanes][1] = {}, sum[1];
  RATIFY_UNROLL
  for (int i = 0; i < Keys / lanes; ++i) {
    RATIFY_UNROLL
    for (int m = 0; m < lanes; ++m) partial[m][0] = detail::fma_rn(x[i * lanes + m], x[i * lanes + m], partial[m][0]);
  }
  recurrence_lane_sum<Threads, LaneStride>(block, partial, sum);
  return sum[0];
}

/// x / sqrt(sum x^2 + 1e-6) of such a vector, unless the sum of squares overflows. All threads of a warp call together.
/// @return whether it does: x is then to be loaded again for `recurrence_l2norm`. The threads that share a vector
/// agree.
RATIFY_ANY_BLOCK
template <int Threads, int LaneStride, int Keys, class Block>
RATIFY_HD inline bool recurrence_l2norm_or_overflow(Block const& block, float (&x)[Keys]) {
  float const sum = recurrence_square_sum<Threads, LaneStride>(block, x);
  float const factor = detail::rsqrt_ordered(detail::add_rn(sum, 1e-6f));
  RATIFY_UNROLL
  for (int n = 0; n < Keys; ++n) x[n] = detail::mul_rn(x[n], factor);
  return !detail::is_finite(sum);
}

/// The same of a vector of any size: where the sum of squares overflows, all elements are first multiplied by 2^-70;
/// beside their squares 1e-6 is nothing. All threads of a warp call together.
RATIFY_ANY_BLOCK
template <int Threads, int LaneStride, int Keys, class Block>
RATIFY_HD inline void recurrence_l2norm(Block const& block, float (&x)[Keys]) {
  float sum = detail::add_rn(recurrence_square_sum<Threads, LaneStride>(block, x), 1e-6f);
  bool const overflows = !detail::is_finite(sum);
  if (block.ballot(overflows) != 0) {
    RATIFY_UNROLL
    for (int n = 0; n < Keys; ++n) x[n] = detail::mul_rn(x[n], overflows ? 0x1p-70f : 1.0f);
    float const scaled = recurrence_square_sum<Threads, LaneStride>(block, x);
    if (overflows) sum = scaled;
  }
  float const factor = detail::rsqrt_ordered(sum);
  RATIFY_UNROLL
  for (int n = 0; n < Keys; ++n) x[n] = detail::mul_rn(x[n], factor);
}

/// What a row does to one element of the state before its sum over keys: s * decay. a * b - 0 is a * b to the bit,
/// signed zeros too, and host compilers turn it into vectors, which the barrier in mul_rn prevents.
RATIFY_HD inline float recurrence_decayed(float s, float decay) { return detail::fma_rn(decay, s, -0.0f); }

/// What it does after: s + k u.
RATIFY_HD inline float recurrence_updated(float s, float k, float u) { return detail::fma_rn(k, u, s); }

/// Takes `Columns` columns over a row whose u is known: the state that `recurrence_row` leaves, with no sum in it.
///
///   s = decay * s;  s = s + k u
///
/// @param state this thread's keys of its columns  @param k this thread's keys of the row's key, as used
/// @param decay exp(g)  @param u one element a column
template <int Keys, int Columns>
RATIFY_HD inline void recurrence_advance(float (&state)[Keys][Columns], float const (&k)[Keys], float decay,
                                         float const (&u)[Columns]) {
  RATIFY_UNROLL
  for (int n = 0; n < Keys; ++n) {
    RATIFY_UNROLL
    for (int c = 0; c < Columns; ++c)
      state[n][c] = recurrence_updated(recurrence_decayed(state[n][c], decay), k[n], u[c]);
  }
}

/// One row of `Columns` columns: decays the state, updates it and reads it.
///
///   s = decay * s;  u = beta * (v - k . s);  s = s + k u;  o = q . s
///
/// @param state this thread's keys of its columns  @param k, q this thread's keys of the row's key and query
/// @param decay exp(g)  @param v, u, o one element a column; o is not scaled yet
RATIFY_ANY_BLOCK
template <int Threads, int LaneStride, int Keys, int Columns, class Block>
RATIFY_HD inline void recurrence_row(Block const& block, float (&state)[Keys][Columns], float const (&k)[Keys],
                                     float const (&q)[Keys], float decay, float beta, float const (&v)[Columns],
                                     float (&u)[Columns], float (&o)[Columns]) {
  constexpr int lanes = recurrence_lanes<Threads>;
  float partial[lanes][Columns] = {}, dot[Columns];
  RATIFY_UNROLL
  for (int i = 0; i < Keys / lanes; ++i) {
    RATIFY_UNROLL
    for (int m = 0; m < lanes; ++m) {
      int const n = i * lanes + m;
      RATIFY_UNROLL
      for (int c = 0; c < Columns; ++c) {
        state[n][c] = recurrence_decayed(state[n][c], decay);
        partial[m][c] = detail::fma_rn(k[n], state[n][c], partial[m][c]);
      }
    }
  }
  recurrence_lane_sum<Threads, LaneStride>(block, partial, dot);
  RATIFY_UNROLL
  for (int c = 0; c < Columns; ++c) u[c] = detail::mul_rn(beta, detail::sub_rn(v[c], dot[c]));
  RATIFY_UNROLL
  for (int m = 0; m < lanes; ++m) {
    RATIFY_UNROLL
    for (int c = 0; c < Columns; ++c) partial[m][c] = 0.0f;
  }
  RATIFY_UNROLL
  for (int i = 0; i < Keys / lanes; ++i) {
    RATIFY_UNROLL
    for (int m = 0; m < lanes; ++m) {
      int const n = i * lanes + m;
      RATIFY_UNROLL
      for (int c = 0; c < Columns; ++c) {
        state[n][c] = recurrence_updated(state[n][c], k[n], u[c]);
        partial[m][c] = detail::fma_rn(q[n], state[n][c], partial[m][c]);
      }
    }
  }
  recurrence_lane_sum<Threads, LaneStride>(block, partial, o);
}

}  // namespace device
RATIFY_END_NAMESPACE
