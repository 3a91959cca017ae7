// SPDX-License-Identifier: Apache-2.0
/// Reads the user's tensors. No kernel is near: plain C++.
#include <run/inputs.hpp>

#include <common/safetensors.hpp>
#include <run/memory_limit.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

namespace ratify_run {
namespace {

struct format_description {
  dtype type;
  char const* name;
  size_t bytes;
};
constexpr format_description formats[] = {
    {dtype::f32, "F32", 4},         {dtype::f16, "F16", 2},         {dtype::bf16, "BF16", 2},
    {dtype::f8_e4m3, "F8_E4M3", 1}, {dtype::f8_e5m2, "F8_E5M2", 1}, {dtype::u8, "U8", 1},
    {dtype::i32, "I32", 4},         {dtype::u32, "U32", 4},         {dtype::i64, "I64", 8}};

constexpr int64_t most_extent = int64_t{1} << 30;
constexpr int64_t most_elements = int64_t{1} << 29;

std::string names_of(std::set<dtype> const& types) {
  std::string text;
  for (dtype const t : types) text += (text.empty() ? "" : " or ") + std::string(name_of(t));
  return text;
}

/// Strides of a shape that safetensors::dense_bytes has found good, so that no product here overflows.
shape_type dense_strides(shape_type const& shape) {
  shape_type strides(shape.size());
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<int64_t>(shape[d], 1);
  }
  return strides;
}

int64_t dense_elements(shape_type const& shape) {
  int64_t n = 1;
  for (int64_t const extent : shape) n *= extent;
  return n;
}

/// Whether the last `dense` dimensions lie next to one another and no two elements share a place.
bool usable(operand const& from, size_t dense) {
  shape_type const plain = dense_strides(from.shape);
  size_t const n = from.shape.size();
  for (size_t d = n - std::min(dense, n); d < n; ++d)
    if (from.strides[d] != plain[d]) return false;
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (size_t d = 0; d < n; ++d) steps.emplace_back(from.strides[d], from.shape[d]);
  std::sort(steps.begin(), steps.end());
  int64_t covered = 1;
  for (auto const& [stride, extent] : steps) {
    if (extent <= 1) continue;
    if (stride < covered) return false;
    covered = stride * (extent - 1) + covered;
  }
  return true;
}

template <class Raw>
std::vector<Raw> raw(operand const& from) {
  std::vector<Raw> values(static_cast<size_t>(from.span));
  if (from.span > 0) std::memcpy(static_cast<void*>(values.data()), from.bytes, values.size() * sizeof(Raw));
  return values;
}

template <class T, class Raw>
std::vector<T> widen(operand const& from) {
  std::vector<Raw> const values = raw<Raw>(from);
  std::vector<T> out;
  out.reserve(values.size());
  for (Raw const v : values) out.push_back(ratify::to_float(v));
  return out;
}

template <class T>
std::vector<T> span_of(operand const& from) {
  if constexpr (std::is_same_v<T, float>) {
    if (from.type == dtype::f16) return widen<T, ratify::f16>(from);
    if (from.type == dtype::bf16) return widen<T, ratify::bf16>(from);
    if (from.type == dtype::f8_e4m3) return widen<T, ratify::e4m3>(from);
    if (from.type == dtype::f8_e5m2) return widen<T, ratify::e5m2>(from);
  }
  if (dtype_of<T> != from.type && !(std::is_same_v<T, uint32_t> && from.type == dtype::i32))
    throw std::logic_error("ratify-run: " + from.name + " loaded as another dtype");
  return raw<T>(from);
}

}  // namespace

char const* name_of(dtype type) { return formats[static_cast<int>(type)].name; }
size_t bytes_of(dtype type) { return formats[static_cast<int>(type)].bytes; }

std::string to_string(shape_type const& shape) { return safetensors::to_string(shape); }

int64_t elements_of(shape_type const& shape, std::string const& name) {
  int64_t n = 1;
  for (int64_t const extent : shape) {
    if (extent == 0) return 0;
    n = n > most_elements / extent ? most_elements + 1 : n * extent;
  }
  if (n > most_elements)
    throw unsupported("tensor " + quote(name) + ": " + to_string(shape) + " has more than 2^29 elements");
  return n;
}

int operand::extent(size_t dimension) const {
  int64_t const n = shape.at(dimension);
  if (n > most_extent)
    throw unsupported("tensor " + quote(name) + ": an extent of " + std::to_string(n) + " is more than 2^30");
  return static_cast<int>(n);
}

template <class T>
std::vector<T> gather(array<T> const& from) {
  size_t const n = from.shape.size();
  std::vector<T> out;
  int64_t const total = dense_elements(from.shape);
  if (total == 0) return out;
  out.reserve(static_cast<size_t>(total));
  shape_type index(n, 0);
  int64_t at = 0;
  for (;;) {
    out.push_back(from.values[static_cast<size_t>(at)]);
    size_t d = n;
    while (d-- > 0) {
      at += from.strides[d];
      if (++index[d] < from.shape[d]) break;
      at -= from.strides[d] * from.shape[d];
      index[d] = 0;
      if (d == 0) return out;
    }
    if (n == 0) return out;
  }
}

