// SPDX-License-Identifier: Apache-2.0
#include "acceptance/launch.hpp"

RATIFY_TEST_COMPILE_LAUNCH(ratify_test::rejection)
