#include "tern/jit/python_eval.h"

#include <algorithm>
#include <limits>

#include "tern/base/format.h"
#include "tern/ir/builtins.h"
#include "tern/jit/nn_classes.h"
#include "tern/jit/nn_library.h"
#include "tern/script/compiler.h"

namespace tern::jit {

void PythonEvaluator::run_globals() {
  for (const script::StmtPtr& s : file_.file.statements) try {
      statement(*s, globals_);
    } catch (const Error&) {
      // Something that only Python needs: an error where a module asks for it.
    }
}

PythonEvaluator::Tree PythonEvaluator::make(const script::Class& c, PythonArgs args, uint32_t at) {
  Tree tree = keep(new_shared<ModuleTree>());
  const LibraryClass* ours = &file_ == &nn_library() ? find_library_class(c.name) : nullptr;
  tree->type_name = ours ? fmt::format("torch.nn.modules.{}.{}", ours->module, c.name) : c.name;
  if (ours) tree->definitions = ours->definitions;
  tree->source_name = source_name_;
  tree->source = file_.methods_text(c);
  tree->entries = {"forward"};
  for (const script::Class* k : file_.line_of(c)) {
    classes_[tree.get()].push_back(k);
    for (const script::Def& d : k->methods)
      for (const std::string& decorator : d.decorators)
        if (decorator.ends_with("export")) tree->entries.push_back(d.name);
    for (const script::StmtPtr& s : k->body) class_statement(*s, *tree);
  }
  PV self = PV::of(tree);
  if (const script::Def* init = find_method(*tree, "__init__", nullptr))
    call(*init, self, args, at);
  else if (!args.positional.empty() || !args.keywords.empty())
    error(at, fmt::format("{}() takes no arguments", c.name));
  return tree;
}

void PythonEvaluator::settle() {
  for (auto& [tree, live] : live_)
    for (auto& [name, v] : live)
      for (ModuleTree::Member& m : const_cast<ModuleTree*>(tree)->members)
        if (m.name == name) m.value = to_value(v, "self." + name);
}

void PythonEvaluator::error(uint32_t at, const std::string& message) const {
  script::fail_at(*file_.file.source, at, message);
}

void PythonEvaluator::step(uint32_t at) {
  if (++steps_ > max_steps) error(at, "__init__ runs for more than a million steps");
}

const script::Def* PythonEvaluator::find_method(const ModuleTree& tree, std::string_view name,
                                                const script::Class* after) {
  bool on = after == nullptr;
  auto it = classes_.find(&tree);
  if (it == classes_.end()) return nullptr;
  for (const script::Class* c : it->second) {
    if (on)
      for (const script::Def& d : c->methods)
        if (d.name == name && !declares_overload(d)) {
          defining_ = c;
          return &d;
        }
    on = on || c == after;
  }
  return nullptr;
}

PythonValue PythonEvaluator::call(const script::Def& def, std::optional<PV> self, const PythonArgs& args,
                                  uint32_t at) {
  struct Depth {
    int& d;
    explicit Depth(int& depth) : d(depth) { ++d; }
    ~Depth() { --d; }
  } deeper(depth_);
  if (depth_ > max_depth) error(at, "calls are nested too deep");
  script::read_def(file_.file.source, def);
  const script::Class* owner = self ? defining_ : nullptr;
  Names names;
  std::vector<PV> positional = args.positional;
  if (self) positional.insert(positional.begin(), *self);
  for (size_t i = 0; i < def.params.size(); ++i) {
    const script::Param& p = def.params[i];
    if (i < positional.size() && !p.keyword_only) {
      names[p.name] = positional[i];
      continue;
    }
    auto given =
        std::find_if(args.keywords.begin(), args.keywords.end(), [&](auto& k) { return k.first == p.name; });
    if (given != args.keywords.end())
      names[p.name] = given->second;
    else if (p.default_value)
      names[p.name] = value(*p.default_value, globals_);
    else
      error(at, fmt::format("{}() is missing the argument '{}'", def.name, p.name));
  }
  if (positional.size() > def.params.size())
    error(at, fmt::format("{}() takes {} arguments but {} were given", def.name, def.params.size(),
                          positional.size()));
  for (auto& [key, v] : args.keywords)
    if (std::none_of(def.params.begin(), def.params.end(), [&](auto& p) { return p.name == key; }))
      error(at, fmt::format("{}() has no argument '{}'", def.name, key));
  const script::Class* outer = std::exchange(current_, owner);
  PV result;
  std::swap(result, returned_);
  body(def.body, names);
  std::swap(result, returned_);
  current_ = outer;
  return result;
}

PythonEvaluator::Flow PythonEvaluator::body(const script::Body& statements, Names& names) {
  for (const script::StmtPtr& s : statements)
    if (Flow f = statement(*s, names); f != Flow::on) return f;
  return Flow::on;
}

PythonEvaluator::Flow PythonEvaluator::statement(const Stmt& s, Names& names) {
  step(s.at);
  switch (s.kind) {
    case StmtKind::pass:
    case StmtKind::global:
      return Flow::on;
    case StmtKind::expr:
      if (s.value->kind != ExprKind::constant) value(*s.value, names);
      return Flow::on;
    case StmtKind::assign: {
      PV v = value(*s.value, names);
      for (const ExprPtr& t : s.targets) assign(*t, v, names, nullptr);
      return Flow::on;
    }
    case StmtKind::annotated:
      if (s.value) assign(*s.targets[0], value(*s.value, names), names, s.annotation.get());
      return Flow::on;
    case StmtKind::augmented:
      assign(*s.targets[0], binary(s.op, value(*s.targets[0], names), value(*s.value, names), s.at), names,
             nullptr);
      return Flow::on;
    case StmtKind::if_:
      return body(truth(value(*s.value, names), s.at) ? s.body : s.otherwise, names);
    case StmtKind::for_:
      for (const PV& item : items(value(*s.value, names), s.value->at)) {
        step(s.at);
        if (s.targets.size() == 1)
          assign(*s.targets[0], item, names, nullptr);
        else
          unpack(s.targets, item, names, s.at);
        Flow f = body(s.body, names);
        if (f == Flow::break_) break;
        if (f == Flow::return_) return f;
      }
      return Flow::on;
    case StmtKind::while_:
      while (truth(value(*s.value, names), s.at)) {
        step(s.at);
        Flow f = body(s.body, names);
        if (f == Flow::break_) break;
        if (f == Flow::return_) return f;
      }
      return Flow::on;
    case StmtKind::break_:
      return Flow::break_;
    case StmtKind::continue_:
      return Flow::continue_;
    case StmtKind::return_:
      returned_ = s.value ? value(*s.value, names) : PV();
      return Flow::return_;
    case StmtKind::with:  // no_grad and the like: nothing here has history
      return body(s.body, names);
    case StmtKind::assert_:
      if (!truth(value(*s.value, names), s.at))
        error(s.at, s.message ? text_of(value(*s.message, names)) : "AssertionError");
      return Flow::on;
    case StmtKind::raise: {
      std::string what = "__init__ raises";
      if (s.value && s.value->kind == ExprKind::call && s.value->items.size() > 1)
        what = text_of(value(*s.value->items[1], names));
      error(s.at, what);
    }
    default:
      error(s.at, "this statement is not supported in __init__");
  }
}

void PythonEvaluator::class_statement(const Stmt& s, ModuleTree& tree) {
  if (s.kind == StmtKind::annotated && s.targets[0]->kind == ExprKind::name) {
    types_[&tree].emplace_back(s.targets[0]->text, s.annotation.get());
    if (s.value) set_attribute(tree, s.targets[0]->text, value(*s.value, globals_), s.annotation.get(), s.at);
  } else if (s.kind == StmtKind::assign && s.targets[0]->kind == ExprKind::name &&
             !s.targets[0]->text.starts_with("__")) {
    set_attribute(tree, s.targets[0]->text, value(*s.value, globals_), nullptr, s.at);
  }
}

void PythonEvaluator::assign(const Expr& target, const PV& v, Names& names, const Expr* annotation) {
  switch (target.kind) {
    case ExprKind::name:
      names[target.text] = v;
      return;
    case ExprKind::tuple:
    case ExprKind::list:
      return unpack(target.items, v, names, target.at);
    case ExprKind::attribute: {
      PV owner = value(*target.items[0], names);
      if (owner.kind == PV::plain && owner.value.is_tensor() && target.text == "data") {
        Tensor t = owner.value.tensor();
        t.copy_(to_value(v, "data").tensor());
        return;
      }
      if (owner.kind != PV::module) error(target.at, "attributes are set on modules only");
      return set_attribute(*owner.tree, target.text, v, annotation, target.at);
    }
    case ExprKind::subscript: {
      PV owner = value(*target.items[0], names), index = value(*target.items[1], names);
      if (owner.kind == PV::list) {
        owner.items->items[position(index, owner.items->items.size(), target.at)] = v;
      } else if (owner.kind == PV::dict) {
        put(*owner.entries, to_value(index, "a key"), v);
      } else if (owner.kind == PV::module && index.kind == PV::plain &&
                 (v.kind == PV::module || holds_parameters(*owner.tree))) {
        std::string name = index.value.is_string()
                               ? index.value.string()
                               : std::to_string(position(index, held_by(*owner.tree).size(), target.at));
        set_attribute(*owner.tree, name, v, nullptr, target.at);
      } else {
        error(target.at, "items can be set in lists, dicts and containers of modules and parameters only");
      }
      return;
    }
    default:
      error(target.at, "cannot assign to this");
  }
}

void PythonEvaluator::unpack(const std::vector<ExprPtr>& targets, const PV& v, Names& names, uint32_t at) {
  std::vector<PV> parts = items(v, at);
  if (parts.size() != targets.size())
    error(at, fmt::format("{} values cannot be unpacked into {} names", parts.size(), targets.size()));
  for (size_t i = 0; i < parts.size(); ++i) assign(*targets[i], parts[i], names, nullptr);
}

void PythonEvaluator::put(PythonDict& d, const tern::Value& key, const PV& v) {
  for (auto& [k, item] : d.entries)
    if (k.equals(key)) {
      item = v;
      return;
    }
  d.entries.emplace_back(key, v);
}

void PythonEvaluator::set_attribute(ModuleTree& tree, const std::string& name, const PV& v,
                                    const Expr* annotation, uint32_t at, std::optional<script::Role> role) {
  // What is set again keeps its place, as in Python.
  auto old = std::find_if(tree.members.begin(), tree.members.end(), [&](auto& m) { return m.name == name; });
  auto child =
      std::find_if(tree.children.begin(), tree.children.end(), [&](auto& c) { return c.first == name; });
  if (v.kind == PV::module) {
    if (old != tree.members.end()) tree.members.erase(old);
    if (child != tree.children.end())
      child->second = v.tree;
    else
      tree.children.emplace_back(name, v.tree);
    return;
  }
  if (child != tree.children.end()) tree.children.erase(child);
  if (!annotation)
    for (auto& [key, type] : types_[&tree])
      if (key == name) annotation = type;
  tern::Value plain = pointing(at, [&] { return to_value(v, "self." + name); });
  if (holds_parameters(tree) && name != "training") plain = parameter(plain, std::nullopt, at);
  ModuleTree::Member m{name, plain};
  if (plain.is_tensor() && plain.tensor().defined() && plain.tensor()->is_parameter)
    m.role = script::Role::parameter;
  if (role) m.role = plain.is_none() ? script::Role::attribute : *role;
  if (annotation)
    m.type = script::Compiler::resolve_type(*unit_, *file_.file.source, "__torch__", *annotation);
  if (!m.type && plain.is_none()) m.type = ir::Type::none();
  if (old != tree.members.end())
    *old = std::move(m);
  else
    tree.members.push_back(std::move(m));
  // Lists and dicts may grow until __init__ is done.
  auto& live = live_[&tree];
  std::erase_if(live, [&](auto& l) { return l.first == name; });
  if (v.kind == PV::list || v.kind == PV::dict) live.emplace_back(name, v);
}

tern::Value PythonEvaluator::parameter(const tern::Value& v, std::optional<bool> grad, uint32_t at) {
  if (!v.is_tensor()) error(at, "a parameter is made from a tensor");
  if (!grad && v.tensor()->is_parameter) return v;
  Tensor t = v.tensor().detach();
  t.body()->is_parameter = true;
  if (grad.value_or(true)) pointing(at, [&] { t.requires_grad_(true); });
  return tern::Value(t);
}

bool PythonEvaluator::holds_parameters(const ModuleTree& tree) {
  return tree.type_name.starts_with("torch.nn.modules.container.Parameter");
}

std::vector<std::pair<std::string, PythonValue>> PythonEvaluator::held_by(const ModuleTree& tree) {
  std::vector<std::pair<std::string, PV>> all;
  for (auto& [name, child] : tree.children) all.emplace_back(name, PV::of(child));
  if (holds_parameters(tree))
    for (const ModuleTree::Member& m : tree.members) all.emplace_back(m.name, PV(m.value));
  return all;
}

PythonValue PythonEvaluator::attribute(const PV& owner, const std::string& name, uint32_t at) {
  auto bound = [&] {
    PV b;
    b.kind = PV::bound;
    b.text = name;
    b.owner = new_shared<PV>(owner);
    return b;
  };
  switch (owner.kind) {
    case PV::name: {
      std::string full = owner.text + "." + name;
      static const std::unordered_map<std::string_view, DType> dtypes = {
          {"torch.float", kFloat},
          {"torch.float32", kFloat},
          {"torch.float64", DType::float64},
          {"torch.double", DType::float64},
          {"torch.float16", DType::float16},
          {"torch.half", DType::float16},
          {"torch.bfloat16", DType::bfloat16},
          {"torch.int64", kLong},
          {"torch.long", kLong},
          {"torch.int32", DType::int32},
          {"torch.int", DType::int32},
          {"torch.uint8", DType::uint8},
          {"torch.int16", DType::int16},
          {"torch.short", DType::int16},
          {"torch.int8", DType::int8},
          {"torch.complex64", DType::complex64},
          {"torch.cfloat", DType::complex64},
          {"torch.complex128", DType::complex128},
          {"torch.cdouble", DType::complex128},
          {"torch.bool", DType::bool_}};
      if (auto it = dtypes.find(full); it != dtypes.end()) return tern::Value(it->second);
      if (full == "math.pi") return tern::Value(3.141592653589793);
      if (full == "math.e") return tern::Value(2.718281828459045);
      if (full == "math.inf") return tern::Value(std::numeric_limits<double>::infinity());
      return PV::named(full);
    }
    case PV::module: {
      for (auto& [key, v] : live_[owner.tree.get()])
        if (key == name) return v;
      for (const ModuleTree::Member& m : owner.tree->members)
        if (m.name == name) return from_value(m.value);
      for (auto& [key, child] : owner.tree->children)
        if (key == name) return PV::of(child);
      if (name == "training") return tern::Value(true);
      if (const script::Def* d = find_method(*owner.tree, name, nullptr);
          d && std::find(d->decorators.begin(), d->decorators.end(), "property") != d->decorators.end())
        return call(*d, owner, {}, at);
      return bound();
    }
    case PV::plain:
      if (owner.value.is_tensor()) {
        if (name == "shape") return from_value(size_list(owner.value.tensor()));
        if (name == "data") return owner;
        if (name == "dtype") return tern::Value(owner.value.tensor().dtype());
      }
      return bound();
    default:
      return bound();
  }
  error(at, "no such attribute");
}

tern::Value PythonEvaluator::size_list(const Tensor& t) {
  std::vector<tern::Value> sizes;
  for (SymInt s : t.sizes()) sizes.emplace_back(s);
  return tern::Value::tuple(std::move(sizes));
}

PythonValue PythonEvaluator::from_value(const tern::Value& v) {
  if (!v.is_list() && !v.is_tuple()) return v;
  std::vector<PV> parts;
  for (const tern::Value& i : v.items()) parts.push_back(from_value(i));
  return PV::sequence(std::move(parts), v.is_list() ? PV::list : PV::tuple);
}

PythonValue PythonEvaluator::value(const Expr& e, Names& names) {
  step(e.at);
  switch (e.kind) {
    case ExprKind::constant:
      return e.value;
    case ExprKind::name:
      return name(e, names);
    case ExprKind::attribute:
      return attribute(value(*e.items[0], names), e.text, e.at);
    case ExprKind::subscript:
      return subscript(e, names);
    case ExprKind::call:
      return call_expression(e, names);
    case ExprKind::unary: {
      PV v = value(*e.items[0], names);
      if (e.text == "not") return tern::Value(!truth(v, e.at));
      return pointing(e.at, [&]() -> PV {
        tern::Value plain = to_value(v, "the operand");
        if (plain.is_tensor()) {
          PythonArgs none;
          return e.text == "-" ? call_tensor_method(plain.tensor(), "neg", none) : v;
        }
        if (plain.is_int() && e.text == "~") return tern::Value(~plain.to_int());
        if (e.text == "+") return plain;
        return plain.is_int() ? tern::Value(-plain.to_int()) : tern::Value(-plain.to_double());
      });
    }
    case ExprKind::binary:
      if (e.text == "and" || e.text == "or") {
        PV a = value(*e.items[0], names);
        return truth(a, e.at) == (e.text == "or") ? a : value(*e.items[1], names);
      }
      return binary(e.text, value(*e.items[0], names), value(*e.items[1], names), e.at);
    case ExprKind::ternary:
      return value(truth(value(*e.items[1], names), e.at) ? *e.items[0] : *e.items[2], names);
    case ExprKind::list:
    case ExprKind::tuple: {
      std::vector<PV> parts;
      for (const ExprPtr& i : e.items) add_item(*i, names, parts);
      return PV::sequence(std::move(parts), e.kind == ExprKind::list ? PV::list : PV::tuple);
    }
    case ExprKind::dict: {
      PV d;
      d.kind = PV::dict;
      d.entries = new_shared<PythonDict>();
      for (size_t i = 0; i + 1 < e.items.size(); i += 2)
        put(*d.entries, to_value(value(*e.items[i], names), "a key"), value(*e.items[i + 1], names));
      return d;
    }
    case ExprKind::list_comp: {
      std::vector<PV> parts;
      Names inner = names;
      for (const PV& item : items(value(*e.items[2], names), e.at)) {
        step(e.at);
        assign(*e.items[1], item, inner, nullptr);
        bool fits = true;
        for (size_t i = 3; i < e.items.size() && fits; ++i) fits = truth(value(*e.items[i], inner), e.at);
        if (fits) parts.push_back(value(*e.items[0], inner));
      }
      return PV::sequence(std::move(parts), PV::list);
    }
    case ExprKind::fstring: {
      std::string text;
      for (const ExprPtr& i : e.items) text += text_of(value(*i, names));
      return tern::Value(text);
    }
    default:
      error(e.at, "this expression is not supported in __init__");
  }
}

void PythonEvaluator::add_item(const Expr& e, Names& names, std::vector<PV>& into) {
  if (e.kind != ExprKind::starred) {
    into.push_back(value(e, names));
    return;
  }
  for (PV& v : items(value(*e.items[0], names), e.at)) into.push_back(std::move(v));
}

PythonValue PythonEvaluator::name(const Expr& e, Names& names) {
  const std::string& n = e.text;
  if (auto it = names.find(n); it != names.end()) return it->second;
  if (auto it = globals_.find(n); it != globals_.end()) return it->second;
  if (n == "nn") return PV::named("torch.nn");
  if (n == "F") return PV::named("torch.nn.functional");
  if (n == "init") return PV::named("torch.nn.init");
  if (file_.find_class(n) || file_.find_def(n)) return PV::named(n);
  if (find_layer(n) || find_library_class(n) || is_container(n)) return PV::named("torch.nn." + n);
  return PV::named(n);
}

bool PythonEvaluator::is_container(std::string_view n) {
  return n == "Sequential" || n == "ModuleList" || n == "ModuleDict" || n == "Parameter" ||
         n == "ParameterList" || n == "ParameterDict";
}

PythonValue PythonEvaluator::subscript(const Expr& e, Names& names) {
  PV owner = value(*e.items[0], names);
  const Expr& index = *e.items[1];
  if (owner.kind == PV::plain && owner.value.is_tensor()) return index_tensor(owner.value.tensor(), e, names);
  if (index.kind == ExprKind::slice) {
    auto bound = [&](size_t i, int64_t otherwise) {
      return index.items[i] ? to_value(value(*index.items[i], names), "a bound").to_int() : otherwise;
    };
    std::vector<PV> all = items(owner, e.at), part;
    int64_t n = static_cast<int64_t>(all.size()), step_by = bound(2, 1);
    if (step_by == 0) error(e.at, "slice step cannot be zero");
    auto clip = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? at + n : at, step_by < 0 ? -1 : 0, n);
    };
    int64_t from = index.items[0] ? clip(bound(0, 0)) : step_by < 0 ? n - 1 : 0;
    int64_t to = index.items[1] ? clip(bound(1, n)) : step_by < 0 ? -1 : n;
    for (int64_t i = from; step_by > 0 ? i < to : i > to; i += step_by)
      if (i >= 0 && i < n) part.push_back(all[static_cast<size_t>(i)]);
    if (owner.kind == PV::module) return container("ModuleList", part, e.at);
    return PV::sequence(std::move(part), owner.kind == PV::tuple ? PV::tuple : PV::list);
  }
  PV at = value(index, names);
  if (owner.kind == PV::dict) {
    tern::Value key = to_value(at, "a key");
    for (auto& [k, v] : owner.entries->entries)
      if (k.equals(key)) return v;
    error(e.at, fmt::format("KeyError: {}", key.str()));
  }
  if (owner.kind == PV::module && at.kind == PV::plain && at.value.is_string()) {
    for (auto& [key, held] : held_by(*owner.tree))
      if (key == at.value.string()) return held;
    error(e.at, fmt::format("KeyError: {}", at.value.string()));
  }
  if (owner.kind == PV::list || owner.kind == PV::tuple || owner.kind == PV::module) {
    std::vector<PV> all = items(owner, e.at);
    return all[position(at, all.size(), e.at)];
  }
  error(e.at, "this cannot be indexed in __init__");
}

