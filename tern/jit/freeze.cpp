#include "tern/jit/freeze.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/ir/alias.h"
#include "tern/ir/pass.h"
#include "tern/ir/verify.h"
#include "tern/jit/hooks.h"
#include "tern/script/signature.h"

namespace tern::jit {
namespace {

using ir::Type;
using ir::TypeKind;
using script::Attribute;
using script::ClassType;
using script::Object;
using script::Role;

// Memory that a value reaches: storages of tensors, boxes of containers.
void collect_places(const tern::Value& v, std::unordered_set<const void*>& places) {
  if (v.is_tensor()) {
    if (v.tensor().defined() && !v.tensor().is_fake()) places.insert(v.tensor().storage().get());
    return;
  }
  if (v.kind() < ValueKind::list || !places.insert(v.box()).second) return;
  if (v.is_list() || v.is_tuple())
    for (const tern::Value& item : v.items()) collect_places(item, places);
  if (v.is_dict())
    for (auto& [key, item] : v.entries()) collect_places(item, places);
  if (Object* o = Object::of(v))
    for (const tern::Value& slot : o->slots) collect_places(slot, places);
}

bool holds_object(const tern::Value& v) {
  if (v.is_object()) return !ir::EnumMember::of(v);
  if (v.is_list() || v.is_tuple()) return std::any_of(v.items().begin(), v.items().end(), holds_object);
  if (v.is_dict())
    return std::any_of(v.entries().begin(), v.entries().end(),
                       [](auto& e) { return holds_object(e.first) || holds_object(e.second); });
  return false;
}

// A constant carries no history.
tern::Value without_grad(const tern::Value& v) {
  if (v.is_tensor()) return v.tensor().defined() ? tern::Value(v.tensor().detach()) : v;
  if (v.is_list() || v.is_tuple()) {
    std::vector<tern::Value> items;
    for (const tern::Value& item : v.items()) items.push_back(without_grad(item));
    return v.is_list() ? tern::Value::list(std::move(items), v.element_type())
                       : tern::Value::tuple(std::move(items));
  }
  return v;
}

template <class F>
void each_node(ir::Block& block, F&& f) {
  for (ir::Node& n : block) {
    f(n);
    for (ir::Block* b : n.blocks()) each_node(*b, f);
  }
}

class Freezer {
 public:
  Freezer(const ScriptModule& module, const std::vector<std::string>& preserved)
      : module_(module), root_(*Object::of(module.object())), unit_(root_.unit) {
    find_objects(module.object(), "self");
    if (module.has_method("forward")) methods_.push_back("forward");
    for (const std::string& name : preserved) preserve(name);
    if (methods_.empty()) fail("freeze: the module has no forward and no method to preserve");
  }

  ScriptModule run() {
    for (const std::string& name : methods_) {
      const script::Function* f = module_.type().method(Symbol(name));
      // A call of the module runs its hooks; PyTorch loses them here.
      bool hooked = name == "forward" && has_hooks(module_.type());
      Owned<ir::Graph>& g =
          graphs_.emplace_back(hooked ? graph_with_hooks(*f, *unit_) : module_.graph(name).clone());
      std::vector<const script::Function*> active;
      if (!hooked) active.push_back(f);
      known_.emplace(g->inputs()[0], module_.object());
      resolve(*g, g->top(), g->top().first(), &g->top().return_node(), active);
      check_self_stays(*g);
    }
    for (auto& g : graphs_) find_changes(*g);
    for (auto& g : graphs_) {
      replace_attributes(*g);
      simplify(*g);
    }
    return build();
  }

 private:
  using Member = std::pair<const Box*, Symbol>;
  struct MemberHash {
    size_t operator()(const Member& m) const {
      return std::hash<const void*>{}(m.first) * 31 + m.second.id();
    }
  };

  void find_objects(const tern::Value& v, const std::string& path) {
    Object* o = Object::of(v);
    if (!o || !paths_.emplace(v.box(), path).second) return;
    for (const Attribute& a : o->type->attributes)
      if (const tern::Value* item = a.role == Role::constant ? nullptr : o->find(a.name))
        find_objects(*item, path + "." + a.name.str());
  }

