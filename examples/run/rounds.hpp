// SPDX-License-Identifier: Apache-2.0
/// What operations over the requests of a round check before they launch.
#pragma once

#include <run/inputs.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ratify_run {

/// The rows of each request.
struct rounds {
  std::vector<int32_t> start;  ///< [requests + 1]
  int requests() const { return static_cast<int>(start.size()) - 1; }
  int first(int request) const { return start[static_cast<size_t>(request)]; }
  int rows(int request) const { return start[static_cast<size_t>(request) + 1] - first(request); }
  int most_rows() const;
};

/// `query_start`: begins at 0, never decreases, ends at `rows` or before: the rows from there on belong to no
/// request, but where there are rows there is a request.
rounds read_rounds(inputs const& in, int rows);

/// An I32 [requests] tensor whose entry for every request that has rows lies in least..most.
std::vector<int32_t> read_per_request(inputs const& in, std::string const& name, rounds const& r, int64_t least,
                                      int64_t most);

/// `fresh` where the file has it: 0 or 1; a fresh request's `other` must be 0. Retired requests are not looked at.
std::vector<int32_t> read_fresh(inputs const& in, rounds const& r, std::vector<int32_t> const& slots,
                                std::string const& other_name, std::vector<int32_t> const& other);

/// The paged cache of append and attention.
struct paged_cache {
  operand k_pages, v_pages;
  array<int32_t> block_table;
  std::vector<int32_t> context_len;
  std::vector<float> k_scale, v_scale;
  int pages = 0, page_size = 0, kv_heads = 0, head_dim = 0, max_pages = 0;
  int scale_stride = 0;  ///< 0: one scale, 1: one per head

  /// What block_table says of a request's token. It may be no page of the pool.
  int page_of(int request, int64_t token) const;
  bool is_in_pool(int page) const { return page >= 0 && page < pages; }
};
/// Of a pool without pages, no entry of block_table names one.
paged_cache read_cache(inputs const& in, rounds const& r);

/// Slots that a launch touches: nobody else may touch one that is written.
class slot_ledger {
 public:
  void write(std::string const& tensor, int64_t entry, int request, int64_t slot);
  void read(std::string const& tensor, int64_t entry, int request, int64_t slot);
  /// @throws bad_input
  void check() const;
 private:
  struct use {
    std::string tensor;
    int64_t entry, slot;
    int request;
  };
  std::map<int64_t, use> written_;
  std::vector<use> read_;
};

}  // namespace ratify_run
