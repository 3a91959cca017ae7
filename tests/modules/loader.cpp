// SPDX-License-Identifier: Apache-2.0
// Loads shared libraries, says what check_revision says of each, and calls those that it accepts.
#include <ratify/revision.hpp>

#include <dlfcn.h>

#include <cstdio>

int main(int count, char** files) {
  for (int i = 1; i < count; ++i) {
    void* const module = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
    if (auto const s = ratify::check_revision(dlsym(module, "ratify_module_revision")); !s) {
      std::puts(s.reason());
      continue;
    }
    auto const silu = reinterpret_cast<float (*)(float, float)>(dlsym(module, "module_silu"));
    std::printf("silu(1) * 2 = %.6f\n", static_cast<double>(silu(1.0f, 2.0f)));
  }
}
