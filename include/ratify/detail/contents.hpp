// SPDX-License-Identifier: Apache-2.0
/// Checking what device tensors hold, for debugging: the numbers that kernels steer by (row bounds, lengths, tables,
/// slots, sampling parameters) are read back and held against the capacities and against each other, and the first
/// contradiction is put into words.
#pragma once

#include <ratify/detail/meta.hpp>
#include <ratify/executor.hpp>

#if !defined(__CUDACC_RTC__)  // of the host
#include <cstdio>
#include <type_traits>
#include <unordered_map>
#include <vector>

RATIFY_BEGIN_NAMESPACE
namespace detail {

/// Which request of a launch writes each place of a pool, such as a slot.
class place_writers {
 public:
  /// Notes that a request writes a place. @return the request that was the first to; -1 if this one is
  int64_t add(int64_t place, int64_t request) {
    auto const added = writers_.emplace(place, request);
    return added.second ? -1 : added.first->second;
  }
  /// The request that writes a place; -1 if none does.
  int64_t find(int64_t place) const {
    auto const found = writers_.find(place);
    return found == writers_.end() ? -1 : found->second;
  }
 private:
  std::unordered_map<int64_t, int64_t> writers_;
};

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
  template <class Number>
  void contradicts(char const* name, int64_t index, Number value, char const* right) {
    if (is_done()) return;
    char number[32];
    if constexpr (std::is_floating_point_v<Number>)
      std::snprintf(number, sizeof number, "%g", static_cast<double>(value));
    else
      std::snprintf(number, sizeof number, "%lld", static_cast<long long>(value));
    std::snprintf(report_.text, sizeof report_.text, "ratify::%s: %s[%lld] is %s, %s", operation_, name,
                  static_cast<long long>(index), number, right);
  }
  /// Notes that two requests have one slot, which at least one of them writes.
  void shares(int64_t one, int64_t other, int64_t slot) {
    if (is_done()) return;
    std::snprintf(report_.text, sizeof report_.text, "ratify::%s: requests %lld and %lld share slot %lld", operation_,
                  static_cast<long long>(one), static_cast<long long>(other), static_cast<long long>(slot));
  }
  /// Notes that new rows of two requests, or of one, go to one token of a page.
  void shares(int64_t one, int64_t other, int64_t token, int64_t page) {
    if (is_done()) return;
    std::snprintf(report_.text, sizeof report_.text,
                  "ratify::%s: rows of requests %lld and %lld share token %lld of page %lld", operation_,
                  static_cast<long long>(one), static_cast<long long>(other), static_cast<long long>(token),
                  static_cast<long long>(page));
  }

  /// Every entry of an array of [count] lies in lowest..highest; `right` says so in words.
  void in_range(char const* name, int32_t const* from, int64_t count, int64_t lowest, int64_t highest,
                char const* right) {
    auto const values = load(from, count);
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] < lowest || values[i] > highest)
        return contradicts(name, static_cast<int64_t>(i), values[i], right);
  }

  /// Every entry of an array of [requests] is one that `is_right`, for the requests that `bounds` (see `row_bounds`)
  /// gives rows: what stands there for another one is not read by a kernel.
  template <class Element, class Judge>
  void each(char const* name, Element const* from, std::vector<int32_t> const& bounds, Judge const& is_right,
            char const* right) {
    if (bounds.empty()) return;
    auto const values = load(from, static_cast<int64_t>(bounds.size()) - 1);
    for (size_t r = 0; r < values.size(); ++r)
      if (bounds[r] != bounds[r + 1] && !is_right(values[r]))
        return contradicts(name, static_cast<int64_t>(r), values[r], right);
  }

  /// A request's entry of `fresh`, if there are any, is 0 or 1, and where it is 1 the request starts from nothing:
  /// `start`, a selector or a count of kept rows that is called `name`, is 0.
  void agrees_with_fresh(std::vector<int32_t> const& fresh, int64_t request, char const* name, int32_t start) {
    if (static_cast<size_t>(request) >= fresh.size()) return;
    int32_t const value = fresh[static_cast<size_t>(request)];
    if (value != 0 && value != 1)
      contradicts("fresh", request, value, "which is neither 0 nor 1");
    else if (value == 1 && start != 0)
      contradicts(name, request, start, "although the request is fresh");
  }

  /// The bounds of rows per request: they begin at 0 or above, never fall, end at `rows` or below, and give no request
  /// more than `most` rows. `too_many` says the last in words. @return the bounds; empty after a contradiction
  std::vector<int32_t> row_bounds(int32_t const* query_start, int requests, int rows, int most,
                                  char const* too_many = "which gives the request before it more rows than max_rows") {
    auto bounds = load(query_start, int64_t{requests} + 1);
    for (size_t i = 0; i < bounds.size() && !is_done(); ++i) {
      auto const place = static_cast<int64_t>(i);
      if (bounds[i] < 0 || bounds[i] > rows)
        contradicts("query_start", place, bounds[i], "which is outside 0 to rows");
      else if (i > 0 && bounds[i] < bounds[i - 1])
        contradicts("query_start", place, bounds[i], "less than the entry before it");
      else if (i > 0 && bounds[i] - bounds[i - 1] > most)
        contradicts("query_start", place, bounds[i], too_many);
    }
    if (is_done()) bounds.clear();
    return bounds;
  }

  /// The pages of a request's tokens begin to end - 1 are pages of the pool; a pool of 0 pages is one whose size the
  /// caller does not say. `first_entry` is the number of the first entry of `table` in the whole block table.
  /// @return the pages, from that of token `begin` on; empty after a contradiction
  std::vector<int32_t> pages(int32_t const* table, int64_t first_entry, int64_t begin, int64_t end, int page_size,
                             int64_t pool_pages) {
    if (begin >= end) return {};
    int64_t const first = begin / page_size, last = (end - 1) / page_size;
    auto entries = load(table + first, last - first + 1);
    for (size_t i = 0; i < entries.size() && !is_done(); ++i)
      if (entries[i] < 0 || (pool_pages > 0 && entries[i] >= pool_pages))
        contradicts("block_table", first_entry + first + static_cast<int64_t>(i), entries[i],
                    "which is outside the pool of pool_pages pages");
    if (is_done()) entries.clear();
    return entries;
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
