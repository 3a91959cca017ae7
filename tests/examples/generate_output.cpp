// SPDX-License-Identifier: Apache-2.0
#include <generate/output.hpp>

#include <doctest/doctest.h>

#include <string>

namespace {
std::string shown(std::string const& bytes) { return generate::text_filter::all(bytes); }
}  // namespace

TEST_CASE("output: whole characters pass, anything else is spelt out") {
  CHECK(shown("plain text\n\tand more") == "plain text\n\tand more");
  CHECK(shown("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80") == "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  CHECK(shown("\xff\xfe") == "\\xff\\xfe");
  CHECK(shown("\x80") == "\\x80");
  CHECK(shown("\xc3(") == "\\xc3(");         // a lead byte alone
  CHECK(shown("\xe2\x82") == "\\xe2\\x82");  // cut short
  CHECK(shown("\xe2\x82\xc3\xa9") == "\\xe2\\x82\xc3\xa9");
  CHECK(shown("\xc0\xaf") == "\\xc0\\xaf");  // overlong
  CHECK(shown("\xe0\x80\xaf") == "\\xe0\\x80\\xaf");
  CHECK(shown("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // surrogate
  CHECK(shown("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
}

TEST_CASE("output: no control character reaches a terminal") {
  CHECK(shown("\x1b[2J") == "\\x1b[2J");
  CHECK(shown(std::string("a\0b\r\x7f", 5)) == "a\\x00b\\x0d\\x7f");
  CHECK(shown("\xc2\x9b") == "\\xc2\\x9b");  // CSI as a C1 character
  std::string every;
  for (int i = 0; i < 256; ++i) every += static_cast<char>(i);
  for (char const c : shown(every)) CHECK((static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t'));
}
