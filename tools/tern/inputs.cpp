#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "commands.h"
#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/sym/shape_env.h"
#include "tern/tensor/files.h"

namespace tern::command {
namespace {

// `type` gives the size of an example where there is one.
Dims parse_shape(const std::string& text, const std::string& whole, const ir::Type& type, ShapeEnv* symbols) {
  Dims dims;
  size_t at = 0;
  if (text.ends_with('x')) failf(ErrorKind::usage, "--shapes {}: expected name:1x3x224x224", whole);
  while (at < text.size()) {
    size_t end = text.find('x', at);
    if (end == std::string::npos) end = text.size();
    std::string part = text.substr(at, end - at);
    int64_t n = -1;
    auto r = std::from_chars(part.data(), part.data() + part.size(), n);
    bool number = r.ec == std::errc() && r.ptr == part.data() + part.size() && n >= 0;
    bool word = !part.empty() && std::isalpha(static_cast<unsigned char>(part[0]));
    if (number) {
      dims.push_back(n);
    } else if (word && symbols) {
      // Files name symbols s0, s1, ...: PyTorch reads names with sympy, where N and S mean something else.
      std::optional<SymInt> known;
      for (uint32_t i = 0; i < symbols->symbol_count(); ++i)
        if (symbols->symbol(i).display_name == part) known = symbols->find_symbol(symbols->symbol(i).name);
      bool example = type.is_tensor() && type.has_sizes() && type.sizes().size() > dims.size();
      int64_t hint = example ? type.sizes()[dims.size()].hint().value_or(4) : 4;
      dims.push_back(known ? *known
                           : symbols->create_symbol(std::max<int64_t>(hint, 2), "--shapes " + whole,
                                                    {.display_name = part, .declared = {2}}));
    } else {
      failf(ErrorKind::usage, "--shapes {}: expected name:1x3x224x224", whole);
    }
    at = end + 1;
  }
  return dims;
}

// A number, a word or a list of them on the command line, for an argument that is no tensor.
std::optional<Value> parse_literal(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) {
    std::vector<Value> items;
    for (text = text.substr(1, text.size() - 2); !text.empty();) {
      size_t comma = std::min(text.find(','), text.size());
      std::optional<Value> item = parse_literal(text.substr(0, comma));
      if (!item) return std::nullopt;
      items.push_back(*item);
      text.remove_prefix(std::min(comma + 1, text.size()));
      while (text.starts_with(' ')) text.remove_prefix(1);
    }
    return Value::list(std::move(items));
  }
  if (text == "True" || text == "true") return Value(true);
  if (text == "False" || text == "false") return Value(false);
  if (text == "None") return Value();
  int64_t n = 0;
  auto r = std::from_chars(text.data(), text.data() + text.size(), n);
  if (r.ec == std::errc() && r.ptr == text.data() + text.size()) return Value(n);
  double d = 0;
  auto f = std::from_chars(text.data(), text.data() + text.size(), d);
  if (f.ec == std::errc() && f.ptr == text.data() + text.size()) return Value(d);
  return std::nullopt;
}

Tensor random_input(const ir::Type& type, const Dims& sizes) {
  DType d = !type.is_tensor() || type.dtype() == DType::undefined ? kFloat : type.dtype();
  for (SymInt n : sizes)
    if (n.is_symbolic()) return make_tensor(sizes, d, kCPU, true);
  if (is_floating(d)) return randn(sizes).to(d);
  if (d == kBool) return randint(2, sizes).to(kBool);
  if (is_complex(d)) return randn(sizes).to(d);
  return randint(2, sizes).to(d);  // small: may be used as an index
}

}  // namespace

InputList inputs_of(const Session& session) {
  InputList list{session.input_names(), {}, {}};
  const SessionModel& model = session.model();
  for (size_t i = 0; i < list.names.size(); ++i) {
    list.types.push_back(session.input_type(i));
    std::optional<Value> known = i < model.constants.size() ? model.constants[i] : std::nullopt;
    // Integers are indices, lengths, divisors: the example is more likely to fit than a random one.
    if (!known && i < model.examples.size() && model.examples[i]) {
      const Value& e = *model.examples[i];
      if (!e.is_tensor() || !(e.tensor().is_floating_point() || e.tensor().is_complex())) known = e;
    }
    list.defaults.push_back(std::move(known));
  }
  return list;
}

