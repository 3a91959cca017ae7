// SPDX-License-Identifier: Apache-2.0
/// Finds a compiled kernel of the library by the C++ type of the kernel it enters.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <typeinfo>

namespace example {

inline std::string demangled(char const* name) {
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> const text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 ? text.get() : name;
}

/// "void ratify::v0_1::detail::entry<KERNEL, ratify::v0_1::detail::arch_list<700> >(KERNEL::params)" gives KERNEL.
/// @throws std::runtime_error for any other name
inline std::string kernel_of_entry(std::string const& lowered) {
  std::string const text = demangled(lowered.c_str());
  size_t const begin = text.find("entry<"), list = text.rfind("arch_list<");
  size_t const end = list == std::string::npos ? list : text.rfind(", ", list);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    throw std::runtime_error("no kernel of ratify: " + text);
  return text.substr(begin + 6, end - begin - 6);
}

template <class Kernel>
std::string kernel_name() {
  return demangled(typeid(Kernel).name());
}

}  // namespace example
