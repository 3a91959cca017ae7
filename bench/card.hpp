// SPDX-License-Identifier: Apache-2.0
/// What a run begins with.
#pragma once

#include <bench/device.hpp>
#include <bench/report.hpp>

namespace bench {

/// Measures what the card's figures are compared with: the bandwidth of reading, and a launch that does nothing.
report first_report(card const& on);

/// The operations of bench/main.cpp, each with its table of shapes.
void attention(card const& on, options const& how, report& to);
void recurrence(card const& on, options const& how, report& to);
void convolution(card const& on, options const& how, report& to);
void projection(card const& on, options const& how, report& to);
void acceptance(card const& on, options const& how, report& to);
void glue(card const& on, options const& how, report& to);

}  // namespace bench
