// SPDX-License-Identifier: Apache-2.0
/// Numbers at which exponentials and their products change course.
#pragma once

#include <cfloat>
#include <cmath>

namespace ratify_test {

inline float const edges[] = {0.0f,    -0.0f,    1e-45f, -1e-45f, 1e-6f,     1e-38f,  1e-40f,  -17.0f,   -17.000002f,
                              17.0f,   -87.0f,   -88.5f, 88.0f,   89.0f,     -103.0f, -104.0f, -200.0f,  1e4f,
                              -1e4f,   3e38f,    -3e38f, 100.0f,  -100.0f,   10.0f,   -10.0f,  INFINITY, -INFINITY,
                              FLT_MAX, -FLT_MAX, 105.7f, -193.0f, 88.72283f, -87.34f, NAN};

}  // namespace ratify_test
