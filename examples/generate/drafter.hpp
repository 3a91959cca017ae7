// SPDX-License-Identifier: Apache-2.0
/// Where drafts come from: what followed the same words earlier in this text, and a table of what follows which bytes
/// in English. There is no network and no randomness. A wrong draft costs time and never changes a token.
#pragma once

#include <common/safetensors.hpp>
#include <generate/geometry.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace generate {

/// The likeliest next byte after a context of `min_order` to `max_order` bytes: a hash table with open addressing. A
/// slot holds 24 bits of the context's hash and the byte; 0 means empty.
class ngram_table {
 public:
  ngram_table() = default;

  /// @throws safetensors::error
  explicit ngram_table(safetensors::file const& f)
      : min_order_(detail::metadata_integer(f, "min_order", 1, 255)),
        max_order_(detail::metadata_integer(f, "max_order", min_order_, 255)) {
    safetensors::tensor const& t = f.at("table");
    if (t.type != safetensors::dtype::i32 || t.shape.size() != 1 || t.elements() == 0)
      throw safetensors::error(f.name() + ": tensor 'table': expected I32 [slots], found " +
                               safetensors::describe(t.type).name + " " + safetensors::to_string(t.shape));
    slots_ = t.copy<uint32_t>();
  }

  struct hit {
    int order = 0;  ///< bytes of context that were found; 0: none
    int byte = 0;
  };

  /// The byte that follows the longest known context at the end of the text.
  hit next(std::vector<int32_t> const& text) const {
    int const longest = static_cast<int>(std::min<size_t>(static_cast<size_t>(max_order_), text.size()));
    for (int n = slots_.empty() ? 0 : longest; n >= min_order_ && n > 0; --n) {
      int32_t const* const context = text.data() + text.size() - static_cast<size_t>(n);
      // A context reaches no further back than the start of a text.
      if (std::any_of(context, context + n, [](int32_t token) { return token < 0 || token > 255; })) continue;
      if (int const byte = find(context, n); byte >= 0) return {n, byte};
    }
    return {};
  }
 private:
  int find(int32_t const* context, int n) const {
    // FNV-1a over the length and the bytes.
    uint64_t hash = 0xcbf29ce484222325ull;
    auto const mix = [&](uint64_t byte) { hash = (hash ^ byte) * 0x100000001b3ull; };
    mix(static_cast<uint64_t>(n));
    for (int i = 0; i < n; ++i) mix(static_cast<uint64_t>(context[i]));
    uint32_t const tag = std::max<uint32_t>(static_cast<uint32_t>(hash >> 40), 1);
    size_t slot = static_cast<size_t>(hash % slots_.size());
    for (size_t probes = 0; probes < slots_.size() && slots_[slot] != 0; ++probes) {
      if (slots_[slot] >> 8 == tag) return static_cast<int>(slots_[slot] & 0xff);
      slot = slot + 1 == slots_.size() ? 0 : slot + 1;
    }
    return -1;
  }

  int min_order_ = 1, max_order_ = 0;
  std::vector<uint32_t> slots_;
};

/// The longest suffix of a text that also occurs earlier in it, and what followed it there.
class prompt_lookup {
 public:
  struct hit {
    int length = 0;  ///< tokens of the suffix that were found; 0: none
    int32_t token = 0;
  };

  /// Of several places with matches of the same length, the latest one is taken.
  static hit next(std::vector<int32_t> const& text, int longest) {
    hit best;
    int const size = static_cast<int>(text.size());
    for (int end = size - 1; end > 0; --end) {  // text[0, end) is followed by text[end]
      int n = 0;
      while (n < longest && n < end &&
             text[static_cast<size_t>(end - 1 - n)] == text[static_cast<size_t>(size - 1 - n)])
        ++n;
      if (n > best.length) best = {n, text[static_cast<size_t>(end)]};
      if (best.length == longest) break;
    }
    return best;
  }
};

/// Proposes the tokens after a text, one after another: from the text's own past if that matches more bytes than the
/// table knows, else from the table. Stops where neither knows anything.
class drafter {
 public:
  explicit drafter(ngram_table table) : table_(std::move(table)) {}

  std::vector<int32_t> propose(std::vector<int32_t> const& text, int drafts) const {
    std::vector<int32_t> extended = text;
    for (int i = 0; i < drafts; ++i) {
      auto const copied = prompt_lookup::next(extended, longest_copy);
      auto const known = table_.next(extended);
      if (copied.length >= shortest_copy && copied.length > known.order)
        extended.push_back(copied.token);
      else if (known.order > 0)
        extended.push_back(known.byte);
      else
        break;
    }
    return {extended.begin() + static_cast<std::ptrdiff_t>(text.size()), extended.end()};
  }
 private:
  // A match of 32 tokens is as good as certain, so no longer one is looked for; a match below 6 may be chance.
  static constexpr int longest_copy = 32, shortest_copy = 6;
  ngram_table table_;
};

}  // namespace generate
