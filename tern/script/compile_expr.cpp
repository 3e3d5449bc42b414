// Expressions: names, attributes, operators, displays, subscripts, conditions with what they tell about
// types.
#include <algorithm>
#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/compiler.h"

namespace tern::script {
namespace {

std::string say(const ir::Type* t) { return t->str(ir::TypeStyle::annotation); }

// Names of the language that are called like functions.
constexpr std::string_view specials[] = {"len",
                                         "range",
                                         "print",
                                         "int",
                                         "float",
                                         "bool",
                                         "str",
                                         "complex",
                                         "list",
                                         "dict",
                                         "tuple",
                                         "isinstance",
                                         "hasattr",
                                         "getattr",
                                         "annotate",
                                         "uninitialized",
                                         "unchecked_cast",
                                         "enumerate",
                                         "zip",
                                         "reversed",
                                         "min",
                                         "max",
                                         "abs",
                                         "sum",
                                         "sorted",
                                         "round",
                                         "ord",
                                         "chr",
                                         "any",
                                         "all",
                                         "divmod",
                                         "pow",
                                         "super",
                                         "type",
                                         "cast",
                                         "rangelist",
                                         "device",
                                         "slice",
                                         "id",
                                         "hash"};

}  // namespace

// ---- nodes ----

ir::Node& Compiler::make(Symbol kind, std::vector<In> inputs, std::vector<const Type*> types,
                         std::string_view name) {
  ir::Node& n = graph_->make(kind, inputs, types, name);
  mark(n);
  return n;
}
ir::Node& Compiler::call_op(const Op& op, const std::vector<In>& inputs, std::string_view name) {
  ir::Node& n = graph_->call(op, inputs, nullptr, name);
  mark(n);
  return n;
}
void Compiler::mark(ir::Node& node) {
  auto line = std::upper_bound(line_starts_.begin(), line_starts_.end(), at_) - line_starts_.begin();
  ir::Origin o;
  o.file = source_.name;
  o.function = def_.name;
  o.line = static_cast<uint32_t>(line) + source_.first_line - 1;
  o.column = at_ - line_starts_[static_cast<size_t>(line) - 1] + 1;
  node.set_origin(ir::Origin::make(o));
}
Val Compiler::result(ir::Node& node) {
  if (node.num_outputs() == 0) return constant(tern::Value());
  if (node.num_outputs() == 1) return typed(node.output(), node.output().type());
  Val v;
  v.kind = Val::tuple;
  std::vector<const Type*> types;
  for (ir::Value* o : node.outputs()) {
    v.items.push_back(typed(*o, o->type()));
    types.push_back(o->type());
  }
  v.type = Type::tuple(types);
  return v;
}
Val Compiler::simple(Symbol kind, std::vector<In> inputs, const Type* type, std::string_view name) {
  return typed(make(kind, std::move(inputs), {type}, name).output(), type);
}
Val Compiler::constant(tern::Value v) {
  Val c;
  c.type = plain(Type::of(v));
  c.in = In(std::move(v));
  return c;
}
Val Compiler::typed(In in, const Type* type) {
  Val v;
  v.in = std::move(in);
  v.type = type;
  return v;
}

Val Compiler::materialise(Val v, const Type* hint) {
  if (v.kind == Val::plain) return v;
  if (v.kind == Val::tuple) {
    std::vector<In> inputs;
    std::vector<const Type*> types;
    bool constants = true;
    const Type* wanted = hint && hint->is(TypeKind::optional) ? hint->element() : hint;
    if (wanted && (!wanted->is(TypeKind::tuple) || wanted->elements().size() != v.items.size()))
      wanted = nullptr;
    for (size_t i = 0; i < v.items.size(); ++i) {
      Val item = materialise(v.items[i], wanted ? wanted->element(i) : nullptr);
      constants = constants && item.is_constant() && !item.in.constant().is_list() &&
                  !item.in.constant().is_dict() && !item.in.constant().is_tensor() &&
                  !item.type->is(TypeKind::function);
      inputs.push_back(item.in);
      types.push_back(wanted && item.type->is(TypeKind::none) ? wanted->element(i) : item.type);
    }
    const Type* type = Type::tuple(types);
    if (v.type && v.type->is(TypeKind::tuple) && !v.type->name().empty()) type = v.type;
    if (constants && type->name().empty()) {
      std::vector<tern::Value> items;
      for (const In& in : inputs) items.push_back(in.constant());
      return typed(In(tern::Value::tuple(std::move(items))), type);
    }
    return simple("prim::TupleConstruct", std::move(inputs), type);
  }
  const Type* wanted = hint && hint->is(TypeKind::optional) ? hint->element() : hint;
  const Type* element = wanted && wanted->is(TypeKind::list) ? wanted->element() : nullptr;
  std::vector<In> inputs;
  for (const Val& item : v.items) {
    Val made = materialise(item, element);
    if (!element && v.type && v.type->is(TypeKind::list)) element = v.type->element();
    inputs.push_back(made.in);
  }
  if (!element) element = v.type && v.type->is(TypeKind::list) ? v.type->element() : Type::tensor();
  return simple("prim::ListConstruct", std::move(inputs), Type::list(element));
}

// ---- names ----

Val* Compiler::find(const std::string& name, Frame** where) {
  for (Frame* f = frame_; f; f = f->parent) {
    auto it = f->values.find(name);
    if (it != f->values.end()) {
      if (where) *where = f;
      return &it->second;
    }
    if (f->undefined.count(name)) return nullptr;
  }
  return nullptr;
}
void Compiler::set(const std::string& name, Val v) {
  name_value(name, v);
  frame_->undefined.erase(name);
  frame_->values[name] = std::move(v);
  if (frame_->assigned_set.insert(name).second) frame_->assigned.push_back(name);
}
// The graph's value takes the name of the first variable that holds it.
void Compiler::name_value(const std::string& name, Val& v) {
  if (name[0] == '$' || !v.in.is_value() || v.kind != Val::plain) return;
  ir::Value& value = *v.in.value();
  if (!value.node() || value.num_uses()) return;
  std::string now = value.name();
  if (now == name) return;
  if (value.node()->num_outputs() == 1) graph_->rename(value, name);
}
void Compiler::refine(const Refinement& r) {
  Val* v = find(r.name);
  if (!v || v->type == r.type) return;
  Val refined = *v;
  if (v->in.is_value()) {
    ir::Node& cast = make("prim::unchecked_cast", {v->in}, {r.type}, r.name);
    refined = typed(cast.output(), r.type);
  }
  refined.type = r.type;
  frame_->values[r.name] = std::move(refined);
}
const ir::Type* Compiler::declared_type(const std::string& name) {
  for (Frame* f = frame_; f; f = f->parent)
    if (auto it = f->declared.find(name); it != f->declared.end()) return it->second;
  return nullptr;
}

// ---- values ----

Val Compiler::value(const Expr& e, const Type* hint) { return as_value(sugar(e, hint), e.at); }

Val Compiler::as_value(Sugar s, uint32_t at) {
  switch (s.kind) {
    case Sugar::value:
      return std::move(s.self);
    case Sugar::iterable: {
      if (s.text == "range") {
        std::vector<In> in;
        for (const Sugar& i : s.items) in.push_back(operand(i.self));
        if (in.size() == 1) return simple("prim::rangelist", std::move(in), Type::list(Type::integer()));
      }
      error(at, fmt::format("{} can be iterated over but is not a value", s.text));
    }
    case Sugar::space:
      error(at, fmt::format("'{}' is a namespace, not a value", s.text));
    case Sugar::type:
      error(at, fmt::format("{} is a type, not a value", say(s.type_value)));
    case Sugar::function:
      error(at,
            fmt::format("the function {} can be called but is not a value", s.callee->qualified().view()));
    case Sugar::class_:
      error(at, fmt::format("the class {} can be called but is not a value", s.owner->name.view()));
    case Sugar::builtin:
      error(at, fmt::format("the builtin {} can be called but is not a value", s.text));
    case Sugar::method:
      error(at, fmt::format("the method {} can be called but is not a value: add ()",
                            s.callee->qualified().view()));
    case Sugar::special:
      error(at, fmt::format("'{}' can be called but is not a value", s.text));
  }
  error(at, "not a value");
}

Sugar Compiler::sugar(const Expr& e, const Type* hint) {
  struct Depth {
    explicit Depth(int& d) : depth(d) { ++depth; }
    ~Depth() { --depth; }
    int& depth;
  } deeper(depth_);
  if (depth_ > 400) error(e.at, "nested too deeply");
  at_ = e.at;
  auto plain_value = [](Val v) {
    Sugar s;
    s.self = std::move(v);
    return s;
  };
  switch (e.kind) {
    case ExprKind::constant:
      return plain_value(constant(e.value));
    case ExprKind::name:
      return name(e);
    case ExprKind::attribute: {
      Sugar base = sugar(*e.items[0]);
      return attribute(base, e.text, e.at);
    }
    case ExprKind::call:
      return call(e, hint);
    case ExprKind::subscript: {
      Sugar base = sugar(*e.items[0]);
      if (base.kind == Sugar::type || base.kind == Sugar::special) {
        Sugar s;
        s.kind = Sugar::type;
        s.type_value = type_expr(e);
        return s;
      }
      if (base.kind == Sugar::value) return plain_value(subscript_value(std::move(base.self), e));
      return plain_value(subscript(e));
    }
    case ExprKind::unary:
      return plain_value(unary(e));
    case ExprKind::binary: {
      if (e.text == "and" || e.text == "or" || e.text == "is" || e.text == "is not")
        return plain_value(condition(e).value);
      Val a = value(*e.items[0]), b = value(*e.items[1]);
      return plain_value(binary(e.text, std::move(a), std::move(b), e.at));
    }
    case ExprKind::ternary:
      return plain_value(ternary(e, hint));
    case ExprKind::list:
      return plain_value(list_display(e, hint));
    case ExprKind::tuple: {
      Val v;
      v.kind = Val::tuple;
      std::vector<const Type*> types;
      const Type* wanted = hint && hint->is(TypeKind::optional) ? hint->element() : hint;
      for (size_t i = 0; i < e.items.size(); ++i) {
        const Expr& item = *e.items[i];
        if (item.kind == ExprKind::starred) {
          Val t = value(*item.items[0]);
          Sugar over = plain_value(t);
          auto items = static_items(iterable(std::move(over), item.at), item.at);
          if (!items) error(item.at, "only a tuple can be unpacked here: the length of a list is not known");
          for (Sugar& s : *items) {
            v.items.push_back(as_value(std::move(s), item.at));
            types.push_back(v.items.back().type);
          }
          continue;
        }
        const Type* h = wanted && wanted->is(TypeKind::tuple) && wanted->elements().size() == e.items.size()
                            ? wanted->element(i)
                            : nullptr;
        v.items.push_back(value(item, h));
        types.push_back(v.items.back().type);
      }
      v.type = Type::tuple(types);
      return plain_value(std::move(v));
    }
    case ExprKind::dict:
      return plain_value(dict_display(e, hint));
    case ExprKind::list_comp:
    case ExprKind::dict_comp:
      return plain_value(comprehension(e, hint));
    case ExprKind::fstring:
      return plain_value(fstring(e));
    case ExprKind::dots:
      error(e.at, "'...' stands in a subscript only");
    default:
      error(e.at, "an expression that cannot stand here");
  }
}

Sugar Compiler::name(const Expr& e) {
  const std::string& n = e.text;
  Sugar s;
  if (Val* v = find(n)) {
    if (v->type->is(TypeKind::function) && v->is_constant()) {
      Symbol qualified(v->in.constant().string());
      if (Function* f = unit_.find_function(qualified)) {
        s.kind = Sugar::function;
        s.callee = f;
        return s;
      }
      s.kind = Sugar::class_;
      s.owner = unit_.find_class(qualified);
      return s;
    }
    s.self = *v;
    return s;
  }
  for (Frame* f = frame_; f; f = f->parent)
    if (auto it = f->undefined.find(n); it != f->undefined.end())
      error(e.at, fmt::format("{} is not defined here: {}", n, it->second));
  Symbol qualified(qualifier_.empty() ? n : qualifier_ + "." + n);
  if (Function* f = unit_.find_function(qualified)) {
    s.kind = Sugar::function;
    s.callee = f;
    return s;
  }
  if (ClassType* c = unit_.find_class(qualified)) {
    s.kind = Sugar::class_;
    s.owner = c;
    return s;
  }
  if (Function* f = qualifier_ == "__torch__" ? nullptr : unit_.find_function("__torch__." + n)) {
    s.kind = Sugar::function;
    s.callee = f;
    return s;
  }
  if (auto it = unit_.globals.find(n); it != unit_.globals.end()) {
    Object* o = Object::of(it->second);
    if (o && o->type->is_module())
      error(e.at, fmt::format("Cannot call a ScriptModule that is not a submodule of the caller: '{}'", n));
    if (o) error(e.at, fmt::format("'{}' is an object: pass it as an argument", n));
    s.self = constant(it->second);
    return s;
  }
  if (n == "torch" || n == "ops" || n == "math" || n == "nn" || n == "F" || n == "typing" ||
      n == "__torch__" || n == "CONSTANTS" || n == "jit") {
    s.kind = Sugar::space;
    s.text = n == "nn" ? "torch.nn" : n == "F" ? "torch.nn.functional" : n == "jit" ? "torch.jit" : n;
    return s;
  }
  if (n == "inf" || n == "nan") {
    s.self = constant(n == "inf" ? double(INFINITY) : double(NAN));
    return s;
  }
  if (n == "infj" || n == "nanj") {
    s.self = constant(std::complex<double>(0, n == "infj" ? double(INFINITY) : double(NAN)));
    return s;
  }
  for (std::string_view special : specials)
    if (special == n) {
      s.kind = Sugar::special;
      s.text = n;
      return s;
    }
  static constexpr std::string_view types[] = {"Tensor", "List",   "Dict",    "Tuple",  "Optional",
                                               "Union",  "Final",  "Any",     "Future", "NoneType",
                                               "Device", "number", "Callable"};
  for (std::string_view t : types)
    if (t == n) {
      s.kind = Sugar::type;
      s.text = n;
      s.type_value = n == "Tensor"     ? Type::tensor()
                     : n == "NoneType" ? Type::none()
                     : n == "Device"   ? Type::device_type()
                     : n == "number"   ? Type::number()
                                       : Type::any();
      return s;
    }
  error(e.at, fmt::format("undefined value {}", n));
}

Sugar Compiler::attribute(const Sugar& s, const std::string& n, uint32_t at) {
  switch (s.kind) {
    case Sugar::value:
      return value_attribute(s.self, n, at);
    case Sugar::space:
      return space_attribute(s.text, n, at);
    case Sugar::class_: {
      if (n == "__new__") {
        Sugar m;
        m.kind = Sugar::special;
        m.text = n;
        m.owner = s.owner;
        return m;
      }
      if (Function* f = s.owner->method(n)) {
        Sugar m;
        m.kind = Sugar::function;
        m.callee = f;
        return m;
      }
      if (const Attribute* a = s.owner->find(n); a && a->role == Role::constant) {
        Sugar c;
        c.self = constant(a->value);
        return c;
      }
      error(at, fmt::format("the class {} has no '{}'", s.owner->name.view(), n));
    }
    case Sugar::special:
      if (s.text == "device") break;
      [[fallthrough]];
    default:
      break;
  }
  error(at, fmt::format("this has no attribute '{}'", n));
}

Sugar Compiler::space_attribute(const std::string& space, const std::string& n, uint32_t at) {
  Sugar s;
  auto number = [&](tern::Value v) {
    s.self = constant(std::move(v));
    return s;
  };
  if (space == "CONSTANTS") {
    size_t index = unit_.constants.size();
    if (n.size() > 1 && n[0] == 'c' && n.size() < 10 &&
        std::all_of(n.begin() + 1, n.end(), [](char c) { return c >= '0' && c <= '9'; }))
      index = static_cast<size_t>(std::stoul(n.substr(1)));
    if (index >= unit_.constants.size())
      error(at, fmt::format("CONSTANTS has no '{}': the archive holds {}", n, unit_.constants.size()));
    return number(unit_.constants[index]);
  }
  std::string path = space + "." + n;
  if (space == "__torch__" || space.starts_with("__torch__.")) {
    if (Function* f = unit_.find_function(Symbol(path))) {
      s.kind = Sugar::function;
      s.callee = f;
      return s;
    }
    if (ClassType* c = unit_.find_class(Symbol(path))) {
      s.kind = Sugar::class_;
      s.owner = c;
      return s;
    }
    s.kind = Sugar::space;
    s.text = path;
    return s;
  }
  if (space == "ops" || space == "torch.ops") {
    s.kind = Sugar::space;
    s.text = "ops." + n;
    return s;
  }
  if (space.starts_with("ops.")) {
    std::string ns = space.substr(4);
    if (ns.find('.') != std::string::npos) ns = ns.substr(0, ns.find('.'));
    s.kind = Sugar::builtin;
    s.text = ns + "::" + n;
    return s;
  }
  if (space == "typing") {
    Expr e{ExprKind::name, at, at, n, {}, {}};
    return name(e);
  }
  if (space == "math") {
    if (n == "pi") return number(3.14159265358979323846);
    if (n == "e") return number(2.71828182845904523536);
    if (n == "tau") return number(6.28318530717958647692);
    if (n == "inf") return number(double(INFINITY));
    if (n == "nan") return number(double(NAN));
    s.kind = Sugar::builtin;
    s.text = "aten::" + n;
    return s;
  }
  if (space == "torch") {
    if (n == "nn" || n == "jit" || n == "linalg" || n == "special" || n == "fft" || n == "functional" ||
        n == "autograd" || n == "_C" || n == "ops") {
      s.kind = Sugar::space;
      s.text = n == "ops" ? "ops" : path;
      return s;
    }
    if (n == "Tensor") {
      s.kind = Sugar::type;
      s.type_value = Type::tensor();
      return s;
    }
    if (n == "device") {
      s.kind = Sugar::special;
      s.text = "device";
      return s;
    }
    if (n == "inf") return number(double(INFINITY));
    if (n == "nan") return number(double(NAN));
    if (n == "pi") return number(3.14159265358979323846);
    if (n == "strided") return number(0);
    if (n == "contiguous_format") return number(MemoryFormat::contiguous);
    if (n == "preserve_format") return number(MemoryFormat::preserve);
    if (n == "channels_last") return number(2);
    if (n == "channels_last_3d") return number(3);
    static constexpr std::string_view callable_too[] = {"float",  "int",  "bool", "half",
                                                        "double", "long", "short"};
    if (std::optional<DType> d = parse_dtype(n)) {
      bool lower = n[0] >= 'a' && n[0] <= 'z';
      (void)callable_too;
      if (lower) return number(*d);
    }
    if (n == "half") return number(DType::float16);
    if (n == "float") return number(DType::float32);
    if (n == "double") return number(DType::float64);
    if (n == "long") return number(DType::int64);
    if (n == "int") return number(DType::int32);
    if (n == "short") return number(DType::int16);
    if (n == "bool") return number(DType::bool_);
    if (n == "cfloat") return number(DType::complex64);
    if (n == "cdouble") return number(DType::complex128);
    s.kind = Sugar::builtin;
    s.text = "aten::" + n;
    return s;
  }
  if (space == "torch.nn" && n == "functional") {
    s.kind = Sugar::space;
    s.text = path;
    return s;
  }
  if (space == "torch.jit") {
    if (n == "annotate" || n == "isinstance") {
      s.kind = Sugar::special;
      s.text = n;
      return s;
    }
    s.kind = Sugar::builtin;
    s.text = n == "is_scripting" ? "jit::is_scripting"
             : n == "is_tracing" ? "prim::is_tracing"
                                 : "aten::" + n;
    return s;
  }
  s.kind = Sugar::builtin;
  if (space == "torch.linalg")
    s.text = "aten::linalg_" + n;
  else if (space == "torch.special")
    s.text = "aten::special_" + n;
  else if (space == "torch.fft")
    s.text = "aten::fft_" + n;
  else
    s.text = "aten::" + n;
  return s;
}

Sugar Compiler::value_attribute(const Val& v, const std::string& n, uint32_t at) {
  Sugar s;
  const Type* t = v.type;
  auto bound = [&](std::string builtin) {
    s.kind = Sugar::builtin;
    s.text = std::move(builtin);
    s.self = v;
    s.has_self = true;
    return s;
  };
  switch (t->kind()) {
    case TypeKind::class_:
    case TypeKind::interface: {
      ClassType* c = unit_.find_class(t->name());
      if (!c) error(at, fmt::format("the class {} is not known", t->name().view()));
      // Attributes of a user's class come from its __init__.
      if (c->kind == ClassKind::plain && !c->find(n) && !c->method(n))
        if (Function* init = c->method("__init__")) unit_.compile(*init);
      if (const Attribute* a = c->find(n)) {
        if (a->role == Role::constant) {
          s.self = constant(a->value);
          s.self.type = plain(a->type);
          return s;
        }
        at_ = at;
        ir::Node& node = make("prim::GetAttr", {v.in}, {a->type}, n);
        node.set_attribute("name", tern::Value(n));
        s.self = typed(node.output(), a->type);
        return s;
      }
      if (Function* f = c->method(n)) {
        s.kind = Sugar::method;
        s.callee = f;
        s.self = v;
        s.has_self = true;
        return s;
      }
      std::string all;
      for (const Attribute& a : c->attributes) all += (all.empty() ? "" : ", ") + a.name.str();
      error(at, fmt::format("{} has no attribute or method '{}'; it has {}", c->name.view(), n,
                            all.empty() ? "none" : all));
    }
    case TypeKind::tuple:
      for (size_t i = 0; i < t->fields().size(); ++i)
        if (t->fields()[i].view() == n) {
          Val tuple = materialise(v);
          s.self = simple("prim::TupleIndex", {tuple.in, In(static_cast<int64_t>(i))}, t->element(i), n);
          return s;
        }
      error(at, fmt::format("{} has no attribute '{}'", say(t), n));
    case TypeKind::optional:
      error(at, fmt::format("'{}' of a value of type {}: it may be None; test it with 'is not None' first", n,
                            say(t)));
    case TypeKind::device:
      if (n == "type")
        s.self = simple("prim::type", {operand(v)}, Type::string());
      else if (n == "index")
        s.self = simple("prim::index", {operand(v)}, Type::optional(Type::integer()));
      else
        error(at, fmt::format("a device has no '{}'", n));
      return s;
    case TypeKind::tensor:
    case TypeKind::any: {
      static const std::unordered_map<std::string, std::pair<std::string, const Type*>> properties = {
          {"dtype", {"prim::dtype", Type::integer()}},
          {"device", {"prim::device", Type::device_type()}},
          {"layout", {"prim::layout", Type::integer()}},
          {"shape", {"aten::size", Type::list(Type::integer())}},
          {"ndim", {"aten::dim", Type::integer()}},
          {"requires_grad", {"prim::requires_grad", Type::boolean()}},
          {"is_cuda", {"prim::is_cuda", Type::boolean()}},
          {"is_cpu", {"prim::is_cpu", Type::boolean()}},
          {"is_meta", {"prim::is_meta", Type::boolean()}},
          {"is_sparse", {"prim::is_sparse", Type::boolean()}},
          {"is_quantized", {"prim::is_quantized", Type::boolean()}},
          {"is_mkldnn", {"prim::is_mkldnn", Type::boolean()}},
          {"is_nested", {"prim::is_nested", Type::boolean()}},
          {"itemsize", {"prim::itemsize", Type::integer()}},
          {"data", {"prim::data", Type::tensor()}},
      };
      if (auto it = properties.find(n); it != properties.end()) {
        at_ = at;
        s.self = simple(it->second.first, {operand(v)}, it->second.second);
        return s;
      }
      static const std::unordered_map<std::string, std::string> operators = {
          {"T", "aten::numpy_T"}, {"mT", "aten::mT"},     {"H", "aten::matrix_H"},
          {"mH", "aten::mH"},     {"real", "aten::real"}, {"imag", "aten::imag"}};
      if (auto it = operators.find(n); it != operators.end()) {
        Args args;
        args.positional.push_back(v);
        s.self = call_builtin(it->second, std::move(args), at);
        return s;
      }
      if (n == "tolist") {
        s.kind = Sugar::special;
        s.text = "tolist";
        s.self = v;
        s.has_self = true;
        return s;
      }
      return bound("aten::" + n);
    }
    default:
      return bound("aten::" + n);
  }
}

// ---- operators ----

Val Compiler::unary(const Expr& e) {
  if (e.text == "not") return condition(e).value;
  Val v = value(*e.items[0]);
  if (v.is_constant() && !v.type->is_tensor()) {
    const tern::Value& c = v.in.constant();
    if (e.text == "-") {
      if (c.is_int() && !c.sym().is_symbolic() && c.to_int() != INT64_MIN) return constant(-c.to_int());
      if (c.is_int()) return v;
      if (c.is_float()) return constant(-c.to_double());
      if (c.is_complex()) return constant(-c.scalar().to_complex());
    }
    if (e.text == "+" && c.is_number()) return v;
  }
  Args args;
  args.positional.push_back(std::move(v));
  if (e.text == "+") return args.positional[0];
  return call_builtin(e.text == "-" ? "aten::neg" : "aten::bitwise_not", std::move(args), e.at);
}

Val Compiler::binary(const std::string& op, Val a, Val b, uint32_t at) {
  at_ = at;
  static const std::unordered_map<std::string, std::string> names = {
      {"+", "aten::add"},         {"-", "aten::sub"},       {"*", "aten::mul"},
      {"/", "aten::div"},         {"//", "aten::floordiv"}, {"%", "aten::remainder"},
      {"**", "aten::pow"},        {"@", "aten::matmul"},    {"&", "aten::__and__"},
      {"|", "aten::__or__"},      {"^", "aten::__xor__"},   {"<<", "aten::__lshift__"},
      {">>", "aten::__rshift__"}, {"==", "aten::eq"},       {"!=", "aten::ne"},
      {"<", "aten::lt"},          {"<=", "aten::le"},       {">", "aten::gt"},
      {">=", "aten::ge"}};
  auto run = [&](std::string name, Val x, Val y) {
    Args args;
    args.positional = {std::move(x), std::move(y)};
    return call_builtin(name, std::move(args), at);
  };
  if (op == "in" || op == "not in") {
    Val found;
    if (b.type->is(TypeKind::class_)) {
      ClassType* c = unit_.find_class(b.type->name());
      Function* f = c ? c->method("__contains__") : nullptr;
      if (!f) error(at, fmt::format("{} has no __contains__", b.type->name().view()));
      Args args;
      args.positional = {a};
      found = call_function(*f, b, std::move(args), at);
    } else {
      found = run("aten::__contains__", materialise(b), a);
    }
    return op == "in" ? found : simple("aten::__not__", {operand(found)}, Type::boolean());
  }
  if (a.type->is(TypeKind::class_)) {
    static const std::unordered_map<std::string, std::string> methods = {
        {"+", "__add__"},       {"-", "__sub__"}, {"*", "__mul__"},  {"/", "__truediv__"},
        {"//", "__floordiv__"}, {"%", "__mod__"}, {"**", "__pow__"}, {"@", "__matmul__"},
        {"&", "__and__"},       {"|", "__or__"},  {"^", "__xor__"},  {"<<", "__lshift__"},
        {">>", "__rshift__"},   {"==", "__eq__"}, {"!=", "__ne__"},  {"<", "__lt__"},
        {"<=", "__le__"},       {">", "__gt__"},  {">=", "__ge__"}};
    ClassType* c = unit_.find_class(a.type->name());
    if (Function* f = c ? c->method(methods.at(op)) : nullptr) {
      Args args;
      args.positional = {b};
      return call_function(*f, a, std::move(args), at);
    }
  }
  std::string name = names.at(op);
  if (op == "//" && (a.type->is_tensor() || b.type->is_tensor())) name = "aten::floor_divide";
  if (op == "%" && a.type->is(TypeKind::string)) {
    Args args;
    args.positional.push_back(a);
    if (b.kind == Val::tuple)
      args.positional.insert(args.positional.end(), b.items.begin(), b.items.end());
    else
      args.positional.push_back(b);
    return call_builtin("aten::percentFormat", std::move(args), at);
  }
  // A number on the left of a tensor.
  bool number_left =
      b.type->is_tensor() && !a.type->is_tensor() &&
      (a.type->is(TypeKind::int_) || a.type->is(TypeKind::float_) || a.type->is(TypeKind::number) ||
       a.type->is(TypeKind::bool_) || a.type->is(TypeKind::complex_));
  if (number_left) {
    static const std::unordered_map<std::string, std::string> swapped = {
        {"+", "+"}, {"*", "*"},   {"==", "=="}, {"!=", "!="}, {"<", ">"}, {"<=", ">="},
        {">", "<"}, {">=", "<="}, {"&", "&"},   {"|", "|"},   {"^", "^"}};
    if (auto it = swapped.find(op); it != swapped.end())
      return run(names.at(it->second), std::move(b), std::move(a));
    if (op == "-") return run("aten::rsub", std::move(b), std::move(a));
    if (op == "/") {
      Args args;
      args.positional = {b};
      return run("aten::mul", call_builtin("aten::reciprocal", std::move(args), at), std::move(a));
    }
  }
  return run(name, std::move(a), std::move(b));
}

// ---- conditions ----

Val Compiler::to_bool(Val v, uint32_t at) {
  if (v.type->is(TypeKind::bool_)) return v;
  if (v.type->is_tensor() || v.type->is(TypeKind::int_) || v.type->is(TypeKind::float_) ||
      v.type->is(TypeKind::number) || v.type->is(TypeKind::any)) {
    at_ = at;
    return simple("aten::Bool", {operand(v)}, Type::boolean());
  }
  if (v.type->is(TypeKind::class_)) {
    ClassType* c = unit_.find_class(v.type->name());
    for (const char* m : {"__bool__", "__len__"})
      if (Function* f = c ? c->method(m) : nullptr) {
        Val r = call_function(*f, v, {}, at);
        return r.type->is(TypeKind::bool_) ? r : simple("aten::Bool", {operand(r)}, Type::boolean());
      }
  }
  error(at,
        fmt::format(
            "a condition must be a bool but this is {}; compare it, or write len(...) > 0 or 'is not None'",
            say(v.type)));
}

Condition Compiler::condition(const Expr& e) {
  Condition c;
  at_ = e.at;
  if (e.kind == ExprKind::unary && e.text == "not") {
    Condition inner = condition(*e.items[0]);
    c.when_true = inner.when_false;
    c.when_false = inner.when_true;
    if (inner.known) {
      c.known = !*inner.known;
      c.value = constant(*c.known);
    } else if (inner.value.is_constant()) {
      c.value = constant(!inner.value.in.constant().to_bool());
    } else {
      at_ = e.at;
      c.value = simple("aten::__not__", {operand(inner.value)}, Type::boolean());
    }
    return c;
  }
  if (e.kind == ExprKind::binary && (e.text == "and" || e.text == "or")) {
    bool is_and = e.text == "and";
    Condition a = condition(*e.items[0]);
    if (a.known) {
      if (*a.known != is_and) return a;
      for (const Refinement& r : is_and ? a.when_true : a.when_false) refine(r);
      Condition b = condition(*e.items[1]);
      auto& into = is_and ? b.when_true : b.when_false;
      auto& from = is_and ? a.when_true : a.when_false;
      into.insert(into.begin(), from.begin(), from.end());
      return b;
    }
    at_ = e.at;
    ir::Node& node = make("prim::If", {operand(a.value)}, {Type::boolean()});
    ir::Block& then = node.add_block();
    ir::Block& otherwise = node.add_block();
    ir::Block& second = is_and ? then : otherwise;
    (is_and ? otherwise : then).add_return(In(!is_and));
    Frame f;
    f.parent = frame_;
    f.block = &second;
    ir::Node& saved = graph_->insert_point();
    graph_->insert_at_end(second);
    frame_ = &f;
    for (const Refinement& r : is_and ? a.when_true : a.when_false) refine(r);
    Condition b = condition(*e.items[1]);
    In last = operand(b.value);
    frame_ = f.parent;
    graph_->insert_at(saved);
    second.add_return(last);
    c.value = typed(node.output(), Type::boolean());
    auto join = [](std::vector<Refinement> x, const std::vector<Refinement>& y) {
      x.insert(x.end(), y.begin(), y.end());
      return x;
    };
    if (is_and)
      c.when_true = join(a.when_true, b.when_true);
    else
      c.when_false = join(a.when_false, b.when_false);
    return c;
  }
  // torch.__is__(x, None) in saved code says the same as `x is None`.
  const Expr *left = nullptr, *right = nullptr;
  bool negated = false;
  if (e.kind == ExprKind::binary && (e.text == "is" || e.text == "is not")) {
    left = e.items[0].get(), right = e.items[1].get();
    negated = e.text == "is not";
  } else if (e.kind == ExprKind::call && e.items.size() == 3 && e.items[0]->kind == ExprKind::attribute &&
             (e.items[0]->text == "__is__" || e.items[0]->text == "__isnot__")) {
    left = e.items[1].get(), right = e.items[2].get();
    negated = e.items[0]->text == "__isnot__";
  }
  if (left) {
    if (left->kind == ExprKind::constant && left->value.is_none()) std::swap(left, right);
    Val a = value(*left), b = value(*right);
    if (b.is_none()) {
      const Type* t = a.type;
      bool maybe = t->is(TypeKind::optional) || t->is(TypeKind::any);
      if (t->is(TypeKind::union_))
        for (const Type* u : t->elements()) maybe = maybe || u->is(TypeKind::none);
      if (!maybe) {
        c.known = t->is(TypeKind::none) != negated;
        c.value = constant(*c.known);
        return c;
      }
      if (left->kind == ExprKind::name && t->is(TypeKind::optional)) {
        (negated ? c.when_true : c.when_false).push_back({left->text, t->element()});
      }
    }
    at_ = e.at;
    c.value = simple(negated ? "aten::__isnot__" : "aten::__is__", {operand(a), operand(b)}, Type::boolean());
    return c;
  }
  if (e.kind == ExprKind::call && e.items[0]->kind == ExprKind::name && e.items[0]->text == "isinstance" &&
      e.items.size() == 3) {
    Val v = materialise(value(*e.items[1]));
    std::vector<const Type*> types;
    std::vector<const Expr*> parts;
    if (e.items[2]->kind == ExprKind::tuple)
      for (const ExprPtr& p : e.items[2]->items) parts.push_back(p.get());
    else
      parts.push_back(e.items[2].get());
    bool any_list = false, any_tuple = false, any_dict = false;
    for (const Expr* p : parts) {
      if (p->kind == ExprKind::name && (p->text == "list" || p->text == "List"))
        any_list = true;
      else if (p->kind == ExprKind::name && (p->text == "tuple" || p->text == "Tuple"))
        any_tuple = true;
      else if (p->kind == ExprKind::name && (p->text == "dict" || p->text == "Dict"))
        any_dict = true;
      else
        types.push_back(type_expr(*p));
    }
    auto is = [&](const Type* t) {
      if (any_list && t->is(TypeKind::list)) return true;
      if (any_tuple && t->is(TypeKind::tuple)) return true;
      if (any_dict && t->is(TypeKind::dict)) return true;
      for (const Type* w : types)
        if (!t->is(TypeKind::any) && (plain(t) == w || (w->is_tensor() && t->is_tensor()))) return true;
      return false;
    };
    const Type* t = v.type;
    std::vector<const Type*> possible;
    if (t->is(TypeKind::optional))
      possible = {t->element(), Type::none()};
    else if (t->is(TypeKind::union_))
      possible = t->elements().vec();
    else
      possible = {t};
    std::vector<const Type*> yes, no;
    for (const Type* p : possible) (is(p) ? yes : no).push_back(p);
    if (!t->is(TypeKind::any) && (yes.empty() || no.empty())) {
      c.known = no.empty();
      c.value = constant(*c.known);
      return c;
    }
    at_ = e.at;
    ir::Node& n = make("prim::isinstance", {v.in}, {Type::boolean()});
    std::vector<tern::Value> names;
    if (t->is(TypeKind::any))
      for (const Type* w : types) names.push_back(tern::Value(w->str()));
    else
      for (const Type* w : yes) names.push_back(tern::Value(w->str()));
    n.set_attribute("types", tern::Value::list(std::move(names)));
    c.value = typed(n.output(), Type::boolean());
    if (e.items[1]->kind == ExprKind::name) {
      auto one = [](const std::vector<const Type*>& all) {
        return all.size() == 1 ? all[0] : Type::union_of(all);
      };
      if (t->is(TypeKind::any)) {
        if (types.size() == 1) c.when_true.push_back({e.items[1]->text, types[0]});
      } else {
        c.when_true.push_back({e.items[1]->text, one(yes)});
        c.when_false.push_back({e.items[1]->text, one(no)});
      }
    }
    return c;
  }
  if (e.kind == ExprKind::call && e.items[0]->kind == ExprKind::name && e.items[0]->text == "hasattr" &&
      e.items.size() == 3) {
    Val v = value(*e.items[1]);
    Val n = value(*e.items[2]);
    if (!n.is_constant() || !n.in.constant().is_string()) error(e.at, "hasattr takes a name in quotes");
    bool has = false;
    if (v.type->is(TypeKind::class_)) {
      ClassType* cls = unit_.find_class(v.type->name());
      Symbol wanted(n.in.constant().string());
      has = cls && (cls->find(wanted) || cls->method(wanted));
    }
    for (Symbol f : v.type->fields()) has = has || f.view() == n.in.constant().string();
    c.known = has;
    c.value = constant(has);
    return c;
  }
  Sugar s = sugar(e);
  if (s.kind == Sugar::value && s.self.is_constant() && s.self.type->is(TypeKind::bool_) &&
      e.kind == ExprKind::call)
    c.known = s.self.in.constant().to_bool();
  c.value = to_bool(as_value(std::move(s), e.at), e.at);
  return c;
}

Val Compiler::ternary(const Expr& e, const Type* hint) {
  Condition c = condition(*e.items[1]);
  if (c.known) {
    Frame f;
    f.parent = frame_;
    f.block = frame_->block;
    frame_ = &f;
    for (const Refinement& r : *c.known ? c.when_true : c.when_false) refine(r);
    Val v = value(*e.items[*c.known ? 0 : 2], hint);
    frame_ = f.parent;
    return v;
  }
  at_ = e.at;
  ir::Node& node = make("prim::If", {operand(c.value)}, {});
  Val sides[2];
  ir::Block* blocks[2] = {&node.add_block(), &node.add_block()};
  for (int k = 0; k < 2; ++k) {
    Frame f;
    f.parent = frame_;
    f.block = blocks[k];
    ir::Node& saved = graph_->insert_point();
    graph_->insert_at_end(*blocks[k]);
    frame_ = &f;
    for (const Refinement& r : k == 0 ? c.when_true : c.when_false) refine(r);
    sides[k] = materialise(value(*e.items[k == 0 ? 0 : 2], hint), hint);
    frame_ = f.parent;
    graph_->insert_at(saved);
  }
  const Type* type = unify(sides[0].type, sides[1].type);
  if (!type)
    error(e.at, fmt::format("the two sides of 'if ... else' have types {} and {}", say(sides[0].type),
                            say(sides[1].type)));
  for (int k = 0; k < 2; ++k) blocks[k]->add_return(sides[k].in);
  return typed(node.add_output(type), type);
}

// ---- displays ----

Val Compiler::list_display(const Expr& e, const Type* hint) {
  Val v;
  v.kind = Val::list;
  const Type* wanted = hint && hint->is(TypeKind::optional) ? hint->element() : hint;
  const Type* element = wanted && wanted->is(TypeKind::list) ? wanted->element() : nullptr;
  const Type* common = nullptr;
  for (const ExprPtr& item : e.items) {
    if (item->kind == ExprKind::starred)
      error(item->at, "starred elements in lists are not part of TorchScript: add the lists");
    Val x = value(*item, element);
    if (element) x = to_type(std::move(x), element, item->at, "the element");
    const Type* t = plain(x.type);
    const Type* both = common ? unify(common, t) : t;
    if (!both)
      error(item->at,
            fmt::format("the elements of a list must have one type: this one is {}, those before are {}",
                        say(t), say(common)));
    common = both;
    v.items.push_back(std::move(x));
  }
  v.type = Type::list(element ? element : common ? common : Type::tensor());
  return v;
}

Val Compiler::dict_display(const Expr& e, const Type* hint) {
  const Type* wanted = hint && hint->is(TypeKind::optional) ? hint->element() : hint;
  const Type *key = nullptr, *item = nullptr;
  bool fixed = wanted && wanted->is(TypeKind::dict);
  if (fixed) key = wanted->element(0), item = wanted->element(1);
  std::vector<In> inputs;
  for (size_t i = 0; i < e.items.size(); i += 2) {
    Val k = materialise(value(*e.items[i])), v = materialise(value(*e.items[i + 1], fixed ? item : nullptr));
    if (fixed) {
      k = materialise(to_type(k, key, e.items[i]->at, "the key"));
      v = materialise(to_type(v, item, e.items[i + 1]->at, "the value"));
    } else {
      const Type* a = key ? unify(key, plain(k.type)) : plain(k.type);
      const Type* b = item ? unify(item, plain(v.type)) : plain(v.type);
      if (!a || !b) error(e.items[i]->at, "the keys and the values of a dict must have one type each");
      key = a, item = b;
    }
    inputs.push_back(k.in);
    inputs.push_back(v.in);
  }
  at_ = e.at;
  return simple("prim::DictConstruct", std::move(inputs),
                Type::dict(key ? key : Type::string(), item ? item : Type::tensor()));
}

Val Compiler::comprehension(const Expr& e, const Type* hint) {
  bool is_dict = e.kind == ExprKind::dict_comp;
  size_t first = is_dict ? 2 : 1;
  const Expr &target = *e.items[first], &over_expr = *e.items[first + 1];
  Sugar over = iterable(sugar(over_expr), over_expr.at);
  const Type* wanted = hint && hint->is(TypeKind::optional) ? hint->element() : hint;
  if (std::optional<std::vector<Sugar>> items = static_items(over, over_expr.at);
      items && !is_dict && e.items.size() == first + 2) {
    Val v;
    v.kind = Val::list;
    const Type* common = nullptr;
    for (Sugar& item : *items) {
      Frame f;
      f.parent = frame_;
      f.block = frame_->block;
      frame_ = &f;
      assign_sugar(target, std::move(item));
      Val x = materialise(value(*e.items[0]));
      frame_ = f.parent;
      const Type* both = common ? unify(common, plain(x.type)) : plain(x.type);
      if (!both) error(e.at, "the elements of a list must have one type");
      common = both;
      v.items.push_back(std::move(x));
    }
    v.type = Type::list(common ? common : Type::tensor());
    return v;
  }
  at_ = e.at;
  ir::Node& made =
      is_dict
          ? make("prim::DictConstruct", {},
                 {wanted && wanted->is(TypeKind::dict) ? wanted : Type::dict(Type::string(), Type::tensor())})
          : make("prim::ListConstruct", {},
                 {wanted && wanted->is(TypeKind::list) ? wanted : Type::list(Type::tensor())});
  Val trip = over.kind == Sugar::iterable && over.text == "range" && over.items.size() == 1
                 ? over.items[0].self
                 : length(over, over_expr.at);
  ir::Node& node = make("prim::Loop", {operand(trip), In(true)}, {});
  ir::Block& block = node.add_block();
  ir::Value& counter = block.add_param(Type::integer(), "i");
  Frame f;
  f.parent = frame_;
  f.block = &block;
  ir::Node& saved = graph_->insert_point();
  graph_->insert_at_end(block);
  frame_ = &f;
  assign_sugar(target, element(over, typed(counter, Type::integer()), over_expr.at));
  // Conditions nest the addition.
  size_t nested = 0;
  std::vector<ir::Node*> points;
  for (size_t i = first + 2; i < e.items.size(); ++i, ++nested) {
    Condition c = condition(*e.items[i]);
    ir::Node& choice = make("prim::If", {operand(c.value)}, {});
    ir::Block& inner = choice.add_block();
    choice.add_block();
    points.push_back(&graph_->insert_point());
    graph_->insert_at_end(inner);
    for (const Refinement& r : c.when_true) refine(r);
  }
  if (is_dict) {
    Val k = materialise(value(*e.items[0])), v = materialise(value(*e.items[1]));
    if (!(wanted && wanted->is(TypeKind::dict)))
      made.output().set_type(Type::dict(plain(k.type), plain(v.type)));
    make("aten::_set_item", {In(made.output()), k.in, v.in}, {});
  } else {
    const Type* element_type = wanted && wanted->is(TypeKind::list) ? wanted->element() : nullptr;
    Val x = materialise(value(*e.items[0], element_type), element_type);
    if (!element_type) made.output().set_type(Type::list(plain(x.type)));
    make("aten::append", {In(made.output()), x.in}, {made.output().type()});
  }
  frame_ = f.parent;
  graph_->insert_at(saved);
  block.add_return(In(true));
  return typed(made.output(), made.output().type());
}

Val Compiler::fstring(const Expr& e) {
  std::string format;
  Args args;
  for (const ExprPtr& item : e.items) {
    if (item->kind == ExprKind::constant && item->value.is_string()) {
      // aten::format knows no escapes: text with braces is an argument itself.
      if (item->value.string().find_first_of("{}") == std::string::npos) {
        format += item->value.string();
        continue;
      }
      format += "{}";
      args.positional.push_back(constant(item->value));
    } else {
      format += "{}";
      args.positional.push_back(value(*item));
    }
  }
  if (args.positional.empty()) return constant(format);
  args.positional.insert(args.positional.begin(), constant(format));
  return call_builtin("aten::format", std::move(args), e.at);
}

// ---- subscripts ----

Val Compiler::subscript(const Expr& e) { return subscript_value(value(*e.items[0]), e); }

Val Compiler::subscript_value(Val base, const Expr& e) {
  const Type* t = base.type;
  uint32_t at = e.at;
  if (t->is_tensor() || t->is(TypeKind::any)) return index_tensor(materialise(std::move(base)), e);
  if (e.items.size() != 2) error(at, fmt::format("a value of type {} takes one index", say(t)));
  const Expr& index = *e.items[1];
  if (t->is(TypeKind::tuple)) {
    auto whole = [&](const Expr* x, int64_t otherwise) -> int64_t {
      if (!x) return otherwise;
      Val v = value(*x);
      if (v.is_none()) return otherwise;
      if (!v.is_constant() || !v.in.constant().is_int())
        error(x->at, "slices of tuples take constant integers");
      return v.in.constant().to_int();
    };
    int64_t n = static_cast<int64_t>(t->elements().size());
    auto get = [&](int64_t i) {
      if (base.kind == Val::tuple) return base.items[static_cast<size_t>(i)];
      if (base.is_constant())
        return typed(In(base.in.constant().items()[static_cast<size_t>(i)]),
                     t->element(static_cast<size_t>(i)));
      return simple("prim::TupleIndex", {base.in, In(i)}, t->element(static_cast<size_t>(i)));
    };
    if (index.kind == ExprKind::slice) {
      int64_t step = whole(index.items[2].get(), 1);
      if (step == 0) error(index.at, "a slice's step cannot be 0");
      int64_t start = whole(index.items[0].get(), step > 0 ? 0 : n - 1),
              stop = whole(index.items[1].get(), step > 0 ? n : -n - 1);
      auto clamp = [&](int64_t i) {
        return std::clamp<int64_t>(i < 0 ? i + n : i, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
      };
      Val v;
      v.kind = Val::tuple;
      std::vector<const Type*> types;
      for (int64_t i = clamp(start), end = clamp(stop); step > 0 ? i < end : i > end; i += step) {
        v.items.push_back(get(i));
        types.push_back(v.items.back().type);
      }
      v.type = Type::tuple(types);
      return v;
    }
    Val i = value(index);
    if (i.is_constant() && i.in.constant().is_int()) {
      int64_t k = i.in.constant().to_int();
      if (k < -n || k >= n)
        error(index.at, fmt::format("tuple index {} out of range: it has {} elements", k, n));
      return get(k < 0 ? k + n : k);
    }
    const Type* common = n ? t->element(0) : nullptr;
    for (const Type* x : t->elements()) common = common ? unify(common, x) : nullptr;
    if (!common) error(index.at, "the index of a tuple of different types must be a constant");
    base = materialise(base);
    return simple("prim::TupleIndex", {base.in, operand(i)}, common);
  }
  base = materialise(std::move(base));
  if (t->is(TypeKind::class_)) {
    ClassType* c = unit_.find_class(t->name());
    Val i = index.kind == ExprKind::slice ? Val() : value(index);
    if (c && index.kind != ExprKind::slice) {
      if (Function* f = c->method("__getitem__")) {
        Args args;
        args.positional = {i};
        return call_function(*f, base, std::move(args), at);
      }
      std::string n;
      if (i.is_constant() && i.in.constant().is_int()) {
        int64_t k = i.in.constant().to_int(), count = 0;
        for (const Attribute& a : c->attributes)
          count += isdigit(static_cast<unsigned char>(a.name.view()[0])) != 0;
        n = std::to_string(k < 0 ? k + count : k);
      } else if (i.is_constant() && i.in.constant().is_string()) {
        n = i.in.constant().string();
      }
      if (!n.empty() && c->find(n)) return as_value(value_attribute(base, n, at), at);
    }
    error(at, fmt::format("{} cannot be indexed with this; an index of a list of modules must be a constant",
                          t->name().view()));
  }
  if (t->is(TypeKind::optional))
    error(at,
          fmt::format("a value of type {} may be None: test it with 'is not None' before indexing", say(t)));
  Args args;
  args.positional.push_back(base);
  if (index.kind == ExprKind::slice) {
    for (const ExprPtr& part : index.items)
      args.positional.push_back(part ? value(*part) : constant(tern::Value()));
    if (!index.items[2]) args.positional.back() = constant(1);
    return call_builtin("aten::slice", std::move(args), at);
  }
  args.positional.push_back(value(index));
  return call_builtin("aten::__getitem__", std::move(args), at);
}

// Each index in turn: ints select, slices slice, None unsqueezes, ... skips; tensors and lists are gathered
// into one aten::index. With `indices` the last step is left to the caller, for assignment.
Val Compiler::index_tensor(Val base, const Expr& e, std::vector<Val>* indices) {
  std::vector<const Expr*> parts;
  for (size_t i = 1; i < e.items.size(); ++i) {
    const Expr* x = e.items[i].get();
    if (e.items.size() == 2 && x->kind == ExprKind::tuple)
      for (const ExprPtr& p : x->items) parts.push_back(p.get());
    else
      parts.push_back(x);
  }
  struct Part {
    const Expr* expr;
    Val value;
    bool tensor = false;
  };
  std::vector<Part> all;
  size_t taken = 0;  // dims of the tensor that are used up
  for (const Expr* x : parts) {
    Part p{x, {}};
    if (x->kind != ExprKind::slice && x->kind != ExprKind::dots) {
      p.value = value(*x);
      if (p.value.type->is(TypeKind::list)) {
        Args args;
        args.positional.push_back(p.value);
        p.value = call_builtin("aten::tensor", std::move(args), x->at);
      }
      if (p.value.type->is(TypeKind::optional)) error(x->at, "an index that may be None: test it first");
      p.tensor = p.value.type->is_tensor();
    }
    if (x->kind == ExprKind::slice ||
        (x->kind != ExprKind::dots && !p.value.is_none() && !p.value.type->is(TypeKind::bool_)))
      ++taken;
    all.push_back(std::move(p));
  }
  Val v = std::move(base);
  int64_t dim = 0;
  bool after_dots = false;
  std::vector<std::pair<int64_t, Val>> tensors;
  auto run = [&](const char* name, std::vector<Val> args, uint32_t at) {
    Args a;
    a.positional = std::move(args);
    return call_builtin(name, std::move(a), at);
  };
  for (size_t i = 0; i < all.size(); ++i) {
    const Part& p = all[i];
    uint32_t at = p.expr->at;
    if (p.expr->kind == ExprKind::dots) {
      if (after_dots) error(at, "an index can have one '...' only");
      after_dots = true;
      // What comes after counts from the end.
      int64_t rest = 0;
      for (size_t k = i + 1; k < all.size(); ++k)
        if (all[k].expr->kind == ExprKind::slice || all[k].tensor || all[k].value.is_none() ||
            all[k].value.type->is(TypeKind::int_))
          ++rest;
      dim = -rest;
      continue;
    }
    if (p.expr->kind == ExprKind::slice) {
      auto bound = [&](size_t k) {
        return p.expr->items[k] ? value(*p.expr->items[k]) : constant(tern::Value());
      };
      Val start = bound(0), stop = bound(1), step = p.expr->items[2] ? value(*p.expr->items[2]) : constant(1);
      if (!(start.is_none() && stop.is_none() && !p.expr->items[2]))
        v = run("aten::slice", {v, constant(dim), start, stop, step}, at);
      else if (all.size() == 1)
        v = run("aten::slice", {v, constant(dim), start, stop, step}, at);
      ++dim;
    } else if (p.tensor) {
      tensors.emplace_back(dim, p.value);
      ++dim;
    } else if (p.value.is_none()) {
      v = run("aten::unsqueeze", {v, constant(dim)}, at);
      ++dim;
    } else if (p.value.type->is(TypeKind::int_) || p.value.type->is(TypeKind::number) ||
               p.value.type->is(TypeKind::any)) {
      v = run("aten::select", {v, constant(dim), p.value}, at);
      if (dim < 0) ++dim;
    } else {
      error(at, fmt::format("a tensor cannot be indexed with a value of type {}", say(p.value.type)));
    }
  }
  if (tensors.empty()) return v;
  if (after_dots && tensors.back().first < 0)
    error(e.at, "a tensor index after '...' is not supported: write the leading dimensions out");
  std::vector<Val> list;
  for (auto& [d, t] : tensors) {
    while (static_cast<int64_t>(list.size()) < d) list.push_back(constant(tern::Value()));
    list.push_back(t);
  }
  if (indices) {
    *indices = std::move(list);
    return v;
  }
  Val l;
  l.kind = Val::list;
  l.items = std::move(list);
  l.type = Type::list(Type::optional(Type::tensor()));
  return run("aten::index", {v, l}, e.at);
}

const ir::Type* Compiler::type_expr(const Expr& e) { return resolve_type(unit_, source_, qualifier_, e); }

}  // namespace tern::script
