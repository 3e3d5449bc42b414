#include "tern/script/signature.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"

namespace tern::script {
namespace {

using ir::Type;
using ir::TypeKind;

// One line a name; overloads separated by ';'. n stands for int, float and complex in turn, t u k v for any
// type.
constexpr std::string_view table[] = {
    "aten::add(int a, int b) -> int; (float a, float b) -> float; (int a, float b) -> float; (float a, int "
    "b) -> float; "
    "(complex a, complex b) -> complex; (number a, number b) -> number; (str a, str b) -> str; (List[t] a, "
    "List[t] b) -> List[t]",
    "aten::sub(int a, int b) -> int; (float a, float b) -> float; (int a, float b) -> float; (float a, int "
    "b) -> float; "
    "(complex a, complex b) -> complex; (number a, number b) -> number",
    "aten::mul(int a, int b) -> int; (float a, float b) -> float; (int a, float b) -> float; (float a, int "
    "b) -> float; "
    "(complex a, complex b) -> complex; (number a, number b) -> number; (List[t] l, int n) -> List[t]; (int "
    "n, List[t] l) -> List[t]; "
    "(str s, int n) -> str",
    "aten::div(int a, int b) -> float; (float a, float b) -> float; (int a, float b) -> float; (float a, int "
    "b) -> float; (complex a, complex b) -> complex; (number a, number b) -> number",
    "aten::floordiv(int a, int b) -> int; (float a, float b) -> float; (int a, float b) -> float; (float a, "
    "int b) -> float; "
    "(number a, number b) -> number",
    "aten::remainder(int a, int b) -> int; (float a, float b) -> float; (int a, float b) -> float; (float a, "
    "int b) -> float; "
    "(number a, number b) -> number",
    "aten::fmod(int a, int b) -> float; (float a, float b) -> float; (int a, float b) -> float; (float a, "
    "int b) -> float; (number a, number b) -> number",
    "aten::pow(int a, int b) -> float; (float a, float b) -> float; (int a, float b) -> float; (float a, int "
    "b) -> float; "
    "(complex a, complex b) -> complex; (number a, number b) -> float",
    "aten::neg(int a) -> int; (float a) -> float; (complex a) -> complex; (number a) -> number",
    "aten::abs(int a) -> int; (float a) -> float; (complex a) -> float; (number a) -> number",
    "prim::abs(int a) -> int; (float a) -> float; (complex a) -> float; (number a) -> number; (Tensor a) -> "
    "Tensor",
    "aten::__and__(bool a, bool b) -> bool; (int a, int b) -> int",
    "aten::__or__(bool a, bool b) -> bool; (int a, int b) -> int",
    "aten::__xor__(bool a, bool b) -> bool; (int a, int b) -> int",
    "aten::__lshift__(int a, int b) -> int",
    "aten::__rshift__(int a, int b) -> int",
    "aten::bitwise_not(int a) -> int",
    "aten::__not__(bool a) -> bool",
    "aten::__is__(Any a, Any b) -> bool",
    "aten::__isnot__(Any a, Any b) -> bool",
    "aten::eq(int a, int b) -> bool; (float a, float b) -> bool; (number a, number b) -> bool; (bool a, bool "
    "b) -> bool; "
    "(str a, str b) -> bool; (Device a, Device b) -> bool; (Any a, Any b) -> bool",
    "aten::ne(int a, int b) -> bool; (float a, float b) -> bool; (number a, number b) -> bool; (bool a, bool "
    "b) -> bool; "
    "(str a, str b) -> bool; (Device a, Device b) -> bool; (Any a, Any b) -> bool",
    "aten::lt(int a, int b) -> bool; (float a, float b) -> bool; (number a, number b) -> bool; (str a, str "
    "b) -> bool; (List[t] a, List[t] b) -> bool",
    "aten::le(int a, int b) -> bool; (float a, float b) -> bool; (number a, number b) -> bool; (str a, str "
    "b) -> bool; (List[t] a, List[t] b) -> bool",
    "aten::gt(int a, int b) -> bool; (float a, float b) -> bool; (number a, number b) -> bool; (str a, str "
    "b) -> bool; (List[t] a, List[t] b) -> bool",
    "aten::ge(int a, int b) -> bool; (float a, float b) -> bool; (number a, number b) -> bool; (str a, str "
    "b) -> bool; (List[t] a, List[t] b) -> bool",
    "aten::sqrt(number a) -> float",
    "aten::exp(number a) -> float",
    "aten::expm1(number a) -> float",
    "aten::log(number a) -> float; (number a, number b) -> float",
    "aten::log10(number a) -> float",
    "aten::log1p(number a) -> float",
    "aten::log2(number a) -> float",
    "aten::sin(number a) -> float",
    "aten::cos(number a) -> float",
    "aten::tan(number a) -> float",
    "aten::asin(number a) -> float",
    "aten::acos(number a) -> float",
    "aten::atan(number a) -> float",
    "aten::sinh(number a) -> float",
    "aten::cosh(number a) -> float",
    "aten::tanh(number a) -> float",
    "aten::erf(number a) -> float",
    "aten::atan2(number a, number b) -> float",
    "aten::fabs(number a) -> float",
    "aten::gamma(number a) -> float",
    "aten::lgamma(number a) -> float",
    "aten::floor(number a) -> int",
    "aten::ceil(number a) -> int",
    "aten::trunc(number a) -> int",
    "aten::round(number a) -> float",
    "aten::gcd(int a, int b) -> int",
    "aten::isnan(number a) -> bool",
    "aten::isinf(number a) -> bool",
    "aten::isfinite(number a) -> bool",
    "aten::divmod(int x, int y) -> Tuple[int, int]; (float x, float y) -> Tuple[float, float]; (number x, "
    "number y) -> Tuple[float, float]",
    "aten::Int(Tensor a) -> int; (bool a) -> int; (float a) -> int; (number a) -> int; (str a) -> int",
    "aten::Float(Tensor a) -> float; (number a) -> float; (bool a) -> float; (str a) -> float",
    "aten::Bool(Tensor a) -> bool; (number a) -> bool; (bool a) -> bool",
    "aten::Complex(number a) -> complex; (number a, number b) -> complex; (Tensor a) -> complex; (Tensor a, "
    "Tensor b) -> complex",
    "aten::IntImplicit(Tensor a) -> int",
    "aten::FloatImplicit(Tensor a) -> float",
    "aten::ComplexImplicit(Tensor a) -> complex",
    "aten::ScalarImplicit(Tensor a) -> number",
    "aten::item(Tensor self) -> number",
    "prim::NumToTensor(number a) -> Tensor; (bool a) -> Tensor",
    "aten::str(Any a) -> str",
    "aten::_unwrap_optional(Optional[t] a) -> t",
    "aten::device(str a) -> Device; (str a, int index) -> Device",
    "aten::size(Tensor self) -> List[int]; (Tensor self, int dim) -> int",
    "aten::stride(Tensor self) -> List[int]; (Tensor self, int dim) -> int",
    "aten::sym_size(Tensor self, int dim) -> int",
    "aten::sym_numel(Tensor self) -> int",
    "aten::sym_stride(Tensor self, int dim) -> int",
    "aten::sym_storage_offset(Tensor self) -> int",
    "aten::dim(Tensor self) -> int",
    "aten::numel(Tensor self) -> int",
    "aten::storage_offset(Tensor self) -> int",
    "aten::element_size(Tensor self) -> int",
    "aten::is_floating_point(Tensor self) -> bool",
    "aten::is_complex(Tensor self) -> bool",
    "aten::is_contiguous(Tensor self) -> bool",
    "prim::dtype(Tensor a) -> int",
    "prim::device(Tensor a) -> Device",
    "prim::layout(Tensor a) -> int",
    "prim::shape(Tensor a) -> List[int]",
    "prim::requires_grad(Tensor a) -> bool",
    "prim::is_cuda(Tensor a) -> bool",
    "prim::is_cpu(Tensor a) -> bool",
    "prim::is_meta(Tensor a) -> bool",
    "prim::is_sparse(Tensor a) -> bool",
    "prim::is_quantized(Tensor a) -> bool",
    "prim::is_mkldnn(Tensor a) -> bool",
    "prim::is_nested(Tensor a) -> bool",
    "prim::is_xpu(Tensor a) -> bool",
    "prim::is_mps(Tensor a) -> bool",
    "prim::ndim(Tensor a) -> int",
    "prim::itemsize(Tensor a) -> int",
    "prim::type(Device a) -> str",
    "prim::index(Device a) -> Optional[int]",
    "aten::len(List[t] a) -> int; (str a) -> int; (Dict[k, v] a) -> int; (Tensor a) -> int; (Any a) -> int",
    "aten::__getitem__(List[t] list, int idx) -> t; (Dict[k, v] self, k key) -> v; (str s, int index) -> str",
    "aten::_set_item(List[t] l, int idx, t el) -> List[t]; (Dict[k, v] l, k idx, v v) -> None",
    "aten::Delete(List[t] self, int idx) -> None; (Dict[k, v] self, k key) -> None",
    "aten::slice(List[t] l, Optional[int] start=None, Optional[int] end=None, int step=1) -> List[t]; "
    "(str string, Optional[int] start=None, Optional[int] end=None, int step=1) -> str",
    "aten::append(List[t] self, t el) -> List[t]",
    "aten::extend(List[t] self, List[t] other) -> None",
    "aten::insert(List[t] self, int idx, t el) -> None",
    "aten::pop(List[t] self, int idx=-1) -> t; (Dict[k, v] self, k key) -> v; (Dict[k, v] self, k key, v "
    "default_value) -> v",
    "aten::remove(List[t] self, t el) -> None",
    "aten::index(List[t] self, t el) -> int",
    "aten::count(List[t] self, t el) -> int; (str self, str substr) -> int",
    "aten::reverse(List[t] self) -> None",
    "aten::clear(List[t] self) -> None; (Dict[k, v] self) -> None",
    "aten::copy(List[t] self) -> List[t]; (Dict[k, v] self) -> Dict[k, v]",
    "aten::sort(List[t] self, bool reverse=False) -> None",
    "aten::sorted(List[t] input) -> List[t]",
    "aten::list(List[t] l) -> List[t]; (str t) -> List[str]",
    "aten::__contains__(List[t] l, t item) -> bool; (Dict[k, v] dict, k key) -> bool; (str string, str key) "
    "-> bool",
    "prim::min(List[t] l) -> t; (int a, int b) -> int; (float a, float b) -> float; (number a, number b) -> "
    "number; (Tensor a) -> Tensor; (Tensor a, Tensor b) -> Tensor",
    "prim::max(List[t] l) -> t; (int a, int b) -> int; (float a, float b) -> float; (number a, number b) -> "
    "number; (Tensor a) -> Tensor; (Tensor a, Tensor b) -> Tensor",
    "aten::sum(List[int] self) -> int; (List[float] self) -> float; (List[bool] self) -> int",
    "aten::all(List[t] self) -> bool",
    "aten::any(List[t] self) -> bool",
    "aten::__range_length(int lo, int hi, int step) -> int",
    "aten::__derive_index(int index, int start, int step) -> int",
    "prim::rangelist(int n) -> List[int]",
    "aten::keys(Dict[k, v] self) -> List[k]",
    "aten::values(Dict[k, v] self) -> List[v]",
    "aten::items(Dict[k, v] self) -> List[Tuple[k, v]]",
    "aten::get(Dict[k, v] self, k key) -> Optional[v]; (Dict[k, v] self, k key, v default_value) -> v; "
    "(Dict[k, v] self, k key, Optional[v] default_value) -> Optional[v]",
    "aten::setdefault(Dict[k, v] self, k key, v default_value) -> v",
    "aten::update(Dict[k, v] self, Dict[k, v] to_add) -> None",
    "aten::dict() -> Dict[str, Tensor]; (Dict[k, v] self) -> Dict[k, v]; (List[Tuple[k, v]] inputs) -> "
    "Dict[k, v]",
    "aten::format(str self, ...) -> str",
    "aten::percentFormat(str self, ...) -> str",
    "aten::upper(str self) -> str",
    "aten::lower(str self) -> str",
    "aten::strip(str self, str chars=' ') -> str",
    "aten::split(str self, Optional[str] separator=None, int max=-1) -> List[str]",
    "aten::join(str self, List[str] values) -> str",
    "aten::startswith(str self, str substr) -> bool",
    "aten::endswith(str self, str substr) -> bool",
    "aten::replace(str self, str old, str new) -> str",
    "aten::find(str self, str substr) -> int",
    "aten::ord(str string) -> int",
    "aten::chr(int i) -> str",
    "prim::Print(...) -> None",
    "aten::warn(str message, int stacklevel=2) -> None",
    "prim::RaiseException(str msg, Optional[str] cls=None) -> None",
    "prim::unchecked_unwrap_optional(Optional[t] a) -> t",
    "prim::TupleIndex(Any tup, int i) -> Any",
    "aten::tensor(bool t, *, Optional[int] dtype=None, Optional[Device] device=None, bool "
    "requires_grad=False) -> Tensor; "
    "(number t, *, Optional[int] dtype=None, Optional[Device] device=None, bool requires_grad=False) -> "
    "Tensor; "
    "(List[t] data, *, Optional[int] dtype=None, Optional[Device] device=None, bool requires_grad=False) -> "
    "Tensor",
    "aten::is_scripting() -> bool",
    "aten::is_autocast_enabled(...) -> bool",
    "aten::is_autocast_cpu_enabled() -> bool",
    "aten::is_grad_enabled() -> bool",
    "prim::is_tracing() -> bool",
    "aten::wait(Any a) -> Any",
};

struct Reader {
  std::string_view text;
  size_t at = 0;

