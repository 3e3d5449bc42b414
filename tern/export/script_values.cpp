#include "tern/export/script_values.h"

#include <algorithm>
#include <map>
#include <set>

#include "tern/dispatch/op.h"

namespace tern {
namespace {

using ir::Block;
using ir::In;
using ir::Node;
using ir::Operand;
using ir::Type;
using ir::TypeKind;

template <class F>
void each_node(Block& block, F&& f) {
  for (Node& n : block) {
    f(n);
    for (Block* b : n.blocks()) each_node(*b, f);
  }
}

// ---- values that may be None ----

class Optionals {
 public:
  explicit Optionals(ir::Graph& graph) : graph_(graph) {
    each_node(graph.top(), [&](Node& n) {
      if (!n.is("prim::If") && !n.is("prim::Loop")) return;
      for (size_t i = 0; i < n.num_outputs(); ++i)
        if (can_be_split(*n.output(i).type())) joins_.push_back({&n, i});
    });
    for (const Join& j : joins_) note(j);
    while (drop_one()) {
    }
  }

  bool run() {
    for (const Join& j : joins_) add_pair(j);
    for (const Join& j : joins_) fill_pair(j);
    std::vector<Node*> readers;
    for (const auto& [v, pair] : pairs_)
      for (const ir::Use& u : v->uses())
        if (reads(*u.user)) readers.push_back(u.user);
    for (Node* n : readers) rewrite(*n);
    for (const Join& j : joins_) each_operand(j, [](Node& user, size_t i) { user.set_input(i, In()); });
    for (size_t k = joins_.size(); k-- > 0;) remove(joins_[k]);
    return !joins_.empty();
  }

 private:
  struct Join {
    Node* node;
    size_t index;
    ir::Value& output() const { return node->output(index); }
  };
  struct Pair {
    ir::Value *flag, *value;
  };

  static bool is_part(const Type& t) {
    return t.is_tensor() || t.is(TypeKind::int_) || t.is(TypeKind::bool_);
  }
  static bool can_be_split(const Type& t) { return t.is(TypeKind::optional) && is_part(*t.element()); }

  void note(const Join& j) {
    candidates_[&j.output()] = &j.output();
    if (j.node->is("prim::Loop")) candidates_[&j.node->blocks()[0]->param(j.index + 1)] = &j.output();
  }
  // Where its values come from: operands of returns and, of a loop, of the loop itself.
  template <class F>
  static void each_operand(const Join& j, F&& f) {
    bool loop = j.node->is("prim::Loop");
    for (Block* b : j.node->blocks()) f(b->return_node(), j.index + (loop ? 1 : 0));
    if (loop) f(*j.node, j.index + 2);
  }

  bool drop_one() {
    for (size_t k = 0; k < joins_.size(); ++k) {
      const Join& j = joins_[k];
      bool fine = used_well(j.output());
      if (j.node->is("prim::Loop")) fine = fine && used_well(j.node->blocks()[0]->param(j.index + 1));
      each_operand(j, [&](Node& user, size_t i) { fine = fine && comes_well(user.input(i)); });
      if (fine) continue;
      std::erase_if(candidates_, [&](const auto& c) { return c.second == &j.output(); });
      joins_.erase(joins_.begin() + static_cast<std::ptrdiff_t>(k));
      return true;
    }
    return false;
  }
  bool comes_well(const Operand& o) const {
    if (o.is_list()) return false;
    if (o.is_value() && candidates_.count(&o.value())) return true;
    if (o.is_value() && o.value().node() && o.value().node()->is("prim::Uninitialized")) return true;
    return o.type()->is(TypeKind::none) || is_part(*o.type());
  }
  bool used_well(const ir::Value& v) const {
    for (const ir::Use& u : v.uses()) {
      if (reads(*u.user)) continue;
      // A use is fine where it leads to another candidate, in every place it stands.
      const Node* join = u.user->is_return() ? u.user->block().parent() : u.user;
      if (!join || (!join->is("prim::If") && !join->is("prim::Loop"))) return false;
      size_t skip = join->is("prim::If") ? 0 : u.user->is_return() ? 1 : 2;
      if (join->is("prim::If") && !u.user->is_return()) return false;
      for (size_t i = 0; i < u.user->inputs().size(); ++i) {
        const Operand& o = u.user->input(i);
        if (o.is_list()) return false;
        if (!o.is_value() || &o.value() != &v) continue;
        if (i < skip || !candidates_.count(&join->output(i - skip))) return false;
      }
    }
    return true;
  }
  static bool reads(const Node& n) {
    if (n.is("prim::unchecked_cast")) return is_part(*n.output().type());
    if (!n.is("aten::__is__") && !n.is("aten::__isnot__")) return false;
    return n.input(0).is_none() || n.input(1).is_none();
  }

