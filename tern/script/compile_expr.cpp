// Expressions: nodes, names in frames, values, operators.
#include <algorithm>
#include <complex>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/compiler.h"
#include "tern/script/inlining.h"

namespace tern::script {
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
  if (!origin_ || marked_ != at_) {
    const std::vector<uint32_t>& starts = file_->line_starts;
    auto line = std::upper_bound(starts.begin(), starts.end(), at_) - starts.begin();
    ir::Origin o;
    o.file = file_name_;
    o.function = function_name_;
    o.line = static_cast<uint32_t>(line) + source_.first_line - 1;
    o.column = at_ - starts[static_cast<size_t>(line) - 1] + 1;
    origin_ = ir::Origin::make(o);
    marked_ = at_;
  }
  node.set_origin(origin_);
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
  if (node.op())
    for (const SchemaArg& r : node.op()->schema().returns) v.fields.push_back(r.name);
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
    Val made = make_display("prim::TupleConstruct", v, std::move(inputs), type);
    if (!v.fields.empty()) fields_[made.in.value()] = v.fields;
    return made;
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
  return make_display("prim::ListConstruct", v, std::move(inputs), Type::list(element));
}

void Compiler::mark_display(Val& v) {
  v.after = graph_->insert_point().prev();
  v.order = ++displays_;
}

// A display is made when its elements are there, before what else an expression computes; unless elements
// were converted since.
Val Compiler::make_display(Symbol kind, const Val& display, std::vector<In> inputs, const Type* type) {
  ir::Node& now = graph_->insert_point();
  ir::Node* place = nullptr;
  bool movable = display.after && &display.after->block() == &now.block();
  for (ir::Node* n = movable ? display.after->next() : &now; n != &now && movable; n = n->next()) {
    auto made = display_order_.find(n);
    bool earlier = made != display_order_.end() && made->second < display.order;
    movable = !n->is_return();
    for (const In& in : inputs)
      if (in.is_value() && in.value()->node() == n) {
        movable = movable && made != display_order_.end();
        place = nullptr;
        earlier = true;
      }
    if (!place && !earlier) place = n;
  }
  ir::InsertAt there(movable && place ? *place : now);
  Val made = simple(kind, std::move(inputs), type);
  if (display.after) display_order_[made.in.value()->node()] = display.order;
  return made;
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
  if (!v.held) name_value(name, v);
  v.held = true;
  frame_->undefined.erase(name);
  frame_->values[name] = std::move(v);
  if (frame_->assigned_set.insert(name).second) frame_->assigned.push_back(name);
}
// The graph's value takes the name of the first variable that holds it, in the block it belongs to.
void Compiler::name_value(const std::string& name, Val& v) {
  if (shown_name(name).empty() || !v.in.is_value() || v.kind != Val::plain) return;
  ir::Value& value = *v.in.value();
  if (is_named(value) || &value.block() != frame_->block) return;
  graph_->rename(value, name);
  note_variable(value, name);
}
// Empty for what is no variable of the user's: names of the compiler, and _0 that printed source has.
std::string_view Compiler::shown_name(const std::string& name) {
  if (name.empty() || name[0] == '$') return {};
  if (name[0] == '_' && name.find_first_not_of("0123456789", 1) == std::string::npos) return {};
  return name;
}
void Compiler::refine(const Refinement& r) {
  Val* v = find(r.name);
  if (!v || (v->type == r.type && !r.type->is(TypeKind::any))) return;
  Val refined = *v;
  if (v->in.is_value()) {
    ir::Node& cast = make("prim::unchecked_cast", {v->in}, {r.type}, r.name);
    refined = typed(cast.output(), r.type);
  }
  refined.type = r.type;
  frame_->values[r.name] = std::move(refined);
  // Printed source says by itself what it assigns.
  if (strict_ && frame_->assigned_set.insert(r.name).second) frame_->assigned.push_back(r.name);
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
        if (in.size() == 1 && !strict_)
          return simple("prim::rangelist", std::move(in), Type::list(Type::integer()));
      }
      error(at, fmt::format("{} cannot be used as a value", s.text));
    }
    case Sugar::space:
      error(at,
            "python value of type 'module' cannot be used as a value. Perhaps it is a closed over global "
            "variable? "
            "If so, please consider passing it in as an argument or use a local variable instead.");
    case Sugar::type:
      error(at, fmt::format("type {} cannot be used as a value", ir_text(s.type_value)));
    case Sugar::function:
      error(at, "function cannot be used as a value");
    case Sugar::class_:
      if (s.owner->kind == ClassKind::enumeration) error(at, "EnumClass cannot be used as a value");
      error(at, fmt::format("class {} cannot be used as a value", class_text(s.owner->type())));
    case Sugar::builtin:
      error(at, "builtin cannot be used as a value");
    case Sugar::method:
      error(at, "method cannot be used as a value");
    case Sugar::special:
      error(at, fmt::format("{} cannot be used as a value", s.text));
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
          for (Val& x : starred_items(item)) {
            types.push_back(x.type);
            v.items.push_back(std::move(x));
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
      mark_display(v);
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
      error(e.at, "Cannot emit expr for: (dots)");
    default:
      error(e.at, "an expression that cannot stand here");
  }
}

