// The names the language itself gives a meaning: len, range, isinstance, annotate, ...

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/compiler.h"

namespace tern::script {
// A task: it runs when it is made; waiting gives what it gave.
Val Compiler::fork(const Expr& e) {
  if (e.items.size() < 2) error(e.at, "Expected at least one argument to fork()");
  if (e.items[1]->kind == ExprKind::name)
    if (auto it = closures_.find(e.items[1]->text); it != closures_.end()) return fork_closure(*it->second);
  Sugar callee = sugar(*e.items[1]);
  Args args = arguments(e, 1);
  at_ = e.at;
  ir::Node& node = make("prim::fork", {}, {});
  ir::Block& block = node.add_block();
  ir::Node& saved = graph_->insert_point();
  graph_->insert_at_end(block);
  Val result;
  switch (callee.kind) {
    case Sugar::function:
      result = call_overloaded(*callee.callee, std::nullopt, std::move(args), e.at);
      break;
    case Sugar::method:
      result = call_overloaded(*callee.callee, callee.self, std::move(args), e.at);
      break;
    case Sugar::builtin:
      if (callee.has_self) args.positional.insert(args.positional.begin(), callee.self);
      result = call_builtin(callee.text, std::move(args), e.at);
      break;
    case Sugar::value:
      if (ClassType* c = class_of(callee.self)) {
        Function* f = c->method(c->is_module() ? "forward" : "__call__");
        if (f) {
          result = call_function(*f, callee.self, std::move(args), e.at);
          break;
        }
      }
      [[fallthrough]];
    default:
      error(e.at, "fork() takes a function, a method or a module, and its arguments");
  }
  result = materialise(result);
  graph_->insert_at(saved);
  block.add_return(result.in);
  const Type* type = Type::future(plain(result.type));
  return typed(node.add_output(type), type);
}

// As archives write it: statements, then what they give. Names from outside are seen, its own stay inside.
Val Compiler::fork_closure(const Stmt& closure) {
  at_ = closure.at;
  List statements = pointers(closure.body);
  if (statements.empty() || statements.back()->kind != StmtKind::return_ || !statements.back()->value)
    error(closure.at, "what fork() runs must end with a return");
  const Stmt& last = *statements.back();
  statements.pop_back();
  ir::Node& node = make("prim::fork", {}, {});
  ir::Block& block = node.add_block();
  Inside there(*this, block);
  std::vector<Loop*> around;
  std::swap(around, loops_);
  bool in_task = std::exchange(in_task_, true);
  list(statements);
  Val result = materialise(value(*last.value));
  std::swap(around, loops_);
  in_task_ = in_task;
  block.add_return(result.in);
  const Type* type = Type::future(plain(result.type));
  return typed(node.add_output(type), type);
}

Sugar Compiler::special(const std::string& name, const Expr& e, const Type* hint) {
  Sugar s;
  size_t count = e.items.size() - 1;
  auto need = [&](size_t low, size_t high) {
    if (count < low || count > high)
      error(e.at, fmt::format("{} takes {} arguments but {} were given", name,
                              low == high ? std::to_string(low) : fmt::format("{} to {}", low, high), count));
  };
  auto arg = [&](size_t i) -> const Expr& { return *e.items[i + 1]; };
  if (name == "annotate" || name == "unchecked_cast" || name == "cast") {
    need(2, 2);
    const Type* type = type_expr(arg(0));
    Val v = value(arg(1), type);
    if (name != "annotate") {
      v = materialise(v, type);
      // A cast that was cast to the same type already stays one cast.
      bool known = !v.in.is_value() || (plain(v.type) == plain(type) && v.in.value()->node() &&
                                        v.in.value()->node()->is("prim::unchecked_cast"));
      s.self = known ? typed(v.in, type) : simple("prim::unchecked_cast", {v.in}, type);
      s.self.held = known && v.held;
    } else {
      if (v.kind == Val::plain) v = materialise(std::move(v), type);
      std::optional<Val> fitting = try_type(v, type);
      if (!fitting)
        error(e.at, fmt::format("expected an expression of type {} but found {}", ir_text(type), say(v)));
      s.self = *fitting;
      s.self.type = type;
    }
    return s;
  }
  if (name == "uninitialized") {
    need(1, 1);
    s.self = uninitialized(type_expr(arg(0)));
    return s;
  }
  if (name == "getattr") {
    need(2, 3);
    Val n = value(arg(1));
    if (!n.is_constant() || !n.in.constant().is_string()) error(arg(1).at, "getattr takes a name in quotes");
    Sugar object = sugar(arg(0));
    if (count == 3 && object.kind == Sugar::value && object.self.type->is(TypeKind::class_)) {
      ClassType* c = unit_.find_class(object.self.type->name());
      Symbol wanted(n.in.constant().string());
      if (c && !c->find(wanted) && !c->method(wanted)) return sugar(arg(2));
    }
    return attribute(object, n.in.constant().string(), arg(1).at);
  }
  if (name == "isinstance" || name == "hasattr") {
    need(2, 2);
    s.self = condition(e).value;
    return s;
  }
  if (name == "print") {
    Args args = arguments(e);
    if (!args.keywords.empty()) error(e.at, "print doesn't accept any keyword arguments");
    std::vector<In> inputs;
    for (const Val& v : args.positional) inputs.push_back(operand(v));
    make("prim::Print", std::move(inputs), {});
    s.self = constant(tern::Value());
    return s;
  }
  if (name == "range" || name == "enumerate" || name == "zip") {
    s.kind = Sugar::iterable;
    s.text = name;
    if (name == "range")
      need(1, 3);
    else if (name == "enumerate")
      need(1, 2);
    for (size_t i = 0; i < count; ++i) {
      const Expr& a = arg(i);
      if (a.kind == ExprKind::keyword) {
        Sugar v;
        v.self = value(*a.items[0]);
        s.items.push_back(std::move(v));
        continue;
      }
      Sugar item = sugar(a);
      if (name == "range" || (name == "enumerate" && i == 1)) {
        Val given = as_value(std::move(item), a.at);
        std::optional<Val> n = convert(given, Type::integer(), true);
        if (!n)
          error(a.at,
                fmt::format("all inputs of {} must be ints, found {} in argument {}", name, say(given), i));
        item = Sugar();
        item.self = *n;
      } else {
        item = iterable(std::move(item), a.at);
      }
      s.items.push_back(std::move(item));
    }
    return s;
  }
  if (name == "tuple") {
    if (count != 1) error(e.at, fmt::format("tuple expected exactly 1 arguments but found {}", count));
    s.self.kind = Val::tuple;
    std::vector<const Type*> types;
    Sugar over = iterable(sugar(arg(0)), e.at);
    auto items = static_items(over, e.at);
    if (!items && over.kind == Sugar::value && over.self.type->is(TypeKind::string))
      error(e.at, "str cannot be used as a tuple");
    if (!items) error(e.at, "cannot statically infer the expected size of a list in this context");
    for (Sugar& i : *items) {
      s.self.items.push_back(as_value(std::move(i), e.at));
      types.push_back(s.self.items.back().type);
    }
    s.self.type = Type::tuple(types);
    return s;
  }
  if (name == "list") {
    need(0, 1);
    if (count == 0) {
      s.self = simple("prim::ListConstruct", {},
                      hint && hint->is(TypeKind::list) ? hint : Type::list(Type::tensor()));
      return s;
    }
    Sugar over = sugar(arg(0));
    if (over.kind == Sugar::class_) over = iterable(std::move(over), e.at);
    if (over.kind == Sugar::value &&
        (over.self.type->is(TypeKind::list) || over.self.type->is(TypeKind::string))) {
      Args args;
      args.positional.push_back(materialise(over.self));
      s.self = call_builtin("aten::list", std::move(args), e.at);
      return s;
    }
    if (over.kind == Sugar::value && over.self.type->is(TypeKind::dict)) {
      Args args;
      args.positional.push_back(over.self);
      s.self = call_builtin("aten::keys", std::move(args), e.at);
      return s;
    }
    over = iterable(std::move(over), e.at);
    if (auto items = static_items(over, e.at)) {
      s.self.kind = Val::list;
      const Type* common = nullptr;
      for (Sugar& i : *items) {
        s.self.items.push_back(as_value(std::move(i), e.at));
        common = common ? unify(common, plain(s.self.items.back().type)) : plain(s.self.items.back().type);
        if (!common) error(e.at, "the elements of a list must have one type");
      }
      s.self.type = Type::list(common ? common : Type::tensor());
      s.self = materialise(s.self);
      return s;
    }
    // [x for x in over]
    ir::Node& made = make("prim::ListConstruct", {}, {Type::list(Type::tensor())});
    Val trip = length(over, e.at);
    ir::Node& node = make("prim::Loop", {operand(trip), In(true)}, {});
    ir::Block& block = node.add_block();
    ir::Value& counter = block.add_param(Type::integer());
    {
      ir::Node& saved = graph_->insert_point();
      graph_->insert_at_end(block);
      Val x = materialise(as_value(element(over, typed(counter, Type::integer()), e.at), e.at));
      made.output().set_type(Type::list(plain(x.type)));
      make("aten::append", {In(made.output()), x.in}, {made.output().type()});
      graph_->insert_at(saved);
    }
    block.add_return(In(true));
    s.self = typed(made.output(), made.output().type());
    return s;
  }
  if (name == "dict") {
    if (count == 0) {
      s.self = simple("prim::DictConstruct", {},
                      hint && hint->is(TypeKind::dict) ? hint : Type::dict(Type::string(), Type::tensor()));
      return s;
    }
    Args args = arguments(e);
    if (args.positional.empty()) {
      std::vector<In> inputs;
      const Type* common = nullptr;
      for (auto& [k, v] : args.keywords) {
        inputs.push_back(In(k.str()));
        inputs.push_back(operand(v));
        common = common ? unify(common, plain(v.type)) : plain(v.type);
        if (!common) error(e.at, "the values of a dict must have one type");
      }
      s.self = simple("prim::DictConstruct", std::move(inputs), Type::dict(Type::string(), common));
      return s;
    }
    s.self = call_builtin("aten::dict", std::move(args), e.at);
    return s;
  }
  if (name == "fork" || name == "_awaitable") {
    s.self = fork(e);
    return s;
  }
  if (name == "wait") {
    need(1, 1);
    Val future = value(arg(0));
    if (!future.type->is(TypeKind::future) && strict_)
      error(e.at,
            fmt::format("aten::wait(Future(t) self) -> t:\nExpected a value of type 'Future[t]' for argument "
                        "'self' but instead found type '{}'.",
                        say(future)));
    const Type* t = future.type->is(TypeKind::future) ? future.type->element() : Type::any();
    s.self = simple("aten::wait", {operand(future)}, t);
    return s;
  }
  if (name == "no_grad") {
    s.kind = Sugar::special;
    s.text = name;
    return s;
  }
  if (name == "super") {
    Val* self = find("self");
    if (!self) error(e.at, "super() stands in methods only");
    s.self = *self;
    return s;
  }
  if (name == "len") {
    need(1, 1);
    Sugar over = sugar(arg(0));
    Val v = as_value(std::move(over), e.at);
    if (v.type->is(TypeKind::tuple)) {
      s.self = constant(static_cast<int64_t>(v.type->elements().size()));
      return s;
    }
    if (v.type->is(TypeKind::class_) || v.type->is(TypeKind::interface)) {
      ClassType* c = unit_.find_class(v.type->name());
      if (Function* f = c ? c->method("__len__") : nullptr) {
        s.self = call_function(*f, v, {}, e.at);
        return s;
      }
      Sugar module;
      module.self = v;
      // TorchScript counts modules, not parameters.
      bool parameters = c && c->short_name() == "ParameterList";
      auto items = parameters ? std::nullopt : static_items(module, e.at);
      if (!items) error(e.at, fmt::format("{} has no length", v.type->name().view()));
      s.self = constant(static_cast<int64_t>(items->size()));
      return s;
    }
    Args args;
    args.positional.push_back(std::move(v));
    s.self = call_builtin("aten::len", std::move(args), e.at);
    return s;
  }
  static const std::unordered_map<std::string, std::string> builtins = {
      {"int", "aten::Int"},         {"float", "aten::Float"},   {"bool", "aten::Bool"},
      {"complex", "aten::Complex"}, {"str", "aten::str"},       {"min", "prim::min"},
      {"max", "prim::max"},         {"abs", "prim::abs"},       {"sum", "aten::sum"},
      {"sorted", "aten::sorted"},   {"round", "aten::round"},   {"ord", "aten::ord"},
      {"chr", "aten::chr"},         {"any", "aten::any"},       {"all", "aten::all"},
      {"divmod", "aten::divmod"},   {"pow", "aten::pow"},       {"hex", "aten::hex"},
      {"oct", "aten::oct"},         {"bin", "aten::bin"},       {"hash", "aten::hash"},
      {"id", "prim::id"},           {"device", "aten::device"}, {"rangelist", "prim::rangelist"}};
  auto it = builtins.find(name);
  // Of these PyTorch makes calls of Python, which take tensors alone.
  static constexpr std::string_view classes[] = {"reversed",   "set",          "frozenset",   "map",
                                                 "filter",     "type",         "bytes",       "bytearray",
                                                 "memoryview", "staticmethod", "classmethod", "property"};
  if (std::find(std::begin(classes), std::end(classes), name) != std::end(classes)) {
    Args args = arguments(e);
    std::string schema;
    for (size_t i = 0; i < args.positional.size(); ++i)
      schema += fmt::format("{}Tensor {}", i ? ", " : "", i);
    for (size_t i = 0; i < args.positional.size(); ++i)
      if (!args.positional[i].type->is_tensor())
        error(e.at,
              fmt::format("{}({}) -> Tensor 0:\nExpected a value of type 'Tensor' for argument '{}' but "
                          "instead found type '{}'.",
                          name, schema, i, say(args.positional[i])));
    error(e.at, fmt::format("{} is a class of Python: it cannot be called in a script", name));
  }
  if (it == builtins.end())
    error(e.at, fmt::format("Python builtin <built-in function {}> is currently not supported in Torchscript",
                            name));
  if (name == "bool" && count == 1) {
    s.self = to_bool(value(arg(0)), e.at);
    return s;
  }
  Args args = arguments(e);
  for (Val& v : args.positional)
    if (v.kind != Val::plain) v = materialise(v);
  // Objects say themselves what str(), int(), abs() and the like give.
  if (args.positional.size() >= 1 && class_of(args.positional[0])) {
    static const std::unordered_map<std::string, const char*> magic = {
        {"str", "__str__"},     {"int", "__int__"},       {"float", "__float__"}, {"abs", "__abs__"},
        {"round", "__round__"}, {"divmod", "__divmod__"}, {"hash", "__hash__"}};
    if (auto m = magic.find(name); m != magic.end()) {
      Val self = args.positional[0];
      args.positional.erase(args.positional.begin());
      s.self = call_magic(self, m->second, args.positional, e.at);
      return s;
    }
  }
  if (name == "device" && args.positional.size() == 1 && args.positional[0].is_constant() &&
      args.keywords.empty() && args.positional[0].in.constant().is_string()) {
    std::optional<Device> d = Device::parse(args.positional[0].in.constant().string());
    if (!d) error(e.at, fmt::format("'{}' names no device", args.positional[0].in.constant().string()));
    s.self = constant(*d);
    return s;
  }
  if ((name == "float" || name == "int") && args.positional.size() == 1 && args.positional[0].is_constant()) {
    const tern::Value& c = args.positional[0].in.constant();
    if (name == "float" && c.is_string()) {
      const std::string& text = c.string();
      if (text == "inf" || text == "+inf" || text == "Infinity") {
        s.self = constant(double(__builtin_inf()));
        return s;
      }
      if (text == "-inf" || text == "-Infinity") {
        s.self = constant(-double(__builtin_inf()));
        return s;
      }
      if (text == "nan") {
        s.self = constant(double(__builtin_nan("")));
        return s;
      }
    }
    if (name == "float" && args.positional[0].type->is(TypeKind::float_)) {
      s.self = args.positional[0];
      return s;
    }
    if (name == "int" && args.positional[0].type->is(TypeKind::int_)) {
      s.self = args.positional[0];
      return s;
    }
  }
  if (args.positional.size() == 1 && ((name == "bool" && args.positional[0].type->is(TypeKind::bool_)) ||
                                      (name == "int" && args.positional[0].type->is(TypeKind::int_)) ||
                                      (name == "float" && args.positional[0].type->is(TypeKind::float_)) ||
                                      (name == "str" && args.positional[0].type->is(TypeKind::string)))) {
    s.self = args.positional[0];
    return s;
  }
  if ((name == "min" || name == "max") && args.positional.size() > 2) {
    // Numbers of one type: the largest of a list.
    const Type* t = plain(args.positional[0].type);
    bool alike = t->is(TypeKind::int_) || t->is(TypeKind::float_);
    for (const Val& v : args.positional) alike = alike && plain(v.type) == t;
    if (alike) {
      std::vector<In> inputs;
      for (const Val& v : args.positional) inputs.push_back(operand(v));
      Args all;
      all.positional = {simple("prim::ListConstruct", std::move(inputs), Type::list(t))};
      s.self = call_builtin(it->second, std::move(all), e.at);
      return s;
    }
    Val v = args.positional[0];
    for (size_t i = 1; i < args.positional.size(); ++i) {
      Args two;
      two.positional = {v, args.positional[i]};
      v = call_builtin(it->second, std::move(two), e.at);
    }
    s.self = v;
    return s;
  }
  s.self = call_builtin(it->second, std::move(args), e.at);
  return s;
}

}  // namespace tern::script
