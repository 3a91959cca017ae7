// SPDX-License-Identifier: Apache-2.0
/// Which kernel an object's launch runs.
#pragma once

struct launched {
  void const* kernel = nullptr;  ///< the object's own, on the host
  void const* launch =
      nullptr;              ///< the function that launches an operation; where objects share it, they share kernels
  int ran = 0;              ///< the architecture that the kernel which ran was compiled for: 800 for sm_80
  char const* reason = "";  ///< why it did not launch
  bool card = false;
};
