// SPDX-License-Identifier: Apache-2.0
/// Reads and writes safetensors files: 8 bytes of header length (little-endian), a JSON header, the data. A file that
/// is not exactly that gives one error which names the file, the tensor and the fault. Time and memory to read a header
/// grow with its length, not faster.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace safetensors {

/// What is wrong with a file. The text is one line.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class dtype { boolean, u8, i8, f8_e5m2, f8_e4m3, u16, i16, f16, bf16, u32, i32, f32, u64, i64, f64 };

struct dtype_description {
  dtype type;
  char const* name;
  int bytes;
};

inline constexpr dtype_description dtypes[] = {
    {dtype::boolean, "BOOL", 1},    {dtype::u8, "U8", 1},   {dtype::i8, "I8", 1},   {dtype::f8_e5m2, "F8_E5M2", 1},
    {dtype::f8_e4m3, "F8_E4M3", 1}, {dtype::u16, "U16", 2}, {dtype::i16, "I16", 2}, {dtype::f16, "F16", 2},
    {dtype::bf16, "BF16", 2},       {dtype::u32, "U32", 4}, {dtype::i32, "I32", 4}, {dtype::f32, "F32", 4},
    {dtype::u64, "U64", 8},         {dtype::i64, "I64", 8}, {dtype::f64, "F64", 8},
};

inline dtype_description const& describe(dtype type) { return dtypes[static_cast<int>(type)]; }

using shape_type = std::vector<int64_t>;

