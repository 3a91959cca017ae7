// SPDX-License-Identifier: Apache-2.0
#include <run/executor.hpp>

namespace ratify_run {

executor::executor(std::string const& name) {
  if (name == "host") {
    host_ = std::make_unique<ratify::host_executor>();
    return;
  }
  bool const from_files = name.rfind("ptx=", 0) == 0;
  if (name != "cuda" && !from_files)
    throw no_executor("--executor " + quote(name) + " is unknown; there are host, cuda and ptx=FOLDER");
#if defined(__CUDACC__)
  int cards = 0;
  if (cudaGetDeviceCount(&cards) != cudaSuccess || cards == 0) {
    (void)cudaGetLastError();
    throw no_executor("--executor " + name + ": there is no CUDA device or no driver");
  }
  if (from_files)
    modules_ = std::make_unique<module_executor>(name.substr(4));
  else
    card_ = std::make_unique<ratify::cuda_executor>(nullptr);
#else
  throw no_executor("--executor " + name + ": this program was compiled without CUDA; configure with -DRATIFY_CUDA=ON");
#endif
}

executor::~executor() = default;

}  // namespace ratify_run
