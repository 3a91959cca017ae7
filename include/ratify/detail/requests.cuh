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

/// Whether this one does; walks all before it.
RATIFY_HD inline bool claims_rows(int32_t const* query_start, int request, int rows) {
  bool claims = false;
  for (int r = 0, next = 0; r <= request; ++r) {
    int const begin = query_start[r], end = query_start[r + 1];
    claims = begin >= next && end >= begin && end <= rows;
    if (claims) next = end;
  }
  return claims;
}

struct row_range {
  int begin, end;
};

/// The runs of rows of a range that no request claims, in order.
class unclaimed_rows {
 public:
  RATIFY_HD unclaimed_rows(int32_t const* query_start, int requests, int rows, row_range range)
      : query_start_(query_start), requests_(requests), rows_(rows), left_(range) {}

  RATIFY_HD bool next(row_range& run) {
    while (left_.begin < left_.end) {
      row_range const before = left_;
      if (request_ == requests_) {
        left_.begin = left_.end;
        return run = before, true;
      }
      int const begin = query_start_[request_], end = query_start_[request_ + 1];
      ++request_;
      if (begin < next_ || end < begin || end > rows_) continue;
      next_ = end;
      left_.begin = max_of(left_.begin, end);
      if (before.begin < begin) return run = {before.begin, min_of(begin, before.end)}, true;
    }
    return false;
  }
 private:
  int32_t const* query_start_;
  int requests_, rows_;
  row_range left_;
  int request_ = 0, next_ = 0;
};

}  // namespace detail
RATIFY_END_NAMESPACE
