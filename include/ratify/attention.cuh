// SPDX-License-Identifier: Apache-2.0
/// Attention of the rows of a round over a paged KV cache, and the merge of softmax partials.
#pragma once

#include <ratify/cuda.cuh>
#include <ratify/detail/attention_contents.hpp>
#include <ratify/detail/attention_kernels.cuh>

RATIFY_BEGIN_NAMESPACE

/// Whether `attention<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_attention = attention_knobs::supports<Knobs...>;

/// Whether `merge<Knobs...>` compiles.
template <class... Knobs>
inline constexpr bool is_supported_merge = merge_knobs::supports<Knobs...>;

#if !defined(__CUDACC_RTC__)

/// Verify attention: out = v_scale * sum softmax(score) v, where score = softmax_scale * k_scale * dot(q, k).
///
/// Row i of a request's n sits at position p = context_len - n + i and sees the tokens 0 <= t <= p, with a window those
/// with t > p - window. With `causal` false it sees every t < context_len, with a window those with |p - t| < window.
/// Query head h uses KV head h / (q_heads / kv_heads).
///
/// Zeros and lse = -inf are written to a row that sees no token, to one that sees a token on a page outside the pool,
/// to a row that no request owns, and to the rows of a request whose context contradicts the capacities. Requests own
/// the rows that they name, the first one those that several name; device/rows.cuh says which contradict.
///
/// A NaN or infinite score makes that row NaN and no other. A NaN in V makes its element NaN in the rows that see it.
/// An infinite V makes its element infinite (NaN where both signs meet) in the rows that see it with a weight exp(score
/// - the row's largest score) that is not 0 in FP32. Bytes of tokens that a row does not see never reach its result.
///
/// Ordered: bits depend on `partition_width` alone; not on unroll, decoder, page size, strides, batch or executor.
/// Orders of the sums, ranges and the error bound: docs/arithmetic.md.
///
/// @tparam Knobs   knobs that differ from their defaults, in any order: attention_policy.hpp lists them
/// Parameters: `attention_params`.
/// Limits: 32 rows per request, 64 query heads per KV head and 65535 in all, max_context 2^30 tokens; K and V aligned
/// to 16 bytes, pointers and strides. Reads K and V of the visible tokens once for each tile of up to 8 query entries
/// (pairs of row and query head) of a KV head, of up to 48 where the partition is at most 256 tokens wide and there is
/// work for every block; writes and reads one partial result of head_dim + 2 floats for each (partition, row, query
/// head). Workspace: those partial results, from the capacities. Its contents need no initialisation.
/// @return of `launch`: ok, invalid_argument, unsupported, workspace_too_small, no_device, launch_failed
template <class... Knobs>
struct attention : detail::operation<attention<Knobs...>, attention_params<attention_policy<Knobs...>>> {
  using policy = attention_policy<Knobs...>;
  using params = attention_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }

  template <class Checker>
  static void contents(params const& p, Checker& checker) {
    if (p.rows > 0) detail::check_contents(p, checker);
  }

  static size_t scratch_bytes(params const& p) {
    return static_cast<size_t>(traits::partial_rows(p)) * static_cast<size_t>(p.q_heads) * (traits::head_dim + 2) *
           sizeof(float);
  }

  template <class Executor, class Visitor>
  static status stages(params const& p, workspace w, Executor const& on, Visitor&& visit) {
    using partial_kernel = attention_partial_kernel<policy>;
    using combine_kernel = attention_combine_kernel<policy>;
    if (p.rows == 0) return {};
    int64_t const pairs = traits::partial_rows(p) * p.q_heads;
    size_t const column = static_cast<size_t>(pairs) * sizeof(float);
    detail::attention_kernel_params<policy> const launch{
        p,
        {detail::workspace_at<float>(w, 0), detail::workspace_at<float>(w, column * traits::head_dim),
         detail::workspace_at<float>(w, column * (traits::head_dim + 1))}};
    // No more blocks than there are tiles at capacity.
    int64_t const most = detail::max_of<int64_t>(1, pairs);
    int const blocks = static_cast<int>(detail::min_of<int64_t>(on.template concurrent_blocks<partial_kernel>(), most));
    if (auto const s = visit(stage<partial_kernel>{{blocks}, launch}); !s) return s;
    return visit(stage<combine_kernel>{{p.rows, p.q_heads, traits::head_dim / combine_kernel::block_threads}, launch});
  }
 private:
  using traits = detail::attention_traits<policy>;
};

/// Merges softmax partials, such as attention over parts of a context that different devices hold: the result is that
/// of attention over all of it, up to rounding.
///
/// In ascending order of the parts: M = max lse, w = exp(lse - M), out = sum w out / sum w, lse = M + log(sum w). A
/// part whose lse is -inf is empty: it changes no bit, whatever its values. If all are empty, the results are 0 and
/// -inf. A mean of finite values is finite. An infinite value counts if its weight w is not 0 in FP32 (NaN where both
/// signs meet); a NaN value, or an lse that is NaN or +inf, makes NaN.
///
/// Ordered: the same bits on every executor. Order of the sums and error bound: docs/arithmetic.md.
///
/// @tparam Knobs   knobs that differ from their defaults: attention_policy.hpp lists them
/// Parameters: `merge_params`.
/// Limits: any number of parts and rows; q_heads to 65535, head_dim to 65536 elements.
/// Reads each partial result once. No workspace.
/// @return of `launch`: ok, invalid_argument, unsupported, no_device, launch_failed
template <class... Knobs>
struct merge : detail::operation<merge<Knobs...>, merge_params<merge_policy<Knobs...>>> {
  using policy = merge_policy<Knobs...>;
  using params = merge_params<policy>;

  static status launch_rules(params const& p) { return detail::launch_rules(p); }
  static size_t scratch_bytes(params const&) { return 0; }

  template <class Executor, class Visitor>
  static status stages(params const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = merge_kernel<policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{p.rows, p.q_heads, detail::ceil_div(p.head_dim, kernel::block_threads)}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