  void blanks() {
    while (at < text.size() && text[at] == ' ') ++at;
  }
  bool take(std::string_view s) {
    blanks();
    if (text.substr(at, s.size()) != s) return false;
    at += s.size();
    return true;
  }
  void expect(std::string_view s) {
    if (!take(s)) failf(ErrorKind::internal, "signature table: expected '{}' at {} of {}", s, at, text);
  }
  std::string_view word() {
    blanks();
    size_t start = at;
    while (at < text.size() &&
           (isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_' || text[at] == ':'))
      ++at;
    return text.substr(start, at - start);
  }
  Pattern pattern() {
    std::string_view w = word();
    Pattern p;
    if (w.size() == 1) {
      p.kind = Pattern::variable;
      p.name = w[0];
      return p;
    }
    if (w == "List" || w == "Dict" || w == "Optional" || w == "Tuple") {
      p.kind = w == "List"       ? Pattern::list
               : w == "Dict"     ? Pattern::dict
               : w == "Optional" ? Pattern::optional
                                 : Pattern::tuple;
      expect("[");
      do p.items.push_back(pattern());
      while (take(","));
      expect("]");
      return p;
    }
    p.type = w == "None" ? Type::none() : ir::parse_type(w);
    return p;
  }
  Signature signature(Symbol name) {
    Signature s;
    s.name = name;
    expect("(");
    bool keyword_only = false;
    while (!take(")")) {
      if (take("...")) {
        s.vararg = true;
      } else if (take("*")) {
        keyword_only = true;
      } else {
        SigArg a;
        a.type = pattern();
        a.name = word();
        a.keyword_only = keyword_only;
        if (take("=")) {
          if (take("None"))
            a.default_value = tern::Value();
          else if (take("False"))
            a.default_value = tern::Value(false);
          else if (take("-1"))
            a.default_value = tern::Value(-1);
          else if (take("1"))
            a.default_value = tern::Value(1);
          else if (take("2"))
            a.default_value = tern::Value(2);
          else if (take("' '"))
            a.default_value = tern::Value(" ");
          else
            expect("a default");
        }
        s.args.push_back(std::move(a));
      }
      take(",");
    }
    expect("->");
    Pattern r = pattern();
    s.returns.push_back(std::move(r));
    return s;
  }
};

using Table = std::unordered_map<Symbol, std::vector<Signature>>;

const Table& builtins() {
  static const Table* all = [] {
    auto* t = new Table;
    for (std::string_view line : table) {
      Reader r{line};
      Symbol name(r.word());
      do (*t)[name].push_back(r.signature(name));
      while (r.take(";"));
    }
    return t;
  }();
  return *all;
}

Pattern of(const SchemaType& type) {
  Pattern p;
  switch (type.base) {
    case BaseType::tensor:
      p.type = Type::tensor();
      break;
    case BaseType::int_:
    case BaseType::sym_int:
    case BaseType::dtype:
    case BaseType::layout:
    case BaseType::memory_format:
      p.type = Type::integer();
      break;
    case BaseType::float_:
      p.type = Type::floating();
      break;
    case BaseType::bool_:
    case BaseType::sym_bool:
      p.type = Type::boolean();
      break;
    case BaseType::complex_:
      p.type = Type::complex();
      break;
    case BaseType::scalar:
      p.type = Type::number();
      break;
    case BaseType::string:
      p.type = Type::string();
      break;
    case BaseType::device:
      p.type = Type::device_type();
      break;
    case BaseType::generator:
      p.type = Type::generator();
      break;
    case BaseType::none:
      p.type = Type::none();
      break;
    default:
      p.type = Type::any();
      break;
  }
  auto wrap = [&](Pattern::Kind kind) {
    Pattern outer;
    outer.kind = kind;
    outer.items.push_back(std::move(p));
    p = std::move(outer);
  };
  if (type.list) {
    if (type.element_optional) wrap(Pattern::optional);
    wrap(Pattern::list);
    if (type.optional_list) wrap(Pattern::optional);
  } else if (type.optional) {
    wrap(Pattern::optional);
  }
  return p;
}

Signature of(const Op& op) {
  const Schema& schema = op.schema();
  Signature s;
  s.name = schema.name;
  s.op = &op;
  for (const SchemaArg& a : schema.args) {
    SigArg arg{a.name, of(a.type), a.default_value, a.keyword_only, a.type.list ? a.type.fixed_size : 0};
    if (!arg.default_value && a.type.accepts_none()) arg.default_value.reset();
    s.args.push_back(std::move(arg));
  }
  for (const SchemaArg& r : schema.returns) s.returns.push_back(of(r.type));
  return s;
}

}  // namespace

const std::vector<Signature>& signatures(Symbol name) {
  static std::mutex lock;
  static auto* kept =
      new std::unordered_map<Symbol, std::pair<size_t, std::unique_ptr<std::vector<Signature>>>>;
  static auto* retired = new std::vector<std::unique_ptr<std::vector<Signature>>>;
  std::lock_guard guard(lock);
  const std::vector<const Op*>& ops = overloads(name);
  auto& entry = (*kept)[name];
  if (entry.second && entry.first == ops.size()) return *entry.second;
  // A user may have defined an operator since; whoever holds the old list goes on with it.
  if (entry.second) retired->push_back(std::move(entry.second));
  auto list = std::make_unique<std::vector<Signature>>();
  for (const Op* op : ops) list->push_back(of(*op));
  auto it = builtins().find(name);
  if (it != builtins().end()) list->insert(list->end(), it->second.begin(), it->second.end());
  entry = {ops.size(), std::move(list)};
  return *entry.second;
}

const ir::Type* Bindings::find(char name) const {
  for (auto& [n, t] : items)
    if (n == name) return t;
  return nullptr;
}

const ir::Type* instantiate(const Pattern& p, const Bindings& bindings) {
  switch (p.kind) {
    case Pattern::exact:
      return p.type;
    case Pattern::variable: {
      const Type* t = bindings.find(p.name);
      return t ? t : Type::any();
    }
    case Pattern::list:
      return Type::list(instantiate(p.items[0], bindings));
    case Pattern::optional:
      return Type::optional(instantiate(p.items[0], bindings));
    case Pattern::dict:
      return Type::dict(instantiate(p.items[0], bindings), instantiate(p.items[1], bindings));
    case Pattern::tuple: {
      std::vector<const Type*> items;
      for (const Pattern& i : p.items) items.push_back(instantiate(i, bindings));
      return Type::tuple(items);
    }
  }
  return Type::any();
}

std::string str(const Pattern& p) {
  auto join = [&](std::string head) {
    for (size_t i = 0; i < p.items.size(); ++i) head += (i ? ", " : "") + str(p.items[i]);
    return head + "]";
  };
  switch (p.kind) {
    case Pattern::exact:
      return p.type->str(ir::TypeStyle::annotation);
    case Pattern::variable:
      return std::string(1, p.name);
    case Pattern::list:
      return join("List[");
    case Pattern::optional:
      return join("Optional[");
    case Pattern::dict:
      return join("Dict[");
    case Pattern::tuple:
      return join("Tuple[");
  }
  return {};
}

std::string Signature::str() const {
  if (op) return op->schema().str();
  std::string text = name.str() + "(";
  for (const SigArg& a : args) {
    if (text.back() != '(') text += ", ";
    text += script::str(a.type) + " " + a.name.str();
    if (a.default_value) text += "=" + a.default_value->str();
  }
  if (vararg) text += args.empty() ? "..." : ", ...";
  return text + ") -> " + script::str(returns[0]);
}

const ir::Type* plain(const ir::Type* t) {
  switch (t->kind()) {
    case TypeKind::tensor:
      return Type::tensor();
    case TypeKind::list:
      return Type::list(plain(t->element()));
    case TypeKind::optional:
      return Type::optional(plain(t->element()));
    case TypeKind::dict:
      return Type::dict(plain(t->element(0)), plain(t->element(1)));
    case TypeKind::tuple: {
      std::vector<const Type*> items;
      for (const Type* e : t->elements()) items.push_back(plain(e));
      if (!t->name().empty()) return Type::named_tuple(t->name(), t->fields(), items);
      return Type::tuple(items);
    }
    default:
      return t;
  }
}

const ir::Type* unify(const ir::Type* a, const ir::Type* b) {
  if (a == b) return a;
  a = plain(a), b = plain(b);
  if (a == b) return a;
  if (a->is(TypeKind::any)) return a;
  if (b->is(TypeKind::any)) return b;
  if (a->is(TypeKind::none)) return b->is(TypeKind::optional) ? b : Type::optional(b);
  if (b->is(TypeKind::none)) return a->is(TypeKind::optional) ? a : Type::optional(a);
  if (a->is(TypeKind::optional) || b->is(TypeKind::optional)) {
    const Type* inner =
        unify(a->is(TypeKind::optional) ? a->element() : a, b->is(TypeKind::optional) ? b->element() : b);
    return inner ? Type::optional(inner) : nullptr;
  }
  if (a->is(TypeKind::tuple) && b->is(TypeKind::tuple) && a->elements().size() == b->elements().size() &&
      a->name() == b->name()) {
    std::vector<const Type*> items;
    for (size_t i = 0; i < a->elements().size(); ++i) {
      const Type* t = unify(a->element(i), b->element(i));
      if (!t) return nullptr;
      items.push_back(t);
    }
    return a->name().empty() ? Type::tuple(items) : Type::named_tuple(a->name(), a->fields(), items);
  }
  if (a->fits(*b)) return b;
  if (b->fits(*a)) return a;
  return nullptr;
}

}  // namespace tern::script
