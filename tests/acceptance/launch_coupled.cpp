// SPDX-License-Identifier: Apache-2.0
#include "acceptance/launch.hpp"

namespace {

using of_f16 = ratify::acceptance<ratify::logit_format<ratify::f16>>;
using of_bf16 = ratify::acceptance<ratify::logit_format<ratify::bf16>>;

}  // namespace

RATIFY_TEST_COMPILE_LAUNCH(ratify_test::coupled)
RATIFY_TEST_COMPILE_LAUNCH(of_f16)
RATIFY_TEST_COMPILE_LAUNCH(of_bf16)
