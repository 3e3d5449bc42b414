// Functions and classes: signatures from annotations, attributes from class bodies, and the run over a
// function's body.
#include "tern/script/compiler.h"
#include "tern/ops/quantized/detail/packed.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/ir/verify.h"
#include "tern/script/exits.h"
#include "tern/script/functional.h"

namespace tern::script {
namespace {

using ir::Type;
using ir::TypeKind;

std::string_view before_last_dot(std::string_view name) {
  size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

}  // namespace

std::string dotted(const Expr& e) {
  if (e.kind == ExprKind::name) return e.text;
  if (e.kind == ExprKind::attribute) {
    std::string base = dotted(*e.items[0]);
    return base.empty() ? base : base + "." + e.text;
  }
  return {};
}

std::optional<tern::Value> complex_literal(std::string_view op, const tern::Value& real,
                                           const tern::Value& imaginary) {
  if ((op != "+" && op != "-") || !imaginary.is_complex() || imaginary.scalar().to_complex().real() != 0)
    return std::nullopt;
  if (!real.is_float() && !(real.is_int() && !real.sym().is_symbolic())) return std::nullopt;
  double i = imaginary.scalar().to_complex().imag();
  return tern::Value(std::complex<double>(real.to_double(), op == "+" ? i : -i));
}

namespace {

// Defaults and class constants: literals only.
std::optional<tern::Value> literal(const Unit& unit, const Expr& e) {
  switch (e.kind) {
    case ExprKind::constant:
      return e.value;
    case ExprKind::name:
      if (e.text == "inf") return tern::Value(double(INFINITY));
      if (e.text == "nan") return tern::Value(double(NAN));
      if (e.text == "infj") return tern::Value(std::complex<double>(0, double(INFINITY)));
      if (e.text == "nanj") return tern::Value(std::complex<double>(0, double(NAN)));
      return std::nullopt;
    case ExprKind::unary: {
      std::optional<tern::Value> v = literal(unit, *e.items[0]);
      if (!v || e.text != "-") return e.text == "+" ? v : std::nullopt;
      if (v->is_int()) return v->to_int() == INT64_MIN ? *v : tern::Value(-v->to_int());
      if (v->is_float()) return tern::Value(-v->to_double());
      if (v->is_complex()) return tern::Value(-v->scalar().to_complex());
      return std::nullopt;
    }
    case ExprKind::binary: {  // 1.+2.j
      std::optional<tern::Value> a = literal(unit, *e.items[0]), b = literal(unit, *e.items[1]);
      return a && b ? complex_literal(e.text, *a, *b) : std::nullopt;
    }
    case ExprKind::list:
    case ExprKind::tuple: {
      std::vector<tern::Value> items;
      for (const ExprPtr& i : e.items) {
        std::optional<tern::Value> v = literal(unit, *i);
        if (!v) return std::nullopt;
        items.push_back(*v);
      }
      return e.kind == ExprKind::list ? tern::Value::list(std::move(items))
                                      : tern::Value::tuple(std::move(items));
    }
    case ExprKind::dict: {
      tern::Value d = tern::Value::dict();
      for (size_t i = 0; i < e.items.size(); i += 2) {
        std::optional<tern::Value> k = literal(unit, *e.items[i]), v = literal(unit, *e.items[i + 1]);
        if (!k || !v) return std::nullopt;
        d.entries().emplace_back(*k, *v);
      }
      return d;
    }
    case ExprKind::attribute: {
      std::string path = dotted(e);
      if (path.starts_with("CONSTANTS.c")) {
        std::string digits = path.substr(11);
        if (digits.empty() || digits.size() > 9 ||
            digits.find_first_not_of("0123456789") != std::string::npos)
          return std::nullopt;
        size_t i = std::stoul(digits);
        if (i < unit.constants.size()) return unit.constants[i];
      }
      if (path.starts_with("torch."))
        if (std::optional<DType> d = parse_dtype(path.substr(6))) return tern::Value(*d);
      if (path == "math.inf" || path == "torch.inf") return tern::Value(double(INFINITY));
      if (path == "math.pi" || path == "torch.pi") return tern::Value(3.14159265358979323846);
      return std::nullopt;
    }
    case ExprKind::call: {
      std::string path = dotted(*e.items[0]);
      if (path == "annotate" && e.items.size() == 3) return literal(unit, *e.items[2]);
      if (path == "torch.device" && e.items.size() == 2 && e.items[1]->value.is_string())
        if (std::optional<Device> d = Device::parse(e.items[1]->value.string())) return tern::Value(*d);
      if (path == "float" && e.items.size() == 2 && e.items[1]->value.is_string()) {
        const std::string& t = e.items[1]->value.string();
        if (t == "inf") return tern::Value(double(INFINITY));
        if (t == "-inf") return tern::Value(-double(INFINITY));
        if (t == "nan") return tern::Value(double(NAN));
      }
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

tern::Value fit_literal(tern::Value v, const Type* type) {
  if (type->is(TypeKind::optional)) type = v.is_none() ? type : type->element();
  if (type->is(TypeKind::float_) && v.is_int()) return tern::Value(v.to_double());
  if (type->is(TypeKind::list) && v.is_list()) {
    for (tern::Value& item : v.items()) item = fit_literal(item, type->element());
    v.set_element_type(type->element());
  }
  return v;
}

}  // namespace

Compiler::Compiler(Unit& unit, Function& function)
    : unit_(unit),
      function_(function),
      file_(function.file_),
      def_(*function.def_),
      source_(*function.file_->source),
      qualifier_(
          before_last_dot(function.owner() ? function.owner()->name.view() : function.qualified().view())),
      strict_(unit.known_operators_only && !is_functional(function.file_->source)),
      file_name_(source_.name),
      function_name_(def_.name) {}

const ir::Type* Compiler::resolve_type(Unit& unit, const Source& source, std::string_view qualifier,
                                       const Expr& e) {
  auto inner = [&](const Expr& x) { return resolve_type(unit, source, qualifier, x); };
  if (e.kind == ExprKind::constant) {
    if (e.value.is_none()) return Type::none();
    if (e.value.is_string()) {
      auto quoted = new_shared<Source>();
      quoted->text = e.value.string();
      quoted->name = source.name;
      ExprPtr parsed = parse_expression(quoted);
      return resolve_type(unit, *quoted, qualifier, *parsed);
    }
  }
  if (e.kind == ExprKind::binary && e.text == "|") {
    const Type *a = inner(*e.items[0]), *b = inner(*e.items[1]);
    if (a->is(TypeKind::none)) return Type::optional(b);
    if (b->is(TypeKind::none)) return Type::optional(a);
    return make_union({a, b});
  }
  if (e.kind == ExprKind::tuple) {
    std::vector<const Type*> items;
    for (const ExprPtr& i : e.items) items.push_back(inner(*i));
    return Type::tuple(items);
  }
  if (e.kind == ExprKind::subscript) {
    std::string head = dotted(*e.items[0]);
    head = head.substr(head.rfind('.') == std::string::npos ? 0 : head.rfind('.') + 1);
    std::vector<const Expr*> parts;
    for (size_t i = 1; i < e.items.size(); ++i) parts.push_back(e.items[i].get());
    if (parts.size() == 1 && parts[0]->kind == ExprKind::tuple &&
        (head == "Tuple" || head == "tuple" || head == "Dict" || head == "Union")) {
      const Expr* only = parts[0];
      parts.clear();
      for (const ExprPtr& i : only->items) parts.push_back(i.get());
    }
    auto need = [&](size_t n) {
      if (parts.size() != n) fail_at(source, e.at, fmt::format("{} takes {} types", head, n));
    };
    if (head == "List" || head == "list" || head == "Sequence") return need(1), Type::list(inner(*parts[0]));
    if (head.starts_with("BroadcastingList")) return need(1), Type::list(inner(*parts[0]));
    if (head == "Optional") return need(1), Type::optional(inner(*parts[0]));
    if (head == "Final" && !unit.known_operators_only) return need(1), inner(*parts[0]);
    if (head == "Future" || head == "Await") return need(1), Type::future(inner(*parts[0]));
    if (head == "Dict" || head == "dict") {
      need(2);
      const Type* key = inner(*parts[0]);
      if (unit.known_operators_only && (key->is(TypeKind::list) || key->is(TypeKind::dict) ||
                                        key->is(TypeKind::tuple) || key->is(TypeKind::optional)))
        fail_at(
            source, e.at,
            fmt::format("Cannot create dict for key type '{}', only int, float, complex, Tensor, device and "
                        "string keys are supported",
                        key->str(ir::TypeStyle::torch)));
      return Type::dict(key, inner(*parts[1]));
    }
    if (head == "Callable" || head == "Final")
      fail_at(source, e.at, fmt::format("Unknown type constructor {}", head));
    std::vector<const Type*> items;
    for (const Expr* p : parts) items.push_back(inner(*p));
    if (head == "Tuple" || head == "tuple") return Type::tuple(items);
    if (head == "Union") return make_union(items);
    fail_at(source, e.at, fmt::format("Unknown type constructor {}", head));
  }
  std::string path = dotted(e);
  if (path.empty())
    fail_at(source, e.at,
            fmt::format("Expression of type {} cannot be used in a type expression",
                        e.kind == ExprKind::constant ? "const"
                        : e.kind == ExprKind::list   ? "list_literal"
                        : e.kind == ExprKind::dots   ? "dots"
                                                     : "expr"));
  static const std::unordered_map<std::string, const Type*> names = {
      {"Tensor", Type::tensor()},
      {"torch.Tensor", Type::tensor()},
      {"int", Type::integer()},
      {"float", Type::floating()},
      {"bool", Type::boolean()},
      {"complex", Type::complex()},
      {"str", Type::string()},
      {"None", Type::none()},
      {"NoneType", Type::none()},
      {"Device", Type::device_type()},
      {"torch.device", Type::device_type()},
      {"number", Type::number()},
      {"Any", Type::any()},
      {"typing.Any", Type::any()},
      {"Generator", Type::generator()},
      {"torch.Generator", Type::generator()},
      {"torch.dtype", Type::integer()},
      {"torch.layout", Type::integer()},
      {"torch.memory_format", Type::integer()},
      {"Layout", Type::integer()},
      {"ScalarType", Type::integer()},
      {"MemoryFormat", Type::integer()},
      {"torch.Size", Type::list(Type::integer())},
      {"list", Type::list(Type::tensor())},
      {"List", Type::list(Type::tensor())},
      {"dict", Type::dict(Type::string(), Type::tensor())},
      {"Dict", Type::dict(Type::string(), Type::tensor())},
      {"AnyType", Type::any()},
      {"torch.Stream", Type::any()},
      {"Capsule", Type::any()},
      {"Callable", Type::function()}};
  if (unit.known_operators_only && path == "List")
    fail_at(source, e.at,
            "Attempted to use List without a contained type. Please add a contained type, e.g. List[int]");
  if (unit.known_operators_only && (path == "Callable" || path == "Final"))
    fail_at(source, e.at, fmt::format("Unknown type name '{}'", path));
  if (auto it = names.find(path); it != names.end()) return it->second;
  if (quantized::is_native_class(path)) return Type::class_named(Symbol(path));
  auto find = [&](const std::string& full) -> ClassType* {
    Symbol name(full);
    return unit.has(name) || full.starts_with("__torch__") ? unit.find_class(name) : nullptr;
  };
  ClassType* c = find(path);
  if (!c) c = find(std::string(qualifier) + "." + path);
  if (c) return c->type();
  if (path.starts_with("__torch__.torch.classes."))
    fail_at(
        source, e.at,
        fmt::format("{} is a class that an extension of PyTorch defines in C++; Tern cannot load it", path));
  fail_at(source, e.at,
          unit.known_operators_only ? fmt::format("name '{}' is not defined", path)
                                    : fmt::format("Unknown type name '{}'", path));
}

void Compiler::declare(Unit& unit, Function& f) {
  if (f.has_signature_ || !f.def_) return;
  const Source& source = *f.file_->source;
  std::string qualifier(before_last_dot(f.owner() ? f.owner()->name.view() : f.qualified().view()));
  const Def& d = f.signature_ ? *f.signature_ : *f.def_;
  read_def(f.file_->source, d);
  std::vector<Argument> args;
  for (size_t i = 0; i < d.params.size(); ++i) {
    const Param& p = d.params[i];
    Argument a;
    a.name = p.name;
    a.keyword_only = p.keyword_only;
    if (i == 0 && f.owner() && !f.is_static) {
      a.type = f.owner()->type();
    } else {
      a.type = p.annotation ? resolve_type(unit, source, qualifier, *p.annotation) : Type::tensor();
      a.inferred = !p.annotation;
      if (p.annotation && p.annotation->kind == ExprKind::subscript) {
        std::string head = dotted(*p.annotation->items[0]);
        if (head == "Optional" && p.annotation->items[1]->kind == ExprKind::subscript)
          head = dotted(*p.annotation->items[1]->items[0]);
        if (head.starts_with("BroadcastingList") && head.size() == 17) a.fixed_size = head[16] - '0';
      }
      if (p.default_value && unit.known_operators_only && !is_functional(f.file_->source) &&
          (p.default_value->kind == ExprKind::list || p.default_value->kind == ExprKind::dict))
        fail_at(
            source, d.at,
            "Mutable default parameters are not supported because Python binds them to the function and they "
            "persist across function calls.\nAs a workaround, make the default None and instantiate the "
            "mutable "
            "parameter within the body of the function.");
      if (p.default_value) {
        std::optional<tern::Value> v = literal(unit, *p.default_value);
        if (!v) fail_at(source, p.default_value->at, "the default of an argument must be a constant");
        a.default_value = fit_literal(*v, a.type);
      }
    }
    for (const Argument& other : args)
      if (other.name == a.name)
        fail_at(source, p.at, fmt::format("the argument '{}' is there twice", p.name));
    args.push_back(std::move(a));
  }
  if (f.owner() && !f.is_static && args.empty()) fail_at(source, d.at, "methods must have a self argument");
  f.args_ = std::move(args);
  if (d.returns)
    f.returns_ = resolve_type(unit, source, qualifier, *d.returns);
  else if (d.name == "__init__")
    f.returns_ = Type::none();
  else if (f.ignored)
    f.returns_ = Type::tensor();
  f.has_signature_ = true;
}

void Compiler::compile(Unit& unit, Function& f) {
  if (f.state_ == Function::State::done) return;
  if (f.state_ == Function::State::compiling) {
    if (f.returns_) return;
    fail_at(*f.file_->source, f.def_->at,
            fmt::format("function '{}' is called recursively. Recursive calls are not supported", f.name()));
  }
  declare(unit, f);
  f.state_ = Function::State::compiling;
  try {
    read_def(f.file_->source, *f.def_);
    Compiler c(unit, f);
    c.run(f.returns_);
    const Type* returns = f.returns_ ? f.returns_ : c.found_returns_ ? c.found_returns_ : Type::none();
    Owned<ir::Graph> graph = std::move(c.graph_);
    if (c.leaves_) lower_exits(*graph, c.exits_);
    if (c.strict_)
      tidy(*graph);
    else
      prune(graph->top());
    if (unit.after_compile) unit.after_compile(*graph);
    ir::verify(*graph);
    f.returns_ = returns;
    f.graph_ = std::move(graph);
    f.state_ = Function::State::done;
  } catch (...) {
    f.state_ = Function::State::declared;
    throw;
  }
}

void Compiler::run(const Type* returns) {
  returns_ = returns;
  graph_ = new_owned<ir::Graph>();
  graph_->name = def_.name;
  Frame top;
  top.block = &graph_->top();
  frame_ = &top;
  for (const Argument& a : function_.args()) {
    ir::Value& v = graph_->add_input(a.type, a.name.view());
    top.values[a.name.str()] = typed(v, a.type);
    top.declared[a.name.str()] = a.type;
  }
  for (size_t i = 0; i < function_.args().size(); ++i)
    if (function_.args()[i].inferred) exits_.inferred.insert(graph_->inputs()[i]);
  list(pointers(def_.body));
  if (!top.diverged) {
    bool none_is_fine = !returns || returns->is(TypeKind::none) ||
                        (!strict_ && (returns->is(TypeKind::optional) || returns->is(TypeKind::any)));
    if (!none_is_fine)
      error(def_.at, "Function was not annotated as having type None, but does not return along all paths");
    Stmt last;
    last.kind = StmtKind::return_;
    last.at = def_.at;
    return_statement(last);
  }
  // A function that only raises gives what it said, or nothing.
  if (graph_->outputs().empty()) {
    const Type* type = returns ? returns : found_returns_ ? found_returns_ : Type::none();
    graph_->add_output(strict_ || !type->is(TypeKind::none) ? uninitialized(type).in : In());
  }
  frame_ = nullptr;
}

namespace {

// Whether each class in the type stands in the text with its whole name: then it means the same anywhere.
bool names_whole(const Type& t, std::string_view text) {
  // Not text.find, which stops at every underscore.
  std::string_view name = t.name().view();
  if (!name.empty() && !memmem(text.data(), text.size(), name.data(), name.size())) return false;
  return std::all_of(t.elements().begin(), t.elements().end(),
                     [&](const Type* e) { return names_whole(*e, text); });
}

}  // namespace

// What a class says of itself before its methods.
void Compiler::declare_attributes(Unit& unit, ClassType& type, const Body& statements) {
  const Source& source = *type.file_->source;
  std::string_view qualifier = before_last_dot(type.name.view());
  if (type.kind == ClassKind::enumeration) {
    for (const StmtPtr& s : statements) {
      if (s->kind != StmtKind::assign || s->targets[0]->kind != ExprKind::name) continue;
      std::optional<tern::Value> v = literal(unit, *s->value);
      if (!v || !(v->is_int() || v->is_float() || v->is_string()))
        fail_at(source, s->at, "Enum values must be int, float or str literals");
      auto* member = new EnumMember;
      member->type = type.name;
      member->name = s->targets[0]->text;
      member->value = *v;
      type.add({s->targets[0]->text, type.type(), Role::constant, tern::Value::object(member)});
    }
    return;
  }
  std::vector<std::string> parameters, buffers;
  auto names = [&](const Expr& e, std::vector<std::string>& into) {
    if (e.kind == ExprKind::list)
      for (const ExprPtr& i : e.items)
        if (i->kind == ExprKind::constant && i->value.is_string()) into.push_back(i->value.string());
  };
  auto has = [](const std::vector<std::string>& all, std::string_view name) {
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  for (const StmtPtr& s : statements) {
    if (s->kind == StmtKind::assign && s->targets[0]->kind == ExprKind::name && s->targets.size() == 1) {
      if (s->targets[0]->text == "__parameters__") names(*s->value, parameters);
      if (s->targets[0]->text == "__buffers__") names(*s->value, buffers);
      if (s->targets[0]->text == "__forward_pre_hooks__") names(*s->value, type.pre_hooks);
      if (s->targets[0]->text == "__forward_hooks__") names(*s->value, type.hooks);
    }
  }
  for (const StmtPtr& s : statements) {
    Attribute a;
    const Expr* annotation = nullptr;
    // What __init__ assigns gives the attributes of a user's class their types.
    if (s->kind == StmtKind::annotated && !s->value && type.kind == ClassKind::plain &&
        unit.known_operators_only)
      continue;
    if (s->kind == StmtKind::annotated && s->targets[0]->kind == ExprKind::name) {
      a.name = s->targets[0]->text;
      annotation = s->annotation.get();
    } else if (s->kind == StmtKind::assign && s->targets[0]->kind == ExprKind::subscript &&
               s->targets[0]->items[0]->kind == ExprKind::name &&
               s->targets[0]->items[0]->text == "__annotations__" &&
               s->targets[0]->items.at(1)->value.is_string()) {
      a.name = s->targets[0]->items[1]->value.string();
      annotation = s->value.get();
    } else if (s->kind == StmtKind::pass || s->kind == StmtKind::expr) {
      continue;
    } else if (s->kind == StmtKind::assign && s->targets[0]->kind == ExprKind::name &&
               s->targets[0]->text.starts_with("__")) {
      continue;
    } else {
      fail_at(source, s->at, "a class body holds annotations, constants and methods only");
    }
    bool is_final = annotation->kind == ExprKind::subscript && annotation->items[0]->kind == ExprKind::name &&
                    annotation->items[0]->text == "Final";
    a.type = resolve_type(unit, source, qualifier, is_final ? *annotation->items.at(1) : *annotation);
    if (s->kind == StmtKind::annotated && s->value) {
      if (!is_final && type.kind != ClassKind::named_tuple)
        fail_at(source, s->at, "attributes get their values in __init__; a constant is Final[...]");
      std::optional<tern::Value> v = literal(unit, *s->value);
      if (!v) fail_at(source, s->value->at, "the value of a constant must be a literal");
      a.role = Role::constant;
      a.value = fit_literal(*v, a.type);
    } else if (has(parameters, a.name.view())) {
      a.role = Role::parameter;
    } else if (has(buffers, a.name.view())) {
      a.role = Role::buffer;
    }
    type.add(std::move(a));
  }
}

void Compiler::declare_class(Unit& unit, ClassType& type) {
  if (!type.tree_) return;
  const Class& c = *std::exchange(type.tree_, nullptr);
  std::string_view base = c.bases.empty() ? "" : std::string_view(c.bases[0]);
  base = base.substr(base.rfind('.') + 1);
  type.kind = base == "Module" ? ClassKind::module
              : base == "NamedTuple" ? ClassKind::named_tuple
              : base == "Enum" || base == "IntEnum" ? ClassKind::enumeration
              : base == "Interface" || base == "ModuleInterface" ? ClassKind::interface
                                                                 : ClassKind::plain;
  for (const std::string& decorator : c.decorators)
    if (decorator.ends_with("interface")) type.kind = ClassKind::interface;
  type.of_modules = type.kind == ClassKind::interface && (base == "Module" || base == "ModuleInterface");
  const std::string& text = type.file_->source->text;
  std::string_view attributes;
  if (unit.loader && type.kind == ClassKind::module && c.body.empty())
    attributes = std::string_view(text).substr(c.unread_from, c.unread_to - c.unread_from);
  auto alike = attributes.empty() ? unit.by_attributes_.end() : unit.by_attributes_.find(attributes);
  if (alike != unit.by_attributes_.end()) {
    type.attributes = alike->second->attributes;
    type.pre_hooks = alike->second->pre_hooks;
    type.hooks = alike->second->hooks;
  } else {
    read_class(type.file_->source, c);
    const Body statements = std::move(c.body);
    declare_attributes(unit, type, statements);
    auto named_whole = [&](const Attribute& a) { return names_whole(*a.type, attributes); };
    if (!attributes.empty() && std::all_of(type.attributes.begin(), type.attributes.end(), named_whole))
      unit.by_attributes_.emplace(attributes, &type);
  }
  add_methods(type, type.file_, c.methods);
}

void Compiler::add_methods(ClassType& type, const Shared<const File>& file, const std::vector<Def>& all) {
  auto declares = [](const Def& d) {
    return std::any_of(d.decorators.begin(), d.decorators.end(),
                       [](const std::string& decorator) { return decorator.ends_with("_overload_method"); });
  };
  for (const Def& d : all) {
    if (declares(d)) continue;
    std::vector<Function*> overloads;
    for (const Def& o : all) {
      if (o.name != d.name || !declares(o)) continue;
      auto f = new_owned<Function>(
          Symbol(fmt::format("{}.{}__{}", type.name.view(), d.name, overloads.size())), &type);
      f->file_ = file;
      f->def_ = &d;
      f->signature_ = &o;
      f->state_ = Function::State::declared;
      overloads.push_back(&type.add_method(std::move(f)));
    }
    add_method(type, file, d).overloads = std::move(overloads);
  }
}

Function& Compiler::add_method(ClassType& type, Shared<const File> file, const Def& d) {
  auto f = new_owned<Function>(Symbol(fmt::format("{}.{}", type.name.view(), d.name)), &type);
  f->file_ = std::move(file);
  f->def_ = &d;
  f->state_ = Function::State::declared;
  for (const std::string& decorator : d.decorators) {
    std::string_view last = std::string_view(decorator).substr(decorator.rfind('.') + 1);
    if (last == "staticmethod") f->is_static = true;
    if (last == "ignore" || last == "unused") f->ignored = true;
    if (last == "property") type.properties.emplace_back(Symbol(d.name), f.get(), nullptr);
    if (decorator == d.name + ".setter") {
      for (auto& [name, getter, setter] : type.properties)
        if (name == Symbol(d.name)) setter = f.get();
      f->name_ = Symbol(type.name.str() + "." + d.name + "_setter");
    }
  }
  return type.add_method(std::move(f));
}

}  // namespace tern::script
