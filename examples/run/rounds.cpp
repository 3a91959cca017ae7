// SPDX-License-Identifier: Apache-2.0
#include <run/rounds.hpp>

#include <algorithm>

namespace ratify_run {

int rounds::most_rows() const {
  int most = 0;
  for (int r = 0; r < requests(); ++r) most = std::max(most, rows(r));
  return most;
}

rounds read_rounds(inputs const& in, int rows) {
  operand const o = in.tensor("query_start", {dtype::i32}, 1);
  if (o.extent(0) == 0) throw bad_input("tensor 'query_start': shape [0], must be [requests + 1]");
  rounds r{load_dense<int32_t>(o)};
  if (r.requests() == 0 && rows > 0)
    throw bad_input("tensor 'query_start': shape [1], must be [requests + 1] with at least one request for the " +
                    std::to_string(rows) + " rows of the launch");
  if (r.start.front() != 0) bad_entry("query_start", 0, r.start.front(), "0");
  for (size_t i = 1; i < r.start.size(); ++i)
    if (r.start[i] < r.start[i - 1])
      bad_entry("query_start", static_cast<int64_t>(i), r.start[i],
                "at least the entry before it, " + std::to_string(r.start[i - 1]));
  if (r.start.back() > rows)
    bad_entry("query_start", r.requests(), r.start.back(),
              "at most " + std::to_string(rows) + ", the rows of the launch");
  return r;
}

std::vector<int32_t> read_per_request(inputs const& in, std::string const& name, rounds const& r, int64_t least,
                                      int64_t most) {
  auto values = load_dense<int32_t>(in.tensor(name, dtype::i32, {r.requests()}));
  for (int i = 0; i < r.requests(); ++i) {
    int32_t const v = values[static_cast<size_t>(i)];
    if (r.rows(i) > 0 && (v < least || v > most))
      bad_entry(name, i, v, std::to_string(least) + " to " + std::to_string(most));
  }
  return values;
}

std::vector<int32_t> read_fresh(inputs const& in, rounds const& r, std::vector<int32_t> const& slots,
                                std::string const& other_name, std::vector<int32_t> const& other) {
  if (!in.has("fresh")) return {};
  auto fresh = load_dense<int32_t>(in.tensor("fresh", dtype::i32, {r.requests()}));
  for (int i = 0; i < r.requests(); ++i) {
    auto const at = static_cast<size_t>(i);
    if (r.rows(i) == 0 || slots[at] == -1) continue;
    if (fresh[at] != 0 && fresh[at] != 1) bad_entry("fresh", i, fresh[at], "0 or 1");
    if (fresh[at] == 1 && other[at] != 0) bad_entry(other_name, i, other[at], "0, because the request is fresh");
  }
  return fresh;
}

int paged_cache::page_of(int request, int64_t token) const {
  int64_t const entry = token / page_size;
  return block_table.values[static_cast<size_t>(request * block_table.strides[0] + entry * block_table.strides[1])];
}

paged_cache read_cache(inputs const& in, rounds const& r) {
  paged_cache c;
  c.k_pages = in.tensor("k_pages", cache_formats, 4);
  c.v_pages = in.tensor("v_pages", {c.k_pages.type}, c.k_pages.shape);
  c.pages = c.k_pages.extent(0);
  c.page_size = c.k_pages.extent(1);
  c.kv_heads = c.k_pages.extent(2);
  c.head_dim = c.k_pages.extent(3);
  operand const table = in.tensor("block_table", {dtype::i32}, 2);
  if (table.extent(0) != r.requests())
    throw bad_input("tensor 'block_table': shape " + to_string(table.shape) + ", must be [" +
                    std::to_string(r.requests()) + ", max_pages], a row for each request of query_start");
  c.max_pages = table.extent(1);
  c.block_table = load<int32_t>(table, 1);
  // To the operations a number of 0 pages says that the pool's size is unknown.
  if (c.pages == 0) std::fill(c.block_table.values.begin(), c.block_table.values.end(), -1);
  if (c.page_size == 0) throw unsupported("tensor 'k_pages': pages of 0 tokens; page_size must be at least 1");
  int64_t const most = std::min<int64_t>(int64_t{c.max_pages} * c.page_size, INT32_MAX);
  c.context_len = read_per_request(in, "context_len", r, 0, most);

  auto const scale = [&](char const* name) {
    operand const o = in.tensor(name, {dtype::f32}, 1);
    if (o.shape[0] != 1 && o.shape[0] != c.kv_heads)
      throw bad_input("tensor " + quote(name) + ": shape " + to_string(o.shape) + ", must be [1] or [" +
                      std::to_string(c.kv_heads) + "]");
    return load_dense<float>(o);
  };
  c.k_scale = scale("k_scale");
  c.v_scale = scale("v_scale");
  c.scale_stride = std::max(c.k_scale.size(), c.v_scale.size()) > 1 ? 1 : 0;
  if (c.scale_stride == 1)
    for (auto* const s : {&c.k_scale, &c.v_scale})
      if (s->size() == 1) s->assign(static_cast<size_t>(c.kv_heads), s->front());
  return c;
}

void slot_ledger::write(std::string const& tensor, int64_t entry, int request, int64_t slot) {
  auto const [found, is_new] = written_.insert({slot, {tensor, entry, slot, request}});
  if (!is_new)
    throw bad_input("tensor " + quote(tensor) + ": entry " + std::to_string(entry) + " names slot " +
                    std::to_string(slot) + ", which entry " + std::to_string(found->second.entry) + " of " +
                    quote(found->second.tensor) + " writes too");
}

void slot_ledger::read(std::string const& tensor, int64_t entry, int request, int64_t slot) {
  read_.push_back({tensor, entry, slot, request});
}

void slot_ledger::check() const {
  for (use const& u : read_) {
    auto const found = written_.find(u.slot);
    if (found != written_.end() && found->second.request != u.request)
      throw bad_input("tensor " + quote(u.tensor) + ": entry " + std::to_string(u.entry) + " names slot " +
                      std::to_string(u.slot) + ", which request " + std::to_string(found->second.request) +
                      " writes in this round");
  }
}

}  // namespace ratify_run