  void preserve(const std::string& name) {
    if (name == "forward") return;
    if (module_.has_method(name)) {
      if (std::find(methods_.begin(), methods_.end(), name) == methods_.end()) methods_.push_back(name);
      return;
    }
    Object* owner = &root_;
    tern::Value value = module_.object();
    for (size_t from = 0; from <= name.size();) {
      size_t dot = std::min(name.find('.', from), name.size());
      Symbol part(std::string_view(name).substr(from, dot - from));
      owner = Object::of(value);
      const tern::Value* next = owner ? owner->find(part) : nullptr;
      if (!next) failf("Unknown name: {}", name);
      kept_.insert({value.box(), part});
      if (dot == name.size()) held_.insert({value.box(), part});
      value = *next;
      from = dot + 1;
    }
    keep_whole(value);
    collect_places(value, changed_);
  }
  // An object that is handed around: all it has stays as it is.
  void keep_whole(const tern::Value& v) {
    Object* o = Object::of(v);
    if (!o || !whole_.insert(v.box()).second) return;
    collect_places(v, changed_);
    for (const tern::Value& slot : o->slots) keep_whole(slot);
  }

  // Calls become their bodies; what is read from known objects is known.
  void resolve(ir::Graph& g, ir::Block& block, ir::Node* from, ir::Node* to,
               std::vector<const script::Function*>& active) {
    for (ir::Node* n = from; n != to;) {
      ir::Node* next = n->next();
      if (n->is("prim::GetAttr")) read(*n);
      if (n->is("prim::CallMethod") || n->is("prim::CallFunction")) {
        if (script::Function* f = callee(*n);
            f && std::find(active.begin(), active.end(), f) == active.end()) {
          unit_->compile(*f);
          ir::Node* before = n->prev();
          put_in_place(g, *n, f->graph());
          active.push_back(f);
          resolve(g, block, before == &block.return_node() ? block.first() : before->next(), next, active);
          active.pop_back();
          n = next;
          continue;
        }
      }
      for (ir::Block* b : n->blocks()) resolve(g, *b, b->first(), &b->return_node(), active);
      n = next;
    }
  }
  void read(ir::Node& n) {
    auto it = n.input(0).is_value() ? known_.find(&n.input(0).value()) : known_.end();
    Object* o = it == known_.end() ? nullptr : Object::of(it->second);
    const tern::Value* v = o ? o->find(Symbol(n.attribute("name")->string())) : nullptr;
    if (v) known_.emplace(&n.output(), *v);
  }
  script::Function* callee(const ir::Node& n) {
    Symbol name(n.attribute("name")->string());
    if (n.is("prim::CallFunction")) return unit_->find_function(name);
    if (!n.input(0).is_value()) return nullptr;
    auto it = known_.find(&n.input(0).value());
    if (Object* o = it == known_.end() ? nullptr : Object::of(it->second)) return o->type->method(name);
    const Type* t = n.input(0).value().type();
    ClassType* c = t->is(TypeKind::class_) ? unit_->find_class(t->name()) : nullptr;
    return c ? c->method(name) : nullptr;
  }
  static void put_in_place(ir::Graph& g, ir::Node& call, const ir::Graph& body) {
    ir::ValueMap map;
    for (size_t i = 0; i < body.inputs().size(); ++i) map.emplace(body.inputs()[i], ir::In(call.input(i)));
    std::vector<ir::In> results;
    {
      ir::InsertAt here(call);
      results = g.inline_block(body.top(), map);
      if (call.num_outputs() == 1 && results.size() > 1) {
        const Type* types[] = {call.output().type()};
        results = {ir::In(g.make("prim::TupleConstruct", results, types).output())};
      }
    }
    for (size_t i = 0; i < call.num_outputs() && i < results.size(); ++i)
      g.replace_all_uses(call.output(i), results[i]);
    g.erase(call);
  }
  void check_self_stays(const ir::Graph& g) const {
    for (const ir::Operand& o : g.outputs())
      if (o.is_value() && &o.value() == g.inputs()[0])
        fail("attempted to freeze a module that return itself");
  }