// Each index in turn: an int selects, a slice slices, None unsqueezes.
PythonValue PythonEvaluator::index_tensor(Tensor t, const Expr& e, Names& names) {
  std::vector<const Expr*> parts;
  for (size_t i = 1; i < e.items.size(); ++i) {
    const Expr& part = *e.items[i];
    if (part.kind != ExprKind::tuple) parts.push_back(&part);
    for (size_t k = 0; part.kind == ExprKind::tuple && k < part.items.size(); ++k)
      parts.push_back(part.items[k].get());
  }
  int64_t dim = 0;
  for (const Expr* part : parts) {
    auto method = [&](const char* name, std::vector<PV> positional) {
      PythonArgs args;
      args.positional = std::move(positional);
      args.positional.insert(args.positional.begin(), PV(tern::Value(dim)));
      t = pointing(part->at, [&] { return call_tensor_method(t, name, args); }).value.tensor();
    };
    if (part->kind == ExprKind::slice) {
      auto bound = [&](size_t i) { return part->items[i] ? value(*part->items[i], names) : PV(); };
      method("slice", {bound(0), bound(1), part->items[2] ? bound(2) : PV(tern::Value(1))});
      ++dim;
      continue;
    }
    PV at = value(*part, names);
    if (at.is_none()) {
      method("unsqueeze", {});
      ++dim;
    } else if (at.kind == PV::plain && at.value.is_int()) {
      method("select", {at});
    } else {
      error(part->at, "a tensor is indexed with ints, slices and None in __init__");
    }
  }
  return tern::Value(t);
}

