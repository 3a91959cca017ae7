// SPDX-License-Identifier: Apache-2.0
/// Which request owns a row of a launch, whatever `query_start` holds. Every operation asks here, and so may a kernel
/// of your own.
///
/// Request r names the rows query_start[r] to query_start[r + 1] - 1. Requests claim what they name in order, and the
/// first to claim a row keeps it. A request contradicts and claims nothing if it begins before row 0, ends before it
/// begins, ends past the launch's rows, or begins before the end of rows that an earlier request has claimed. A row
/// that no request has claimed is *unowned*: operations with one output per row write zeros there.
///
/// Bounds that are in order (0 <= query_start[0] <= query_start[1] <= ... <= rows) contradict nowhere. Whether they are
/// is found out once per warp, by its lanes together; an owner is then found by binary search. Only where they are not
/// are the requests walked one after the other.
#pragma once

#include <ratify/detail/meta.hpp>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// Rows begin to end - 1 of a launch.
struct row_range {
  int begin = 0, end = 0;
  RATIFY_HD int count() const { return end - begin; }
  RATIFY_HD bool holds(int row) const { return begin <= row && row < end; }
};

/// What a launch says of its rows.
struct row_bounds {
  int32_t const* query_start;  ///< [requests + 1]; may hold anything
  int requests;                ///< at least 1
  int rows;                    ///< of the launch

  /// What a request names. Not to be computed with before it is judged: `end - begin` may overflow.
  RATIFY_HD row_range named_by(int request) const { return {query_start[request], query_start[request + 1]}; }
};

/// Claims by the requests of a launch, one after the other: for one thread that walks all of them anyway.
class row_claims {
 public:
  RATIFY_HD explicit row_claims(int rows) : rows_(rows) {}

  /// The next request names the rows from `begin` to `end` - 1.
  /// @return whether it claims them (perhaps none); false if it contradicts
  RATIFY_HD bool take(int begin, int end) {
    bool const claims = begin >= 0 && begin <= end && end <= rows_ && (begin >= next_ || begin == end);
    if (claims && begin < end) next_ = end;
    return claims;
  }
 private:
  int rows_, next_ = 0;
};

/// A request and the rows it owns. `request` is -1 where a row is unowned.
struct row_owner {
  int request = -1;
  row_range rows;
};

/// Who owns the rows of a launch. Made by `judge_rows`.
class row_owners {
 public:
  /// How far the bounds may be relied on.
  enum class bounds_are {
    out_of_order,  ///< some request may contradict
    in_order,      ///< none does
    complete       ///< and no row is unowned
  };

  RATIFY_HD row_owners(row_bounds const& bounds, bounds_are judged) : bounds_(bounds), judged_(judged) {}

  /// The rows that a request owns, none if it contradicts. `named` is what `row_bounds::named_by` says of the request,
  /// for a caller who has loaded it early.
  RATIFY_HD row_range rows_of(int request, row_range named) const {
    if (judged_ != bounds_are::out_of_order) return named;
    row_claims claims(bounds_.rows);
    RATIFY_NO_UNROLL
    for (int r = 0; r < request; ++r) {
      row_range const other = bounds_.named_by(r);
      (void)claims.take(other.begin, other.end);
    }
    return claims.take(named.begin, named.end) ? named : row_range{};
  }
  RATIFY_HD row_range rows_of(int request) const { return rows_of(request, bounds_.named_by(request)); }

  /// Who owns a row.
  RATIFY_HD row_owner owner_of(int row) const { return judged_ != bounds_are::out_of_order ? search(row) : walk(row); }

  /// Calls `write(row)` for some of the unowned rows: those of share number `share`, out of `shares` that cover all.
  template <class Write>
  RATIFY_HD void each_unowned(int share, int shares, Write&& write) const {
    if (judged_ == bounds_are::complete) return;
    // In order, all requests together own one run of rows.
    bool const in_order = judged_ == bounds_are::in_order;
    int const runs = in_order ? 1 : bounds_.requests;
    row_claims claims(bounds_.rows);
    int next = 0;
    RATIFY_NO_UNROLL
    for (int r = 0; r <= runs; ++r) {
      row_range owned{bounds_.rows, bounds_.rows};
      if (r < runs) {
        owned = {bounds_.query_start[r], bounds_.query_start[in_order ? bounds_.requests : r + 1]};
        if (!claims.take(owned.begin, owned.end) || owned.begin == owned.end) continue;
      }
      RATIFY_NO_UNROLL
      for (int row = next + (share + shares - next % shares) % shares; row < owned.begin; row += shares) write(row);
      next = owned.end;
    }
  }
 private:
  /// Bounds in order: the last request that begins at the row or before it is the only one that may own it.
  RATIFY_HD row_owner search(int row) const {
    int request = 0;
    for (int above = bounds_.requests; above - request > 1;) {
      int const middle = request + (above - request) / 2;
      if (bounds_.query_start[middle] <= row)
        request = middle;
      else
        above = middle;
    }
    row_range const named = bounds_.named_by(request);
    return named.holds(row) ? row_owner{request, named} : row_owner{};
  }
  RATIFY_HD row_owner walk(int row) const {
    row_claims claims(bounds_.rows);
    for (int r = 0; r < bounds_.requests; ++r) {
      row_range const named = bounds_.named_by(r);
      if (claims.take(named.begin, named.end) && named.holds(row)) return {r, named};
    }
    return {};
  }

  row_bounds bounds_;
  bounds_are judged_;
};

/// Judges the bounds of a launch. All threads of a warp call it together. Up to four requests are judged by each thread
/// alone, with all loads under way at once; more by the lanes together.
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline row_owners judge_rows(Block const& block, row_bounds const& bounds) {
  using are = row_owners::bounds_are;
  constexpr int few = 4, lanes = detail::min_of(Block::threads, 32);
  bool bad = false, gap = false;
  if (bounds.requests <= few) {
    int start[few + 1];
    RATIFY_UNROLL
    for (int i = 0; i <= few; ++i) start[i] = bounds.query_start[detail::min_of(i, bounds.requests)];
    bad = start[0] < 0 || start[few] > bounds.rows;
    RATIFY_UNROLL
    for (int i = 0; i < few; ++i) bad = bad || start[i] > start[i + 1];
    gap = start[0] > 0 || start[few] < bounds.rows;
  } else {
    for (int r = block.lane(); r < bounds.requests; r += lanes) {
      row_range const named = bounds.named_by(r);
      bad = bad || named.begin < 0 || named.begin > named.end || named.end > bounds.rows;
      gap = gap || (r == 0 && named.begin > 0) || (r == bounds.requests - 1 && named.end < bounds.rows);
    }
    bad = block.ballot(bad) != 0;
    gap = block.ballot(gap) != 0;
  }
  return {bounds, bad ? are::out_of_order : gap ? are::in_order : are::complete};
}

}  // namespace device
RATIFY_END_NAMESPACE
