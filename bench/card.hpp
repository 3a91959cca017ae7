// SPDX-License-Identifier: Apache-2.0
/// The report that a run begins with, and the operations that can be measured.
#pragma once

#include <bench/device.hpp>
#include <bench/report.hpp>

namespace bench {

/// Measures what the card's figures are compared with: the bandwidth of reading, and a launch that does nothing.
report first_report(card const& on);

// One function per operation: measures its table of shapes.
void attention(card const& on, options const& settings, report& to);
void recurrence(card const& on, options const& settings, report& to);
void convolution(card const& on, options const& settings, report& to);
void projection(card const& on, options const& settings, report& to);
void acceptance(card const& on, options const& settings, report& to);
void glue(card const& on, options const& settings, report& to);

}  // namespace bench