// *t in a display: the items of what has a size that is known.
std::vector<Val> Compiler::starred_items(const Expr& item) {
  Sugar over;
  over.self = value(*item.items[0]);
  auto items = static_items(iterable(std::move(over), item.at), item.at);
  if (!items) error(item.at, "cannot statically infer the expected size of a list in this context");
  std::vector<Val> values;
  for (Sugar& s : *items) values.push_back(as_value(std::move(s), item.at));
  return values;
}

// ---- operators ----

Val Compiler::unary(const Expr& e) {
  if (e.text == "not") return condition(e).value;
  Val v = value(*e.items[0]);
  if (v.is_constant() && !v.type->is_tensor()) {
    const tern::Value& c = v.in.constant();
    if (e.text == "-") {
      if (c.is_int() && !c.sym().is_symbolic() && c.to_int() != INT64_MIN) {
        if (SymInt(-c.to_int()).is_symbolic()) error(e.at, "this integer is not supported");
        return constant(-c.to_int());
      }
      if (c.is_int()) return v;
      if (c.is_float()) return constant(-c.to_double());
      if (c.is_complex()) return constant(-c.scalar().to_complex());
    }
    if (e.text == "+" && c.is_number()) return v;
  }
  if (e.text == "-" && class_of(v)) return call_magic(v, "__neg__", {}, e.at);
  if (e.text == "~" && class_of(v)) return call_magic(v, "__invert__", {}, e.at);
  Args args;
  args.positional.push_back(std::move(v));
  if (e.text == "+") return args.positional[0];
  return call_builtin(e.text == "-" ? "aten::neg" : "aten::bitwise_not", std::move(args), e.at);
}

Val Compiler::call_magic(const Val& self, const char* method, std::vector<Val> args, uint32_t at) {
  ClassType* c = class_of(self);
  Function* f = c ? c->method(method) : nullptr;
  if (!f)
    error(at, fmt::format(
                  "'{}' object has no attribute or method '{}'. Did you forget to initialize an attribute in "
                  "__init__()?",
                  class_text(self.type), method));
  Args all;
  all.positional = std::move(args);
  return call_function(*f, self, std::move(all), at);
}

Val Compiler::binary(const std::string& op, Val a, Val b, uint32_t at) {
  at_ = at;
  if (a.is_constant() && b.is_constant())
    if (std::optional<tern::Value> c = complex_literal(op, a.in.constant(), b.in.constant()))
      return constant(*c);
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
      if (!f && c && c->is_module() && c->short_name() == "ModuleDict") {
        std::vector<tern::Value> keys;
        for (const std::string& n : module_names(*c)) keys.emplace_back(n);
        Val all = constant(tern::Value::list(std::move(keys), Type::string()));
        all.type = Type::list(Type::string());
        found = run("aten::__contains__", std::move(all), a);
        return op == "in" ? found : simple("aten::__not__", {operand(found)}, Type::boolean());
      }
      if (!f)
        error(at,
              fmt::format(
                  "'{}' object has no attribute or method '__contains__'. Did you forget to initialize an "
                  "attribute in __init__()?",
                  class_text(b.type)));
      Args args;
      args.positional = {a};
      found = call_function(*f, b, std::move(args), at);
    } else {
      found = run("aten::__contains__", materialise(b), a);
    }
    return op == "in" ? found : simple("aten::__not__", {operand(found)}, Type::boolean());
  }
  if (class_of(a) && !(strict_ && (op == "//" || op == "@"))) {
    static const std::unordered_map<std::string, const char*> methods = {
        {"+", "__add__"},       {"-", "__sub__"}, {"*", "__mul__"},  {"/", "__truediv__"},
        {"//", "__floordiv__"}, {"%", "__mod__"}, {"**", "__pow__"}, {"@", "__matmul__"},
        {"&", "__and__"},       {"|", "__or__"},  {"^", "__xor__"},  {"<<", "__lshift__"},
        {">>", "__rshift__"},   {"==", "__eq__"}, {"!=", "__ne__"},  {"<", "__lt__"},
        {"<=", "__le__"},       {">", "__gt__"},  {">=", "__ge__"}};
    return call_magic(a, methods.at(op), {b}, at);
  }
  if (op == "+" && a.type->is(TypeKind::tuple) && b.type->is(TypeKind::tuple)) {
    Val joined = pieces(a), more = pieces(b);
    std::vector<const Type*> types;
    joined.items.insert(joined.items.end(), more.items.begin(), more.items.end());
    for (const Val& v : joined.items) types.push_back(v.type);
    joined.type = Type::tuple(types);
    return joined;
  }
  std::string name = names.at(op);
  if (op == "//" && a.type->is_tensor()) name = "aten::floor_divide";
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
    if (op == "-" || op == "/") {
      Args args;
      args.positional = {b};
      Val turned = call_builtin(op == "-" ? "aten::neg" : "aten::reciprocal", std::move(args), at);
      return run(op == "-" ? "aten::add" : "aten::mul", std::move(turned), std::move(a));
    }
  }
  return run(name, std::move(a), std::move(b));
}

const ir::Type* Compiler::type_expr(const Expr& e) { return resolve_type(unit_, source_, qualifier_, e); }

}  // namespace tern::script
