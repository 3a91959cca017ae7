// SPDX-License-Identifier: Apache-2.0
/// The operations that this program builds: those of the round, and those of its shadow.
#pragma once

#include <common/round_operations.hpp>

namespace generate {

template <class KvFormat>
using driving_operations = example::round_operations<KvFormat>;

/// As plain as the operations come. No bit depends on the knobs that differ.
template <class KvFormat>
struct shadow_operations : driving_operations<KvFormat> {
  using recurrence = ratify::recurrence<ratify::value_block<8>, ratify::column_threads<8>>;
  using attention = ratify::attention<ratify::kv_format<KvFormat>, ratify::pv_unroll<1>,
                                      ratify::decoder<ratify::decoder_revision::reference>>;
};

}  // namespace generate
