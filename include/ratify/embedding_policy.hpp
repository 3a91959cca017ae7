// SPDX-License-Identifier: Apache-2.0
/// Knobs of the embedding.
#pragma once

#include <ratify/detail/policy.hpp>
#include <ratify/numeric.hpp>

#define RATIFY_EMBEDDING_KNOBS(op, FORMAT, NUMBER, FLAG, CHOICE)                                 \
  FORMAT(op, table_format, f16, (float, f16, bf16), "float, f16 or bf16", "format of the table") \
  FORMAT(op, output_format, float, (float, f16, bf16), "float, f16 or bf16", "format of out")

RATIFY_BEGIN_NAMESPACE

RATIFY_DEFINE_POLICY(embedding, RATIFY_EMBEDDING_KNOBS, "ratify/embedding.cuh", "embedding_kernel<$>")

RATIFY_END_NAMESPACE
