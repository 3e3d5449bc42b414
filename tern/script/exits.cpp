#include "tern/script/exits.h"

#include <map>

#include "tern/base/error.h"
#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/signature.h"

namespace tern::script {
namespace {

using ir::In;
using ir::Type;
using ir::TypeKind;

const Type* type_of(const In& in) {
  return plain(in.is_value() ? in.value()->type() : Type::of(in.constant()));
}

// Whether a block, or what ran of it, reached an exit. A block that raises has no exit, but nothing that
// comes after it runs either.
enum class Status : uint8_t { will, might, wont, throws };
struct Exit {
  Status status = Status::wont;
  In reached = In(false);
  std::vector<In> values = {};
};

// One walk for each kind of exit. A value that is never looked at is prim::Uninitialized; there is one for
// every type, at the top of the graph.
class Lowering {
 public:
  Lowering(ir::Graph& graph, const char* kind, const ExitFacts& facts)
      : graph_(graph), kind_(kind), of_loops_(kind_.view() == "prim::LoopContinuation"), facts_(facts) {
    thrown_ = uninitialized(Type::boolean(), Type::boolean());
  }
  void run() { block(graph_.top()); }
  // Branches on flags that were made here.
  std::unordered_set<const ir::Node*> made;

 private:
  // ---- the walk ----
  Exit block(ir::Block& b) {
    struct Deeper {
      explicit Deeper(int& d) : depth(d) { ++depth; }
      ~Deeper() { --depth; }
      int& depth;
    } deeper(depth_);
    Exit exit;
    for (ir::Node* n = b.first(); n != &b.return_node();) {
      ir::Node& node = *n;
      n = n->next();
      if (depth_ > 1500)
        fail(ErrorKind::value,
             fmt::format("{}: too many branches that return, one after the other: split the function",
                         node.origin() ? node.origin()->place() : graph_.name));
      if (node.is("prim::RaiseException")) {
        exit = {Status::throws, thrown_, {}};
      } else if (node.is(kind_)) {
        exit = {Status::will, In(true), {}};
        for (const ir::Operand& o : node.inputs()) exit.values.emplace_back(o);
        graph_.erase(node);
      } else if (node.is("prim::If")) {
        exit = branch(node);
      } else if (node.is("prim::With")) {
        exit = block(*node.blocks()[0]);
      } else if (node.is("prim::Loop")) {
        exit = loop(node);
      } else if (node.is("prim::fork")) {
        block(*node.blocks()[0]);
      }
      if (exit.status == Status::will || exit.status == Status::throws) {
        erase_from(b, n);
        break;
      }
      if (exit.status == Status::might) {
        if (n != &b.return_node()) exit = guard(b, exit, *n);
        break;
      }
    }
    return is_target(b) ? arrive(b, exit) : exit;
  }

  bool is_target(const ir::Block& b) const {
    if (!b.parent() || b.parent()->is("prim::fork")) return !of_loops_;
    return of_loops_ && b.parent()->is("prim::Loop");
  }
  // Where an exit leads: its values are what the block gives.
  Exit arrive(ir::Block& b, const Exit& exit) {
    if (exit.status == Status::might) {
      graph_.insert_at_end(b);
      ir::Node& choice = graph_.make("prim::If", {{exit.reached}}, {});
      made.insert(&choice);
      choice.add_block();
      choice.add_block();
      std::vector<In> otherwise = returns_of(b);
      add_results(choice, exit.values, otherwise);
      set_returns(b, outputs_of(choice, 0));
    } else if (exit.status == Status::will) {
      set_returns(b, exit.values);
    }
    return {};
  }

  Exit branch(ir::Node& node) {
    Exit sides[2] = {block(*node.blocks()[0]), block(*node.blocks()[1])};
    Status status = both(sides[0].status, sides[1].status);
    if (status == Status::throws) return {Status::throws, thrown_, {}};
    if (status == Status::wont) return {};
    for (int k = 0; k < 2; ++k) {
      if (sides[k].status != Status::wont && sides[k].status != Status::throws) continue;
      for (const In& in : sides[1 - k].values) sides[k].values.push_back(uninitialized_like(in));
      break;
    }
    In reached(true);
    if (status == Status::might) {
      add_results(node, {sides[0].reached}, {sides[1].reached});
      reached = In(node.output(node.num_outputs() - 1));
    }
    size_t before = node.num_outputs();
    add_results(node, sides[0].values, sides[1].values);
    return {status, reached, outputs_of(node, before)};
  }
  static Status both(Status a, Status b) {
    if (a == Status::throws) return b;
    if (b == Status::throws || a == b) return a;
    return Status::might;
  }

