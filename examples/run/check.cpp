// SPDX-License-Identifier: Apache-2.0
#include <run/check.hpp>

#include <common/safetensors.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace ratify_run {
namespace {

/// One tensor to be compared: dense elements, as bits and as numbers.
class elements {
 public:
  elements(dtype type, std::vector<char> bytes) : type_(type), bytes_(std::move(bytes)) {}
  dtype type() const { return type_; }
  size_t size() const { return bytes_.size() / bytes_of(type_); }
  uint64_t bits(size_t i) const {
    uint64_t word = 0;
    std::memcpy(&word, bytes_.data() + i * bytes_of(type_), bytes_of(type_));
    return word;
  }
  /// Exact for every dtype: long double holds 64 bits where this program runs, and an FP32 everywhere.
  long double value(size_t i) const {
    switch (type_) {
      case dtype::f32:
        return at<float>(i);
      case dtype::f16:
        return ratify::to_float(at<ratify::f16>(i));
      case dtype::bf16:
        return ratify::to_float(at<ratify::bf16>(i));
      case dtype::f8_e4m3:
        return ratify::to_float(at<ratify::e4m3>(i));
      case dtype::f8_e5m2:
        return ratify::to_float(at<ratify::e5m2>(i));
      case dtype::u8:
        return at<uint8_t>(i);
      case dtype::i32:
        return at<int32_t>(i);
      case dtype::u32:
        return at<uint32_t>(i);
      default:
        return static_cast<long double>(at<int64_t>(i));
    }
  }
 private:
  template <class T>
  T at(size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  dtype type_;
  std::vector<char> bytes_;
};

template <class T>
std::vector<char> bytes_as(operand const& o) {
  std::vector<T> const values = load_dense<T>(o);
  auto const* const first = reinterpret_cast<char const*>(values.data());
  return {first, first + values.size() * sizeof(T)};
}

elements read(operand const& o) {
  switch (o.type) {
    case dtype::f32:
      return {o.type, bytes_as<float>(o)};
    case dtype::f16:
      return {o.type, bytes_as<ratify::f16>(o)};
    case dtype::bf16:
      return {o.type, bytes_as<ratify::bf16>(o)};
    case dtype::f8_e4m3:
      return {o.type, bytes_as<ratify::e4m3>(o)};
    case dtype::f8_e5m2:
      return {o.type, bytes_as<ratify::e5m2>(o)};
    case dtype::u8:
      return {o.type, bytes_as<uint8_t>(o)};
    case dtype::i32:
      return {o.type, bytes_as<int32_t>(o)};
    case dtype::u32:
      return {o.type, bytes_as<uint32_t>(o)};
    default:
      return {o.type, bytes_as<int64_t>(o)};
  }
}

/// The tolerance of one output; none means bit for bit.
struct tolerance {
  bool any = false;
  double rtol = 0, atol = 0;
};

tolerance tolerance_of(inputs const& in, std::string const& name, tolerances const& given) {
  tolerance t;
  auto const one = [&](std::string const& key, std::optional<double> const& over, double& value) {
    if (over.has_value())
      value = *over;
    else if (in.text(key) != nullptr)
      value = in.number(key, 0);
    else
      return;
    t.any = true;
  };
  one("rtol." + name, given.rtol, t.rtol);
  one("atol." + name, given.atol, t.atol);
  return t;
}

bool within(long double got, long double expected, tolerance const& t) {
  bool const nan = std::isnan(got) || std::isnan(expected);
  if (nan) return std::isnan(got) && std::isnan(expected);
  if (std::isinf(got) || std::isinf(expected)) return got == expected;
  return std::fabs(got - expected) <= t.atol + t.rtol * std::fabs(expected);
}

std::string place(shape_type const& shape, size_t i) {
  shape_type index(shape.size());
  auto rest = static_cast<int64_t>(i);
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = rest % shape[d];
    rest /= shape[d];
  }
  return to_string(index);
}

/// Compares and prints. An element passes if its bits are equal or it is within the tolerance; where dtypes differ
/// there are no bits to compare, so equal values count as equal bits.
bool report(char const* what, std::string const& name, shape_type const& shape, elements const& got,
            elements const& expected, tolerance const& t) {
  bool const same_type = got.type() == expected.type();
  size_t out = 0, differ = 0, worst = 0;
  long double largest = 0;
  bool unequal_nan = false;
  for (size_t i = 0; i < got.size(); ++i) {
    long double const a = got.value(i), b = expected.value(i);
    bool const equal = same_type ? got.bits(i) == expected.bits(i) : within(a, b, {});
    if (equal) continue;
    ++differ;
    if (!(t.any && within(a, b, t))) ++out;
    if (within(a, b, {})) continue;  // another NaN, or a zero of the other sign
    long double const error = std::isnan(a) || std::isnan(b) ? INFINITY : std::fabs(a - b);
    if (error > largest) {
      largest = error;
      worst = i;
      unequal_nan = std::isnan(a) || std::isnan(b);
    }
  }
  std::printf("%s %s: elements %zu, out of tolerance %zu, bits differing %zu, largest error %.9Lg", what, name.c_str(),
              got.size(), out, differ, largest);
  if (largest > 0)
    std::printf(" at %s (%.9Lg, expected %.9Lg)%s", place(shape, worst).c_str(), got.value(worst),
                expected.value(worst), unequal_nan ? ": NaN" : "");
  std::printf("\n");
  return out == 0;
}

safetensors::dtype type_of(dtype type) {
  for (auto const& d : safetensors::dtypes)
    if (std::strcmp(d.name, name_of(type)) == 0) return d.type;
  throw std::logic_error("ratify-run: a dtype that safetensors lacks");
}

}  // namespace

