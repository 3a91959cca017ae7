// SPDX-License-Identifier: Apache-2.0
/// Parameters of one launch of the embedding.
#pragma once

#include <ratify/embedding_policy.hpp>
#include <ratify/views.hpp>

RATIFY_BEGIN_NAMESPACE

/// One launch of `embedding`. Every pointer is the caller's memory that the executor can reach. All tensors are
/// required. Strides are in elements of the tensor, columns are dense, and no stride is smaller than what it steps
/// over.
///
/// @tparam Policy `embedding_policy<Knobs...>`
template <class Policy>
struct embedding_params {
  typename Policy::table_format const* table = nullptr;  ///< [vocab, columns] dense
  /// [rows]: the token of each row, a row of the table. Read by the kernel; a row with a token that is none of 0 to
  /// vocab - 1 becomes zeros.
  int32_t const* tokens = nullptr;
  rows_view<typename Policy::output_format> out;  ///< [rows, columns]; must not overlap an input
  int rows = 0;
  int columns = 0;
  int vocab = 0;  ///< tokens of the table
};

RATIFY_END_NAMESPACE
