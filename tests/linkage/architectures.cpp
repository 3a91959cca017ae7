// SPDX-License-Identifier: Apache-2.0
/// Objects for different architectures that hold one policy, in one program: each launches its own kernel. Without a
/// card the kernels' addresses show that the linker kept both.
#include "linkage/launched.hpp"

#include <cstdio>
#include <cstring>

launched of_sm_80();
launched of_sm_90();
launched of_sm_121_alone();

namespace {

int failures = 0;
void require(bool good, char const* what) {
  if (good) return;
  std::printf("FAILED: %s\n", what);
  ++failures;
}

void show(char const* name, launched const& l) {
  if (!l.card)
    std::printf("%s: not launched: no card is here\n", name);
  else if (l.reason[0] != '\0')
    std::printf("%s: %s\n", name, l.reason);
  else
    std::printf("%s: ran code compiled for %d\n", name, l.ran);
}
bool lacks_code(launched const& l) { return std::strstr(l.reason, "no code for this card") != nullptr; }
bool distinct(launched const& a, launched const& b) {
  return a.kernel != nullptr && a.kernel != b.kernel && a.launch != b.launch;
}

}  // namespace

int main() {
  launched const a = of_sm_80(), b = of_sm_90(), none = of_sm_121_alone();
  show("object for sm_80", a);
  show("object for sm_90", b);
  show("object of code for sm_121 alone", none);
  require(distinct(a, b) && distinct(a, none) && distinct(b, none), "two objects share a kernel or its launch");
  if (a.card) {
    require(a.ran == 800, "the object for sm_80 did not run its own kernel");
    // An older card has no code in the second object, and the third has none for any card but its own: a status (L3),
    // whatever the other objects of the program hold.
    require(b.ran == 900 || lacks_code(b), "the object for sm_90 did not run its own kernel");
    require(none.ran == 1210 || lacks_code(none),
            "the object for sm_121 does not say that it has no code for this card");
  }
  std::puts(failures == 0 ? "each object launches its own kernel" : "kernels are shared");
  return failures == 0 ? 0 : 1;
}
