// SPDX-License-Identifier: Apache-2.0
#include <run/executor.hpp>

namespace ratify_run {

executor::executor(std::string const& name) {
  if (name == "host") {
    host_ = std::make_unique<ratify::host_executor>();
    return;
  }
  if (name != "cuda") throw unsupported("--executor " + quote(name) + " is unknown; there are host and cuda");
#if defined(__CUDACC__)
  int cards = 0;
  if (cudaGetDeviceCount(&cards) != cudaSuccess || cards == 0) {
    (void)cudaGetLastError();
    throw unsupported("--executor cuda: there is no CUDA device or no driver");
  }
  card_ = std::make_unique<ratify::cuda_executor>(nullptr);
#else
  throw unsupported("--executor cuda: this program was compiled without CUDA; configure with -DRATIFY_CUDA=ON");
#endif
}

executor::~executor() = default;

}  // namespace ratify_run
