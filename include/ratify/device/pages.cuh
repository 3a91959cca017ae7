// SPDX-License-Identifier: Apache-2.0
/// Addresses in a paged cache, and loads of a few adjacent bytes of it. For kernels of your own too.
#pragma once

#include <ratify/detail/machine/ptx.cuh>
#include <ratify/views.hpp>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// Which page ids name a page of a pool.
class page_pool {
 public:
  /// @param pages how many the pool holds; 0 if the caller does not know, and then every id from 0 up names one
  RATIFY_HD explicit page_pool(int64_t pages)
      : pages_(pages > 0 && pages < unknown ? static_cast<uint32_t>(pages) : unknown) {}

  RATIFY_HD bool holds(int32_t page) const { return static_cast<uint32_t>(page) < pages_; }
 private:
  static constexpr uint32_t unknown = 0x80000000u;
  uint32_t pages_;
};

/// Elements from the first one of a view of pages to a head of a token. Page 0 stands in for a page outside the pool,
/// so that the address may be read from whatever the block table holds.
///
/// @param table the request's row of the block table; @param token of the request
template <class Element>
RATIFY_HD inline int64_t token_offset(pages_view<Element> const& pages, page_pool pool, int32_t const* table,
                                      int page_size, int token, int head) {
  int32_t const page = table[token / page_size];
  return (pool.holds(page) ? page : 0) * pages.page_stride + token % page_size * pages.token_stride +
         head * pages.head_stride;
}

/// 1, 2, 4, 8 or 16 adjacent bytes, loaded at once from an address that is a multiple of their number. They fill words
/// from their low bits up.
template <int Bytes>
struct cache_words {
  static constexpr int count = Bytes > 4 ? Bytes / 4 : 1;
  uint32_t word[count];

  RATIFY_HD static cache_words load(void const* from) {
    if constexpr (Bytes == 16) {
      auto const v = detail::load_16_bytes(from);
      return {{v.word[0], v.word[1], v.word[2], v.word[3]}};
    } else if constexpr (Bytes == 8) {
      auto const v = detail::load_8_bytes(from);
      return {{v.word[0], v.word[1]}};
    } else {
      return {{detail::load_bytes<Bytes>(from)}};
    }
  }
};

}  // namespace device

RATIFY_END_NAMESPACE
