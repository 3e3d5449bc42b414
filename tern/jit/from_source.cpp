#include "tern/jit/from_source.h"

#include <algorithm>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/ir/builtins.h"
#include "tern/jit/nn_classes.h"
#include "tern/jit/nn_library.h"
#include "tern/jit/python_eval.h"

namespace tern::jit {
namespace {

// What may be called in __init__: classes and functions of the source, torch.nn, containers, Python's own.
class Evaluator final : public PythonEvaluator {
 public:
  using PythonEvaluator::PythonEvaluator;

 private:
  PythonArgs arguments(const Expr& e, Names& names) {
    PythonArgs args;
    for (size_t i = 1; i < e.items.size(); ++i) {
      const Expr& a = *e.items[i];
      if (a.kind == ExprKind::keyword)
        args.keywords.emplace_back(a.text, value(*a.items[0], names));
      else
        add_item(a, names, args.positional);
    }
    return args;
  }
  PV call_expression(const Expr& e, Names& names) override {
    const Expr& callee = *e.items[0];
    if (callee.kind == ExprKind::name && callee.text == "super") {
      PV v;
      v.kind = PV::super;
      auto self = names.find("self");
      for (auto& [key, given] : names)
        if (self == names.end() && given.kind == PV::module) v.tree = given.tree;
      if (self != names.end()) v.tree = self->second.tree;
      return v;
    }
    PV f = value(callee, names);
    PythonArgs args = arguments(e, names);
    if (f.kind == PV::bound) return call_method(*f.owner, f.text, args, e.at);
    if (f.kind != PV::name) error(e.at, "this cannot be called in __init__");
    if (const script::Class* c = file_.find_class(f.text)) {
      if (!file_.is_module_class(*c))
        error(e.at, fmt::format("{} is not an nn.Module: objects of other classes cannot be made in __init__",
                                f.text));
      return PV::of(make(*c, std::move(args), e.at));
    }
    if (const script::Def* d = file_.find_def(f.text)) return call(*d, std::nullopt, args, e.at);
    if (f.text.starts_with("torch.nn.") && f.text.find('.', 9) == std::string::npos)
      return layer(f.text.substr(9), args, e.at);
    return builtin(f.text, args, e.at);
  }