/// A shape as part of a one-line message; only the first extents of one that has very many.
inline std::string to_string(shape_type const& shape) {
  constexpr size_t most = 16;
  std::string text = "[";
  for (size_t i = 0; i < std::min(shape.size(), most); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  if (shape.size() > most) text += " and " + std::to_string(shape.size() - most) + " more";
  return text + "]";
}

/// The bytes of a dense tensor; none where they, or an offset on the way to an element, do not fit into 64 bits. An
/// extent of 0 makes the tensor empty, but not the strides of the dimensions before it: for those it counts as 1.
inline std::optional<uint64_t> dense_bytes(shape_type const& shape, int64_t element_bytes) {
  int64_t bytes = element_bytes;
  bool empty = false;
  for (int64_t const extent : shape) {
    if (extent < 0 || (extent > 1 && bytes > INT64_MAX / extent)) return {};
    bytes *= std::max<int64_t>(extent, 1);
    empty = empty || extent == 0;
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

/// A tensor whose bytes lie somewhere else: in a `file`, or in the caller's memory when it is to be written. The bytes
/// may be unaligned.
struct tensor {
  dtype type = dtype::u8;
  shape_type shape;
  void const* data = nullptr;
  size_t bytes = 0;

  int64_t elements() const { return static_cast<int64_t>(bytes) / describe(type).bytes; }

  /// The elements as T, which must be as wide as the stored type.
  template <class T>
  std::vector<T> copy() const {
    if (sizeof(T) != static_cast<size_t>(describe(type).bytes)) throw std::logic_error("safetensors: wrong width");
    std::vector<T> values(bytes / sizeof(T));
    if (bytes > 0) std::memcpy(static_cast<void*>(values.data()), data, bytes);
    return values;
  }
};

/// A dense tensor over the caller's elements.
template <class T>
tensor view(dtype type, shape_type shape, std::vector<T> const& values) {
  return {type, std::move(shape), values.data(), values.size() * sizeof(T)};
}

namespace detail {

/// The most bytes a header may have: the format's own limit.
inline constexpr uint64_t most_header_bytes = 100000000;

/// A name as part of a one-line message; only the beginning of one that is very long.
inline std::string quote(std::string const& name) {
  constexpr size_t most = 128;
  size_t end = std::min(name.size(), most);
  // A cut must not leave a part of a character.
  while (end < name.size() && end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
  std::string text = "'";
  for (char const c : name.substr(0, end)) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return text + (end < name.size() ? "' and " + std::to_string(name.size() - end) + " bytes more" : "'");
}

/// Walks through a header and stops at the first fault that building its values would hide or make expensive: bytes
/// that are not JSON, a name that stands twice in one object, nesting that no header has.
class header_walk final : public nlohmann::json::json_sax_t {
 public:
  /// What is wrong; "" if nothing is.
  std::string fault;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, string_t const&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override {
    names_.emplace_back();
    return open();
  }
  bool end_object() override {
    names_.pop_back();
    return close();
  }
  bool start_array(size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    return names_.back().insert(name).second || stop("has the name " + quote(name) + " twice");
  }
  bool parse_error(size_t byte, std::string const&, nlohmann::json::exception const&) override {
    return stop("is not valid JSON (byte " + std::to_string(byte) + " of it)");
  }
 private:
  static constexpr int most_open = 16;  // a good header needs 3

  bool open() {
    return ++open_ <= most_open || stop("is JSON nested more than " + std::to_string(most_open) + " deep");
  }
  bool close() {
    --open_;
    return true;
  }
  bool stop(std::string text) {
    fault = std::move(text);
    return false;
  }

  std::vector<std::set<std::string>> names_;  // of each object that is open
  int open_ = 0;
};

/// Parses a header, which is exactly one JSON object and the spaces that pad it. The parser is not asked where that
/// object ends: it takes a NUL for the end of its input and skips a byte order mark.
inline nlohmann::json parse_header(std::string const& where, char const* begin, char const* end) {
  auto const fail = [&](std::string const& text) { throw error(where + "the header " + text); };
  if (char const* const nul = std::find(begin, end, '\0'); nul != end)
    fail("is not valid JSON (byte " + std::to_string(nul - begin + 1) + " of it)");
  header_walk walk;
  (void)nlohmann::json::sax_parse(begin, end, &walk);
  if (!walk.fault.empty()) fail(walk.fault);
  auto header = nlohmann::json::parse(begin, end);
  if (!header.is_object()) fail("is not a JSON object");
  if (*begin != '{') fail("begins with something else than '{'");
  while (end[-1] == ' ') --end;
  if (end[-1] != '}') fail("ends with something else than '}' and spaces");
  return header;
}

struct entry {
  dtype type;
  shape_type shape;
  uint64_t begin, end;
};

/// One tensor's line of the header. `where` names file and tensor.
inline entry parse_entry(std::string const& where, nlohmann::json const& json, uint64_t data_bytes) {
  auto const member = [&](char const* name) -> nlohmann::json const& {
    auto const found = json.is_object() ? json.find(name) : json.end();
    if (found == json.end()) throw error(where + "has no " + name);
    return *found;
  };
  entry e{};

  nlohmann::json const& type = member("dtype");
  auto const known = std::find_if(std::begin(dtypes), std::end(dtypes),
                                  [&](dtype_description const& d) { return type.is_string() && type == d.name; });
  if (known == std::end(dtypes))
    throw error(where + "dtype " + (type.is_string() ? quote(type.get<std::string>()) : "of another kind than text") +
                " is not known");
  e.type = known->type;

  nlohmann::json const& shape = member("shape");
  if (!shape.is_array()) throw error(where + "shape is not a list");
  for (auto const& extent : shape) {
    if (!extent.is_number_unsigned() || extent.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      throw error(where + "shape holds something else than a size");
    e.shape.push_back(extent.get<int64_t>());
  }
  auto const bytes = dense_bytes(e.shape, known->bytes);
  if (!bytes) throw error(where + "shape is too large");

  nlohmann::json const& offsets = member("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned())
    throw error(where + "data_offsets is not a pair of sizes");
  e.begin = offsets[0].get<uint64_t>();
  e.end = offsets[1].get<uint64_t>();
  if (e.begin > e.end) throw error(where + "data_offsets end before they begin");
  if (e.end > data_bytes)
    throw error(where + "data_offsets end at " + std::to_string(e.end) + ", past the end of the data (" +
                std::to_string(data_bytes) + " bytes)");
  if (e.end - e.begin != *bytes)
    throw error(where + "dtype " + known->name + " and shape " + to_string(e.shape) + " need " +
                std::to_string(*bytes) + " bytes, data_offsets hold " + std::to_string(e.end - e.begin));
  for (auto const& [name, unused] : json.items()) {
    (void)unused;
    if (name != "dtype" && name != "shape" && name != "data_offsets")
      throw error(where + "member " + quote(name) + " is not known");
  }
  return e;
}

}  // namespace detail

/// A file in memory. Its tensors point into it.
class file {
 public:
  /// Reads and checks a whole file. @throws error
  static file read(std::string const& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw error(path + ": cannot be opened");
    std::vector<char> bytes;
    in.seekg(0, std::ios::end);
    auto const size = in.tellg();
    in.seekg(0);
    // A folder opens, but has no size that can be read.
    if (!in || size < 0 || size > std::numeric_limits<std::ptrdiff_t>::max() / 2)
      throw error(path + ": cannot be read");
    bytes.resize(static_cast<size_t>(size));
    if (!in.read(bytes.data(), static_cast<std::streamsize>(size))) throw error(path + ": cannot be read");
    return file(path, std::move(bytes));
  }

  /// Takes a file's bytes. `name` stands in messages. @throws error
  file(std::string name, std::vector<char> bytes) : name_(std::move(name)), bytes_(std::move(bytes)) { parse(); }

  file(file const&) = delete;
  file& operator=(file const&) = delete;
  file(file&&) = default;
  file& operator=(file&&) = default;

  std::string const& name() const { return name_; }
  std::map<std::string, tensor> const& tensors() const { return tensors_; }
  std::map<std::string, std::string> const& metadata() const { return metadata_; }

  tensor const* find(std::string const& tensor_name) const {
    auto const found = tensors_.find(tensor_name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  /// The tensor of that name. @throws error when there is none
  tensor const& at(std::string const& tensor_name) const {
    tensor const* const found = find(tensor_name);
    if (found == nullptr) throw error(name_ + ": tensor " + detail::quote(tensor_name) + " is missing");
    return *found;
  }
  /// The tensor of that name, dtype and shape. @throws error when it is another
  tensor const& at(std::string const& tensor_name, dtype type, shape_type const& shape) const {
    tensor const& t = at(tensor_name);
    if (t.type != type || t.shape != shape)
      throw error(name_ + ": tensor " + detail::quote(tensor_name) + ": expected " + describe(type).name + " " +
                  to_string(shape) + ", found " + describe(t.type).name + " " + to_string(t.shape));
    return t;
  }
 private:
  void parse() {
    std::string const where = name_ + ": ";
    if (bytes_.size() < 8) throw error(where + "too short for a header (" + std::to_string(bytes_.size()) + " bytes)");
    uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(bytes_[static_cast<size_t>(i)]);
    if (length > bytes_.size() - 8)
      throw error(where + "a header of " + std::to_string(length) + " bytes does not fit into a file of " +
                  std::to_string(bytes_.size()));
    if (length > detail::most_header_bytes)
      throw error(where + "a header of " + std::to_string(length) + " bytes is longer than the format's limit of " +
                  std::to_string(detail::most_header_bytes));
    char const* const begin = bytes_.data() + 8;
    char const* const data = begin + length;
    uint64_t const data_bytes = bytes_.size() - 8 - length;

    auto const header = detail::parse_header(where, begin, data);
    std::vector<std::pair<std::string, detail::entry>> entries;
    for (auto const& [key, value] : header.items()) {
      if (key == "__metadata__") {
        if (!value.is_object()) throw error(where + "__metadata__ is not an object");
        for (auto const& [word, text] : value.items()) {
          if (!text.is_string()) throw error(where + "metadata " + detail::quote(word) + " is not a text");
          metadata_[word] = text.get<std::string>();
        }
        continue;
      }
      entries.emplace_back(key, detail::parse_entry(where + "tensor " + detail::quote(key) + ": ", value, data_bytes));
    }

    // The data must be covered exactly. Empty tensors sort before the one that starts where they stand.
    std::sort(entries.begin(), entries.end(), [](auto const& a, auto const& b) {
      return std::make_pair(a.second.begin, a.second.end) < std::make_pair(b.second.begin, b.second.end);
    });
    uint64_t covered = 0;
    std::string before;
    for (auto const& [key, e] : entries) {
      if (e.begin < covered)
        throw error(where + "tensor " + detail::quote(key) + ": overlaps tensor " + detail::quote(before));
      if (e.begin > covered)
        throw error(where + "tensor " + detail::quote(key) + ": starts at byte " + std::to_string(e.begin) +
                    " of the data, but bytes from " + std::to_string(covered) + " on belong to no tensor");
      covered = e.end;
      before = key;
      tensors_[key] = {e.type, e.shape, data + e.begin, static_cast<size_t>(e.end - e.begin)};
    }
    if (covered != data_bytes)
      throw error(where + std::to_string(data_bytes - covered) + " bytes at the end of the data belong to no tensor");
  }

  std::string name_;
  std::vector<char> bytes_;
  std::map<std::string, tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// The bytes of a file. Wider elements come first, so that every tensor is aligned to its elements. @throws error
inline std::vector<char> serialize(std::map<std::string, tensor> const& tensors,
                                   std::map<std::string, std::string> const& metadata) {
  std::vector<std::pair<std::string, tensor>> ordered(tensors.begin(), tensors.end());
  std::sort(ordered.begin(), ordered.end(), [](auto const& a, auto const& b) {
    int const a_bytes = describe(a.second.type).bytes, b_bytes = describe(b.second.type).bytes;
    return a_bytes != b_bytes ? a_bytes > b_bytes : a.first < b.first;
  });
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (auto const& [name, t] : ordered) {
    if (dense_bytes(t.shape, describe(t.type).bytes) != t.bytes || name == "__metadata__")
      throw error("tensor " + detail::quote(name) + ": cannot be written: " + std::to_string(t.bytes) +
                  " bytes for dtype " + describe(t.type).name + " and shape " + to_string(t.shape));
    header[name] = {{"dtype", describe(t.type).name}, {"shape", t.shape}, {"data_offsets", {offset, offset + t.bytes}}};
    offset += t.bytes;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');

  std::vector<char> out;
  out.reserve(8 + text.size() + offset);
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i) & 0xff));
  out.insert(out.end(), text.begin(), text.end());
  for (auto const& [name, t] : ordered)
    out.insert(out.end(), static_cast<char const*>(t.data), static_cast<char const*>(t.data) + t.bytes);
  return out;
}

/// Writes a file beside its place and moves it there when it is whole. @throws error
inline void write(std::string const& path, std::map<std::string, tensor> const& tensors,
                  std::map<std::string, std::string> const& metadata = {}) {
  auto const bytes = serialize(tensors, metadata);
  std::error_code ignored;
  if (auto const there = std::filesystem::symlink_status(path, ignored);
      std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
    throw error(path + ": cannot be written, for it is no regular file");
  std::string const partial = path + ".partial." + std::to_string(std::random_device{}());
  {
    std::ofstream out(partial, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) {
      (void)std::remove(partial.c_str());
      throw error(path + ": cannot be written");
    }
  }
  if (std::rename(partial.c_str(), path.c_str()) != 0) {
    (void)std::remove(partial.c_str());
    throw error(path + ": cannot be written");
  }
}

}  // namespace safetensors
