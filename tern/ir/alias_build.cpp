// How the alias analysis is computed. Every mutable value is an element; an element points to those whose
// memory it may be; a container's contents are one element, shared by all containers that may be the same.
// Components of the pointing graph are condensed, so each ends with a set of memory locations: linear in the
// size of the graph.
#include <algorithm>
#include <unordered_set>

#include "tern/dispatch/op.h"
#include "tern/ir/alias.h"
#include "tern/ir/builtins.h"
#include "tern/ir/pass.h"

namespace tern::ir {
namespace {

constexpr uint32_t any_kind = 0, tensor_kind = 1;
constexpr uint32_t max_set = 128;  // more locations than that: everything

bool holds_mutable(const Type& t) {
  switch (t.kind()) {
    case TypeKind::optional:
      return holds_mutable(*t.element());
    case TypeKind::list:
    case TypeKind::dict:
    case TypeKind::tuple:
    case TypeKind::future:
      for (const Type* e : t.elements())
        if (AliasAnalysis::is_mutable(*e)) return true;
      return false;
    case TypeKind::union_:
    case TypeKind::any:
    case TypeKind::class_:
    case TypeKind::interface:
    case TypeKind::function:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool AliasAnalysis::is_mutable(const Type& t) {
  switch (t.kind()) {
    case TypeKind::tensor:
    case TypeKind::list:
    case TypeKind::dict:
    case TypeKind::class_:
    case TypeKind::interface:
    case TypeKind::any:
    case TypeKind::function:
      return true;
    case TypeKind::optional:
    case TypeKind::union_:
    case TypeKind::tuple:
    case TypeKind::future:
      for (const Type* e : t.elements())
        if (is_mutable(*e)) return true;
      return false;
    default:
      return false;
  }
}

// Values of different kinds are never the same memory. What is known of tensors does not count, so containers
// of them are told apart only by the kind of what they hold.
uint32_t AliasAnalysis::kind_of(const Type& t) {
  switch (t.kind()) {
    case TypeKind::tensor:
      return tensor_kind;
    case TypeKind::optional:
      return kind_of(*t.element());
    case TypeKind::list: {
      const Type& e = *t.element();
      return 100 + (is_mutable(e) ? 99 : static_cast<uint32_t>(e.kind()));
    }
    case TypeKind::dict:
    case TypeKind::tuple:
    case TypeKind::future:
      return 2 + static_cast<uint32_t>(t.kind());
    case TypeKind::class_:
      return 1000 + t.name().id();
    default:
      return any_kind;
  }
}

namespace {

// Composites that may give what they were given, or a view of it, although their schemas do not say so.
bool may_hand_back(Symbol kind) {
  static const std::unordered_set<Symbol> names = {"aten::dropout",           "aten::feature_dropout",
                                                   "aten::alpha_dropout",     "aten::feature_alpha_dropout",
                                                   "aten::type_as",           "aten::atleast_1d",
                                                   "aten::atleast_2d",        "aten::atleast_3d",
                                                   "aten::meshgrid",          "aten::einsum",
                                                   "aten::sum_to_size",       "aten::conj_physical",
                                                   "aten::cartesian_prod",    "aten::chain_matmul",
                                                   "aten::broadcast_tensors", "aten::pad",
                                                   "aten::dequantize",        "aten::to_dense",
                                                   "aten::repeat_interleave"};
  return names.count(kind) != 0;
}

}  // namespace

class AliasBuilder {
 public:
  AliasBuilder(AliasAnalysis& result, const AliasAnalysis::Known& known) : out_(result), known_(known) {
    beyond_ = add();
    contents_[beyond_] = static_cast<int32_t>(beyond_);
    edges_.emplace_back(beyond_, add());  // memory of every kind that no input shows
  }

  void build(const Graph& graph) {
    for (const Value* in : graph.inputs())
      if (AliasAnalysis::is_mutable(*in->type())) point(element(*in), wildcard(*in->type()), *in->type());
    block(graph.top());
    for (const Operand& o : graph.outputs()) returned(o);
    condense();
    finish(graph);
  }

 private:
  // ---- elements ----
  uint32_t add() {
    contents_.push_back(-1);
    parent_.push_back(static_cast<uint32_t>(parent_.size()));
    kind_.push_back(any_kind);
    return static_cast<uint32_t>(parent_.size() - 1);
  }
  uint32_t find(uint32_t e) {
    while (parent_[e] != e) e = parent_[e] = parent_[parent_[e]];
    return e;
  }
  uint32_t element(const Value& v) {
    auto [it, fresh] = out_.elements_.emplace(&v, 0);
    if (fresh) {
      it->second = add();
      kind_[it->second] = AliasAnalysis::kind_of(*v.type());
    }
    return it->second;
  }
  uint32_t contents(uint32_t e) {
    e = find(e);
    if (contents_[e] < 0) {
      uint32_t made = add();
      contents_[e] = static_cast<int32_t>(made);
    }
    return find(static_cast<uint32_t>(contents_[e]));
  }
  void unify(uint32_t a, uint32_t b) {
    for (;;) {
      a = find(a);
      b = find(b);
      if (a == b) return;
      int32_t ca = contents_[a], cb = contents_[b];
      parent_[a] = b;
      kind_[b] = kind_[a] == kind_[b] ? kind_[a] : any_kind;
      if (ca < 0) return;
      if (cb < 0) {
        contents_[b] = ca;
        return;
      }
      a = static_cast<uint32_t>(ca);
      b = static_cast<uint32_t>(cb);
    }
  }
  // `from` may be what `to` is, if their kinds allow it.
  void point(uint32_t from, uint32_t to, const Type& type) {
    uint32_t a = kind_[find(from)], b = kind_[find(to)];
    if (a != b && a != any_kind && b != any_kind) return;
    edges_.emplace_back(from, to);
    if (holds_mutable(type)) unify(contents(from), contents(to));
  }
  void store(uint32_t container, const Operand& o) {
    for_each(o, [&](uint32_t e, const Type& t) { point(contents(container), e, t); });
  }
  // Memory from before the graph runs: one for each kind.
  uint32_t wildcard(const Type& type) {
    uint32_t kind = AliasAnalysis::kind_of(type);
    if (kind == any_kind) return beyond_;
    auto [it, fresh] = wildcards_.emplace(kind, 0);
    if (fresh) {
      it->second = add();
      kind_[it->second] = kind;
      edges_.emplace_back(beyond_, it->second);
      if (kind != tensor_kind) contents_[it->second] = static_cast<int32_t>(beyond_);
    }
    return it->second;
  }
  uint32_t constant(const tern::Value& v) {
    const void* place = v.is_tensor() && v.tensor().defined() && !v.tensor().is_fake()
                            ? static_cast<const void*>(v.tensor().storage().get())
                        : v.is_tensor() ? static_cast<const void*>(v.tensor().body())
                                        : static_cast<const void*>(v.box());
    auto [it, fresh] = out_.known_memory_.emplace(place, 0);
    if (!fresh) return it->second;
    uint32_t e = add();
    it->second = e;
    kept_.push_back(e);
    kind_[e] = v.is_tensor() ? tensor_kind : any_kind;
    auto hold = [&](const tern::Value& item) {
      if (is_mutable_value(item)) edges_.emplace_back(contents(e), constant(item));
      if (is_mutable_value(item) && !item.is_tensor()) unify(contents(contents(e)), contents(constant(item)));
    };
    if (v.is_list() || v.is_tuple())
      for (const tern::Value& item : v.items()) hold(item);
    if (v.is_dict())
      for (auto& [key, item] : v.entries()) hold(item);
    if (v.is_object()) contents_[find(e)] = static_cast<int32_t>(beyond_);
    return e;
  }
  static bool is_mutable_value(const tern::Value& v) {
    if (v.is_tuple()) {
      for (const tern::Value& item : v.items())
        if (is_mutable_value(item)) return true;
      return false;
    }
    return v.is_tensor() || v.is_list() || v.is_dict() || v.is_object();
  }

  // The elements an operand stands for; of an inline list those in it as well.
  template <class F>
  void for_each(const Operand& o, F&& f) {
    if (o.is_value()) {
      if (AliasAnalysis::is_mutable(*o.value().type())) f(element(o.value()), *o.value().type());
    } else if (o.is_constant()) {
      if (is_mutable_value(o.constant())) f(constant(o.constant()), *Type::of(o.constant()));
    } else {
      for (const Operand& item : o.list()) for_each(item, f);
    }
  }
  void may_be(const Value& v, const Operand& o) {
    if (!AliasAnalysis::is_mutable(*v.type())) return;
    for_each(o, [&](uint32_t e, const Type&) { point(element(v), e, *v.type()); });
  }
  // Something that an operand holds.
  void taken_from(const Value& v, const Operand& o) {
    if (!AliasAnalysis::is_mutable(*v.type())) return;
    for_each(o, [&](uint32_t e, const Type& t) {
      if (o.is_list())
        point(element(v), e, *v.type());
      else if (holds_mutable(t))
        point(element(v), contents(e), *v.type());
    });
  }
  void write(const Node& n, const Operand& o) {
    for_each(o, [&](uint32_t e, const Type& t) {
      out_.writes_[&n].push_back({e, AliasAnalysis::kind_of(t)});
    });
  }
  // Whatever is reached from it may be changed and kept by others.
  void hand_over(const Node& n, const Operand& o) {
    write(n, o);
    for_each(o, [&](uint32_t e, const Type& t) {
      edges_.emplace_back(beyond_, e);
      if (holds_mutable(t)) {
        out_.writes_[&n].push_back({contents(e), any_kind});
        unify(contents(e), beyond_);
      }
    });
  }
  void returned(const Operand& o) {
    for_each(o, [&](uint32_t e, const Type&) { returned_.push_back(e); });
  }

  // ---- nodes ----
  void block(const Block& b) {
    for (const Node& n : b) node(n);
  }
  void node(const Node& n) {
    for (const Value* v : n.outputs())
      if (AliasAnalysis::is_mutable(*v->type())) element(*v);
    if (n.op()) return call(n);
    std::string_view kind = n.kind().view();
    if (const tern::Value* v = known_ ? known_(n) : nullptr) {
      if (is_mutable_value(*v)) point(element(n.output()), constant(*v), *n.output().type());
      return;
    }
    if (kind == "prim::Constant") return constant_node(n);
    if (kind == "prim::If" || kind == "higher_order::cond") return branches(n);
    if (kind == "prim::Loop") return loop(n);
    if (!n.blocks().empty()) return blocks(n);
    if (kind == "prim::ListConstruct" || kind == "prim::TupleConstruct" || kind == "prim::DictConstruct") {
      if (holds_mutable(*n.output().type()))
        for (const Operand& o : n.inputs()) store(element(n.output()), o);
      return;
    }
    if (kind == "prim::TupleUnpack" || kind == "prim::ListUnpack" || kind == "prim::GetAttr")
      return unpack(n);
    if (kind == "prim::SetAttr") {
      write(n, n.input(0));
      for_each(n.input(0), [&](uint32_t e, const Type&) { store(e, n.input(1)); });
      return;
    }
    if (kind == "prim::unchecked_cast") return may_be(n.output(), n.input(0));
    if (kind == "aten::wait") return taken_from(n.output(), n.input(0));
    if (kind == "prim::CreateObject" || kind == "prim::Uninitialized" || kind == "prim::isinstance") return;
    if (find_builtin(n.kind())) return builtin(n);
    if (!has_effect(n)) return related(n);
    // A call, or an operator nobody knows.
    for (const Operand& o : n.inputs()) hand_over(n, o);
    for (const Value* v : n.outputs())
      if (AliasAnalysis::is_mutable(*v->type())) point(element(*v), beyond_, *v->type());
  }

  void constant_node(const Node& n) {
    const tern::Value* v = n.attribute("value");
    if (!v || !is_mutable_value(*v)) return;
    // Containers are made anew each time; the tensors in them are not.
    if (v->is_tensor() || v->is_object()) return point(element(n.output()), constant(*v), *n.output().type());
    std::vector<const tern::Value*> items{v};
    while (!items.empty()) {
      const tern::Value* item = items.back();
      items.pop_back();
      if (item->is_tensor()) edges_.emplace_back(contents(element(n.output())), constant(*item));
      if (item->is_list() || item->is_tuple())
        for (const tern::Value& i : item->items()) items.push_back(&i);
      if (item->is_dict())
        for (auto& [key, i] : item->entries()) items.push_back(&i);
    }
  }

  void call(const Node& n) {
    const Schema& s = n.op()->schema();
    bool body = may_hand_back(n.kind());
    for (size_t i = 0; i < n.inputs().size() && i < s.args.size(); ++i)
      if (s.args[i].alias.write) {
        write(n, n.input(i));
        // Tensor(a!)[]: what is in the list.
        if (s.args[i].type.list)
          for_each(n.input(i), [&](uint32_t e, const Type& t) {
            if (holds_mutable(t)) out_.writes_[&n].push_back({contents(e), tensor_kind});
          });
      }
    for (size_t r = 0; r < n.num_outputs(); ++r) {
      const Value& v = n.output(r);
      if (!AliasAnalysis::is_mutable(*v.type())) continue;
      AliasInfo alias = r < s.returns.size() ? s.returns[r].alias : AliasInfo{};
      bool related = false;
      for (size_t i = 0; i < n.inputs().size() && i < s.args.size(); ++i) {
        bool same_set = alias.set && s.args[i].alias.set == alias.set;
        bool any = alias.wildcard || s.args[i].alias.wildcard || (body && !alias.set);
        if (!same_set && !any) continue;
        related = true;
        relate(v, n.input(i));
      }
      if (alias.set && !related)  // a set without an argument of that name: anything it was given
        for (const Operand& o : n.inputs()) relate(v, o);
    }
  }
  // A result that may be, hold or be held by an operand.
  void relate(const Value& v, const Operand& o) {
    for_each(o, [&](uint32_t e, const Type& t) {
      bool from_list = t.is(TypeKind::list) || t.is(TypeKind::tuple) || t.is(TypeKind::dict);
      bool to_list = holds_mutable(*v.type());
      if (v.type()->is(TypeKind::future)) {
        point(contents(element(v)), e, t);
      } else if (from_list && !to_list) {
        if (holds_mutable(t)) point(element(v), contents(e), *v.type());
      } else if (!from_list && to_list && t.is_tensor()) {
        point(contents(element(v)), e, t);
      } else {
        if (from_list && to_list && holds_mutable(t)) unify(contents(element(v)), contents(e));
        point(element(v), e, *v.type());
      }
    });
  }
  void related(const Node& n) {
    for (const Value* v : n.outputs())
      if (AliasAnalysis::is_mutable(*v->type()))
        for (const Operand& o : n.inputs()) relate(*v, o);
  }

  // What builtins on containers have in common: results are or hold what the arguments are or hold.
  void builtin(const Node& n) {
    bool mutates = builtin_mutates(n.kind());
    if (mutates && !n.inputs().empty()) {
      write(n, n.input(0));
      for_each(n.input(0), [&](uint32_t e, const Type& t) {
        if (!holds_mutable(t)) return;
        for (size_t i = 1; i < n.inputs().size(); ++i)
          for_each(n.input(i), [&](uint32_t given, const Type& g) {
            point(contents(e), given, g);
            if (holds_mutable(g)) unify(contents(e), contents(given));
          });
      });
    }
    for (const Value* v : n.outputs()) {
      if (!AliasAnalysis::is_mutable(*v->type())) continue;
      bool container = holds_mutable(*v->type());
      for (const Operand& o : n.inputs())
        for_each(o, [&](uint32_t e, const Type& t) {
          bool inside = holds_mutable(t);
          if (inside) point(element(*v), contents(e), *v->type());
          if (container) {
            point(contents(element(*v)), e, t);
            if (inside) unify(contents(element(*v)), contents(e));
          }
          point(element(*v), e, *v->type());
        });
    }
  }

  void unpack(const Node& n) {
    const Operand& from = n.input(0);
    const Node* made = from.is_value() ? from.value().node() : nullptr;
    bool tuple = made && made->is("prim::TupleConstruct") && made->inputs().size() == n.num_outputs();
    for (size_t i = 0; i < n.num_outputs(); ++i)
      if (tuple)
        may_be(n.output(i), made->input(i));
      else
        taken_from(n.output(i), from);
  }

  void branches(const Node& n) {
    bool cond = n.is("higher_order::cond");
    for (const Block* b : n.blocks()) {
      for (size_t i = 0; cond && i < b->params().size() && i + 1 < n.inputs().size(); ++i)
        may_be(b->param(i), n.input(i + 1));
      block(*b);
      for (size_t i = 0; i < n.num_outputs() && i < b->returns().size(); ++i)
        may_be(n.output(i), b->returns()[i]);
    }
  }
  void loop(const Node& n) {
    const Block& body = *n.blocks()[0];
    for (size_t i = 0; i + 2 < n.inputs().size() && i + 1 < body.params().size(); ++i) {
      may_be(body.param(i + 1), n.input(i + 2));
      if (i < n.num_outputs()) may_be(n.output(i), n.input(i + 2));
    }
    block(body);
    for (size_t i = 0; i + 1 < body.returns().size(); ++i) {
      if (i + 1 < body.params().size()) may_be(body.param(i + 1), body.returns()[i + 1]);
      if (i < n.num_outputs()) may_be(n.output(i), body.returns()[i + 1]);
    }
  }
  // Any other node with blocks: what goes in and comes out may be handed around in any order.
  void blocks(const Node& n) {
    auto each_given = [&](const Value& v) {
      for (const Operand& o : n.inputs()) relate(v, o);
      for (const Block* b : n.blocks())
        for (const Operand& o : b->returns()) relate(v, o);
    };
    for (const Block* b : n.blocks()) block(*b);
    for (const Block* b : n.blocks())
      for (const Value* p : b->params())
        if (AliasAnalysis::is_mutable(*p->type())) each_given(*p);
    for (const Value* v : n.outputs())
      if (AliasAnalysis::is_mutable(*v->type())) each_given(*v);
  }

  // ---- from elements to locations ----
  void condense() {
    size_t n = parent_.size();
    for (auto& [from, to] : edges_) {
      from = find(from);
      to = find(to);
    }
    std::vector<uint32_t> start(n + 1), next(edges_.size());
    for (auto& [from, to] : edges_) ++start[from + 1];
    for (size_t i = 0; i < n; ++i) start[i + 1] += start[i];
    {
      std::vector<uint32_t> at(start.begin(), start.end() - 1);
      for (auto& [from, to] : edges_) next[at[from]++] = to;
    }
    constexpr uint32_t none = ~0u;
    std::vector<uint32_t>& component = out_.component_;
    component.assign(n, none);
    std::vector<uint32_t> order(n, none), low(n), stack, members;
    std::vector<std::pair<uint32_t, uint32_t>> walk;  // element, next edge
    uint32_t counter = 0;
    for (uint32_t root = 0; root < n; ++root) {
      if (parent_[root] != root || order[root] != none) continue;
      walk.emplace_back(root, start[root]);
      order[root] = low[root] = counter++;
      stack.push_back(root);
      while (!walk.empty()) {
        auto& [e, at] = walk.back();
        if (at < start[e + 1]) {
          uint32_t to = next[at++];
          if (order[to] == none) {
            order[to] = low[to] = counter++;
            stack.push_back(to);
            walk.emplace_back(to, start[to]);
          } else if (component[to] == none) {
            low[e] = std::min(low[e], order[to]);
          }
          continue;
        }
        uint32_t done = e;
        walk.pop_back();
        if (!walk.empty()) low[walk.back().first] = std::min(low[walk.back().first], low[done]);
        if (low[done] != order[done]) continue;
        members.clear();
        uint32_t id = static_cast<uint32_t>(out_.sets_.size());
        for (uint32_t m = none; m != done;) {
          m = stack.back();
          stack.pop_back();
          component[m] = id;
          members.push_back(m);
        }
        out_.sets_.push_back(locations(members, id, start, next));
      }
    }
    for (uint32_t e = 0; e < n; ++e) component[e] = component[find(e)];
    // What is inside of a component that several elements form.
    out_.contents_.assign(out_.sets_.size(), -1);
    for (uint32_t e = 0; e < n; ++e)
      if (parent_[e] == e && contents_[e] >= 0)
        out_.contents_[component[e]] =
            static_cast<int32_t>(component[find(static_cast<uint32_t>(contents_[e]))]);
  }
  AliasAnalysis::Set locations(const std::vector<uint32_t>& members, uint32_t id,
                               const std::vector<uint32_t>& start, const std::vector<uint32_t>& next) {
    found_.clear();
    AliasAnalysis::Set only;
    uint32_t sets = 0;
    for (uint32_t m : members)
      for (uint32_t k = start[m]; k < start[m + 1]; ++k) {
        uint32_t to = out_.component_[next[k]];
        if (to == id) continue;
        AliasAnalysis::Set s = out_.sets_[to];
        if (s.count == AliasAnalysis::everything) return s;
        only = s;
        ++sets;
        for (uint32_t i = 0; i < s.count; ++i) found_.push_back(out_.pool_[s.from + i]);
      }
    if (sets == 1) return only;
    if (sets == 0) {
      uint32_t kind = kind_[members[0]];
      for (uint32_t m : members) kind = kind_[m] == kind ? kind : any_kind;
      out_.kinds_.push_back(kind);
      found_.push_back(static_cast<uint32_t>(out_.kinds_.size() - 1));
    }
    std::sort(found_.begin(), found_.end());
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    if (found_.size() > max_set) return {0, AliasAnalysis::everything};
    AliasAnalysis::Set made{static_cast<uint32_t>(out_.pool_.size()), static_cast<uint32_t>(found_.size())};
    out_.pool_.insert(out_.pool_.end(), found_.begin(), found_.end());
    return made;
  }

  void finish(const Graph& graph) {
    out_.writers_.resize(out_.kinds_.size());
    out_.outside_.assign(out_.kinds_.size(), false);
    auto outside = [&](uint32_t location) { out_.outside_[location] = true; };
    out_.each_reachable(beyond_, any_kind, outside);
    for (uint32_t e : returned_) out_.each_reachable(e, any_kind, outside);
    for (uint32_t e : kept_) out_.each_reachable(e, any_kind, outside);
    auto walk = [&](auto& self, const Block& b) -> void {
      for (const Node& n : b) {
        if (out_.writes_.count(&n))
          out_.each_written(n, false, [&](uint32_t l) {
            if (out_.writers_[l].empty() || out_.writers_[l].back() != &n) out_.writers_[l].push_back(&n);
          });
        for (const Block* inner : n.blocks()) self(self, *inner);
      }
    };
    if (!out_.writes_.empty()) walk(walk, graph.top());
  }

  AliasAnalysis& out_;
  const AliasAnalysis::Known& known_;
  uint32_t beyond_ = 0;  // all memory that others know of
  std::vector<uint32_t> parent_, kind_;
  std::vector<int32_t> contents_;
  std::vector<std::pair<uint32_t, uint32_t>> edges_;
  FlatMap<uint32_t, uint32_t> wildcards_;
  std::vector<uint32_t> returned_, kept_, found_;
};

AliasAnalysis::AliasAnalysis(const Graph& graph, const Known& known) {
  elements_.reserve(graph.num_nodes());
  AliasBuilder(*this, known).build(graph);
}

}  // namespace tern::ir
