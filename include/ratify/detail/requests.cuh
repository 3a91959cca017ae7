// SPDX-License-Identifier: Apache-2.0
/// Whose the rows of a launch are, whatever `query_start` holds: requests claim rows in order, and a request that
/// begins before the launch or before the rows claimed so far, ends before it begins, or ends past the launch claims
/// none.
#pragma once

#include <ratify/detail/meta.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Whether every request claims its rows: no bounds begin before the launch, decrease, or end past it. Of every
/// `step` requests from `first` on; all of them are looked at by 0 and 1, or by the lanes of a warp together.
RATIFY_HD inline bool all_claim_rows(int32_t const* query_start, int requests, int rows, int first, int step) {
  bool good = true;
  for (int r = first; r < requests; r += step) {
    int const begin = query_start[r], end = query_start[r + 1];
    good = good && begin >= 0 && begin <= end && end <= rows;
  }
  return good;
}

/// Asked of each request in order, whether it claims its rows.
class row_claims {
 public:
  RATIFY_HD explicit row_claims(int rows) : rows_(rows) {}
  RATIFY_HD bool take(int begin, int end) {
    bool const claims = begin >= next_ && begin <= end && end <= rows_;
    if (claims) next_ = end;
    return claims;
  }
 private:
  int rows_, next_ = 0;
};

/// Whether this request claims its rows; walks all before it.
RATIFY_HD inline bool claims_rows(int32_t const* query_start, int request, int rows) {
  row_claims claims(rows);
  for (int r = 0; r < request; ++r) (void)claims.take(query_start[r], query_start[r + 1]);
  return claims.take(query_start[request], query_start[request + 1]);
}

struct row_range {
  int begin, end;
};

/// The runs of rows of a range that no request claims, in order.
class unclaimed_rows {
 public:
  RATIFY_HD unclaimed_rows(int32_t const* query_start, int requests, int rows, row_range range)
      : query_start_(query_start), requests_(requests), claims_(rows), left_(range) {}

  RATIFY_HD bool next(row_range& run) {
    while (left_.begin < left_.end) {
      row_range const before = left_;
      if (request_ == requests_) {
        left_.begin = left_.end;
        return run = before, true;
      }
      int const begin = query_start_[request_], end = query_start_[request_ + 1];
      ++request_;
      if (!claims_.take(begin, end)) continue;
      left_.begin = max_of(left_.begin, end);
      if (before.begin < begin) return run = {before.begin, min_of(begin, before.end)}, true;
    }
    return false;
  }
 private:
  int32_t const* query_start_;
  int requests_;
  row_claims claims_;
  row_range left_;
  int request_ = 0;
};

}  // namespace detail
RATIFY_END_NAMESPACE