void require_expected(inputs const& in, std::vector<output> const& got) {
  for (operand const& o : in.expected()) {
    std::string const name = o.name.substr(o.name.find('.') + 1);
    auto const found = std::find_if(got.begin(), got.end(), [&](output const& g) { return g.name == name; });
    if (found == got.end()) throw bad_input("tensor " + quote(o.name) + ": this run has no such output");
    if (found->shape != o.shape)
      throw bad_input("tensor " + quote(o.name) + ": shape " + to_string(o.shape) + ", must be " +
                      to_string(found->shape));
  }
}

bool check(inputs const& in, std::vector<output> const& got, tolerances const& given) {
  bool all = true, any = false;
  for (output const& g : got) {
    if (!in.has("expected." + g.name)) continue;
    any = true;
    operand const expected = in.tensor("expected." + g.name);
    all = report("check", g.name, g.shape, {g.type, g.bytes}, read(expected), tolerance_of(in, g.name, given)) && all;
  }
  if (!any) throw bad_input("nothing to check: no tensor 'expected.<output>'");
  return all;
}

bool compare(inputs const& in, std::vector<output> const& got, std::vector<output> const& other,
             tolerances const& given) {
  bool all = true;
  for (size_t i = 0; i < got.size(); ++i)
    all = report("compare", got[i].name, got[i].shape, {other.at(i).type, other.at(i).bytes},
                 {got[i].type, got[i].bytes}, tolerance_of(in, got[i].name, given)) &&
          all;
  return all;
}

void write(std::string const& path, std::string const& operation_name, settings const& policy,
           std::vector<output> const& outputs) {
  std::map<std::string, safetensors::tensor> tensors;
  for (output const& o : outputs) tensors[o.name] = {type_of(o.type), o.shape, o.bytes.data(), o.bytes.size()};
  std::string text;
  for (auto const& [key, value] : policy) text += (text.empty() ? "" : ",") + key + "=" + value;
  try {
    safetensors::write(path, tensors, {{"op", operation_name}, {"policy", text}});
  } catch (safetensors::error const& e) {
    throw bad_input(e.what());
  }
}

}  // namespace ratify_run