  void add_pair(const Join& j) {
    const Type* part = j.output().type()->element();
    std::string name = j.output().name();
    ir::Value& flag = j.node->add_output(Type::boolean(), "has_" + name);
    pairs_[&j.output()] = {&flag, &j.node->add_output(part, name)};
    if (!j.node->is("prim::Loop")) return;
    Block& body = *j.node->blocks()[0];
    ir::Value& inside = body.add_param(Type::boolean(), "has_" + name);
    pairs_[&body.param(j.index + 1)] = {&inside, &body.add_param(part, name)};
  }
  void fill_pair(const Join& j) {
    const Type* part = j.output().type()->element();
    each_operand(j, [&](Node& user, size_t i) {
      const Operand& o = user.input(i);
      auto known = o.is_value() ? pairs_.find(&o.value()) : pairs_.end();
      bool made = o.is_value() && o.value().node() && o.value().node()->is("prim::Uninitialized");
      if (known != pairs_.end()) {
        user.add_input(In(known->second.flag));
        user.add_input(In(known->second.value));
      } else if (made || o.type()->is(TypeKind::none)) {
        ir::InsertAt here(user);
        In nothing(graph_.make("prim::Uninitialized", {}, {{part}}).output());
        user.add_input(In(false));
        user.add_input(nothing);
      } else {
        In value(o);
        user.add_input(In(true));
        user.add_input(value);
      }
    });
  }
  void rewrite(Node& n) {
    size_t side = n.input(0).is_value() && pairs_.count(&n.input(0).value()) ? 0 : 1;
    const Pair& pair = pairs_.at(&n.input(side).value());
    In now(n.is("prim::unchecked_cast") ? pair.value : pair.flag);
    if (n.is("aten::__is__")) {
      ir::InsertAt here(n);
      In inputs[] = {now};
      const Type* types[] = {Type::boolean()};
      Node& inverse = graph_.make("aten::__not__", inputs, types);
      inverse.set_origin(n.origin());
      now = In(inverse.output());
    }
    graph_.replace_all_uses(n.output(), now);
    graph_.erase(n);
  }
  static void remove(const Join& j) {
    bool loop = j.node->is("prim::Loop");
    j.node->remove_output(j.index);
    for (Block* b : j.node->blocks()) b->return_node().remove_input(j.index + (loop ? 1 : 0));
    if (!loop) return;
    j.node->blocks()[0]->remove_param(j.index + 1);
    j.node->remove_input(j.index + 2);
  }

  ir::Graph& graph_;
  std::vector<Join> joins_;
  std::map<const ir::Value*, const ir::Value*> candidates_;  // and the output they belong to
  std::map<const ir::Value*, Pair> pairs_;
};

// ---- lists that grow ----

class Rows {
 public:
  Rows(ir::Graph& graph, Node& list) : graph_(graph), list_(list) {}

  // Whether it is appended to inside a branch or loop, and everything else that is done with it can be done
  // with rows too.
  bool fits() {
    bool inside = false, all_joined = true;
    std::optional<int64_t> along;
    for (const ir::Use& u : list_.output().uses()) {
      Node& n = *u.user;
      if (n.is_return() || n.inputs().empty() || !n.input(0).is_value() ||
          &n.input(0).value() != &list_.output())
        return false;
      for (Block* b = &n.block(); b != &list_.block(); b = &b->parent()->block()) {
        Node* around = b->parent();
        if (!around || (!around->is("prim::If") && !around->is("prim::Loop"))) return false;
        inside = inside || n.is("aten::append");
      }
      if (n.is("aten::append")) {
        if (n.num_outputs() && n.output().has_uses()) return false;
        if (n.input(1).is_value() && &n.input(1).value() == &list_.output()) return false;
      } else if (n.is("aten::cat") || n.is("aten::stack")) {
        if (!n.input(1).is_constant() || !n.input(1).constant().is_int()) return false;
        int64_t dim = n.input(1).constant().to_int();
        bool join = n.is("aten::cat") && (!along || *along == dim);
        if (join) along = dim;
        if (n.is("aten::stack") && dim < 0) return false;
        all_joined = all_joined && join;
      } else if (n.is("aten::len") || n.is("aten::__getitem__")) {
        all_joined = false;
      } else {
        return false;
      }
    }
    if (all_joined && along) joined_ = *along;
    if (!joined_ && along) return false;  // both pieces and rows are asked for
    return inside;
  }

