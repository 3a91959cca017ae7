// SPDX-License-Identifier: Apache-2.0
/// Checking what device tensors hold, for debugging: the numbers that kernels steer by (row bounds, lengths, tables,
/// slots) are read back and held against the capacities, and the first contradiction is put into words.
#pragma once

#include <ratify/detail/meta.hpp>
#include <ratify/executor.hpp>

#if !defined(__CUDACC_RTC__)  // of the host
#include <cstdio>
#include <vector>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Reads the tensors of one launch and keeps the first contradiction. Every member does nothing once there is one.
template <class Executor>
class contents_checker {
 public:
  contents_checker(char const* operation, Executor const& on, contents_report& report)
      : operation_(operation), on_(on), report_(report) {
    report_.text[0] = '\0';
  }

  /// The result: ok, invalid_argument with the contradiction, or the executor's failure to read.
  status result() const {
    if (!failure_) return failure_;
    if (report_.text[0] == '\0') return {};
    return {status_code::invalid_argument, report_.text};
  }

  /// `count` elements of a tensor; empty if it is null or could not be read.
  template <class Element>
  std::vector<Element> load(Element const* from, int64_t count) {
    std::vector<Element> values;
    if (from == nullptr || count <= 0 || is_done()) return values;
    values.resize(static_cast<size_t>(count));
    if (status const s = on_.read(values.data(), from, values.size() * sizeof(Element)); !s) {
      failure_ = s;
      values.clear();
    }
    return values;
  }

  /// Notes a contradiction: "ratify::OPERATION: NAME[index] is VALUE, RIGHT".
  void contradicts(char const* name, int64_t index, int64_t value, char const* right) {
    if (is_done()) return;
    std::snprintf(report_.text, sizeof report_.text, "ratify::%s: %s[%lld] is %lld, %s", operation_, name,
                  static_cast<long long>(index), static_cast<long long>(value), right);
  }

  /// Every entry of an array of [count] lies in lowest..highest; `right` says so in words.
  void in_range(char const* name, int32_t const* from, int64_t count, int64_t lowest, int64_t highest,
                char const* right) {
    auto const values = load(from, count);
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] < lowest || values[i] > highest)
        return contradicts(name, static_cast<int64_t>(i), values[i], right);
  }

  /// The same of an array of [requests], for the requests that `bounds` (see `row_bounds`) gives rows: what stands
  /// there for another one is not read by a kernel.
  void in_range(char const* name, int32_t const* from, std::vector<int32_t> const& bounds, int64_t lowest,
                int64_t highest, char const* right) {
    if (bounds.empty()) return;
    auto const values = load(from, static_cast<int64_t>(bounds.size()) - 1);
    for (size_t r = 0; r < values.size(); ++r)
      if (bounds[r] != bounds[r + 1] && (values[r] < lowest || values[r] > highest))
        return contradicts(name, static_cast<int64_t>(r), values[r], right);
  }

  /// The bounds of rows per request: they begin at 0 or above, never fall, end at `rows` or below, and give no request
  /// more than `most` rows. @return the bounds; empty after a contradiction
  std::vector<int32_t> row_bounds(int32_t const* query_start, int requests, int rows, int most) {
    auto bounds = load(query_start, int64_t{requests} + 1);
    for (size_t i = 0; i < bounds.size() && !is_done(); ++i) {
      auto const place = static_cast<int64_t>(i);
      if (bounds[i] < 0 || bounds[i] > rows)
        contradicts("query_start", place, bounds[i], "which is outside 0 to rows");
      else if (i > 0 && bounds[i] < bounds[i - 1])
        contradicts("query_start", place, bounds[i], "less than the entry before it");
      else if (i > 0 && bounds[i] - bounds[i - 1] > most)
        contradicts("query_start", place, bounds[i], "which gives the request before it more rows than max_rows");
    }
    if (is_done()) bounds.clear();
    return bounds;
  }

  /// The pages of a request's tokens begin to end - 1 are pages of the pool; a pool of 0 pages is one whose size the
  /// caller does not say. `first_entry` is the number of the first entry of `table` in the whole block table.
  void pages(int32_t const* table, int64_t first_entry, int64_t begin, int64_t end, int page_size, int64_t pool_pages) {
    if (begin >= end) return;
    int64_t const first = begin / page_size, last = (end - 1) / page_size;
    auto const entries = load(table + first, last - first + 1);
    for (size_t i = 0; i < entries.size(); ++i)
      if (entries[i] < 0 || (pool_pages > 0 && entries[i] >= pool_pages))
        return contradicts("block_table", first_entry + first + static_cast<int64_t>(i), entries[i],
                           "which is outside the pool of pool_pages pages");
  }

  bool is_done() const { return report_.text[0] != '\0' || !failure_; }
 private:
  char const* operation_;
  Executor const& on_;
  contents_report& report_;
  status failure_;
};

}  // namespace detail
RATIFY_END_NAMESPACE
#endif