  // What the methods write to: it stays an attribute.
  void find_changes(ir::Graph& g) {
    each_node(g.top(), [&](ir::Node& n) {
      if (n.is("prim::SetAttr")) {
        Symbol name(n.attribute("name")->string());
        auto it = known_.find(&n.input(0).value());
        if (it != known_.end()) {
          set_.insert({it->second.box(), name});
        } else {
          set_by_type_.insert(n.input(0).value().type()->name().str() + "." + name.str());
        }
      }
      auto escapes = [&](const ir::Operand& o) {
        if (!o.is_value()) return;
        auto it = known_.find(&o.value());
        if (it != known_.end() && holds_object(it->second)) hold(it->second);
      };
      bool reads = n.is("prim::GetAttr") || n.is("prim::SetAttr");
      for (size_t i = reads ? 1 : 0; i < n.inputs().size(); ++i) each_operand(n.input(i), escapes);
      for (ir::Block* b : n.blocks())
        for (const ir::Operand& o : b->returns()) each_operand(o, escapes);
    });
    for (const ir::Operand& o : g.outputs())
      if (o.is_value())
        if (auto it = known_.find(&o.value()); it != known_.end() && holds_object(it->second))
          hold(it->second);
    ir::AliasAnalysis aliases(g, [&](const ir::Node& n) -> const tern::Value* {
      if (!n.is("prim::GetAttr")) return nullptr;
      auto it = known_.find(&n.output());
      return it == known_.end() ? nullptr : &it->second;
    });
    each_node(g.top(), [&](ir::Node& n) {
      auto it = n.is("prim::GetAttr") ? known_.find(&n.output()) : known_.end();
      if (it == known_.end() || Object::of(it->second)) return;
      if (aliases.has_writers(n.output())) collect_places(it->second, changed_);
    });
  }
  void hold(const tern::Value& v) {
    if (v.is_list() || v.is_tuple())
      for (const tern::Value& item : v.items()) hold(item);
    else if (v.is_dict())
      for (auto& [key, item] : v.entries()) hold(item);
    else
      keep_whole(v);
  }
  template <class F>
  static void each_operand(const ir::Operand& o, F&& f) {
    if (o.is_list())
      for (const ir::Operand& item : o.list()) each_operand(item, f);
    else
      f(o);
  }

  bool may_fold(const Box* owner, Symbol name, const tern::Value& v) const {
    if (whole_.count(owner) || held_.count({owner, name}) || set_.count({owner, name}) || holds_object(v))
      return false;
    std::unordered_set<const void*> places;
    collect_places(v, places);
    return std::none_of(places.begin(), places.end(), [&](const void* p) { return changed_.count(p); });
  }

  void replace_attributes(ir::Graph& g) {
    std::unordered_map<const TensorBody*, ir::Value*> constants;
    std::vector<ir::Node*> reads;
    each_node(g.top(), [&](ir::Node& n) {
      if (n.is("prim::GetAttr") && known_.count(&n.output())) reads.push_back(&n);
    });
    // Written back to front at the start: they stand in the order in which they are read.
    for (ir::Node* n : reads) {
      const tern::Value& v = known_.at(&n->output());
      auto owner = known_.find(&n->input(0).value());
      if (owner == known_.end()) continue;
      Symbol name(n->attribute("name")->string());
      Object* o = Object::of(owner->second);
      std::string by_type = o->type->name.str() + "." + name.str();
      const Attribute* a = o->type->find(name);
      if (a->role != Role::constant &&
          (set_by_type_.count(by_type) || !may_fold(owner->second.box(), name, v)))
        continue;
      if (!v.is_tensor() || !v.tensor().defined()) {
        g.replace_all_uses(n->output(), ir::In(without_grad(v)));
      } else {
        ir::Value*& c = constants[v.tensor().body()];
        if (!c) {
          tern::Value constant = without_grad(v);
          const Type* types[] = {Type::tensor_like(constant.tensor())};
          ir::InsertAt start(*g.top().first());
          ir::Node& made =
              g.make("prim::Constant", {}, types, paths_.at(owner->second.box()) + "." + name.str());
          made.set_attribute("value", constant);
          c = &made.output();
        }
        n->output().replace_all_uses_with(*c);
      }
      g.erase(*n);
    }
  }