template <class T>
array<T> load(operand const& from, size_t dense) {
  bool const as_it_is = usable(from, dense);
  // Twice: here, and in the executor's memory.
  memory_limit::of_run().count("tensor " + quote(from.name), as_it_is ? from.span : dense_elements(from.shape),
                               2 * sizeof(T));
  array<T> a{span_of<T>(from), from.shape, from.strides};
  if (as_it_is) return a;
  a.values = gather(a);
  a.strides = dense_strides(from.shape);
  return a;
}

#define RATIFY_RUN_ARRAY(T)                          \
  template array<T> load<T>(operand const&, size_t); \
  template std::vector<T> gather<T>(array<T> const&);
RATIFY_RUN_ARRAY(float)
RATIFY_RUN_ARRAY(ratify::f16)
RATIFY_RUN_ARRAY(ratify::bf16)
RATIFY_RUN_ARRAY(ratify::e4m3)
RATIFY_RUN_ARRAY(ratify::e5m2)
RATIFY_RUN_ARRAY(uint8_t)
RATIFY_RUN_ARRAY(int32_t)
RATIFY_RUN_ARRAY(uint32_t)
RATIFY_RUN_ARRAY(int64_t)
#undef RATIFY_RUN_ARRAY

double parse_number(std::string const& what, std::string const& text) {
  double value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(static_cast<float>(value)))
    throw bad_input(what + ": " + quote(text) + " is not a finite number of FP32");
  return value;
}

int64_t parse_integer(std::string const& what, std::string const& text, int64_t least, int64_t most) {
  int64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw bad_input(what + ": " + quote(text) + " is not an integer");
  if (value < least || value > most)
    throw bad_input(what + ": " + std::to_string(value) + " is out of range, must be " + std::to_string(least) +
                    " to " + std::to_string(most));
  return value;
}