size_t PythonEvaluator::position(const PV& index, size_t size, uint32_t at) {
  tern::Value v = to_value(index, "an index");
  if (!v.is_int()) error(at, "an index must be an int");
  int64_t i = v.to_int() < 0 ? v.to_int() + static_cast<int64_t>(size) : v.to_int();
  if (i < 0 || i >= static_cast<int64_t>(size)) error(at, "index out of range");
  return static_cast<size_t>(i);
}

std::vector<PythonValue> PythonEvaluator::items(const PV& v, uint32_t at) {
  if (v.kind == PV::list || v.kind == PV::tuple) return v.items->items;
  std::vector<PV> out;
  if (v.kind == PV::dict) {
    for (auto& [key, item] : v.entries->entries) out.emplace_back(key);
    return out;
  }
  if (v.kind == PV::module) {
    bool keyed = v.tree->type_name.ends_with("Dict");
    for (auto& [name, held] : held_by(*v.tree)) out.push_back(keyed ? PV(tern::Value(name)) : held);
    return out;
  }
  if (v.kind == PV::plain && v.value.is_string()) {
    for (char c : v.value.string()) out.emplace_back(tern::Value(std::string(1, c)));
    return out;
  }
  if (v.kind == PV::plain && (v.value.is_list() || v.value.is_tuple()))
    return from_value(v.value).items->items;
  error(at, "this cannot be iterated over in __init__");
}