  // Batch norm asks how many dims its input has. What a convolution gives has as many as a batch has, as in
  // PyTorch's freezing: the answer is known and the question does not stand between the two.
  static void answer_dims(ir::Graph& g) {
    static constexpr std::pair<std::string_view, int64_t> ranks[] = {
        {"aten::conv1d", 3}, {"aten::conv2d", 4}, {"aten::conv3d", 5}};
    std::vector<std::pair<ir::Node*, int64_t>> answers;
    ir::AliasAnalysis aliases(g);
    each_node(g.top(), [&](ir::Node& n) {
      const ir::Node* conv = n.is("aten::dim") && n.input(0).is_value() ? n.input(0).value().node() : nullptr;
      if (!conv || aliases.has_writers(conv->output())) return;
      for (auto [kind, rank] : ranks)
        if (conv->is(kind)) answers.emplace_back(&n, rank);
    });
    for (auto [n, rank] : answers) {
      g.replace_all_uses(n->output(), ir::In(tern::Value(rank)));
      g.erase(*n);
    }
  }

  // What stands for the tuple of a path that is not taken cannot be taken apart: its elements stand alone.
  static void split_uninitialized(ir::Graph& g) {
    std::vector<ir::Node*> tuples;
    each_node(g.top(), [&](ir::Node& n) {
      if (n.is("prim::Uninitialized") && n.output().type()->is(TypeKind::tuple)) tuples.push_back(&n);
    });
    for (ir::Node* n : tuples) {
      ir::InsertAt here(*n);
      n->output().replace_all_uses_with(uninitialized(g, n->output().type()));
      g.erase(*n);
    }
  }
  static ir::Value& uninitialized(ir::Graph& g, const Type* type) {
    if (!type->is(TypeKind::tuple)) return g.make("prim::Uninitialized", {}, {&type, 1}).output();
    std::vector<ir::In> elements;
    for (const Type* element : type->elements()) elements.emplace_back(uninitialized(g, element));
    return g.make("prim::TupleConstruct", elements, {&type, 1}).output();
  }

  static void simplify(ir::Graph& g) {
    answer_dims(g);
    split_uninitialized(g);
    ir::PassOptions options;
    options.max_folded = size_t{1} << 28;
    static constexpr std::string_view passes[] = {
        "lower_tuples", "fold_constants", "unroll_loops", "peephole", "cse", "dce"};
    for (int round = 0; round < 10 && ir::run_passes(g, passes, options); ++round) {
    }
  }

