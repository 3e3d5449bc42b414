// Names and attributes: what a name stands for in a function, in its unit, in torch and on a value.
#include <algorithm>
#include <cmath>
#include <complex>
#include <iterator>
#include <set>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/ops/quantized/detail/packed.h"
#include "tern/script/compiler.h"

namespace tern::script {
namespace {

// Names of the language that are called like functions.
constexpr std::string_view specials[] = {
    "len", "range", "print", "int", "float", "bool", "str", "complex", "list", "dict", "tuple", "isinstance",
    "hasattr", "getattr", "annotate", "uninitialized", "unchecked_cast", "enumerate", "zip", "min", "max",
    "abs", "sum", "sorted", "round", "ord", "chr", "any", "all", "divmod", "pow", "super", "type", "cast",
    "rangelist", "device", "slice", "id", "hash", "hex", "oct", "bin",
    // and what is refused by name
    "reversed", "set", "frozenset", "map", "filter", "bytes", "bytearray", "memoryview", "staticmethod",
    "classmethod", "property", "input", "callable", "iter", "next", "vars", "dir", "repr", "format", "eval",
    "exec", "open", "issubclass", "delattr", "setattr", "ascii", "compile", "globals", "locals", "breakpoint",
    "__import__"};

// Classes of torch whose objects a `with` opens, by the names source has for them.
constexpr std::pair<std::string_view, std::string_view> contexts[] = {
    {"torch.autocast", "__torch__.torch.amp.autocast_mode.autocast"},
    {"torch.amp.autocast", "__torch__.torch.amp.autocast_mode.autocast"},
    {"torch.amp.autocast_mode.autocast", "__torch__.torch.amp.autocast_mode.autocast"},
    {"torch.cpu.amp.autocast", "__torch__.torch.cpu.amp.autocast_mode.autocast"},
    {"torch.cpu.amp.autocast_mode.autocast", "__torch__.torch.cpu.amp.autocast_mode.autocast"},
    {"torch.cuda.amp.autocast", "__torch__.torch.cuda.amp.autocast_mode.autocast"},
    {"torch.cuda.amp.autocast_mode.autocast", "__torch__.torch.cuda.amp.autocast_mode.autocast"},
    {"torch.profiler.record_function", "__torch__.torch.autograd.profiler.record_function"},
    {"torch.autograd.profiler.record_function", "__torch__.torch.autograd.profiler.record_function"},
};

// torch.float32, torch.inf, torch.channels_last.
const tern::Value* torch_constant(const std::string& name) {
  static const std::unordered_map<std::string, tern::Value> constants = [] {
    std::unordered_map<std::string, tern::Value> all = {
        {"inf", double(INFINITY)},
        {"nan", double(NAN)},
        {"pi", 3.14159265358979323846},
        {"strided", 0},
        {"contiguous_format", MemoryFormat::contiguous},
        {"preserve_format", MemoryFormat::preserve},
        {"channels_last", 2},
        {"channels_last_3d", 3},
        {"half", DType::float16},
        {"float", DType::float32},
        {"double", DType::float64},
        {"long", DType::int64},
        {"int", DType::int32},
        {"short", DType::int16},
        {"bool", DType::bool_},
        {"cfloat", DType::complex64},
        {"cdouble", DType::complex128},
    };
    for (int i = 0; i < 255; ++i)
      if (DType d = static_cast<DType>(i); element_size(d) > 0) all.emplace(tern::name(d), d);
    return all;
  }();
  auto it = constants.find(name);
  return it == constants.end() ? nullptr : &it->second;
}

// Whether a function of math is one of the language's, not only an operator on tensors.
bool takes_numbers(const std::string& name) {
  for (const char* space : {"aten::", "prim::"}) {
    if (name == "remainder") return true;
    const std::vector<Signature>& all = signatures(Symbol(space + name));
    if (std::any_of(all.begin(), all.end(), [](const Signature& s) { return !s.op; })) return true;
  }
  return false;
}

// Tensor.float() and the like: to(dtype).
std::optional<DType> cast_method(std::string_view n) {
  for (std::string_view word :
       {"byte", "char", "double", "float", "half", "int", "long", "short", "bfloat16", "cfloat", "cdouble"})
    if (word == n) {
      if (n == "byte") return DType::uint8;
      if (n == "char") return DType::int8;
      if (n == "double") return DType::float64;
      if (n == "float") return DType::float32;
      if (n == "half") return DType::float16;
      if (n == "int") return DType::int32;
      if (n == "long") return DType::int64;
      if (n == "short") return DType::int16;
      if (n == "bfloat16") return DType::bfloat16;
      return n == "cfloat" ? DType::complex64 : DType::complex128;
    }
  return std::nullopt;
}

}  // namespace

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
      if (s.owner) return s;
      // A method by its full name, as hooks are called: the object is the first argument.
      size_t dot = qualified.view().rfind('.');
      ClassType* c =
          dot == std::string_view::npos ? nullptr : unit_.find_class(Symbol(qualified.view().substr(0, dot)));
      s.kind = Sugar::function;
      s.callee = unit_.find_function(qualified);  // the class is read by now
      if (!s.callee && c) s.callee = c->method(Symbol(qualified.view().substr(dot + 1)));
      if (!s.callee) error(e.at, fmt::format("there is no function {}", qualified.view()));
      return s;
    }
    s.self = *v;
    return s;
  }
  if (n == "torch" || n == "ops" || n == "__torch__" || n == "CONSTANTS") {
    s.kind = Sugar::space;
    s.text = n;
    return s;
  }
  for (Frame* f = frame_; f; f = f->parent)
    if (auto it = f->undefined.find(n); it != f->undefined.end())
      it->second.why.empty() ? error(e.at, fmt::format("undefined value {}", n))
                             : error(it->second.at, it->second.why);
  Symbol qualified(qualifier_.empty() ? n : qualifier_ + "." + n);
  if (Function* f = unit_.find_function(qualified)) {
    s.kind = Sugar::function;
    s.callee = f;
    return s;
  }
  if (n == "fork" && !closures_.empty()) {  // as archives write it
    s.kind = Sugar::special;
    s.text = n;
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
  for (const StmtPtr& global : file_->statements) {
    const Expr* target = global->targets.empty() ? nullptr : global->targets[0].get();
    if (!target || target->kind != ExprKind::name || target->text != n || !global->value) continue;
    ExprKind kind = global->value->kind;
    std::string type = kind == ExprKind::constant    ? std::string(global->value->value.kind_name())
                       : kind == ExprKind::list      ? "list"
                       : kind == ExprKind::tuple     ? "tuple"
                       : kind == ExprKind::dict      ? "dict"
                       : kind == ExprKind::list_comp ? "list"
                                                     : "object";
    error(e.at, fmt::format(
                    "python value of type '{}' cannot be used as a value. Perhaps it is a closed over global "
                    "variable? If so, please consider passing it in as an argument or use a local variable "
                    "instead.",
                    type));
  }
  if (n == "warnings") {
    s.kind = Sugar::space;
    s.text = n;
    return s;
  }
  if (n == "math" || n == "cmath" || n == "nn" || n == "F" || n == "typing" || n == "jit") {
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
      if (const Attribute* a = s.owner->find(n); a && a->role == Role::constant) {
        Sugar c;
        c.self = s.owner->kind == ClassKind::enumeration ? typed(In(a->value), s.owner->type())
                                                         : constant(a->value);
        return c;
      }
      if (s.owner->kind == ClassKind::enumeration)
        error(at, fmt::format("{}' has no attribute '{}'", class_text(s.owner->type()), n));
      if (Function* f = s.owner->method(n); f && (f->is_static || !strict_)) {
        if (f->is_static && function_.owner() == s.owner && strict_)
          error(at,
                fmt::format("Tried to lookup unknown attribute on class {}", class_text(s.owner->type())));
        Sugar m;
        m.kind = Sugar::function;
        m.callee = f;
        return m;
      }
      error(at, fmt::format("Tried to lookup unknown attribute on class {}", class_text(s.owner->type())));
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
    Expr e{{}, ExprKind::name, at, at, n, {}, {}};
    return name(e);
  }
  if (space == "warnings" && n == "warn") {
    s.kind = Sugar::builtin;
    s.text = "aten::warn";
    return s;
  }
  if (space == "cmath") {
    static const std::set<std::string_view> functions = {
        "isnan", "isfinite", "isinf", "phase", "rect", "log",  "log10", "sqrt",  "exp",   "sin",  "cos",
        "tan",   "asin",     "acos",  "atan",  "sinh", "cosh", "tanh",  "asinh", "acosh", "atanh"};
    if (n == "infj" || n == "nanj")
      return number(std::complex<double>(0, n == "infj" ? double(INFINITY) : double(NAN)));
    if (n == "pi" || n == "e" || n == "tau" || n == "inf" || n == "nan")
      return space_attribute("math", n, at);
    if (!functions.count(n))
      error(at, fmt::format("Python builtin <built-in function {}> is currently not supported in Torchscript",
                            n));
    s.kind = Sugar::builtin;
    s.text = "aten::" + (n == "phase" ? "angle" : n == "rect" ? "polar" : n);
    return s;
  }
  if (space == "math" && strict_ && n != "pi" && n != "e" && n != "tau" && n != "inf" && n != "nan" &&
      (n == "log2" || n == "trunc" || n == "mathremainder" || !takes_numbers(n)))
    error(at,
          n == "mathremainder"
              ? "object has no attribute mathremainder"
              : fmt::format("Python builtin <built-in function {}> is currently not supported in Torchscript",
                            n));
  if (space == "math") {
    if (n == "pi") return number(3.14159265358979323846);
    if (n == "e") return number(2.71828182845904523536);
    if (n == "tau") return number(6.28318530717958647692);
    if (n == "inf") return number(double(INFINITY));
    if (n == "nan") return number(double(NAN));
    s.kind = Sugar::builtin;
    s.text = n == "remainder" ? "aten::mathremainder" : "aten::" + n;
    return s;
  }
  for (const auto& [spelled, qualified] : contexts) {
    if (!strict_ || !spelled.starts_with(path)) continue;
    if (spelled.size() == path.size()) {
      s.kind = Sugar::class_;
      s.owner = unit_.find_class(Symbol(qualified));
      return s;
    }
    if (spelled[path.size()] != '.') continue;
    s.kind = Sugar::space;
    s.text = path;
    return s;
  }
  if (space == "torch") {
    if (n == "nn" || n == "jit" || n == "linalg" || n == "special" || n == "fft" || n == "functional" ||
        n == "autograd" || n == "_C" || n == "ops" || (n == "sparse" && strict_)) {
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
    if (const tern::Value* v = torch_constant(n)) return number(*v);
    // What torch has, and a script cannot call.
    static constexpr std::string_view of_python[] = {"enable_grad",
                                                     "inference_mode",
                                                     "finfo",
                                                     "iinfo",
                                                     "get_default_dtype",
                                                     "set_default_dtype",
                                                     "is_tensor",
                                                     "is_storage",
                                                     "load",
                                                     "typename",
                                                     "get_num_threads",
                                                     "set_num_threads",
                                                     "get_rng_state",
                                                     "set_rng_state",
                                                     "from_numpy",
                                                     "frombuffer",
                                                     "asarray",
                                                     "set_flush_denormal",
                                                     "get_default_device",
                                                     "is_warn_always_enabled",
                                                     "is_inference_mode_enabled",
                                                     "are_deterministic_algorithms_enabled"};
    if (strict_ && std::find(std::begin(of_python), std::end(of_python), n) != std::end(of_python))
      error(at, fmt::format("Unknown builtin op: aten::{}.", n));
    if (n == "no_grad") {
      s.kind = Sugar::special;
      s.text = n;
      return s;
    }
    if (n == "_jit_internal") {
      s.kind = Sugar::space;
      s.text = "torch.jit";
      return s;
    }
    // In source these are PyTorch's functions around operators; archives name those by their whole names.
    if (Function* f = strict_ ? unit_.find_function(Symbol("__torch__.torch.functional." + n)) : nullptr) {
      s.kind = Sugar::function;
      s.callee = f;
      return s;
    }
    return operator_of("aten::" + n, at);
  }
  if (space == "torch.nn.functional") {
    if (Function* f = unit_.find_function(Symbol("__torch__.torch.nn.functional." + n))) {
      s.kind = Sugar::function;
      s.callee = f;
      return s;
    }
    return operator_of("aten::" + n, at);
  }
  if ((space == "torch.nn" && (n == "functional" || n == "init" || n == "utils")) ||
      (space == "torch.nn.utils" && n == "rnn") || (space == "torch._C" && n == "_nn")) {
    s.kind = Sugar::space;
    s.text = path;
    return s;
  }
  if (space == "torch.jit") {
    if (n == "annotate" || n == "isinstance" || n == "fork" || n == "_fork" || n == "wait" || n == "_wait") {
      s.kind = Sugar::special;
      s.text = n[0] == '_' ? n.substr(1) : n;
      return s;
    }
    if (n == "is_scripting") {
      s.self = constant(true);
      s.text = n;
      return s;
    }
    if (n == "Future") {
      s.kind = Sugar::type;
      s.type_value = Type::any();
      return s;
    }
    s.kind = Sugar::builtin;
    s.text = n == "is_tracing" ? "prim::is_tracing" : "aten::" + n;
    return s;
  }
  if (space == "torch.nn.init") {
    if (Function* f = unit_.find_function(Symbol("__torch__.torch.nn.init." + n))) {
      s.kind = Sugar::function;
      s.callee = f;
      return s;
    }
    error(at, fmt::format("torch.nn.init.{} cannot be called in scripts", n));
  }
  if (space == "torch.sparse" && n == "mm") return operator_of("aten::_sparse_mm", at);
  if (space == "torch.sparse")
    error(at, fmt::format("torch.sparse.{} is not supported: there are no sparse tensors", n));
  if (space == "torch.linalg") return operator_of("aten::linalg_" + n, at);
  if (space == "torch.special") return operator_of("aten::special_" + n, at);
  if (space == "torch.fft") return operator_of("aten::fft_" + n, at);
  return operator_of("aten::" + n, at);
}

Sugar Compiler::operator_of(const std::string& name, uint32_t at) {
  Sugar s;
  s.kind = Sugar::builtin;
  s.text = name;
  if (strict_ && signatures(Symbol(name)).empty() && signatures(Symbol("prim::" + name.substr(6))).empty())
    error(at, fmt::format("object has no attribute {}\nthere is no operator {}", name.substr(6), name));
  return s;
}

// The name of a class in messages, as PyTorch qualifies it.
std::string Compiler::class_text(const Type* t) {
  std::string name = t->name().str();
  if (!name.starts_with("__torch__.")) name = "__torch__." + name;
  return t->is(TypeKind::enum_) ? "Enum<" + name + ">" : name;
}
ClassType* Compiler::class_of(const Val& v) {
  bool is = v.type->is(TypeKind::class_) || v.type->is(TypeKind::interface);
  return is ? unit_.find_class(v.type->name()) : nullptr;
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
      if (std::string op = quantized::method_operator(t->name().view(), n); !op.empty()) return bound(op);
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
      if (Function* f = c->getter(n)) {
        s.self = call_function(*f, v, {}, at);
        return s;
      }
      if (strict_ && c->is_module() && c->short_name() == "ModuleDict" && !c->method(n) &&
          (n == "items" || n == "keys" || n == "values")) {
        s.kind = Sugar::special;
        s.text = "modules:" + n;
        s.self = v;
        s.has_self = true;
        return s;
      }
      if (Function* f = c->method(n); f && !(f->is_static && strict_)) {
        s.kind = f->is_static ? Sugar::function : Sugar::method;
        s.callee = f;
        s.self = v;
        s.has_self = !f->is_static;
        return s;
      }
      std::string all;
      for (const Attribute& a : c->attributes) all += (all.empty() ? "" : ", ") + a.name.str();
      error(at,
            fmt::format(
                "'{}' object has no attribute or method '{}'. Did you forget to initialize an attribute in "
                "__init__()?\nit has {}",
                class_text(t), n, all.empty() ? "none" : all));
    }
    case TypeKind::tuple:
      for (size_t i = 0; i < t->fields().size(); ++i)
        if (t->fields()[i].view() == n) {
          if (v.kind == Val::tuple) {
            s.self = v.items[i];
            return s;
          }
          Val tuple = materialise(v);
          s.self = simple("prim::TupleIndex", {tuple.in, In(static_cast<int64_t>(i))}, t->element(i), n);
          return s;
        }
      {
        const std::vector<Symbol>* fields = v.kind == Val::tuple ? &v.fields : nullptr;
        if (v.kind == Val::plain && v.in.is_value())
          if (auto it = fields_.find(v.in.value()); it != fields_.end()) fields = &it->second;
        for (size_t i = 0; fields && i < fields->size(); ++i)
          if ((*fields)[i].view() == n) {
            s.self = pieces(v).items[i];
            return s;
          }
      }
      error(at, fmt::format("'{}' object has no attribute or method '{}'.",
                            t->name().empty() ? say(v) : class_text(t), n));
    case TypeKind::enum_: {
      ClassType* c = unit_.find_class(t->name());
      if (c && n == "name") {
        s.self = simple("prim::EnumName", {operand(v)}, Type::string());
        return s;
      }
      if (c && n == "value" && !c->attributes.empty()) {
        EnumMember* first = EnumMember::of(c->attributes[0].value);
        s.self = simple("prim::EnumValue", {operand(v)}, plain(Type::of(first->value)));
        return s;
      }
      error(at, fmt::format("'{}' object has no attribute or method '{}'.", class_text(t), n));
    }
    case TypeKind::optional:
      error(at,
            fmt::format(
                "'{}' object has no attribute or method '{}'.\nit may be None: test it with 'is not None' "
                "first",
                say(v), n));
    case TypeKind::device:
      if (n == "type")
        s.self = simple("prim::type", {operand(v)}, Type::string());
      else if (n == "index")
        s.self = simple("prim::index", {operand(v)}, Type::optional(Type::integer()));
      else
        error(at, fmt::format("'Device' object has no attribute or method '{}'.", n));
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
          {"grad", {"prim::grad", Type::tensor()}},
          {"nbytes", {"prim::nbytes", Type::integer()}},
          {"name", {"prim::name", Type::optional(Type::string())}},
          {"is_leaf", {"aten::is_leaf", Type::boolean()}},
          {"retains_grad", {"aten::retains_grad", Type::boolean()}},
          {"is_xpu", {"prim::is_xpu", Type::boolean()}},
          {"is_mps", {"prim::is_mps", Type::boolean()}},
          {"is_vulkan", {"prim::is_vulkan", Type::boolean()}},
          {"is_ipu", {"prim::is_ipu", Type::boolean()}},
          {"is_xla", {"prim::is_xla", Type::boolean()}},
          {"is_maia", {"prim::is_maia", Type::boolean()}},
          {"is_mtia", {"prim::is_mtia", Type::boolean()}},
          {"is_sparse_csr", {"prim::is_sparse_csr", Type::boolean()}},
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
      if (std::optional<DType> d = cast_method(n); d && signatures(Symbol("aten::" + n)).empty()) {
        s.kind = Sugar::special;
        s.text = "cast:" + std::to_string(static_cast<int>(*d));
        s.self = v;
        s.has_self = true;
        return s;
      }
      if (n == "type" && t->is_tensor()) return bound("aten::to");  // so PyTorch compiles it
      if (n == "cpu" && signatures("aten::cpu").empty()) {
        s.kind = Sugar::special;
        s.text = n;
        s.self = v;
        s.has_self = true;
        return s;
      }
      if (n == "tolist") {
        s.kind = Sugar::special;
        s.text = "tolist";
        s.self = v;
        s.has_self = true;
        return s;
      }
      return bound(method_of(v, n, at));
    }
    case TypeKind::future:
      if (n == "wait") {
        s.kind = Sugar::special;
        s.text = "wait";
        s.self = v;
        s.has_self = true;
        return s;
      }
      [[fallthrough]];
    default:
      return bound(method_of(v, n, at));
  }
}

// The builtin that is this method of the value: some overload takes it as its first argument.
std::string Compiler::method_of(const Val& v, const std::string& n, uint32_t at) {
  std::string name = "aten::" + n;
  if (!strict_) return name;
  Bindings none;
  for (const std::string& candidate : {name, "prim::" + n})
    for (const Signature& s : signatures(Symbol(candidate))) {
      if (s.args.empty()) continue;
      Bindings b;
      const Pattern& p = s.args[0].type;
      if (p.kind == Pattern::exact ? subtype(v.type, p.type) : bind_pattern(v.type, p, b)) return name;
    }
  error(at, fmt::format("'{}' object has no attribute or method '{}'.", say(v), n));
}

}  // namespace tern::script