InputList inputs_of(const jit::ScriptModule& module, const std::string& method) {
  InputList list;
  const std::vector<script::Argument>& args = module.arguments(method);
  std::vector<Value> traced = module.traced_inputs(method);
  for (size_t i = 1; i < args.size(); ++i) {
    list.names.push_back(args[i].name.str());
    bool example = i - 1 < traced.size() && traced[i - 1].is_tensor() && args[i].type->is_tensor();
    list.types.push_back(example ? ir::Type::tensor_like(traced[i - 1].tensor()) : args[i].type);
    list.defaults.push_back(args[i].default_value);
    if (args[i].type->is(ir::TypeKind::optional) && !list.defaults.back()) list.defaults.back() = Value();
  }
  return list;
}

std::vector<Value> make_inputs(const InputList& list, const std::vector<std::string>& files,
                               const std::vector<std::string>& shapes, ShapeEnv* symbols) {
  const std::vector<std::string>& names = list.names;
  std::vector<Value> inputs(names.size());
  std::vector<bool> given(names.size());
  auto place = [&](const std::string& name) -> size_t {
    auto it = std::find(names.begin(), names.end(), name);
    if (it != names.end()) return static_cast<size_t>(it - names.begin());
    if (name.starts_with("input_")) {
      size_t i = 0;
      auto r = std::from_chars(name.data() + 6, name.data() + name.size(), i);
      if (r.ec == std::errc() && r.ptr == name.data() + name.size() && i < inputs.size()) return i;
    }
    std::string known;
    for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
    failf(ErrorKind::usage, "the model has no input '{}' (it has {})", name, known.empty() ? "none" : known);
  };
  auto give = [&](size_t i, Value v) {
    inputs[i] = std::move(v);
    given[i] = true;
  };
  for (const std::string& file : files) {
    size_t eq = file.find('=');
    if (eq != std::string::npos) {
      size_t i = place(file.substr(0, eq));  // a wrong name is said before a wrong file
      std::string text = file.substr(eq + 1);
      std::optional<Value> literal = list.types[i]->is_tensor() ? std::nullopt : parse_literal(text);
      if (literal)
        give(i, *literal);
      else if (list.types[i]->is(ir::TypeKind::string))
        give(i, Value(std::string_view(text)));
      else
        give(i, as_usage("--input", [&] { return load_npy(text); }));
      continue;
    }
    for (auto& [name, tensor] : as_usage("--input", [&] { return load_tensors(file); })) {
      size_t i = place(name);
      const ir::Type& type = *list.types[i];
      bool number =
          type.is(ir::TypeKind::int_) || type.is(ir::TypeKind::float_) || type.is(ir::TypeKind::bool_);
      give(i, number && tensor.numel() == 1 ? Value(read_scalar(tensor.reshape({}))) : Value(tensor));
    }
  }
  for (const std::string& shape : shapes) {
    size_t colon = shape.find(':');
    if (colon == std::string::npos) failf(ErrorKind::usage, "--shapes {}: expected name:1x3x224x224", shape);
    size_t i = place(shape.substr(0, colon));
    give(i,
         random_input(*list.types[i], parse_shape(shape.substr(colon + 1), shape, *list.types[i], symbols)));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (given[i]) continue;
    if (list.defaults[i]) {
      inputs[i] = *list.defaults[i];
      continue;
    }
    const ir::Type& type = *list.types[i];
    if (!type.is_tensor() || !type.has_sizes())
      failf(ErrorKind::usage, "give the input '{}' ({}) with --input or --shapes", names[i],
            type.str(ir::TypeStyle::annotation));
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
  // A long double holds every integer of 64 bits, a double does not.
  auto numbers = [](const Tensor& t) -> std::vector<long double> {
    if (is_integral(t.dtype())) {
      std::vector<int64_t> all = t.to_vector<int64_t>();
      if (t.dtype() != DType::uint64) return {all.begin(), all.end()};
      std::vector<uint64_t> bits(all.begin(), all.end());
      return {bits.begin(), bits.end()};
    }
    Tensor wide = t.is_complex() ? view_as_real(t.to(kComplexDouble)).reshape({-1}) : t.to(kDouble);
    std::vector<double> all = wide.to_vector<double>();
    return {all.begin(), all.end()};
  };
  auto text = [](long double x) {
    bool whole = x == std::floor(x) && std::fabs(x) < 0x1p64L;
    return whole ? fmt::format("{:.0f}", x) : fmt::format("{}", static_cast<double>(x));
  };
  std::vector<long double> a = numbers(got), b = numbers(expected);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    auto difference = static_cast<double>(std::fabs(a[i] - b[i]));
    if (difference > d.largest || std::isnan(difference)) d.largest = difference;
    if (d.close && (!std::isfinite(difference) || difference > atol + rtol * std::fabs(b[i]))) {
      d.close = false;
      d.what = fmt::format("{}: element {} is {}, expected {}", name, i, text(a[i]), text(b[i]));
    }
  }
  return d;
}

}  // namespace tern::command
