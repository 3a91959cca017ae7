// SPDX-License-Identifier: Apache-2.0
/// Objects of different compilers and architectures in one program give the same bits.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

std::vector<uint32_t> host_object();
std::vector<uint32_t> first_card_object();
std::vector<uint32_t> second_card_object();

int main() try {
  auto const expected = host_object();
  bool const same = !expected.empty() && first_card_object() == expected && second_card_object() == expected;
  std::puts(same ? "same bits" : "bits differ");
  return same ? 0 : 1;
} catch (std::exception const& e) {
  std::puts(e.what());
  return 1;
}
