// SPDX-License-Identifier: Apache-2.0
/// A look-up in an embedding table, for kernels of your own.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE
namespace device {

/// Element `column` of the row of a token in the dense table [vocab, columns], as FP32; 0 for a token outside the
/// table.
template <class Format>
RATIFY_HD inline float embedding(Format const* table, int32_t token, int64_t column, int columns, int vocab) {
  if (token < 0 || token >= vocab) return 0.0f;
  return to_float(table[int64_t{token} * columns + column]);
}

}  // namespace device
RATIFY_END_NAMESPACE