  // A loop that may be left for good stops when it was, and carries the flag and the values out.
  Exit loop(ir::Node& node) {
    ir::Block& body = *node.blocks()[0];
    Exit exit = block(body);
    if (exit.status == Status::wont || exit.status == Status::throws) return {};
    graph_.insert_at_end(body);
    ir::Node& more = graph_.make("prim::If", {{exit.reached}}, {});
    made.insert(&more);
    more.add_block().add_return(In(false));
    more.add_block().add_return(In(body.returns()[0]));
    body.return_node().set_input(0, In(more.add_output(Type::boolean())));
    auto carry = [&](const In& start, const In& next, const Type* type) -> ir::Value& {
      node.add_input(start);
      body.add_param(type);
      body.add_return(next);
      return node.add_output(type);
    };
    Exit out{Status::might, In(carry(In(false), exit.reached, Type::boolean())), {}};
    for (const In& value : exit.values)
      out.values.emplace_back(carry(uninitialized_like(value), value, type_of(value)));
    return out;
  }

  // What comes after a path that may have left runs only if it did not.
  Exit guard(ir::Block& b, const Exit& exit, ir::Node& from) {
    graph_.insert_at(from);
    ir::Node& choice = graph_.make("prim::If", {{exit.reached}}, {});
    made.insert(&choice);
    ir::Block &gone = choice.add_block(), &rest = choice.add_block();
    for (ir::Node* n = &from; n != &b.return_node();) {
      ir::Node& node = *n;
      n = n->next();
      node.move_before(rest.return_node());
    }
    for (const In& out : returns_of(b)) {
      gone.add_return(uninitialized_like(out));
      rest.add_return(out);
      choice.add_output(type_of(out));
    }
    set_returns(b, outputs_of(choice, 0));
    graph_.insert_at_end(gone);
    graph_.make(kind_, exit.values, {});
    return branch(choice);
  }

  // Nothing that comes after an exit runs. What the block gives of it is not looked at.
  void erase_from(ir::Block& b, ir::Node* from) {
    while (from != &b.return_node()) {
      ir::Node& last = *b.last();
      bool done = &last == from;
      for (ir::Value* v : last.outputs())
        if (v->has_uses()) graph_.replace_all_uses(*v, uninitialized_like(In(*v)));
      graph_.erase(last);
      if (done) break;
    }
  }

  // ---- results ----
  static std::vector<In> returns_of(const ir::Block& b) {
    std::vector<In> out;
    for (const ir::Operand& o : b.returns()) out.emplace_back(o);
    return out;
  }
  static std::vector<In> outputs_of(const ir::Node& n, size_t from) {
    std::vector<In> out;
    for (size_t i = from; i < n.num_outputs(); ++i) out.emplace_back(n.output(i));
    return out;
  }
  static void set_returns(ir::Block& b, const std::vector<In>& values) {
    b.return_node().remove_all_inputs();
    for (const In& in : values) b.add_return(in);
  }
  static void add_results(ir::Node& node, const std::vector<In>& then, const std::vector<In>& otherwise) {
    for (size_t i = 0; i < then.size(); ++i) {
      const Type *a = type_of(then[i]), *b = type_of(otherwise[i]), *type = unify(a, b);
      node.blocks()[0]->add_return(then[i]);
      node.blocks()[1]->add_return(otherwise[i]);
      node.add_output(type ? type : make_union({a, b}));
    }
  }

  // ---- uninitialized values ----
  In uninitialized_like(const In& in) { return uninitialized(identity(in), type_of(in)); }
  In uninitialized(const void* identity, const Type* type) {
    auto [it, is_new] = uninitialized_.try_emplace(identity, nullptr);
    if (is_new) {
      ir::InsertAt here(*graph_.top().first());
      it->second = &graph_.make("prim::Uninitialized", {}, {{type}}).output();
      identities_[it->second] = identity;
    }
    return In(*it->second);
  }
  // PyTorch tells types apart by where they were made: a number's is always the same one, every list, tuple
  // or optional has its own, which what is joined from it or carried on shares.
  const void* identity(const In& in) {
    const Type* type = type_of(in);
    if (!in.is_value()) return type->elements().size() == 0 ? static_cast<const void*>(type) : fresh();
    return identity(*in.value(), 0);
  }
  const void* identity(const ir::Value& v, int depth) {
    static const char inferred = 0;
    if (auto it = identities_.find(&v); it != identities_.end()) return it->second;
    const Type* type = plain(v.type());
    if (type->is_tensor() && facts_.inferred.count(&v)) return &inferred;
    const ir::Node* n = v.node();
    const ir::Operand* same = nullptr;
    if (n && n->is("prim::If")) {
      for (size_t k : {1, 0}) {
        const ir::Operand& o = n->blocks()[k]->returns()[v.index()];
        if (!same && plain(o.type()) == type) same = &o;
      }
    } else if (n && n->is("prim::Uninitialized")) {
      same = other_side(v);
    } else if (n && n->is("prim::Loop")) {
      same = carried(*n, v.index());
    } else if (!n && v.param_of()->parent() && v.param_of()->parent()->is("prim::Loop") && v.index() > 0) {
      same = carried(*v.param_of()->parent(), v.index() - 1);
    }
    if (same && same->is_value() && plain(same->type()) == type && depth < 100)
      return identity(same->value(), depth + 1);
    if (type->is_tensor() || type->elements().size() == 0) return type;
    if (n && n->op()) return &n->op()->schema().returns[v.index()];
    return &v;
  }
  // What a branch that leaves gives has the type of what the other one gives.
  static const ir::Operand* other_side(const ir::Value& v) {
    for (const ir::Use& u : v.uses()) {
      const ir::Node* choice = u.user->is_return() ? u.user->block().parent() : nullptr;
      if (!choice || !choice->is("prim::If")) continue;
      const ir::Block& other = *choice->blocks()[&u.user->block() == choice->blocks()[0] ? 1 : 0];
      for (size_t i = 0; i < u.user->inputs().size(); ++i)
        if (u.user->input(i).is_value() && &u.user->input(i).value() == &v) return &other.returns()[i];
    }
    return nullptr;
  }
  // What a round gives on; of a value that it leaves alone, what the loop was given.
  static const ir::Operand* carried(const ir::Node& loop, size_t i) {
    const ir::Block& body = *loop.blocks()[0];
    const ir::Operand& next = body.returns()[i + 1];
    return next.is_value() && &next.value() == &body.param(i + 1) ? &loop.input(i + 2) : &next;
  }
  const void* fresh() {
    own_.push_back(new_owned<char>());
    return own_.back().get();
  }

