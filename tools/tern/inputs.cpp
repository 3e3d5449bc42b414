#include <algorithm>
#include <charconv>
#include <cmath>

#include "commands.h"
#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/tensor/files.h"

namespace tern::command {
namespace {

Dims parse_shape(const std::string& text, const std::string& whole) {
  Dims dims;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find('x', at);
    if (end == std::string::npos) end = text.size();
    int64_t n = -1;
    auto r = std::from_chars(text.data() + at, text.data() + end, n);
    if (r.ec != std::errc() || r.ptr != text.data() + end || n < 0)
      failf(ErrorKind::usage, "--shapes {}: expected name:1x3x224x224", whole);
    dims.push_back(n);
    at = end + 1;
  }
  return dims;
}

Tensor random_input(const ir::Type& type, const Dims& sizes) {
  DType d = type.dtype() == DType::undefined ? kFloat : type.dtype();
  if (is_floating(d)) return randn(sizes).to(d);
  if (d == kBool) return randint(2, sizes).to(kBool);
  if (is_complex(d)) return randn(sizes).to(d);
  return randint(2, sizes).to(d);  // small: may be used as an index
}

}  // namespace

std::vector<Value> make_inputs(const Session& session, const std::vector<std::string>& files,
                               const std::vector<std::string>& shapes) {
  const std::vector<std::string>& names = session.input_names();
  std::vector<Value> inputs(names.size());
  auto place = [&](const std::string& name) -> Value& {
    auto it = std::find(names.begin(), names.end(), name);
    if (it != names.end()) return inputs[static_cast<size_t>(it - names.begin())];
    if (name.starts_with("input_")) {
      size_t i = 0;
      auto r = std::from_chars(name.data() + 6, name.data() + name.size(), i);
      if (r.ec == std::errc() && r.ptr == name.data() + name.size() && i < inputs.size()) return inputs[i];
    }
    std::string known;
    for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
    failf(ErrorKind::usage, "the model has no input '{}' (it has {})", name, known.empty() ? "none" : known);
  };
  for (const std::string& file : files) {
    size_t eq = file.find('=');
    if (eq != std::string::npos) {
      Value& slot = place(file.substr(0, eq));  // a wrong name is said before a wrong file
      slot = load_npy(file.substr(eq + 1));
      continue;
    }
    for (auto& [name, tensor] : load_tensors(file)) place(name) = tensor;
  }
  for (const std::string& shape : shapes) {
    size_t colon = shape.find(':');
    if (colon == std::string::npos) failf(ErrorKind::usage, "--shapes {}: expected name:1x3x224x224", shape);
    auto it = std::find(names.begin(), names.end(), shape.substr(0, colon));
    Value& slot = place(shape.substr(0, colon));
    size_t i = it != names.end() ? static_cast<size_t>(it - names.begin())
                                 : static_cast<size_t>(&slot - inputs.data());
    slot = random_input(*session.input_type(i), parse_shape(shape.substr(colon + 1), shape));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_none()) continue;
    const ir::Type& type = *session.input_type(i);
    if (!type.is_tensor() || !type.has_sizes())
      failf(ErrorKind::usage, "give the input '{}' with --input or --shapes", names[i]);
    Dims sizes;
    for (SymInt s : type.sizes())
      sizes.push_back(s.is_symbolic() || s.as_int() < 0 ? SymInt(s.is_symbolic() ? s.hint().value_or(2) : 2)
                                                        : s);
    inputs[i] = random_input(type, sizes);
  }
  return inputs;
}

Difference compare(const std::string& name, const Tensor& got, const Tensor& expected, double rtol,
                   double atol) {
  Difference d;
  if (str(got.sizes()) != str(expected.sizes())) {
    d.close = false;
    d.what = fmt::format("{}: the shape is {}, expected {}", name, str(got.sizes()), str(expected.sizes()));
    d.largest = INFINITY;
    return d;
  }
  std::vector<double> a = got.to(kDouble).to_vector<double>(), b = expected.to(kDouble).to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i) {
    bool same_nan = std::isnan(a[i]) && std::isnan(b[i]);
    double difference = same_nan || a[i] == b[i] ? 0 : std::fabs(a[i] - b[i]);
    if (difference > d.largest || std::isnan(difference)) d.largest = difference;
    if (d.close && !(difference <= atol + rtol * std::fabs(b[i]))) {
      d.close = false;
      d.what = fmt::format("{}: element {} is {}, expected {}", name, i, a[i], b[i]);
    }
  }
  return d;
}

}  // namespace tern::command
