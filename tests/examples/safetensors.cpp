// SPDX-License-Identifier: Apache-2.0
#include <common/safetensors.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

namespace {

/// A file from a header's text and the bytes after it.
std::vector<char> bytes_of(std::string const& header, size_t data_bytes) {
  std::vector<char> bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i)));
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.resize(bytes.size() + data_bytes, 'x');
  return bytes;
}

/// What reading such a file says; "" when it is read.
std::string fault(std::vector<char> bytes) {
  try {
    safetensors::file const f("f", std::move(bytes));
    return "";
  } catch (safetensors::error const& e) {
    return e.what();
  }
}
std::string fault(std::string const& header, size_t data_bytes) { return fault(bytes_of(header, data_bytes)); }

}  // namespace

TEST_CASE("safetensors: what is written is read") {
  std::vector<float> const f = {1.0f, -2.5f, 3.0f};
  std::vector<uint16_t> const h = {1, 2};
  std::vector<uint8_t> const u = {7}, none;
  auto const bytes = safetensors::serialize({{"a", safetensors::view(safetensors::dtype::u8, {1}, u)},
                                             {"b", safetensors::view(safetensors::dtype::f32, {3, 1}, f)},
                                             {"c", safetensors::view(safetensors::dtype::f16, {2}, h)},
                                             {"empty", safetensors::view(safetensors::dtype::u8, {0, 5}, none)}},
                                            {{"op", "text"}});
  safetensors::file const got("f", bytes);
  CHECK(got.tensors().size() == 4);
  CHECK(got.metadata().at("op") == "text");
  CHECK(got.at("b", safetensors::dtype::f32, {3, 1}).copy<float>() == f);
  CHECK(got.at("c").copy<uint16_t>() == h);
  CHECK(got.at("a").copy<uint8_t>() == u);
  CHECK(got.at("empty").elements() == 0);
  CHECK(got.find("d") == nullptr);
}

TEST_CASE("safetensors: data may be unaligned") {
  auto bytes = bytes_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                           "b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
                        5);
  float const value = 0.75f;
  std::memcpy(bytes.data() + bytes.size() - 4, &value, 4);
  safetensors::file const got("f", bytes);
  CHECK(got.at("b").copy<float>() == std::vector<float>{value});
}

TEST_CASE("safetensors: a tensor that is missing or another is named") {
  safetensors::file const got("f", bytes_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1));
  CHECK_THROWS_WITH_AS(got.at("b"), "f: tensor 'b' is missing", safetensors::error);
  CHECK_THROWS_WITH_AS(got.at("a", safetensors::dtype::f32, {2, 3}), "f: tensor 'a': expected F32 [2, 3], found U8 [1]",
                       safetensors::error);
}

TEST_CASE("safetensors: every fault of a file is one error that names it") {
  CHECK(fault({}) == "f: too short for a header (0 bytes)");
  CHECK(fault({'a', 'b'}) == "f: too short for a header (2 bytes)");
  CHECK(fault(std::vector<char>(16, '\xff')) ==
        "f: a header of 18446744073709551615 bytes does not fit into a file of 16");
  CHECK(fault("", 0) == "f: the header is not valid JSON (byte 1 of it)");
  CHECK(fault("{", 0) == "f: the header is not valid JSON (byte 2 of it)");
  CHECK(fault("{\"\xff\":1}", 0) == "f: the header is not valid JSON (byte 3 of it)");
  CHECK(fault("[]", 0) == "f: the header is not a JSON object");
  CHECK(fault("{}", 0) == "");
  CHECK(fault("{}   ", 0) == "");
  CHECK(fault("{}", 3) == "f: 3 bytes at the end of the data belong to no tensor");
  CHECK(fault(std::string(100000, '['), 0) == "f: the header is JSON nested more than 16 deep");
  CHECK(fault(R"({"__metadata__":[]})", 0) == "f: __metadata__ is not an object");
  CHECK(fault(R"({"__metadata__":{"a":1}})", 0) == "f: metadata 'a' is not a text");
  CHECK(fault(R"({"__metadata__":{"a":"1","a":"2"}})", 0) == "f: the header has the name 'a' twice");
  CHECK(
      fault(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
          1) == "f: the header has the name 'a' twice");
  CHECK(fault(R"({"a":1})", 0) == "f: tensor 'a': has no dtype");
  CHECK(fault(R"({"a":{}})", 0) == "f: tensor 'a': has no dtype");
  CHECK(fault(R"({"a\n":{}})", 0) == "f: tensor 'a?': has no dtype");
  CHECK(fault(R"({"a":{"dtype":"F4"}})", 0) == "f: tensor 'a': dtype 'F4' is not known");
  CHECK(fault(R"({"a":{"dtype":4}})", 0) == "f: tensor 'a': dtype of another kind than text is not known");
  CHECK(fault(R"({"a":{"dtype":"U8","shape":1}})", 0) == "f: tensor 'a': shape is not a list");
  CHECK(fault(R"({"a":{"dtype":"U8","shape":[-1]}})", 0) == "f: tensor 'a': shape holds something else than a size");
  CHECK(fault(R"({"a":{"dtype":"U8","shape":[1.5]}})", 0) == "f: tensor 'a': shape holds something else than a size");
  CHECK(fault(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0) ==
        "f: tensor 'a': shape is too large");
  CHECK(fault(R"({"a":{"dtype":"U8","shape":[1]}})", 1) == "f: tensor 'a': has no data_offsets");
  CHECK(fault(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1) ==
        "f: tensor 'a': data_offsets is not a pair of sizes");
  CHECK(fault(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}})", 1) ==
        "f: tensor 'a': data_offsets is not a pair of sizes");
  CHECK(fault(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1) ==
        "f: tensor 'a': data_offsets end before they begin");
  CHECK(fault(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 1) ==
        "f: tensor 'a': data_offsets end at 2, past the end of the data (1 bytes)");
  CHECK(fault(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,2]}})", 2) ==
        "f: tensor 'a': dtype F32 and shape [2] need 8 bytes, data_offsets hold 2");
  CHECK(
      fault(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
          3) == "f: tensor 'b': overlaps tensor 'a'");
  CHECK(
      fault(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
          3) == "f: tensor 'b': starts at byte 2 of the data, but bytes from 1 on belong to no tensor");
}