  // ---- the module that is left ----
  ScriptModule build() {
    for (auto& g : graphs_)
      each_node(g->top(), [&](ir::Node& n) {
        if (!n.is("prim::GetAttr") && !n.is("prim::SetAttr")) return;
        auto it = known_.find(&n.input(0).value());
        if (it != known_.end()) kept_.insert({it->second.box(), Symbol(n.attribute("name")->string())});
      });
    tern::Value object = smaller(module_.object());
    for (auto& g : graphs_) {
      g->inputs()[0]->set_type(Object::of(object)->type->type());
      each_node(g->top(), [&](ir::Node& n) {
        if (!n.is("prim::GetAttr")) return;
        auto it = known_.find(&n.output());
        if (it == known_.end() || !Object::of(it->second)) return;
        if (auto made = made_.find(it->second.box()); made != made_.end())
          n.output().set_type(Object::of(made->second)->type->type());
      });
    }
    ClassType& type = *Object::of(object)->type;
    for (size_t i = 0; i < methods_.size(); ++i) {
      const script::Function& from = *module_.type().method(Symbol(methods_[i]));
      std::vector<script::Argument> args = from.args();
      args[0].type = type.type();
      ir::verify(*graphs_[i]);
      auto f = new_owned<script::Function>(Symbol(type.name.str() + "." + methods_[i]), &type);
      bool hooked =
          methods_[i] == "forward" && has_hooks(module_.type()) && graphs_[i]->outputs().size() == 1;
      const Type* returns = hooked ? script::plain(graphs_[i]->outputs()[0].type()) : from.returns();
      f->set(std::move(graphs_[i]), std::move(args), returns);
      type.add_method(std::move(f));
    }
    // State that is left belongs to the new module alone.
    return ScriptModule(object).deepcopy();
  }
  tern::Value smaller(const tern::Value& v) {
    Object* o = Object::of(v);
    if (!o || !o->type->is_module() || (whole_.count(v.box()) && o != &root_)) return v;
    if (auto it = made_.find(v.box()); it != made_.end()) return it->second;
    auto fresh = new_owned<ClassType>();
    fresh->name = unit_->unique_class_name(o->type->name.view());
    fresh->kind = o->type->kind;
    ClassType& type = unit_->add_class(std::move(fresh));
    std::vector<std::pair<Symbol, tern::Value>> values;
    for (const Attribute& a : o->type->attributes) {
      if (!kept_.count({v.box(), a.name}) && !(whole_.count(v.box()) && a.role != Role::constant)) continue;
      Attribute copy = a;
      if (a.role != Role::constant) {
        tern::Value item = smaller(*o->find(a.name));
        if (Object* made = Object::of(item); made && a.type->is(TypeKind::class_))
          copy.type = made->type->type();
        values.emplace_back(a.name, std::move(item));
      }
      type.add(std::move(copy));
    }
    tern::Value object = Object::make(unit_, type);
    for (auto& [name, item] : values) Object::of(object)->set(name, std::move(item));
    return made_[v.box()] = object;
  }

  const ScriptModule& module_;
  Object& root_;
  Shared<script::Unit> unit_;
  std::vector<std::string> methods_;
  std::vector<Owned<ir::Graph>> graphs_;
  std::unordered_map<const ir::Value*, tern::Value> known_;
  std::unordered_map<const Box*, std::string> paths_;
  std::unordered_set<Member, MemberHash> kept_, held_, set_;
  std::set<std::string> set_by_type_;
  std::unordered_set<const Box*> whole_;
  std::unordered_set<const void*> changed_;  // storages and boxes
  std::unordered_map<const Box*, tern::Value> made_;
};

}  // namespace

ScriptModule freeze(const ScriptModule& module, const std::vector<std::string>& preserved,
                    bool optimize_numerics) {
  if (!module.defined())
    fail(
        "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script "
        "your 'nn.Module'.");
  if (module.is_training())
    fail(
        "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module "
        "before freezing.");
  ScriptModule frozen = Freezer(module, preserved).run();
  std::vector<std::string> methods;
  for (const std::string& name : frozen.methods())
    if (name != "forward") methods.push_back(name);
  run_frozen_optimizations(frozen, optimize_numerics, methods);
  return frozen;
}

void run_frozen_optimizations(const ScriptModule& module, bool optimize_numerics,
                              const std::vector<std::string>& other_methods) {
  if (!module.defined())
    fail("run_frozen_optimizations: it takes a module that freeze() gave, and this one is empty");
  std::vector<std::string> methods = other_methods;
  if (module.has_method("forward")) methods.insert(methods.begin(), "forward");
  for (const std::string& name : methods) {
    module.graph(name);  // throws for a name that is not there
    ir::Graph& g = module.type().method(Symbol(name))->mutable_graph();
    static constexpr std::string_view tidy[] = {"peephole", "dce"};
    ir::run_passes(g, tidy);
    for (int round = 0; optimize_numerics && round < 100 && fold_frozen_numerics(g); ++round)
      ir::run_passes(g, tidy);
  }
}

ScriptModule optimize_for_inference(const ScriptModule& module,
                                    const std::vector<std::string>& other_methods) {
  if (!module.defined())
    fail(
        "optimize_for_inference expects a ScriptModule as input. Please use torch.jit.script or "
        "torch.jit.trace to script your 'nn.Module'.");
  if (!module.has_attr("training")) {
    run_frozen_optimizations(module, true, other_methods);
    return module;
  }
  return freeze(module.eval(), other_methods);
}

}  // namespace tern::jit