bool PythonEvaluator::truth(const PV& v, uint32_t at) {
  switch (v.kind) {
    case PV::plain:
      return pointing(at, [&] { return ir::truth(v.value); });
    case PV::list:
    case PV::tuple:
      return !v.items->items.empty();
    case PV::dict:
      return !v.entries->entries.empty();
    default:
      return true;
  }
}

std::string PythonEvaluator::text_of(const PV& v) {
  tern::Value plain = to_value(v, "the text");
  return plain.is_string() ? plain.string() : plain.str();
}

PythonValue PythonEvaluator::binary(const std::string& op, const PV& a, const PV& b, uint32_t at) {
  if (op == "is" || op == "is not") {
    bool same = a.is_none() && b.is_none();
    if (a.kind == PV::module && b.kind == PV::module) same = a.tree == b.tree;
    if (a.kind == PV::name && b.kind == PV::name) same = a.text == b.text;
    if (a.kind == PV::plain && b.kind == PV::plain && a.value.is_bool() && b.value.is_bool())
      same = a.value.to_bool() == b.value.to_bool();
    return tern::Value(same == (op == "is"));
  }
  if (op == "in" || op == "not in") {
    bool found = false;
    tern::Value wanted = to_value(a, "the operand");
    for (const PV& i : items(b, at)) found = found || (i.kind == PV::plain && i.value.equals(wanted));
    if (b.kind == PV::plain && b.value.is_string() && wanted.is_string())
      found = b.value.string().find(wanted.string()) != std::string::npos;
    return tern::Value(found == (op == "in"));
  }
  bool lists = (a.kind == PV::list || a.kind == PV::tuple) && a.kind == b.kind;
  if (op == "+" && lists) {
    std::vector<PV> all = a.items->items;
    all.insert(all.end(), b.items->items.begin(), b.items->items.end());
    return PV::sequence(std::move(all), a.kind);
  }
  if (op == "*" && (a.kind == PV::list || a.kind == PV::tuple) && b.kind == PV::plain && b.value.is_int()) {
    std::vector<PV> all;
    for (int64_t i = 0; i < b.value.to_int(); ++i) {
      step(at);
      all.insert(all.end(), a.items->items.begin(), a.items->items.end());
    }
    return PV::sequence(std::move(all), a.kind);
  }
  return pointing(at, [&]() -> PV {
    tern::Value x = to_value(a, "the operand"), y = to_value(b, "the operand");
    static const std::unordered_map<std::string_view, const char*> kinds = {
        {"+", "add"},       {"-", "sub"},         {"*", "mul"},        {"/", "div"},    {"//", "floordiv"},
        {"%", "remainder"}, {"**", "pow"},        {"==", "eq"},        {"!=", "ne"},    {"<", "lt"},
        {"<=", "le"},       {">", "gt"},          {">=", "ge"},        {"@", "matmul"}, {"&", "__and__"},
        {"|", "__or__"},    {"<<", "__lshift__"}, {">>", "__rshift__"}};
    auto it = kinds.find(op);
    if (it == kinds.end()) failf(ErrorKind::not_supported, "'{}' is not supported in __init__", op);
    if (x.is_tensor() || y.is_tensor()) {
      PythonArgs args;
      args.positional = {PV(y)};
      if (x.is_tensor()) return call_tensor_method(x.tensor(), it->second, args);
      args.positional = {PV(x), PV(y)};
      return call_function(std::string("torch.") + it->second, args);
    }
    if (op == "**" && x.is_int() && y.is_int() && y.to_int() >= 0) {
      int64_t result = 1;
      for (int64_t i = 0; i < y.to_int() && i < 64; ++i) result *= x.to_int();
      return tern::Value(result);
    }
    tern::Value in[] = {x, y};
    ir::Builtin f = ir::find_builtin(Symbol(std::string("_operator::") + it->second));
    return f(Span<const tern::Value>(in, 2));
  });
}

}  // namespace tern::jit