TEST_CASE("safetensors: a header is one JSON object and the spaces after it, whatever a JSON parser would let pass") {
  std::string const good = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", nul(1, '\0');
  CHECK(fault(good, 1) == "");
  CHECK(fault(good + "       ", 1) == "");
  // No JSON holds a NUL. Some parsers take it for the end of the text.
  for (size_t i = 0; i <= good.size(); ++i) {
    CAPTURE(i);
    std::string const at = " (byte " + std::to_string(i + 1) + " of it)";
    CHECK(fault(std::string(good).insert(i, nul), 1) == "f: the header is not valid JSON" + at);
    CHECK(fault(good.substr(0, i) + nul + "]]] \"", 1) == "f: the header is not valid JSON" + at);
  }
  // Before the object.
  for (char const* const before : {"\xef\xbb\xbf", " ", "\n", "\t", "\r"}) {
    CAPTURE(before);
    CHECK(fault(before + good, 1) == "f: the header begins with something else than '{'");
  }
  for (char const* const before :
       {"\xff\xfe", "\xfe\xff", "\xef\xbb", "\xc2\xa0", "//\n", "/**/", "0", "[]", "{}", "\x1e", ")]}'"}) {
    CAPTURE(before);
    CHECK(fault(before + good, 1) != "");
  }
  // After it.
  for (char const* const after : {"\n", "\t", "\r", " \n ", "\r\n"}) {
    CAPTURE(after);
    CHECK(fault(good + after, 1) == "f: the header ends with something else than '}' and spaces");
  }
  for (char const* const after :
       {"}", "]", ",", ";", "x", "{}", "  {}", "\x1a", "\xef\xbb\xbf", "\xc2\xa0", "//", "/**/", "#", "\x7f"}) {
    CAPTURE(after);
    CHECK(fault(good + after, 1).find("f: the header is not valid JSON") == 0);
  }
  // Inside: what other readers of JSON allow.
  for (char const* const text : {
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},})",
           R"({"a":{"dtype":"U8","shape":[1,],"data_offsets":[0,1]}})",
           R"({"a":{"dtype":"U8","shape":[1],/**/"data_offsets":[0,1]}})",
           R"({"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}})",
           R"({"a":{"dtype":"U8","shape":[+1],"data_offsets":[0,1]}})",
           R"({"a":{"dtype":"U8","shape":[0x1],"data_offsets":[0,1]}})",
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[NaN,1]}})",
           R"({'a':{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
           R"({a:{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
           R"({"\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
           R"({"\x61":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
           "{\"\xc0\x80\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
           "{\"\xed\xa0\x80\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
           "{\"\xf4\x90\x80\x80\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
           "{\"\xe2\x82\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
           "{\"a\t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
       }) {
    CAPTURE(text);
    CHECK(fault(text, 1).find("f: the header is not valid JSON") == 0);
  }
  for (char const* const size :
       {"-0", "1.0", "1e0", "18446744073709551616", "9223372036854775808", "-1", "true", "\"1\"", "[1]", "{}"}) {
    CAPTURE(size);
    CHECK(fault(R"({"a":{"dtype":"U8","shape":[)" + std::string(size) + R"(],"data_offsets":[0,1]}})", 1) ==
          "f: tensor 'a': shape holds something else than a size");
  }
  // A name is a name however it is spelled, and in every object.
  CHECK(fault(R"({"__metadata__":{"a":"1"},"__metadata__":{"b":"2"}})", 0) ==
        "f: the header has the name '__metadata__' twice");
  CHECK(fault(R"({"a":{},"\u0061":{}})", 0) == "f: the header has the name 'a' twice");
  CHECK(fault(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1) ==
        "f: the header has the name 'dtype' twice");
  CHECK(fault(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"strides":[1]}})", 1) ==
        "f: tensor 'a': member 'strides' is not known");
  CHECK(fault(R"({"a":{"dtype":"U8\u0000","shape":[1],"data_offsets":[0,1]}})", 1) ==
        "f: tensor 'a': dtype 'U8?' is not known");
}

