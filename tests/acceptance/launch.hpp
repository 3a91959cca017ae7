// SPDX-License-Identifier: Apache-2.0
/// Defines `launch_compiled`, for the files that compile it.
#pragma once

#include "acceptance/batch.hpp"

namespace ratify_test {

template <class Operation, class Executor>
ratify::status launch_compiled(typename Operation::params const& p, Executor& on) {
  return launch<Operation>(p, on);
}

template <class Operation, class Executor>
ratify::status launch_compiled_with(typename Operation::params const& p, ratify::workspace scratch, Executor& on) {
  return Operation::launch(p, scratch, on);
}

}  // namespace ratify_test

#define RATIFY_TEST_COMPILE_LAUNCH_ON(operation, executor)                                                          \
  template ratify::status ratify_test::launch_compiled<operation>(operation::params const&, executor&);             \
  template ratify::status ratify_test::launch_compiled_with<operation>(operation::params const&, ratify::workspace, \
                                                                       executor&);
#if defined(__CUDACC__)
#define RATIFY_TEST_COMPILE_LAUNCH(operation)                     \
  RATIFY_TEST_COMPILE_LAUNCH_ON(operation, ratify::cuda_executor) \
  RATIFY_TEST_COMPILE_LAUNCH_ON(operation, ratify::host_executor)
#else
#define RATIFY_TEST_COMPILE_LAUNCH(operation) RATIFY_TEST_COMPILE_LAUNCH_ON(operation, ratify::host_executor)
#endif
