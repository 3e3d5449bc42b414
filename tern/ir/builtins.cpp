#include "tern/ir/builtins.h"

#include <cmath>
#include <complex>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/ir/builtin_families.h"
#include "tern/ir/enum_member.h"

namespace tern::ir {
namespace builtin {

void need(Args in, size_t at_least, size_t at_most, std::string_view what) {
  if (in.size() < at_least || in.size() > at_most)
    failf(ErrorKind::type, "{} takes {} to {} arguments but {} were given", what, at_least, at_most,
          in.size());
}

[[noreturn]] void unsupported(std::string_view what, Args in) {
  std::string kinds;
  for (const V& v : in) kinds += (kinds.empty() ? "" : ", ") + std::string(v.kind_name());
  failf(ErrorKind::type, "unsupported operand types for {}: {}", what, kinds);
}

V number(const V& v) {
  if (v.is_tensor()) return V(v.tensor().item(Loc{}));
  if (!v.is_number()) failf(ErrorKind::type, "expected a number but found {}", v.kind_name());
  return v;
}

SymInt integer(const V& v) {
  V n = number(v);
  if (n.is_float()) return SymInt(n.scalar().to_int());
  return n.sym();
}

double real(const V& v) { return number(v).to_double(); }

bool any_complex(const V& a, const V& b) { return a.is_complex() || b.is_complex(); }

bool any_float(const V& a, const V& b) { return a.is_float() || b.is_float(); }

bool same(const V& a, const V& b) { return a.equals(b); }

int order(const V& a, const V& b) {  // Python's < for strings and sequences
  if (a.is_string() && b.is_string()) return a.string().compare(b.string());
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    const auto &x = a.items(), &y = b.items();
    for (size_t k = 0; k < x.size() && k < y.size(); ++k)
      if (!same(x[k], y[k])) return order(x[k], y[k]);
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  V x = number(a), y = number(b);
  if (any_complex(x, y)) fail(ErrorKind::type, "complex numbers have no order");
  if (any_float(x, y)) return x.to_double() < y.to_double() ? -1 : x.to_double() > y.to_double();
  return x.sym() < y.sym() ? -1 : x.sym() > y.sym() ? 1 : 0;
}

// As TorchScript writes values: floats with all their digits, strings in containers without quotes.
std::string text_of(const V& v) {
  auto all = [](const std::vector<V>& items) {
    std::string text;
    for (const V& item : items) text += (text.empty() ? "" : ", ") + text_of(item);
    return text;
  };
  switch (v.kind()) {
    case ValueKind::string:
      return v.string();
    case ValueKind::device:
      return v.device().str();
    case ValueKind::float_: {
      std::string text = fmt::format("{:.17g}", v.to_double());
      return text.find_first_not_of("-0123456789") == std::string::npos ? text + "." : text;
    }
    case ValueKind::complex_: {
      std::complex<double> c = v.scalar().to_complex();
      std::string imaginary = text_of(V(c.imag()));
      return text_of(V(c.real())) + (std::signbit(c.imag()) && !std::isnan(c.imag()) ? "" : "+") + imaginary +
             "j";
    }
    case ValueKind::tensor:
      return tensor_text(v.tensor());
    case ValueKind::list:
      return "[" + all(v.items()) + "]";
    case ValueKind::tuple:
      return "(" + all(v.items()) + (v.items().size() == 1 ? ",)" : ")");
    case ValueKind::dict: {
      std::string text;
      for (auto& [key, item] : v.entries())
        text += (text.empty() ? "" : ", ") + text_of(key) + ": " + text_of(item);
      return "{" + text + "}";
    }
    case ValueKind::object:
      if (EnumMember* m = EnumMember::of(v)) {
        std::string type = m->type.str();
        return type.substr(type.rfind('.') + 1) + "." + m->name;
      }
      return v.str();
    default:
      return v.str();
  }
}

}  // namespace builtin

namespace {

const BuiltinEntry* look_up(Symbol kind) {
  static const auto* by_name = [] {
    auto* map = new std::unordered_map<std::string_view, const BuiltinEntry*>;
    for (Span<const BuiltinEntry> family :
         {number_builtins(), tensor_builtins(), container_builtins(), text_builtins()})
      for (const BuiltinEntry& e : family) map->emplace(e.name, &e);
    return map;
  }();
  static constexpr BuiltinEntry device{"device", builtin::device_of_tensor},
      type{"type", builtin::device_type}, index{"index", builtin::device_index},
      power{"pow", builtin::real_power}, quotient{"div", builtin::real_quotient},
      rounded{"round", builtin::real_round}, grad{"grad", builtin::grad_of_tensor},
      gradients{"grad", builtin::gradients}, sum{"add", builtin::wrapping_add},
      difference{"sub", builtin::wrapping_sub}, product{"mul", builtin::wrapping_mul},
      floor{"floordiv", builtin::real_floor_quotient}, rest{"remainder", builtin::real_remainder};
  std::string_view text = kind.view();
  size_t colons = text.find("::");
  if (colons == std::string_view::npos) return nullptr;
  std::string_view space = text.substr(0, colons), name = text.substr(colons + 2);
  if (space != "aten" && space != "prim" && space != "_operator" && space != "math" && space != "torch" &&
      space != "profiler")
    return nullptr;
  name = name.substr(0, name.find('.'));
  if (space == "prim" && name == "device") return &device;
  if (space == "prim" && name == "type") return &type;
  if (space == "prim" && name == "index") return &index;
  if (name == "grad") return space == "prim" ? &grad : &gradients;
  // TorchScript's pow, / and round of ints are floats, 1 / 0 is inf, and ints begin again at their other end;
  // Python's own are what graphs of symbolic sizes mean.
  if (space == "aten" && name == "add") return &sum;
  if (space == "aten" && name == "sub") return &difference;
  if (space == "aten" && name == "mul") return &product;
  if (space == "aten" && name == "floordiv") return &floor;
  if (space == "aten" && name == "remainder") return &rest;
  if (space == "aten" && name == "pow") return &power;
  if (space == "aten" && name == "div") return &quotient;
  if (space == "aten" && name == "round") return &rounded;
  auto it = by_name->find(name);
  return it == by_name->end() ? nullptr : it->second;
}

}  // namespace

Builtin find_builtin(Symbol kind) {
  const BuiltinEntry* e = look_up(kind);
  return e ? e->function : nullptr;
}
bool builtin_has_effect(Symbol kind) {
  const BuiltinEntry* e = look_up(kind);
  return e && e->effect;
}

bool builtin_mutates(Symbol kind) {
  const BuiltinEntry* e = look_up(kind);
  Span<const BuiltinEntry> containers = container_builtins();
  return e && e->effect && e >= containers.begin() && e < containers.end();
}

bool truth(const tern::Value& v) {
  switch (v.kind()) {
    case ValueKind::none:
      return false;
    case ValueKind::bool_:
      return v.to_bool();
    case ValueKind::int_:
      if (v.sym().is_symbolic()) return SymBool::from_expr(v.sym()).guard_bool(Loc{});
      return v.sym().as_int() != 0;
    case ValueKind::tensor:
      return v.tensor().item(Loc{}).to_bool();
    case ValueKind::string:
      return !v.string().empty();
    case ValueKind::list:
    case ValueKind::tuple:
      return !v.items().empty();
    case ValueKind::dict:
      return !v.entries().empty();
    case ValueKind::float_:
    case ValueKind::complex_:
      return v.scalar().to_bool();
    default:
      return true;
  }
}

}  // namespace tern::ir
