// SPDX-License-Identifier: Apache-2.0
/// Knobs of the decoder. Derive and override by name; a misspelt knob compiles silently.
#pragma once

#include <ratify/numeric.hpp>

RATIFY_BEGIN_NAMESPACE

struct decode_policy {
  using format = e4m3;                                           ///< e4m3, e5m2 or e2m1x2 (one code a byte, low nibble)
  using to = float;                                              ///< float or f16; both hold every code exactly
  static constexpr auto revision = decoder_revision::reference;  ///< e5m2 and e2m1x2: reference alone
};

RATIFY_END_NAMESPACE