  void run() {
    collect(list_.output());
    In start;
    ir::InsertAt here(*list_.next());
    if (list_.inputs().empty()) {
      start = In(make("prim::NoRows", {}).output());
    } else {
      std::vector<In> items;
      for (const Operand& o : list_.inputs()) items.emplace_back(o);
      In inputs[] = {In::list(std::move(items)), In(joined_.value_or(0))};
      start = In(graph_.call(joined_ ? "aten::cat" : "aten::stack", inputs, Type::tensor()).output());
    }
    walk(list_.block(), start, &list_);
    graph_.erase(list_);
  }

 private:
  Node& make(const char* kind, std::vector<In> inputs) {
    const Type* types[] = {Type::tensor()};
    Node& n = graph_.make(kind, inputs, types, "rows");
    n.set_origin(list_.origin());
    n.set_attribute("rows", Value(!joined_));
    n.set_attribute("dim", Value(joined_.value_or(0)));
    return n;
  }
  // The nodes that use it, and those around them.
  void collect(const ir::Value& list) {
    for (const ir::Use& u : list.uses()) {
      users_.insert(u.user);
      bool appends = u.user->is("aten::append");
      for (Block* b = &u.user->block(); b != &list_.block(); b = &b->parent()->block()) {
        around_.insert(b->parent());
        if (appends) growing_.insert(b->parent());
      }
    }
  }
  // Gives what it is at the end of the block.
  In walk(Block& block, In now, Node* after) {
    for (Node* n = after ? after->next() : block.first(); n != &block.return_node();) {
      Node& node = *n;
      n = n->next();
      if (users_.count(&node)) {
        now = use(node, now);
      } else if (around_.count(&node)) {
        now = enter(node, now);
      }
    }
    return now;
  }
  In use(Node& n, const In& now) {
    ir::InsertAt here(n);
    In result = now;
    if (n.is("aten::append")) {
      Node& more = make("prim::AppendRow", {now, In(n.input(1))});
      more.set_origin(n.origin());
      graph_.erase(n);
      return In(more.output());
    }
    if (n.is("aten::len")) {
      In inputs[] = {now, In(0)};
      result = In(graph_.call("aten::sym_size.int", inputs, Type::integer()).output());
    } else if (n.is("aten::__getitem__")) {
      In inputs[] = {now, In(0), In(n.input(1))};
      result = In(graph_.call("aten::select.int", inputs, Type::tensor()).output());
    } else if (n.is("aten::stack") && n.input(1).constant().to_int() != 0) {
      In inputs[] = {now, In(0), In(n.input(1))};
      result = In(graph_.call("aten::movedim.int", inputs, Type::tensor()).output());
    }
    graph_.replace_all_uses(n.output(), result);
    graph_.erase(n);
    return now;
  }
  In enter(Node& n, const In& now) {
    bool loop = n.is("prim::Loop");
    if (!growing_.count(&n)) {
      for (Block* b : n.blocks()) walk(*b, now, nullptr);
      return now;
    }
    std::vector<In> ends;
    if (loop) n.add_input(now);
    for (Block* b : n.blocks())
      ends.push_back(walk(*b, loop ? In(b->add_param(Type::tensor(), "rows")) : now, nullptr));
    for (size_t k = 0; k < ends.size(); ++k) n.blocks()[k]->add_return(ends[k]);
    return In(n.add_output(Type::tensor(), "rows"));
  }

  ir::Graph& graph_;
  Node& list_;
  std::optional<int64_t> joined_;  // along which dim pieces are concatenated
  std::set<Node*> users_, around_, growing_;
};

// An element that is written to after it was appended would change in the list too.
bool writes_to_tensors(Block& block) {
  bool found = false;
  each_node(block, [&](Node& n) { found = found || (n.op() && n.op()->schema().mutates()); });
  return found;
}

}  // namespace

bool split_optionals(ir::Graph& graph) { return Optionals(graph).run(); }

bool lists_to_rows(ir::Graph& graph) {
  if (writes_to_tensors(graph.top())) return false;
  std::vector<Node*> lists;
  each_node(graph.top(), [&](Node& n) {
    if (n.is("prim::ListConstruct") && n.output().type()->element()->is_tensor()) lists.push_back(&n);
  });
  bool any = false;
  for (Node* n : lists) {
    Rows rows(graph, *n);
    if (!rows.fits()) continue;
    rows.run();
    any = true;
  }
  return any;
}

}  // namespace tern
