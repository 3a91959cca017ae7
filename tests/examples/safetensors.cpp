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
  CHECK(fault(std::string(100000, '['), 0) == "f: the header is not valid JSON (byte 100001 of it)");
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