  PV layer(const std::string& n, PythonArgs& args, uint32_t at) {
    if (n == "Parameter") {
      bool grad = true;
      for (auto& [key, given] : args.keywords)
        if (key == "requires_grad") grad = truth(given, at);
      if (args.positional.size() > 1) grad = truth(args.positional[1], at);
      return parameter(
          args.positional.empty() ? tern::Value() : to_value(args.positional[0], "the parameter"), grad, at);
    }
    if (n == "ParameterList" || n == "ParameterDict") {
      Tree tree = keep(new_shared<ModuleTree>());
      tree->type_name = "torch.nn.modules.container." + n;
      if (args.positional.size() > 1) error(at, fmt::format("nn.{} takes one argument", n));
      if (!args.positional.empty() && !args.positional[0].is_none())
        put_parameters(*tree, args.positional[0], at);
      return PV::of(tree);
    }
    if (n == "Sequential" || n == "ModuleList" || n == "ModuleDict") {
      if (args.positional.size() == 1 && args.positional[0].kind == PV::dict)
        return named(n, args.positional[0], at);
      if (n == "ModuleList" && args.positional.size() == 1 && args.positional[0].kind != PV::module)
        return container(n, items(args.positional[0], at), at);
      if (n == "ModuleList" && !args.positional.empty()) error(at, "ModuleList takes a list of modules");
      return container(n, args.positional, at);
    }
    if (find_library_class(n)) return from_library(n, args, at);
    const LayerClass* known = find_layer(n);
    if (n.starts_with("Lazy") && (find_layer(n.substr(4)) || find_library_class(n.substr(4)))) {
      const LayerClass* eager = find_layer(n.substr(4));
      error(at,
            fmt::format("'torch.nn.modules.{}.{}' has uninitialized parameters weight. Did you forget to run "
                        "a forward pass? No forward runs in __init__: use nn.{} and give the size",
                        eager ? eager->module : find_library_class(n.substr(4))->module, n, n.substr(4)));
    }
    if (!known)
      error(at,
            fmt::format(
                "nn.{} cannot be built from source; there are {}, {}, Sequential, ModuleList, ModuleDict, "
                "ParameterList, ParameterDict",
                n, known_layers(), library_classes()));
    // The signature is written as Python's.
    static thread_local std::unordered_map<const LayerClass*, Shared<script::File>> signatures;
    Shared<script::File>& signature = signatures[known];
    if (!signature) {
      auto source = new_shared<script::Source>();
      source->text = fmt::format("def {}({}):\n  pass\n", known->name, known->signature);
      source->name = known->name;
      signature = new_shared<script::File>(script::parse_file(source));
    }
    const script::Def& def = signature->defs[0];
    LayerArgs bound;
    if (args.positional.size() > def.params.size())
      error(at, fmt::format("nn.{} takes {} arguments but {} were given", n, def.params.size(),
                            args.positional.size()));
    for (size_t i = 0; i < def.params.size(); ++i) {
      const script::Param& p = def.params[i];
      std::optional<PV> given;
      if (i < args.positional.size()) given = args.positional[i];
      for (auto& [key, v] : args.keywords)
        if (key == p.name) given = v;
      if (!given && p.default_value) given = value(*p.default_value, globals_);
      if (!given) error(at, fmt::format("nn.{} is missing the argument '{}'", n, p.name));
      tern::Value v = pointing(at, [&] { return to_value(*given, p.name); });
      // As Python has it: an int will do for a float.
      if (v.is_int() && !v.is_bool() && p.default_value && p.default_value->value.is_float())
        v = tern::Value(v.to_double());
      bound.values.emplace_back(p.name, std::move(v));
    }
    for (auto& [key, v] : args.keywords)
      if (std::none_of(def.params.begin(), def.params.end(), [&](auto& p) { return p.name == key; }))
        error(at, fmt::format("nn.{} has no argument '{}' here; it has {}", n, key, known->signature));
    return pointing(at, [&] { return PV::of(keep(build_layer(*known, std::move(bound)))); });
  }
  // Of a list, into the next places; of a dict, under its keys; of pairs likewise.
  void put_parameters(ModuleTree& tree, const PV& given, uint32_t at) {
    bool keyed = tree.type_name.ends_with("Dict");
    if (!keyed) {
      for (const PV& v : items(given, at))
        set_attribute(tree, std::to_string(held_by(tree).size()), v, nullptr, at);
      return;
    }
    auto put_one = [&](const tern::Value& key, const PV& v) {
      if (!key.is_string()) error(at, "nn.ParameterDict holds parameters by name");
      set_attribute(tree, key.string(), v, nullptr, at);
    };
    if (given.kind == PV::dict) {
      for (auto& [key, v] : given.entries->entries) put_one(key, v);
    } else if (given.kind == PV::module) {
      for (auto& [key, v] : held_by(*given.tree)) put_one(tern::Value(key), v);
    } else {
      for (const PV& pair : items(given, at)) {
        std::vector<PV> parts = items(pair, at);
        if (parts.size() != 2) error(at, "nn.ParameterDict takes a dict, or pairs of a name and a tensor");
        put_one(to_value(parts[0], "a key"), parts[1]);
      }
    }
  }
  PV from_library(const std::string& n, PythonArgs& args, uint32_t at) {
    Evaluator inside(nn_library(), "torch.nn");
    inside.depth_ = depth_ + 1;
    try {
      Tree tree = keep(inside.make(*nn_library().find_class(n), args, 0));
      inside.settle();
      return PV::of(tree);
    } catch (const Error& e) {
      // The line that matters is the user's.
      error(at, fmt::format("nn.{}: {}", n, e.message().substr(0, e.message().find('\n'))));
    }
  }
  // Tensors are copied too; what is shared stays shared.
  Tree deep_copy(const Tree& from, std::unordered_map<const ModuleTree*, Tree>& done) {
    if (auto it = done.find(from.get()); it != done.end()) return it->second;
    Tree tree = keep(new_shared<ModuleTree>());
    done.emplace(from.get(), tree);
    tree->type_name = from->type_name;
    tree->members = from->members;
    tree->children = from->children;
    tree->training = from->training;
    tree->source = from->source;
    tree->source_name = from->source_name;
    tree->entries = from->entries;
    tree->pre_hooks = from->pre_hooks;
    tree->hooks = from->hooks;
    for (ModuleTree::Member& m : tree->members) {
      if (!m.value.is_tensor() || !m.value.tensor().defined()) continue;
      Tensor old = m.value.tensor(), copy = old.detach().clone();
      copy.body()->is_parameter = old->is_parameter;
      if (old.requires_grad()) copy.requires_grad_(true);
      m.value = tern::Value(copy);
    }
    for (auto& [name, child] : tree->children) child = deep_copy(child, done);
    if (auto it = classes_.find(from.get()); it != classes_.end()) {
      auto line = it->second;
      classes_[tree.get()] = std::move(line);
    }
    if (auto it = live_.find(from.get()); it != live_.end()) {
      auto live = it->second;
      live_[tree.get()] = std::move(live);
    }
    if (std::find(sequential_.begin(), sequential_.end(), from.get()) != sequential_.end())
      sequential_.push_back(tree.get());
    return tree;
  }
  PV container(const std::string& kind, const std::vector<PV>& modules, uint32_t at) override {
    Tree tree = keep(new_shared<ModuleTree>());
    tree->type_name = "torch.nn.modules.container." + kind;
    for (size_t i = 0; i < modules.size(); ++i) {
      if (modules[i].kind != PV::module) error(at, fmt::format("nn.{} holds modules only", kind));
      tree->children.emplace_back(std::to_string(i), modules[i].tree);
    }
    if (kind == "Sequential") sequential_.push_back(tree.get()), write_forward(*tree);
    return PV::of(tree);
  }
  PV named(const std::string& kind, const PV& dict, uint32_t at) {
    Tree tree = keep(new_shared<ModuleTree>());
    tree->type_name = "torch.nn.modules.container." + kind;
    for (auto& [key, v] : dict.entries->entries) {
      if (v.kind != PV::module || !key.is_string())
        error(at, fmt::format("nn.{} holds modules by name", kind));
      tree->children.emplace_back(key.string(), v.tree);
    }
    if (kind == "Sequential") sequential_.push_back(tree.get()), write_forward(*tree);
    return PV::of(tree);
  }
  static void write_forward(ModuleTree& tree) {
    tree.source = "def forward(self, input):\n";
    for (auto& [name, child] : tree.children)
      tree.source += "  input = getattr(self, \"" + name + "\")(input)\n";
    tree.source += "  return input\n";
  }
  void changed(ModuleTree& tree) {
    if (std::find(sequential_.begin(), sequential_.end(), &tree) != sequential_.end()) write_forward(tree);
  }

