#include "tern/script/signature.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/builtin_signatures.h"

namespace tern::script {
namespace {

using ir::Type;
using ir::TypeKind;

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
  // int, t, Dict(str, t), (int, t)[], t(a!)?, Tensor[](*)
  Pattern pattern() {
    Pattern p;
    if (take("(")) {
      p.kind = Pattern::tuple;
      while (!take(")")) {
        p.items.push_back(pattern());
        take(",");
      }
    } else {
      std::string_view w = word();
      if (w == "Dict" || w == "Future") {
        p.kind = w == "Dict" ? Pattern::dict : Pattern::future;
        expect("(");
        do p.items.push_back(pattern());
        while (take(","));
        expect(")");
      } else if (w == "t" || w == "t1" || w == "t2" || w == "tVal") {
        p.kind = Pattern::variable;
        p.name = w == "t" ? 't' : w == "tVal" ? 'v' : w[1];
      } else if (w == "AnyEnumType" || w == "AnyClassType") {
        p.kind = w == "AnyEnumType" ? Pattern::any_enum : Pattern::any_class;
      } else {
        p.type = w == "ScalarType" || w == "Layout" ? Type::integer() : ir::parse_type(w);
      }
    }
    for (;;) {
      if (take("[]")) {
        p = wrapped(Pattern::list, std::move(p));
      } else if (take("?")) {
        p = wrapped(Pattern::optional, std::move(p));
      } else if (at < text.size() && text[at] == '(') {
        at = text.find(')', at) + 1;  // what aliases what
      } else {
        return p;
      }
    }
  }
  static Pattern wrapped(Pattern::Kind kind, Pattern inner) {
    Pattern p;
    p.kind = kind;
    p.items.push_back(std::move(inner));
    return p;
  }
  tern::Value literal() {
    if (take("None")) return {};
    if (take("False")) return false;
    if (take("True")) return true;
    blanks();
    if (text[at] == '"') {
      std::string s;
      for (++at; text[at] != '"'; ++at) {
        if (text[at] != '\\') {
          s += text[at];
          continue;
        }
        char c = text[++at];
        s += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'f' ? '\f' : '\v';
      }
      ++at;
      return s;
    }
    bool negative = take("-");
    std::string digits(word());
    return negative ? -std::stoll(digits) : std::stoll(digits);
  }
  Signature signature() {
    Signature s;
    s.text = text;
    s.name = word();
    if (take(".")) word();
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
        if (take("=")) a.default_value = literal();
        s.args.push_back(std::move(a));
      }
      take(",");
    }
    expect("->");
    // "()" is nothing, "(int, int)" several results, "((int, t))" one that is a tuple.
    Pattern r = pattern();
    if (r.kind == Pattern::tuple)
      s.returns = std::move(r.items);
    else
      s.returns.push_back(std::move(r));
    return s;
  }
};

using Table = std::unordered_map<Symbol, std::vector<Signature>>;

const Table& builtins() {
  static const Table* all = [] {
    auto* t = new Table;
    for (const std::string& schema : builtin_schemas()) {
      Signature s = Reader{schema}.signature();
      (*t)[s.name].push_back(std::move(s));
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
  static auto* kept = new std::unordered_map<Symbol, std::pair<size_t, Owned<std::vector<Signature>>>>;
  static auto* retired = new std::vector<Owned<std::vector<Signature>>>;
  std::lock_guard guard(lock);
  const std::vector<const Op*>& ops = overloads(name);
  auto& entry = (*kept)[name];
  if (entry.second && entry.first == ops.size()) return *entry.second;
  // A user may have defined an operator since; whoever holds the old list goes on with it.
  if (entry.second) retired->push_back(std::move(entry.second));
  auto list = new_owned<std::vector<Signature>>();
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
    case Pattern::future:
      return Type::future(instantiate(p.items[0], bindings));
    case Pattern::any_enum:
    case Pattern::any_class:
      return Type::any();
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
    case Pattern::future:
      return join("Future[");
    case Pattern::any_enum:
      return "AnyEnumType";
    case Pattern::any_class:
      return "AnyClassType";
  }
  return {};
}

std::string Signature::str() const { return op ? op->schema().str() : text; }

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

const ir::Type* make_union(std::vector<const ir::Type*> types) {
  std::vector<const Type*> flat;
  auto add = [&](auto& self, const Type* t) -> void {
    if (t->is(TypeKind::union_)) {
      for (const Type* e : t->elements()) self(self, e);
    } else if (t->is(TypeKind::optional)) {
      self(self, t->element());
      self(self, Type::none());
    } else if (std::find(flat.begin(), flat.end(), plain(t)) == flat.end()) {
      flat.push_back(plain(t));
    }
  };
  for (const Type* t : types) add(add, t);
  if (flat.size() == 1) return flat[0];
  // The order in which PyTorch writes them.
  static constexpr TypeKind order[] = {
      TypeKind::any,    TypeKind::enum_,    TypeKind::tensor, TypeKind::tuple,     TypeKind::list,
      TypeKind::dict,   TypeKind::number,   TypeKind::float_, TypeKind::complex_,  TypeKind::future,
      TypeKind::int_,   TypeKind::none,     TypeKind::string, TypeKind::generator, TypeKind::bool_,
      TypeKind::device, TypeKind::function, TypeKind::class_, TypeKind::interface};
  auto rank = [](const Type* t) { return std::find(std::begin(order), std::end(order), t->kind()); };
  std::sort(flat.begin(), flat.end(), [&](const Type* a, const Type* b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return a->str(ir::TypeStyle::annotation) < b->str(ir::TypeStyle::annotation);
  });
  if (flat.size() == 2)
    for (size_t i = 0; i < 2; ++i)
      if (flat[i]->is(TypeKind::none)) return Type::optional(flat[1 - i]);
  return Type::union_of(flat);
}
const ir::Type* without(const ir::Type* type, const ir::Type* member) {
  if (type->is(TypeKind::optional) && member->is(TypeKind::none)) return type->element();
  if (!type->is(TypeKind::union_)) return type;
  std::vector<const Type*> rest;
  for (const Type* t : type->elements())
    if (t != member) rest.push_back(t);
  return rest.empty() ? type : make_union(rest);
}

}  // namespace tern::script
