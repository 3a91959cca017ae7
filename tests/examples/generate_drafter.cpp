// SPDX-License-Identifier: Apache-2.0
#include <generate/drafter.hpp>

#include <doctest/doctest.h>

#include <string>

namespace {

std::vector<int32_t> tokens(std::string const& text) {
  std::vector<int32_t> t;
  for (char const c : text) t.push_back(static_cast<unsigned char>(c));
  return t;
}

/// A table of (context, next byte), built from the format's description.
struct table_file {
  std::vector<uint32_t> slots;

  explicit table_file(size_t n) : slots(n) {}

  static uint64_t hash(std::string const& context) {
    uint64_t h = 14695981039346656037ull;
    std::string const key = static_cast<char>(context.size()) + context;
    for (char const c : key) {
      h ^= static_cast<unsigned char>(c);
      h *= 1099511628211ull;
    }
    return h;
  }
  void add(std::string const& context, char next) {
    uint64_t const h = hash(context);
    uint32_t const tag = h >> 40 ? static_cast<uint32_t>(h >> 40) : 1u;
    size_t slot = static_cast<size_t>(h % slots.size());
    while (slots[slot] != 0) slot = (slot + 1) % slots.size();
    slots[slot] = tag << 8 | static_cast<unsigned char>(next);
  }
  generate::ngram_table table(std::string const& low = "2", std::string const& high = "4") const {
    std::map<std::string, safetensors::tensor> const t = {
        {"table", safetensors::view(safetensors::dtype::i32, {static_cast<int64_t>(slots.size())}, slots)}};
    auto const bytes = safetensors::serialize(t, {{"min_order", low}, {"max_order", high}});
    return generate::ngram_table(safetensors::file("table", bytes));
  }
};

}  // namespace

TEST_CASE("drafter: the longest known context wins") {
  table_file f(7);
  f.add("he", 'x');
  f.add("the", 'y');
  f.add("q", 'z');
  auto const table = f.table();
  CHECK(table.next(tokens("she")).byte == 'x');
  CHECK(table.next(tokens("she")).order == 2);
  CHECK(table.next(tokens("the")).byte == 'y');
  CHECK(table.next(tokens("the")).order == 3);
  CHECK(table.next(tokens("q")).order == 0);  // below the lowest order
  CHECK(table.next({}).order == 0);
  CHECK(generate::ngram_table().next(tokens("the")).order == 0);
}

TEST_CASE("drafter: a table without an empty slot answers every lookup") {
  table_file f(3);
  for (char const* const context : {"aa", "bb", "cc"}) f.add(context, '!');
  auto const table = f.table();
  for (char const* const context : {"aa", "bb", "cc"}) CHECK(table.next(tokens(context)).byte == '!');
  CHECK(table.next(tokens("dd")).order == 0);
}

TEST_CASE("drafter: no context reaches across the end of a text") {
  table_file f(7);
  f.add("the", 'y');
  f.add("he", 'x');
  auto text = tokens("the");
  text[0] = 256;
  CHECK(f.table().next(text).byte == 'x');
}

TEST_CASE("drafter: a damaged table is refused") {
  table_file f(7);
  CHECK_THROWS_AS(f.table("0", "4"), safetensors::error);
  CHECK_THROWS_AS(f.table("5", "4"), safetensors::error);
  CHECK_THROWS_AS(f.table("2", "300"), safetensors::error);
  CHECK_THROWS_AS(f.table("2", "x"), safetensors::error);
  CHECK_THROWS_AS(table_file(0).table(), safetensors::error);
}

TEST_CASE("drafter: prompt lookup finds the longest match, of equal ones the latest") {
  auto const hit = generate::prompt_lookup::next(tokens("abcX bcY cZ abc"), 32);
  CHECK(hit.length == 3);
  CHECK(hit.token == 'X');
  auto const latest = generate::prompt_lookup::next(tokens("-abX-abY.ab"), 32);
  CHECK(latest.length == 2);
  CHECK(latest.token == 'Y');
  CHECK(generate::prompt_lookup::next(tokens("aaaaaaaa"), 3).length == 3);
  CHECK(generate::prompt_lookup::next(tokens("a"), 32).length == 0);
  CHECK(generate::prompt_lookup::next({}, 32).length == 0);
}

TEST_CASE("drafter: proposals copy a repeated passage, and never exceed what is asked for") {
  generate::drafter const d{generate::ngram_table()};
  auto const text = tokens("the quick brown fox. the quick");
  CHECK(d.propose(text, 7) == tokens(" brown "));
  CHECK(d.propose(text, 0).empty());
  CHECK(d.propose(tokens("xyz"), 7).empty());
  table_file f(7);
  f.add("yz", 'y');
  f.add("zy", 'z');
  generate::drafter const known{f.table()};
  CHECK(known.propose(tokens("xyz"), 15).size() == 15);
  CHECK(known.propose(tokens("xyz"), 3) == tokens("yzy"));
}