  PV call_method(const PV& owner, const std::string& n, PythonArgs& args, uint32_t at) {
    if (owner.kind == PV::super) {
      if (n == "__init__" && owner.tree) {
        if (const script::Def* d = find_method(*owner.tree, "__init__", current_))
          return call(*d, PV::of(owner.tree), args, at);
        return {};
      }
      if (const script::Def* d = owner.tree ? find_method(*owner.tree, n, current_) : nullptr)
        return call(*d, PV::of(owner.tree), args, at);
      error(at, fmt::format("super() has no method '{}'", n));
    }
    if (owner.kind == PV::module) return module_method(owner, n, args, at);
    if (owner.kind == PV::list) return list_method(*owner.items, n, args, at);
    if (owner.kind == PV::dict) return dict_method(*owner.entries, n, args, at);
    if (owner.kind == PV::plain && owner.value.is_tensor())
      return pointing(at, [&] { return call_tensor_method(owner.value.tensor(), n, args); });
    if (owner.kind == PV::plain && owner.value.is_string()) {
      std::vector<tern::Value> in{owner.value};
      for (const PV& v : args.positional) in.push_back(to_value(v, "an argument"));
      if (ir::Builtin f = ir::find_builtin(Symbol("aten::" + n)))
        return pointing(at, [&] { return from_value(f(in)); });
    }
    error(at, fmt::format("'{}' cannot be called on this in __init__", n));
  }
  PV module_method(const PV& owner, const std::string& n, PythonArgs& args, uint32_t at) {
    ModuleTree& tree = *owner.tree;
    auto word = [&](size_t i) {
      tern::Value v = i < args.positional.size() ? to_value(args.positional[i], "a name") : tern::Value();
      if (!v.is_string()) error(at, fmt::format("{} needs a name", n));
      return v.string();
    };
    auto given = [&](size_t i, std::string_view key) {
      for (auto& [k, v] : args.keywords)
        if (k == key) return v;
      if (i >= args.positional.size()) error(at, fmt::format("{} is missing an argument", n));
      return args.positional[i];
    };
    if (const script::Def* d = find_method(tree, n, nullptr)) return call(*d, owner, args, at);
    if (n == "register_buffer") {
      set_attribute(tree, word(0), given(1, "tensor"), nullptr, at, script::Role::buffer);
      return {};
    }
    if (n == "register_parameter") {
      set_attribute(tree, word(0), given(1, "param"), nullptr, at, script::Role::parameter);
      return {};
    }
    if (n == "add_module" || n == "register_module") {
      set_attribute(tree, word(0), given(1, "module"), nullptr, at);
      changed(tree);
      return {};
    }
    if (n == "register_forward_hook" || n == "register_forward_pre_hook") {
      add_hook(tree, given(0, "hook"), n == "register_forward_pre_hook", at);
      return {};
    }
    if (n == "append") {
      set_attribute(tree, std::to_string(held_by(tree).size()), given(0, "module"), nullptr, at);
      changed(tree);
      return owner;
    }
    if (n == "extend") {
      for (const PV& v : items(given(0, "modules"), at))
        set_attribute(tree, std::to_string(held_by(tree).size()), v, nullptr, at);
      changed(tree);
      return owner;
    }
    if (n == "update" && holds_parameters(tree)) {
      put_parameters(tree, given(0, "parameters"), at);
      return {};
    }
    if (n == "modules" || n == "children") {
      std::vector<PV> all;
      auto walk = [&](auto& self, const Tree& t, bool deep) -> void {
        for (auto& [key, child] : t->children) {
          all.push_back(PV::of(child));
          if (deep) self(self, child, true);
        }
      };
      if (n == "modules") all.push_back(owner);
      walk(walk, owner.tree, n == "modules");
      return PV::sequence(std::move(all), PV::list);
    }
    if (n == "parameters") {
      std::vector<PV> all;
      auto walk = [&](auto& self, const ModuleTree& t) -> void {
        for (const ModuleTree::Member& m : t.members)
          if (m.role == script::Role::parameter) all.emplace_back(m.value);
        for (auto& [key, child] : t.children) self(self, *child);
      };
      walk(walk, tree);
      return PV::sequence(std::move(all), PV::list);
    }
    if (n == "apply") {
      PV f = given(0, "fn");
      auto walk = [&](auto& self, const Tree& t) -> void {
        for (auto& [key, child] : t->children) self(self, child);
        PythonArgs one;
        one.positional = {PV::of(t)};
        if (f.kind == PV::bound)
          call_method(*f.owner, f.text, one, at);
        else if (const script::Def* d = file_.find_def(f.text))
          call(*d, std::nullopt, one, at);
        else
          error(at, "apply takes a function or method of the source");
      };
      walk(walk, owner.tree);
      return owner;
    }
    if (n == "keys" || n == "items" || n == "values") {
      std::vector<PV> all;
      for (auto& [key, held] : held_by(tree))
        all.push_back(n == "keys"     ? PV(tern::Value(key))
                      : n == "values" ? held
                                      : PV::sequence({PV(tern::Value(key)), held}, PV::tuple));
      return PV::sequence(std::move(all), PV::list);
    }
    if (n == "eval" || n == "train") {
      tree.training = n == "train";
      return owner;
    }
    error(at, fmt::format("'{}' is not an attribute of {} that __init__ can use", n, tree.type_name));
  }
  // A hook is a function of the source that becomes a method: its first argument is the module.
  void add_hook(ModuleTree& tree, const PV& hook, bool before, uint32_t at) {
    const script::Def* d = hook.kind == PV::name ? file_.find_def(hook.text) : nullptr;
    if (!d) error(at, "a hook is a function at the top of the source: def hook(self, input: Tuple[...])");
    bool known = std::find(tree.pre_hooks.begin(), tree.pre_hooks.end(), d->name) != tree.pre_hooks.end() ||
                 std::find(tree.hooks.begin(), tree.hooks.end(), d->name) != tree.hooks.end();
    script::read_def(file_.file.source, *d);
    if (!d->returns)
      error(d->at,
            fmt::format(
                "{} '{}' on module '{}' is missing a return annotation. Return annotations are required, "
                "please add one.",
                before ? "Pre-hook" : "Hook", d->name, tree.type_name));
    if (!known) {
      file_.add_function(tree.source, *d);
      if (!tree.entries.empty()) tree.entries.push_back(d->name);
    }
    (before ? tree.pre_hooks : tree.hooks).push_back(d->name);
  }
  PV list_method(PythonList& list, const std::string& n, PythonArgs& args, uint32_t at) {
    if (n == "append" && args.positional.size() == 1) {
      list.items.push_back(args.positional[0]);
    } else if (n == "extend" && args.positional.size() == 1) {
      for (PV& v : items(args.positional[0], at)) list.items.push_back(std::move(v));
    } else if (n == "insert" && args.positional.size() == 2) {
      size_t i = static_cast<size_t>(std::clamp<int64_t>(to_value(args.positional[0], "an index").to_int(), 0,
                                                         static_cast<int64_t>(list.items.size())));
      list.items.insert(list.items.begin() + static_cast<long>(i), args.positional[1]);
    } else if (n == "pop") {
      if (list.items.empty()) error(at, "pop from an empty list");
      size_t i = args.positional.empty() ? list.items.size() - 1
                                         : position(args.positional[0], list.items.size(), at);
      PV v = list.items[i];
      list.items.erase(list.items.begin() + static_cast<long>(i));
      return v;
    } else if (n == "reverse") {
      std::reverse(list.items.begin(), list.items.end());
    } else {
      error(at, fmt::format("list.{} is not supported in __init__", n));
    }
    return {};
  }
  PV dict_method(PythonDict& d, const std::string& n, PythonArgs& args, uint32_t at) {
    std::vector<PV> all;
    if (n == "keys" || n == "values" || n == "items") {
      for (auto& [key, v] : d.entries)
        all.push_back(n == "keys" ? PV(key) : n == "values" ? v : PV::sequence({PV(key), v}, PV::tuple));
      return PV::sequence(std::move(all), PV::list);
    }
    if (n == "get" && !args.positional.empty()) {
      tern::Value key = to_value(args.positional[0], "a key");
      for (auto& [k, v] : d.entries)
        if (k.equals(key)) return v;
      return args.positional.size() > 1 ? args.positional[1] : PV();
    }
    error(at, fmt::format("dict.{} is not supported in __init__", n));
  }

