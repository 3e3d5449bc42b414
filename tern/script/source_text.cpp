#include "tern/script/source_text.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "tern/base/format.h"
#include "tern/ir/printing.h"
#include "tern/script/signature.h"

namespace tern::script {

using ir::Type;
using ir::TypeKind;

std::string annotation(const Type* t) { return plain(t)->str(ir::TypeStyle::annotation); }

bool is_keyword(std::string_view word) {
  static constexpr std::string_view words[] = {
      "False",    "None",  "True",   "and",  "as",    "assert", "async",    "await",   "break", "class",
      "continue", "def",   "del",    "elif", "else",  "except", "exec",     "finally", "for",   "from",
      "global",   "if",    "import", "in",   "is",    "lambda", "nonlocal", "not",     "or",    "pass",
      "print",    "raise", "return", "try",  "while", "with",   "yield"};
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

bool is_identifier(std::string_view s) {
  if (s.empty() || (s[0] >= '0' && s[0] <= '9')) return false;
  for (char c : s)
    if (!(isalnum(static_cast<unsigned char>(c)) || c == '_')) return false;
  return !is_keyword(s) || s == "print";
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 128; });
}

std::string quoted(std::string_view s) { return ir::torch_quoted(s); }

namespace {

bool is_beyond_ascii(const tern::Value& v) {
  if (v.is_string()) return !is_ascii(v.string());
  return v.is_tuple() && std::any_of(v.items().begin(), v.items().end(), is_beyond_ascii);
}

std::string real(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  std::string s = fmt::format("{:.17g}", d);
  if (s.find_first_of(".e") == std::string::npos) s += ".";
  return s;
}

}  // namespace

std::string constant_text(const tern::Value& v, const Type* type, ConstantTable& constants) {
  auto inner = [&](const tern::Value& item, const Type* t) { return constant_text(item, t, constants); };
  if (type && type->is(TypeKind::optional) && !v.is_none()) type = type->element();
  if (is_beyond_ascii(v)) return "CONSTANTS.c" + std::to_string(constants.add(v));
  switch (v.kind()) {
    case ValueKind::none:
      return "None";
    case ValueKind::bool_:
      return v.to_bool() ? "True" : "False";
    case ValueKind::int_:
      if (v.sym().is_symbolic())
        fail("a symbolic size cannot be written as TorchScript source: read it from a tensor with size()");
      return type && type->is(TypeKind::float_) ? real(v.to_double()) : std::to_string(v.to_int());
    case ValueKind::float_:
      return real(v.to_double());
    case ValueKind::complex_: {
      std::complex<double> c = v.scalar().to_complex();
      return real(c.real()) + (c.imag() >= 0 ? "+" : "-") + real(std::abs(c.imag())) + "j";
    }
    case ValueKind::device:
      return "torch.device(" + quoted(v.device().str()) + ")";
    case ValueKind::string:
      return quoted(v.string());
    case ValueKind::tensor:
      return "CONSTANTS.c" + std::to_string(constants.add(v));
    case ValueKind::tuple: {
      std::string s = "(";
      for (size_t i = 0; i < v.items().size(); ++i) {
        const Type* t =
            type && type->is(TypeKind::tuple) && i < type->elements().size() ? type->element(i) : nullptr;
        s += (i ? ", " : "") + inner(v.items()[i], t);
      }
      return s + (v.items().size() == 1 ? ",)" : ")");
    }
    case ValueKind::list: {
      const Type* element = type && type->is(TypeKind::list) ? type->element() : v.element_type();
      std::string s = "[";
      bool none = v.items().empty();
      for (size_t i = 0; i < v.items().size(); ++i) {
        none = none || v.items()[i].is_none();
        s += (i ? ", " : "") + inner(v.items()[i], element);
      }
      s += "]";
      if (!none) return s;
      return "annotate(" + annotation(Type::list(element ? element : Type::tensor())) + ", " + s + ")";
    }
    case ValueKind::dict: {
      std::string s = "{";
      for (auto& [k, item] : v.entries())
        s += (s.size() > 1 ? ", " : "") + inner(k, nullptr) + ": " + inner(item, nullptr);
      s += "}";
      return type ? "annotate(" + annotation(type) + ", " + s + ")" : s;
    }
    case ValueKind::object:
      if (ir::EnumMember* m = ir::EnumMember::of(v)) return m->type.str() + "." + m->name;
      if (dynamic_cast<NativeObject*>(v.box())) return "CONSTANTS.c" + std::to_string(constants.add(v));
      fail(ErrorKind::not_supported, "an object cannot be a constant of TorchScript source");
  }
  return "None";
}

}  // namespace tern::script
