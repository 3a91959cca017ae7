// SPDX-License-Identifier: Apache-2.0
/// Prints text that comes byte by byte, and keeps control characters away from the terminal.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace generate {

/// Collects bytes into whole UTF-8 characters. Bytes that form no character are shown as \xNN, and so are control
/// characters other than newline and tab.
class text_filter {
 public:
  /// @return what can be shown now that this byte is there; may be empty
  std::string add(unsigned char byte) {
    std::string shown;
    if (!held_.empty()) {
      if (continues(byte)) {
        held_.push_back(byte);
        if (held_.size() == length_) {
          shown.assign(held_.begin(), held_.end());
          held_.clear();
        }
        return shown;
      }
      shown = finish();
    }
    if (byte >= 0xc2 && byte <= 0xf4) {
      held_.assign(1, byte);
      length_ = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    } else if (byte >= 0x80 || byte == 0x7f || (byte < 0x20 && byte != '\n' && byte != '\t')) {
      shown += escape(byte);
    } else {
      shown += static_cast<char>(byte);
    }
    return shown;
  }

  /// @return what is left of an unfinished character
  std::string finish() {
    std::string shown;
    for (unsigned char const byte : held_) shown += escape(byte);
    held_.clear();
    return shown;
  }

  static std::string all(std::string const& text) {
    text_filter f;
    std::string shown;
    for (char const c : text) shown += f.add(static_cast<unsigned char>(c));
    return shown + f.finish();
  }
 private:
  /// Whether a byte continues the character that is held: no overlong forms, no surrogates, nothing past U+10FFFF, no
  /// C1 control characters.
  bool continues(unsigned char byte) const {
    if (held_.size() > 1) return byte >= 0x80 && byte <= 0xbf;
    switch (held_[0]) {
      case 0xc2:
        return byte >= 0xa0 && byte <= 0xbf;
      case 0xe0:
        return byte >= 0xa0 && byte <= 0xbf;
      case 0xed:
        return byte >= 0x80 && byte <= 0x9f;
      case 0xf0:
        return byte >= 0x90 && byte <= 0xbf;
      case 0xf4:
        return byte >= 0x80 && byte <= 0x8f;
      default:
        return byte >= 0x80 && byte <= 0xbf;
    }
  }
  static std::string escape(unsigned char byte) {
    char text[8];
    std::snprintf(text, sizeof text, "\\x%02x", byte);
    return text;
  }

  std::vector<unsigned char> held_;
  size_t length_ = 0;
};

/// Prints tokens as they come; with colours, accepted drafts are green.
class token_printer {
 public:
  explicit token_printer(bool color) : color_(color) {}
  token_printer(token_printer const&) = delete;
  token_printer& operator=(token_printer const&) = delete;
  ~token_printer() { finish(); }

  void prompt(std::string const& text) {
    if (color_) std::fputs("\x1b[2m", stdout);
    std::fputs(text_filter::all(text).c_str(), stdout);
    if (color_) std::fputs("\x1b[0m", stdout);
    std::fflush(stdout);
  }
  /// The end token, which is no byte, is not shown.
  void token(int32_t token, bool was_draft) {
    std::string const shown =
        token >= 0 && token < 256 ? filter_.add(static_cast<unsigned char>(token)) : filter_.finish();
    put(shown, was_draft);
  }
  void flush() { std::fflush(stdout); }
  void finish() {
    put(filter_.finish(), false);
    if (colored_) std::fputs("\x1b[0m", stdout);
    colored_ = false;
    std::fflush(stdout);
  }
 private:
  void put(std::string const& text, bool was_draft) {
    if (text.empty()) return;
    if (color_ && was_draft != colored_) std::fputs(was_draft ? "\x1b[32m" : "\x1b[0m", stdout);
    if (color_) colored_ = was_draft;
    std::fwrite(text.data(), 1, text.size(), stdout);
  }

  bool color_, colored_ = false;
  text_filter filter_;
};

}  // namespace generate