  // Python's own.
  PV builtin(const std::string& n, PythonArgs& args, uint32_t at) {
    auto& a = args.positional;
    auto integer = [&](size_t i) { return to_value(a.at(i), "an argument").to_int(); };
    auto need = [&](size_t low, size_t high) {
      if (a.size() < low || a.size() > high)
        error(at, fmt::format("{}() takes {} to {} arguments but {} were given", n, low, high, a.size()));
    };
    if (n == "range") {
      need(1, 3);
      int64_t from = a.size() > 1 ? integer(0) : 0, to = integer(a.size() > 1 ? 1 : 0),
              by = a.size() > 2 ? integer(2) : 1;
      if (by == 0) error(at, "range() arg 3 must not be zero");
      std::vector<PV> all;
      for (int64_t i = from; by > 0 ? i < to : i > to; i += by) {
        step(at);
        all.emplace_back(tern::Value(i));
      }
      return PV::sequence(std::move(all), PV::list);
    }
    if (n == "len") {
      need(1, 1);
      return tern::Value(static_cast<int64_t>(items(a[0], at).size()));
    }
    if (n == "enumerate" || n == "zip" || n == "reversed" || n == "list" || n == "tuple") {
      std::vector<std::vector<PV>> parts;
      for (const PV& v : a) parts.push_back(items(v, at));
      if (n == "list" || n == "tuple")
        return PV::sequence(parts.empty() ? std::vector<PV>() : parts[0], n == "list" ? PV::list : PV::tuple);
      need(1, 10);
      if (n == "reversed") {
        std::reverse(parts[0].begin(), parts[0].end());
        return PV::sequence(parts[0], PV::list);
      }
      size_t count = parts[0].size();
      for (auto& p : parts) count = std::min(count, p.size());
      std::vector<PV> all;
      for (size_t i = 0; i < count; ++i) {
        std::vector<PV> row;
        if (n == "enumerate") row.emplace_back(tern::Value(static_cast<int64_t>(i)));
        for (auto& p : parts) row.push_back(p[i]);
        all.push_back(PV::sequence(std::move(row), PV::tuple));
      }
      return PV::sequence(std::move(all), PV::list);
    }
    if (n == "isinstance") {
      need(2, 2);
      std::vector<PV> classes = a[1].kind == PV::tuple ? a[1].items->items : std::vector<PV>{a[1]};
      for (const PV& c : classes) {
        std::string last = c.text.substr(c.text.rfind('.') + 1);
        if (a[0].kind == PV::module) {
          const std::string& t = a[0].tree->type_name;
          if (t == c.text || (t.starts_with("torch.nn.modules.") && t.ends_with("." + last)))
            return tern::Value(true);
          for (const script::Class* k : classes_[a[0].tree.get()])
            if (k->name == c.text) return tern::Value(true);
          if (c.text == "torch.nn.Module") return tern::Value(true);
        }
        if (a[0].kind == PV::plain) {
          const tern::Value& v = a[0].value;
          if ((c.text == "int" && v.is_int()) || (c.text == "float" && v.is_float()) ||
              (c.text == "str" && v.is_string()) || (c.text == "bool" && v.is_bool()))
            return tern::Value(true);
        }
        if ((c.text == "list" && a[0].kind == PV::list) || (c.text == "tuple" && a[0].kind == PV::tuple))
          return tern::Value(true);
      }
      return tern::Value(false);
    }
    if (n == "setattr" || n == "getattr" || n == "hasattr") {
      need(n == "setattr" ? 3 : 2, 3);
      std::string name = to_value(a[1], "a name").string();
      if (a[0].kind != PV::module) error(at, fmt::format("{}() is for modules only", n));
      if (n == "setattr") {
        set_attribute(*a[0].tree, name, a[2], nullptr, at);
        return {};
      }
      PV found = attribute(a[0], name, at);
      bool there = found.kind != PV::bound || find_method(*a[0].tree, name, nullptr);
      if (n == "hasattr") return tern::Value(there);
      if (!there && a.size() > 2) return a[2];
      if (!there) error(at, fmt::format("{} has no attribute '{}'", a[0].tree->type_name, name));
      return found;
    }
    if (n == "print") return {};
    if (n == "copy.deepcopy" || n == "deepcopy") {
      need(1, 1);
      if (a[0].kind == PV::module) {
        std::unordered_map<const ModuleTree*, Tree> done;
        return PV::of(deep_copy(a[0].tree, done));
      }
      if (a[0].kind == PV::plain && a[0].value.is_tensor())
        return tern::Value(a[0].value.tensor().detach().clone());
      if (a[0].kind != PV::plain) error(at, "deepcopy is for modules, tensors and numbers in __init__");
      return a[0];
    }
    if (n == "OrderedDict" || n == "dict" || n == "collections.OrderedDict") {
      PV d;
      d.kind = PV::dict;
      d.entries = new_shared<PythonDict>();
      if (a.size() == 1 && a[0].kind == PV::dict) *d.entries = *a[0].entries;
      if (a.size() == 1 && a[0].kind == PV::list)
        for (const PV& pair : a[0].items->items) {
          std::vector<PV> parts = items(pair, at);
          if (parts.size() == 2) put(*d.entries, to_value(parts[0], "a key"), parts[1]);
        }
      for (auto& [key, v] : args.keywords) put(*d.entries, tern::Value(key), v);
      return d;
    }
    if (n == "torch.manual_seed")
      error(at, "the seed is set by whoever makes the module: tern::manual_seed()");
    return pointing(at, [&]() -> PV {
      if (n == "int" || n == "float" || n == "bool" || n == "str" || n == "abs" || n == "min" || n == "max" ||
          n == "sum" || n == "round") {
        if (a.empty()) failf(ErrorKind::type, "{}() needs an argument", n);
        std::vector<tern::Value> in;
        for (const PV& v : a) in.push_back(to_value(v, "an argument"));
        if (n == "bool") return tern::Value(truth(a[0], at));
        if (n == "int" && in[0].is_float()) return tern::Value(static_cast<int64_t>(in[0].to_double()));
        if (n == "sum") {
          PV total = tern::Value(0);
          for (const PV& v : items(a[0], at)) total = binary("+", total, v, at);
          return total;
        }
        const char* kind = n == "int"     ? "aten::Int"
                           : n == "float" ? "aten::Float"
                           : n == "str"   ? "aten::str"
                           : n == "abs"   ? "aten::abs"
                           : n == "min"   ? "prim::min"
                           : n == "max"   ? "prim::max"
                                          : "aten::round";
        tern::Value r = ir::find_builtin(Symbol(kind))(in);
        if (n == "round" && in.size() == 1 && r.is_float())
          r = tern::Value(static_cast<int64_t>(r.to_double()));
        return r;
      }
      return call_function(n, args);
    });
  }
};

}  // namespace

ScriptModule module_from_source(std::string_view text, const SourceOptions& options) {
  auto source = new_shared<script::Source>();
  source->text = text;
  source->name = options.name;
  // Bodies are read when they run or are compiled: what does neither may be any Python.
  PythonFile file{script::parse_file(source, script::Bodies::leave)};
  for (const script::Class& c : file.file.classes) script::read_class(file.file.source, c);
  const script::Class* chosen = nullptr;
  for (const script::Class& c : file.file.classes)
    if (options.class_name.empty() ? file.is_module_class(c) : c.name == options.class_name) chosen = &c;
  if (!chosen)
    failf(ErrorKind::value, "{}: there is no {}", options.name,
          options.class_name.empty() ? "class that derives from nn.Module" : "class " + options.class_name);
  if (!file.is_module_class(*chosen))
    failf(ErrorKind::value, "{}: {} does not derive from nn.Module", options.name, chosen->name);
  NoGrad no_grad;
  Evaluator evaluator(file, options.name);
  evaluator.run_globals();
  PythonArgs args;
  for (const tern::Value& v : options.arguments) args.positional.emplace_back(v);
  for (auto& [key, v] : options.keywords) args.keywords.emplace_back(key.str(), PythonValue(v));
  Shared<ModuleTree> tree = evaluator.make(*chosen, std::move(args), chosen->at);
  evaluator.settle();
  tree->definitions = file.definitions_text();
  for (auto& [name, v] : evaluator.globals())
    if (v.kind == PythonValue::plain && !v.value.is_tensor()) tree->globals.emplace_back(name, v.value);
  return make_module(tree);
}

}  // namespace tern::jit
