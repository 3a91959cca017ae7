// SPDX-License-Identifier: Apache-2.0
/// What the lanes of a warp do together, on the host: each function works on what all lanes of a mask have brought
/// (block_scopes::meet).
#pragma once

#include <ratify/detail/machine/matrix.hpp>
#include <ratify/detail/machine/matrix_model.hpp>

RATIFY_BEGIN_NAMESPACE
namespace detail {

template <class Lane>
Lane& lane_of(void* const (&lanes)[32], int lane) {
  return *static_cast<Lane*>(lanes[lane]);
}

/// A shuffle: the value of lane `source`, or the own one if that is not in the mask.
struct shuffle_lane {
  uint32_t value;
  int source;
  uint32_t result;

  static void exchange(void* const (&lanes)[32], uint32_t mask) {
    for (int l = 0; l < 32; ++l) {
      if (!(mask >> l & 1u)) continue;
      auto& mine = lane_of<shuffle_lane>(lanes, l);
      int const from = mine.source & 31;
      mine.result = lane_of<shuffle_lane>(lanes, mask >> from & 1u ? from : l).value;
    }
  }
};

/// A vote: the lanes whose predicate holds.
struct ballot_lane {
  bool predicate;
  uint32_t result;

  static void exchange(void* const (&lanes)[32], uint32_t mask) {
    uint32_t votes = 0;
    for (int l = 0; l < 32; ++l)
      if ((mask >> l & 1u) && lane_of<ballot_lane>(lanes, l).predicate) votes |= 1u << l;
    for (int l = 0; l < 32; ++l)
      if (mask >> l & 1u) lane_of<ballot_lane>(lanes, l).result = votes;
  }
};

/// Four matrices of 8 x 8 elements of 16 bits: lane l brings or gets row l % 8 of matrix l / 8, and has of each matrix
/// m in word m the pair (row l / 4, columns 2 (l % 4) and the next), transposed the pair (rows 2 (l % 4) and the next,
/// column l / 4).
struct matrices_lane {
  uint16_t row[8];
  uint32_t word[4];

  template <bool Transposed>
  static void load(void* const (&lanes)[32], uint32_t) {
    for (int l = 0; l < 32; ++l)
      for (int m = 0; m < 4; ++m) {
        int const g = l / 4, t = 2 * (l % 4);
        auto const element = [&](int i, int column) {
          return static_cast<uint32_t>(lane_of<matrices_lane>(lanes, 8 * m + i).row[column]);
        };
        lane_of<matrices_lane>(lanes, l).word[m] =
            Transposed ? element(t, g) | element(t + 1, g) << 16 : element(g, t) | element(g, t + 1) << 16;
      }
  }

  static void store(void* const (&lanes)[32], uint32_t) {
    for (int l = 0; l < 32; ++l)
      for (int m = 0; m < 4; ++m) {
        uint32_t const pair = lane_of<matrices_lane>(lanes, l).word[m];
        uint16_t* const to = lane_of<matrices_lane>(lanes, 8 * m + l / 4).row + 2 * (l % 4);
        to[0] = static_cast<uint16_t>(pair);
        to[1] = static_cast<uint16_t>(pair >> 16);
      }
  }
};

/// Products of fragments: c[n] += sum over k of a[k] b[k][n], in ascending order of k.
template <class Format, int Steps, int Tiles>
struct product_lane {
  matrix_model model;
  fragment_c* c;
  fragment_a const* a;
  fragment_b const (*b)[Tiles];

  static void multiply(void* const (&lanes)[32], uint32_t) {
    for (int n = 0; n < Tiles; ++n)
      for (int k = 0; k < Steps; ++k) step(lanes, n, k);
  }
 private:
  static Format half(uint32_t word, int upper) { return Format{static_cast<uint16_t>(word >> (16 * upper))}; }

  static void step(void* const (&lanes)[32], int n, int k) {
    Format a[16][16], b[8][16];  // b by column
    for (int l = 0; l < 32; ++l) {
      auto const& lane = lane_of<product_lane>(lanes, l);
      int const g = l / 4, t = 2 * (l % 4);
      for (int w = 0; w < 4; ++w)
        for (int i = 0; i < 2; ++i) a[g + 8 * (w % 2)][t + 8 * (w / 2) + i] = half(lane.a[k].word[w], i);
      for (int w = 0; w < 2; ++w)
        for (int i = 0; i < 2; ++i) b[g][t + 8 * w + i] = half(lane.b[k][n].word[w], i);
    }
    for (int l = 0; l < 32; ++l) {
      auto const& lane = lane_of<product_lane>(lanes, l);
      for (int i = 0; i < 4; ++i) {
        float& c = lane.c[n].value[i];
        c = matrix_sum(lane.model, a[l / 4 + 8 * (i / 2)], b[2 * (l % 4) + i % 2], 16, c);
      }
    }
  }
};

}  // namespace detail
RATIFY_END_NAMESPACE