std::vector<std::string> split(std::string const& text, char separator) {
  std::vector<std::string> parts(1);
  for (char const c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

std::string quote(std::string const& name) { return safetensors::detail::quote(name); }

void bad_entry(std::string const& tensor, int64_t entry, int64_t value, std::string const& must) {
  throw bad_input("tensor " + quote(tensor) + ": entry " + std::to_string(entry) + " is " + std::to_string(value) +
                  ", must be " + must);
}

struct inputs::contents {
  safetensors::file file;
};

inputs::inputs(std::string const& path) {
  std::string const where = path + ": ";
  std::error_code unknown;  // a file without a size is the reader's to refuse
  if (auto const bytes = std::filesystem::file_size(path, unknown); !unknown)
    memory_limit::of_run().count("the file", static_cast<int64_t>(std::min<uintmax_t>(bytes, INT64_MAX)), 1);
  try {
    contents_ = std::make_unique<contents>(contents{safetensors::file::read(path)});
  } catch (safetensors::error const& e) {
    // The reader's text begins with the path, which is added to every message in the end.
    std::string const text = e.what();
    throw bad_input(text.compare(0, where.size(), where) == 0 ? text.substr(where.size()) : text);
  }
}

inputs::~inputs() = default;

void inputs::require_known(std::string const& operation, std::set<std::string> const& tensors,
                           std::set<std::string> const& outputs, std::set<std::string> const& numbers) const {
  auto const starts = [](std::string const& text, char const* prefix) { return text.rfind(prefix, 0) == 0; };
  auto const rest = [](std::string const& text) { return text.substr(text.find('.') + 1); };
  for (auto const& [name, unused] : contents_->file.tensors()) {
    (void)unused;
    if (starts(name, "note.") || tensors.count(name) > 0) continue;
    if (!starts(name, "expected.")) throw bad_input("tensor " + quote(name) + ": " + operation + " has no such input");
    if (outputs.count(rest(name)) == 0)
      throw bad_input("tensor " + quote(name) + ": " + operation + " has no such output");
  }
  for (auto const& [name, unused] : metadata()) {
    (void)unused;
    if (name == "op" || name == "policy" || starts(name, "note.") || numbers.count(name) > 0) continue;
    if (name == "format") continue;  // what the usual writers add: "pt"
    if (starts(name, "atol.") || starts(name, "rtol.")) {
      if (outputs.count(rest(name)) == 0)
        throw bad_input("metadata " + quote(name) + ": " + operation + " has no such output");
      if (number(name, 0) < 0) throw bad_input("metadata " + quote(name) + ": a tolerance must not be negative");
    } else if (starts(name, "stride.") || starts(name, "shape.")) {
      if (!has(rest(name))) throw bad_input("metadata " + quote(name) + ": the file has no such tensor");
      (void)tensor(rest(name));
    } else {
      throw bad_input("metadata " + quote(name) + ": " + operation + " knows no such name");
    }
  }
}

bool inputs::has(std::string const& name) const { return contents_->file.find(name) != nullptr; }

operand inputs::tensor(std::string const& name) const {
  auto const* const found = contents_->file.find(name);
  if (found == nullptr) throw bad_input("tensor " + quote(name) + ": missing");
  char const* const type = safetensors::describe(found->type).name;
  auto const known = std::find_if(std::begin(formats), std::end(formats),
                                  [&](auto const& f) { return std::strcmp(f.name, type) == 0; });
  if (known == std::end(formats))
    throw bad_input("tensor " + quote(name) + ": dtype " + type + " is read by no operation");
  operand o{name, known->type, found->shape, dense_strides(found->shape), found->data, found->elements()};

  std::string const *const shape = text("shape." + name), *const stride = text("stride." + name);
  if (shape == nullptr && stride == nullptr) return o;
  std::string const of_shape = "metadata " + quote("shape." + name), of_stride = "metadata " + quote("stride." + name);
  if (shape == nullptr) throw bad_input(of_shape + ": missing, but there is stride." + name);
  if (stride == nullptr) throw bad_input(of_stride + ": missing, but there is shape." + name);
  if (o.shape.size() != 1)
    throw bad_input("tensor " + quote(name) + ": shape " + to_string(o.shape) + ", but with strides it must be 1-D");
  o.shape = integers("shape." + name, 0);
  o.strides = integers("stride." + name, 0);
  if (o.shape.size() != o.strides.size())
    throw bad_input(of_stride + ": " + std::to_string(o.strides.size()) + " strides for " +
                    std::to_string(o.shape.size()) + " extents");
  if (elements_of(o.shape, name) == 0) {
    if (!safetensors::dense_bytes(o.shape, static_cast<int64_t>(bytes_of(o.type))))
      throw bad_input(of_shape + ": " + to_string(o.shape) + " is too large");
    o.strides = dense_strides(o.shape);
    return o;
  }
  int64_t last = 0;
  for (size_t d = 0; d < o.shape.size(); ++d) {
    if (o.shape[d] == 1) {
      // The stride of a single entry is never used; one that fits keeps the alignment rules out of it.
      o.strides[d] = d + 1 < o.shape.size() ? 0 : 1;
      continue;
    }
    if (o.strides[d] > (o.span - 1 - last) / (o.shape[d] - 1))
      throw bad_input(of_stride + ": the last element lies past the end of the " + std::to_string(o.span) +
                      " elements");
    last += o.strides[d] * (o.shape[d] - 1);
  }
  if (last >= o.span) throw bad_input(of_stride + ": the tensor has no elements");
  shape_type const plain = dense_strides(o.shape);
  for (size_t d = 0; d < o.shape.size(); ++d)
    if (o.shape[d] == 1) o.strides[d] = plain[d];
  return o;
}

operand inputs::tensor(std::string const& name, std::set<dtype> const& types, size_t dimensions) const {
  operand o = tensor(name);
  if (types.count(o.type) == 0)
    throw bad_input("tensor " + quote(name) + ": dtype " + name_of(o.type) + ", must be " + names_of(types));
  if (o.shape.size() != dimensions)
    throw bad_input("tensor " + quote(name) + ": shape " + to_string(o.shape) + ", must have " +
                    std::to_string(dimensions) + " dimensions");
  return o;
}

operand inputs::tensor(std::string const& name, dtype type, shape_type const& shape) const {
  return tensor(name, std::set<dtype>{type}, shape);
}

operand inputs::tensor(std::string const& name, std::set<dtype> const& types, shape_type const& shape) const {
  operand o = tensor(name, types, shape.size());
  if (o.shape != shape)
    throw bad_input("tensor " + quote(name) + ": shape " + to_string(o.shape) + ", must be " + to_string(shape));
  return o;
}

std::vector<operand> inputs::expected() const {
  std::vector<operand> all;
  for (auto const& [name, unused] : contents_->file.tensors()) {
    (void)unused;
    if (name.rfind("expected.", 0) == 0) all.push_back(tensor(name));
  }
  return all;
}

std::map<std::string, std::string> const& inputs::metadata() const { return contents_->file.metadata(); }

std::string const* inputs::text(std::string const& name) const {
  auto const found = metadata().find(name);
  return found == metadata().end() ? nullptr : &found->second;
}

double inputs::number(std::string const& name, double otherwise) const {
  std::string const* const t = text(name);
  return t == nullptr ? otherwise : parse_number("metadata " + quote(name), *t);
}

int64_t inputs::integer(std::string const& name, int64_t otherwise, int64_t least, int64_t most) const {
  std::string const* const t = text(name);
  return t == nullptr ? otherwise : parse_integer("metadata " + quote(name), *t, least, most);
}

int64_t inputs::integer(std::string const& name, int64_t least, int64_t most) const {
  if (text(name) == nullptr) throw bad_input("metadata " + quote(name) + ": missing");
  return integer(name, 0, least, most);
}

std::vector<int64_t> inputs::integers(std::string const& name, int64_t least) const {
  std::vector<int64_t> values;
  for (auto const& part : split(*text(name), ','))
    values.push_back(parse_integer("metadata " + quote(name), part, least, INT64_MAX));
  return values;
}

}  // namespace ratify_run
