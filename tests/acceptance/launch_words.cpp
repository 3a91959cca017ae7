// SPDX-License-Identifier: Apache-2.0
#include "acceptance/launch.hpp"

RATIFY_TEST_COMPILE_LAUNCH(ratify_test::from_words<ratify_test::coupled>)
RATIFY_TEST_COMPILE_LAUNCH(ratify_test::from_words<ratify_test::rejection>)
RATIFY_TEST_COMPILE_LAUNCH(ratify_test::summary_of<ratify_test::coupled>)