TEST_CASE("safetensors: a shape is judged before its extents are multiplied") {
  auto const with = [](std::string const& type, std::string const& shape) {
    return fault(R"({"a":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":[0,0]}})", 0);
  };
  std::string const wide = std::to_string(int64_t{1} << 62), most = std::to_string(INT64_MAX);
  // An extent of 0 does not make the strides of the dimensions before it any smaller, nor those after it.
  for (std::string const& shape : {"[0," + wide + ",4]", "[" + wide + ",4,0]", "[" + wide + ",0,4]", "[4," + wide + "]",
                                   "[" + most + "," + most + ",0]", "[0," + most + ",2]"}) {
    CAPTURE(shape);
    CHECK(with("U8", shape) == "f: tensor 'a': shape is too large");
  }
  CHECK(with("F32", "[0," + wide + "]") == "f: tensor 'a': shape is too large");
  CHECK(with("U8", "[0," + most + "]") == "");
  CHECK(with("U8", "[0,0,0," + wide + "]") == "");
  CHECK(with("U8", "[" + wide + "]") ==
        "f: tensor 'a': dtype U8 and shape [" + wide + "] need " + wide + " bytes, data_offsets hold 0");
  CHECK(!safetensors::dense_bytes({-1, 2}, 4));
  CHECK(!safetensors::dense_bytes({INT64_MAX}, 2));
  CHECK(safetensors::dense_bytes({3, 5}, 4) == 60);
  CHECK(safetensors::dense_bytes({}, 4) == 4);
}

TEST_CASE("safetensors: a message stays one short line") {
  std::string const name(1000000, 'n');
  CHECK(fault("{\"" + name + "\":{}}", 0) ==
        "f: tensor '" + name.substr(0, 128) + "' and 999872 bytes more: has no dtype");
  // A name is not cut inside a character.
  CHECK(fault("{\"" + std::string(127, 'n') + "\u20ac\":{}}", 0) ==
        "f: tensor '" + std::string(127, 'n') + "' and 3 bytes more: has no dtype");
  std::string extents = "1";
  for (int i = 1; i < 100000; ++i) extents += ",1";
  CHECK(
      fault(R"({"a":{"dtype":"U8","shape":[)" + extents + R"(],"data_offsets":[0,0]}})", 0) ==
      "f: tensor 'a': dtype U8 and shape [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 and 99984 more] need 1 bytes, "
      "data_offsets hold 0");
}

TEST_CASE("safetensors: no truncation of a good file is read, and none crashes") {
  std::vector<float> const f(10, 1.0f);
  auto const whole = safetensors::serialize({{"a", safetensors::view(safetensors::dtype::f32, {10}, f)}}, {{"k", "v"}});
  CHECK(fault(whole) == "");
  for (size_t n = 0; n < whole.size(); ++n)
    CHECK(fault(std::vector<char>(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n))) != "");
  // Flipped bytes of the header: an error or a file, never anything else.
  for (size_t i = 0; i < whole.size() - 40; ++i)
    for (int flip : {0x01, 0x20, 0x80}) {
      auto broken = whole;
      broken[i] = static_cast<char>(broken[i] ^ flip);
      (void)fault(broken);
    }
}

TEST_CASE("safetensors: files that are not there") {
  CHECK_THROWS_WITH_AS(safetensors::file::read("/nowhere/f"), "/nowhere/f: cannot be opened", safetensors::error);
  CHECK_THROWS_AS(safetensors::file::read("/"), safetensors::error);
  std::vector<uint8_t> const u = {7};
  CHECK_THROWS_WITH_AS(safetensors::write("/nowhere/f", {{"a", safetensors::view(safetensors::dtype::u8, {1}, u)}}),
                       "/nowhere/f: cannot be written", safetensors::error);
  CHECK_THROWS_AS(safetensors::serialize({{"a", safetensors::view(safetensors::dtype::u8, {2}, u)}}, {}),
                  safetensors::error);
}
