// SPDX-License-Identifier: Apache-2.0
/// What an operation sees of the user's file: tensors by name, shape and dtype, numbers of the metadata, and the two
/// ways to refuse them.
#pragma once

#include <ratify/numeric.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace ratify_run {

/// Exit code 3: the input is wrong. The text names tensor (or metadata) and fault.
class bad_input : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Exit code 2: the input is consistent, but this policy or shape is not built.
class unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// A policy that is not built, or a key or value of one that there is not.
class unsupported_policy : public unsupported {
 public:
  using unsupported::unsupported;
};
/// An executor that is not there, whatever the operation and its file.
class no_executor : public unsupported {
 public:
  using unsupported::unsupported;
};

enum class dtype { f32, f16, bf16, f8_e4m3, f8_e5m2, u8, i32, u32, i64 };
/// As safetensors spells it.
char const* name_of(dtype type);
size_t bytes_of(dtype type);

template <class T>
inline constexpr dtype dtype_of = dtype::u8;
template <>
inline constexpr dtype dtype_of<float> = dtype::f32;
template <>
inline constexpr dtype dtype_of<ratify::f16> = dtype::f16;
template <>
inline constexpr dtype dtype_of<ratify::bf16> = dtype::bf16;
template <>
inline constexpr dtype dtype_of<ratify::e4m3> = dtype::f8_e4m3;
template <>
inline constexpr dtype dtype_of<ratify::e5m2> = dtype::f8_e5m2;
template <>
inline constexpr dtype dtype_of<int32_t> = dtype::i32;
template <>
inline constexpr dtype dtype_of<uint32_t> = dtype::u32;
template <>
inline constexpr dtype dtype_of<int64_t> = dtype::i64;

/// The formats most operations read; they widen to FP32 exactly.
inline std::set<dtype> const wide_formats = {dtype::f32, dtype::f16, dtype::bf16};
/// Words of bits: what a writer without unsigned integers stores as I32 has the same bits.
inline std::set<dtype> const word_formats = {dtype::u32, dtype::i32};
/// The formats of a KV cache.
inline std::set<dtype> const cache_formats = {dtype::f8_e4m3, dtype::f8_e5m2, dtype::f16, dtype::bf16};

using shape_type = std::vector<int64_t>;
std::string to_string(shape_type const& shape);
/// Product of the extents. @throws unsupported when it is more than a program like this should touch
int64_t elements_of(shape_type const& shape, std::string const& name);

/// A tensor of the file: `span` elements at `bytes`, which may be unaligned, seen through shape and strides.
struct operand {
  std::string name;
  dtype type = dtype::u8;
  shape_type shape, strides;
  void const* bytes = nullptr;
  int64_t span = 0;

  /// An extent as the operations count. @throws unsupported when it is over 2^30
  int extent(size_t dimension) const;
};

/// Elements in the program's memory, with the strides they are to be read with.
template <class T>
struct array {
  std::vector<T> values;
  shape_type shape, strides;
};

/// The operand's elements as T: its own format, FP32 from one that widens, or U32 from the bits of I32. Keeps the
/// file's strides, padding included, where the last `dense` dimensions are dense and nothing overlaps; copies to dense
/// strides otherwise.
template <class T>
array<T> load(operand const& from, size_t dense);
/// The operand's elements, dense.
template <class T>
std::vector<T> load_dense(operand const& from) {
  return load<T>(from, from.shape.size()).values;
}
/// An array's elements, dense.
template <class T>
std::vector<T> gather(array<T> const& from);

/// A file of named tensors and numbers. Everything throws `bad_input`, with the tensor and the fault.
class inputs {
 public:
  /// Reads and checks the file as a container.
  explicit inputs(std::string const& path);
  ~inputs();
  inputs(inputs const&) = delete;
  inputs& operator=(inputs const&) = delete;

  /// Refuses tensors and metadata that the operation does not know, and `expected.`, `atol.`, `rtol.` of no output.
  void require_known(std::string const& operation, std::set<std::string> const& tensors,
                     std::set<std::string> const& outputs, std::set<std::string> const& numbers) const;

  bool has(std::string const& name) const;
  /// A tensor of one of these dtypes and so many dimensions.
  operand tensor(std::string const& name, std::set<dtype> const& types, size_t dimensions) const;
  /// A tensor of exactly this dtype and shape.
  operand tensor(std::string const& name, dtype type, shape_type const& shape) const;
  operand tensor(std::string const& name, std::set<dtype> const& types, shape_type const& shape) const;
  /// Any dtype, any shape.
  operand tensor(std::string const& name) const;

  /// All tensors `expected.<output>`.
  std::vector<operand> expected() const;

  /// Metadata, or nullptr.
  std::string const* text(std::string const& name) const;
  double number(std::string const& name, double otherwise) const;
  int64_t integer(std::string const& name, int64_t otherwise, int64_t least, int64_t most) const;
  /// An integer that must be there.
  int64_t integer(std::string const& name, int64_t least, int64_t most) const;
  std::vector<int64_t> integers(std::string const& name, int64_t least) const;

  std::map<std::string, std::string> const& metadata() const;
 private:
  struct contents;
  std::unique_ptr<contents> contents_;
};

/// A finite number, all of the text. @throws bad_input
double parse_number(std::string const& what, std::string const& text);
int64_t parse_integer(std::string const& what, std::string const& text, int64_t least, int64_t most);
/// `a,b,c` in its parts.
std::vector<std::string> split(std::string const& text, char separator);
/// A name as part of a one-line message.
std::string quote(std::string const& name);

/// The bad_input of one entry: "tensor 'slot': entry 3 is 9, must be -1 to 7".
[[noreturn]] void bad_entry(std::string const& tensor, int64_t entry, int64_t value, std::string const& must);

}  // namespace ratify_run
