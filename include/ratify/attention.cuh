// SPDX-License-Identifier: Apache-2.0
/// Attention of the rows of a round over a paged KV cache, and the merge of softmax partials.
#pragma once

#include <ratify/detail/attention_kernels.cuh>
#include <ratify/detail/machine/launch.cuh>

RATIFY_BEGIN_NAMESPACE

/// Whether `attention<Policy>` is built at all.
template <class Policy>
inline constexpr bool is_supported_attention = detail::attention_support<Policy>::value;

template <class Policy>
inline constexpr bool is_supported_merge = detail::merge_support<Policy>::value;

#if !defined(__CUDACC_RTC__)

/// Verify attention: out = v_scale * sum softmax(score) v, score = softmax_scale * k_scale * dot(q, k).
///
/// Row i of a request's n sits at position p = context_len - n + i and sees tokens 0 <= t <= p, with a window t > p -
/// window; with `causal` false it sees every t < context_len, with a window |p - t| < window. Query head h uses KV head
/// h / (q_heads / kv_heads). A row that sees no token gives zeros and lse = -inf. A NaN or infinite score makes that
/// row NaN and no other. Bytes of tokens that a row does not see never reach its result.
///
/// Ordered: bits depend on `partition_width` alone; not on unroll, decoder, page size, strides, batch or executor.
/// Orders and error bound: docs/arithmetic.md.
///
/// @tparam Policy derives from `attention_policy`
/// Parameters: `attention_params`. Preconditions that only the device could see: block_table entries of visible tokens
/// are pages; a request whose lengths contradict the capacities gives zero rows.
/// Limits: 32 rows a request, 64 query heads a KV head and 65535 in all, max_context 2^30 tokens; K and V aligned to 16
/// bytes, pointers and strides.
/// Reads K and V of the visible tokens once for each tile of up to 8 query entries of a KV head (48 where the partition
/// is at most 256 tokens wide and there is work for every block), and writes and reads
/// one partial of head_dim + 2 floats for each (partition, row, query head). Workspace: those partials, from the
/// capacities. Contents need no initialisation.
/// @return of `launch`: ok, unsupported, workspace_too_small, no_device, launch_failed
template <class Policy>
struct attention : detail::operation<attention<Policy>, attention_params<Policy>> {
  RATIFY_ATTENTION_RULES(RATIFY_RULE_ASSERT)
  using params = attention_params<Policy>;

  static char const* reason(params const& p) { return detail::attention_support<Policy>::reason(p); }

  static size_t scratch_bytes(params const& p) {
    return static_cast<size_t>(traits::partial_rows(p)) * static_cast<size_t>(p.q_heads) * (traits::head_dim + 2) *
           sizeof(float);
  }

  template <class Executor, class Visitor>
  static status stages(params const& p, workspace w, Executor const& on, Visitor&& visit) {
    using partial_kernel = detail::attention_partial_kernel<Policy>;
    using combine_kernel = detail::attention_combine_kernel<Policy>;
    if (p.rows == 0) return {};
    int64_t const pairs = traits::partial_rows(p) * p.q_heads;
    size_t const column = static_cast<size_t>(pairs) * sizeof(float);
    detail::attention_kernel_params<Policy> const all{
        p,
        {detail::workspace_at<float>(w, 0), detail::workspace_at<float>(w, column * traits::head_dim),
         detail::workspace_at<float>(w, column * (traits::head_dim + 1))}};
    // No more blocks than there are tiles at capacity.
    int64_t const most = detail::max_of<int64_t>(1, pairs);
    int const blocks = static_cast<int>(detail::min_of<int64_t>(on.template concurrent_blocks<partial_kernel>(), most));
    if (auto const s = visit(stage<partial_kernel>{{blocks}, all}); !s) return s;
    return visit(stage<combine_kernel>{{p.rows, p.q_heads, traits::head_dim / combine_kernel::block_threads}, all});
  }
 private:
  using traits = detail::attention_traits<Policy>;
};

/// Merges softmax partials, such as attention over parts of a context that different devices hold: the result is that
/// of attention over all of it, up to rounding.
///
/// In ascending part order: M = max lse, w = exp(lse - M), out = sum w out / sum w, lse = M + log(sum w). A part whose
/// lse is -inf is empty: it changes no bit, whatever its values. All empty gives 0 and -inf. Ordered; error bound:
/// docs/arithmetic.md.
///
/// @tparam Policy derives from `merge_policy`
/// Parameters: `merge_params`: partial_out [parts, rows, q_heads, head_dim] and partial_lse [parts, rows, q_heads] in
/// FP32, out [rows, q_heads, head_dim], lse [rows, q_heads] or nullptr; strides in elements; outputs must not overlap
/// inputs. Reads each partial once. No workspace.
/// Status: unsupported with the rule's text; launch_failed.
template <class Policy>
struct merge : detail::operation<merge<Policy>, merge_params<Policy>> {
  RATIFY_MERGE_RULES(RATIFY_RULE_ASSERT)
  static char const* reason(merge_params<Policy> const& p) { return detail::merge_support<Policy>::reason(p); }
  static size_t scratch_bytes(merge_params<Policy> const&) { return 0; }
  template <class Executor, class Visitor>
  static status stages(merge_params<Policy> const& p, workspace, Executor const&, Visitor&& visit) {
    using kernel = detail::merge_kernel<Policy>;
    if (p.rows == 0) return {};
    return visit(stage<kernel>{{p.rows, p.q_heads, detail::ceil_div(p.head_dim, kernel::block_threads)}, p});
  }
};

#endif

RATIFY_END_NAMESPACE