  ir::Graph& graph_;
  Symbol kind_;
  bool of_loops_;
  const ExitFacts& facts_;
  In thrown_;
  int depth_ = 0;
  std::map<const void*, ir::Value*> uninitialized_;
  std::map<const ir::Value*, const void*> identities_;
  std::vector<Owned<char>> own_;
};

// ---- with: a block of its own while exits are lowered, so that its end stays behind every path ----

void enclose(ir::Graph& graph, const ExitFacts& facts) {
  for (auto [enter, exit] : facts.withs) {
    graph.insert_at(*enter->next());
    ir::Node& with = graph.make("prim::With", {}, {});
    ir::Block &body = with.add_block(), &end = with.add_block();
    for (ir::Node* n = with.next(); n != exit;) {
      ir::Node& node = *n;
      n = n->next();
      node.move_before(body.return_node());
    }
    exit->move_before(end.return_node());
  }
}
void disclose(ir::Graph& graph, ir::Block& block) {
  for (ir::Node* n = block.first(); n != &block.return_node();) {
    ir::Node& node = *n;
    if (node.is("prim::With")) {
      for (ir::Block* b : node.blocks())
        while (!b->empty()) b->first()->move_before(node);
      n = node.next();
      graph.erase(node);
      continue;
    }
    for (ir::Block* b : node.blocks()) disclose(graph, *b);
    n = n->next();
  }
}

// ---- a branch on a flag that the branch before it has set goes into that one ----

void replace(ir::Block& block, ir::Value& from, const In& to) {
  for (ir::Node& n : block) {
    n.replace_input(from, to);
    for (ir::Block* b : n.blocks()) replace(*b, from, to);
  }
  block.return_node().replace_input(from, to);
}

bool join_next(ir::Graph& graph, ir::Node& first, const std::unordered_set<const ir::Node*>& made) {
  if (!first.is("prim::If") || !first.next()->is("prim::If") || !made.count(first.next())) return false;
  ir::Node& second = *first.next();
  const ir::Operand& flag = second.input(0);
  if (!flag.is_value() || flag.value().node() != &first) return false;
  bool says[2];
  for (size_t k = 0; k < 2; ++k) {
    const ir::Operand& o = first.blocks()[k]->returns()[flag.value().index()];
    if (!o.is_constant() || !o.constant().is_bool()) return false;
    says[k] = o.constant().to_bool();
  }
  if (says[0] == says[1]) return false;
  for (size_t k = 0; k < 2; ++k) {
    ir::Block &into = *first.blocks()[k], &from = *second.blocks()[says[k] ? 0 : 1];
    for (ir::Value* v : first.outputs()) replace(from, *v, In(into.returns()[v->index()]));
    while (!from.empty()) from.first()->move_before(into.return_node());
    for (const ir::Operand& o : from.returns()) into.add_return(In(o));
  }
  for (ir::Value* v : second.outputs()) {
    ir::Value& now = first.add_output(v->type());
    graph.replace_all_uses(*v, In(now));
  }
  graph.erase(second);
  return true;
}
void join_branches(ir::Graph& graph, ir::Block& block, const std::unordered_set<const ir::Node*>& made) {
  for (ir::Node* n = block.first(); n != &block.return_node();) {
    for (ir::Block* b : n->blocks()) join_branches(graph, *b, made);
    if (!join_next(graph, *n, made)) n = n->next();
  }
}

}  // namespace

void lower_exits(ir::Graph& graph, const ExitFacts& facts) {
  enclose(graph, facts);
  Lowering loops(graph, "prim::LoopContinuation", facts);
  loops.run();
  Lowering returns(graph, "prim::ReturnStmt", facts);
  returns.run();
  returns.made.insert(loops.made.begin(), loops.made.end());
  join_branches(graph, graph.top(), returns.made);
  disclose(graph, graph.top());
}

}  // namespace tern::script
