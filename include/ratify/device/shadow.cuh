// SPDX-License-Identifier: Apache-2.0
/// How elements differ, and adding up how the elements of a block differ, for kernels of your own.
#pragma once

#include <ratify/detail/shadow_traits.cuh>

RATIFY_BEGIN_NAMESPACE
namespace detail {

RATIFY_HD inline uint32_t shadow_bits(float x) { return bits(x); }
RATIFY_HD inline uint32_t shadow_bits(int32_t x) { return static_cast<uint32_t>(x); }
template <class Format>
RATIFY_HD inline uint32_t shadow_bits(Format x) {
  return x.bits;
}

RATIFY_HD inline uint32_t shadow_count_bits(uint32_t x) {
  x -= x >> 1 & 0x55555555u;
  x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
  return ((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

template <class Format>
RATIFY_HD inline float shadow_distance(Format a, Format b) {
  float const x = to_float(a), y = to_float(b);
  if (is_nan(x) && is_nan(y)) return 0.0f;
  if (is_nan(x) || is_nan(y)) return from_bits(0x7f800000u);
  return magnitude(sub_rn(x, y));
}
RATIFY_HD inline float shadow_distance(int32_t a, int32_t b) {
  uint32_t const d =
      a < b ? static_cast<uint32_t>(b) - static_cast<uint32_t>(a) : static_cast<uint32_t>(a) - static_cast<uint32_t>(b);
  // d has up to 32 bits: in two exact parts, so that it is rounded once.
  return fma_rn(float_from_int(static_cast<int32_t>(d >> 8)), 256.0f, float_from_int(static_cast<int32_t>(d & 0xffu)));
}

}  // namespace detail

namespace device {

/// Bits that differ, and |a - b| as the bits of an FP32 that is not negative, so that it orders like an integer.
struct shadow_difference {
  uint32_t bits, error;
};

/// How two elements differ: not at all only if their bits are equal. Two NaNs have an error of 0, a NaN and a number
/// one of +inf.
template <class Format>
RATIFY_HD inline shadow_difference difference(Format a, Format b) {
  uint32_t const x = detail::shadow_bits(a), y = detail::shadow_bits(b);
  if (x == y) return {0, 0};
  return {detail::shadow_count_bits(x ^ y), detail::bits(detail::shadow_distance(a, b))};
}

/// What the elements of one thread, or of one block, differ in.
struct shadow_counts {
  uint32_t elements, bits, error;

  RATIFY_HD void add(shadow_difference const& d) {
    elements += d.bits != 0 ? 1u : 0u;
    bits += d.bits;
    error = d.error > error ? d.error : error;
  }
};

/// Adds the counts of all threads of a block to a record. Called by all threads of a block.
/// @param own       counts of the thread
/// @param compared  elements that the block has compared
/// @param calls     what is added to the calls of the record: by one block of a launch, 0 by the others
/// @param storage   in shared memory
RATIFY_ANY_BLOCK
template <class Block>
RATIFY_HD inline void add_to_record(Block const& block, shadow_counts const& own, uint64_t compared, uint64_t calls,
                                    shadow_counts& storage, shadow_record& record) {
  if (block.thread() == 0) storage = {0, 0, 0};
  block.barrier();
  if (own.elements > 0) {
    block.atomic_add(&storage.elements, own.elements);
    block.atomic_add(&storage.bits, own.bits);
    block.atomic_max(&storage.error, own.error);
  }
  block.barrier();
  if (block.thread() != 0) return;
  if (calls > 0) block.atomic_add(&record.calls, calls);
  block.atomic_add(&record.elements, compared);
  if (storage.elements == 0) return;
  block.atomic_add(&record.differing_elements, static_cast<uint64_t>(storage.elements));
  block.atomic_add(&record.differing_bits, static_cast<uint64_t>(storage.bits));
  block.atomic_max(&record.largest_error, storage.error);
}

}  // namespace device
RATIFY_END_NAMESPACE
