#include "tern/ir/verify.h"

#include <unordered_set>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/ir/text.h"

namespace tern::ir {
namespace {

struct Verifier {
  const Graph& graph;
  std::unordered_set<const Value*> visible;   // values defined so far whose block is still open
  std::unordered_map<const Value*, uint32_t> counted;
  size_t nodes = 0;

  [[noreturn]] void refuse(const Node& n, std::string why) {
    failf(ErrorKind::value, "the graph is not valid: {}\n  in: {}", why, print(n));
  }

  void operand(const Node& n, const Operand& o) {
    if (o.is_list()) {
      for (const Operand& item : o.list()) operand(n, item);
      return;
    }
    if (!o.is_value()) return;
    const Value& v = o.value();
    if (!visible.count(&v)) refuse(n, fmt::format("%{} is used where it is not defined", v.name()));
    ++counted[&v];
  }

  void define(const Value& v, const Node* at) {
    auto complain = [&](std::string why) {
      if (at) refuse(*at, std::move(why));
      failf(ErrorKind::value, "the graph is not valid: {}", why);
    };
    if (!v.type()) complain(fmt::format("%{} has no type", v.name()));
    if (graph.find(v.name()) != &v) complain(fmt::format("the name %{} belongs to another value", v.name()));
    if (!visible.insert(&v).second) complain(fmt::format("%{} is defined twice", v.name()));
  }

  void check_schema(const Node& n) {
    const Schema& s = n.op()->schema();
    if (n.inputs().size() != s.args.size())
      refuse(n, fmt::format("{} takes {} arguments but has {}", s.qualified(), s.args.size(), n.inputs().size()));
    if (!s.varret && n.num_outputs() != s.returns.size())
      refuse(n, fmt::format("{} gives {} results but has {}", s.qualified(), s.returns.size(), n.num_outputs()));
    for (size_t i = 0; i < s.args.size(); ++i) {
      const SchemaArg& a = s.args[i];
      const Operand& o = n.input(i);
      if (o.is_none()) {
        bool accepted = a.type.accepts_none() || a.type.base == BaseType::any ||
                        (a.default_value && a.default_value->is_none());
        if (!accepted) refuse(n, fmt::format("argument '{}' of {} cannot be None", a.name.view(), s.qualified()));
        continue;
      }
      if (o.is_list()) {
        if (!a.type.list && a.type.base != BaseType::any)
          refuse(n, fmt::format("argument '{}' of {} is {}, not a list", a.name.view(), s.qualified(), a.type.str()));
        continue;
      }
      // Only what can never fit is refused: numbers stand for tensors, tensors for numbers, and optionals are refined.
      TypeKind k = o.is_value() ? o.value().type()->kind() : Type::of(o.constant())->kind();
      if (k == TypeKind::optional) k = o.value().type()->element()->kind();
      bool text = k == TypeKind::string, wants_text = a.type.base == BaseType::string || a.type.base == BaseType::device ||
                                                      a.type.base == BaseType::dimname;
      bool mapping = k == TypeKind::dict || k == TypeKind::function;
      bool open = a.type.base == BaseType::any || a.type.base == BaseType::custom || a.type.base == BaseType::type_var;
      bool sequence = k == TypeKind::list || k == TypeKind::tuple;
      if (!open && ((text && !wants_text) || mapping || (sequence && !a.type.list)))
        refuse(n, fmt::format("argument '{}' of {} must be {}, not {}", a.name.view(), s.qualified(), a.type.str(),
                              o.type()->str()));
    }
  }

  void check_structure(const Node& n) {
    auto want_blocks = [&](size_t count) {
      if (n.blocks().size() != count)
        refuse(n, fmt::format("{} has {} blocks, not {}", n.kind().view(), count, n.blocks().size()));
    };
    auto want_inputs = [&](size_t count) {
      if (n.inputs().size() != count)
        refuse(n, fmt::format("{} takes {} inputs, not {}", n.kind().view(), count, n.inputs().size()));
    };
    auto block_returns = [&](size_t i, size_t count) {
      if (n.blocks()[i]->returns().size() != count)
        refuse(n, fmt::format("block{} of {} must return {} values, not {}", i, n.kind().view(), count,
                              n.blocks()[i]->returns().size()));
    };
    auto block_params = [&](size_t i, size_t count) {
      if (n.blocks()[i]->params().size() != count)
        refuse(n, fmt::format("block{} of {} must take {} values, not {}", i, n.kind().view(), count,
                              n.blocks()[i]->params().size()));
    };
    std::string_view kind = n.kind().view();
    if (kind == "prim::If") {
      want_inputs(1);
      want_blocks(2);
      for (size_t i = 0; i < 2; ++i) {
        block_params(i, 0);
        block_returns(i, n.num_outputs());
      }
    } else if (kind == "prim::Loop") {
      want_blocks(1);
      if (n.inputs().size() < 2) refuse(n, "prim::Loop takes the trip count, the condition and the carried values");
      size_t carried = n.inputs().size() - 2;
      if (n.num_outputs() != carried) refuse(n, fmt::format("prim::Loop carries {} values but gives {}", carried, n.num_outputs()));
      block_params(0, carried + 1);
      block_returns(0, carried + 1);
    } else if (kind == "higher_order::cond") {
      want_blocks(2);
      if (n.inputs().empty()) refuse(n, "higher_order::cond takes the condition and the operands");
      for (size_t i = 0; i < 2; ++i) {
        block_params(i, n.inputs().size() - 1);
        block_returns(i, n.num_outputs());
      }
    } else if (kind == "higher_order::while_loop") {
      want_blocks(2);
      for (size_t i = 0; i < 2; ++i) block_params(i, n.inputs().size());
      block_returns(0, 1);
      block_returns(1, n.num_outputs());
    } else if (kind == "prim::Constant") {
      want_inputs(0);
      if (n.num_outputs() != 1) refuse(n, "prim::Constant gives one value");
    } else if (kind == "prim::ListConstruct" || kind == "prim::TupleConstruct" || kind == "prim::DictConstruct") {
      if (n.num_outputs() != 1) refuse(n, fmt::format("{} gives one value", kind));
      if (kind == "prim::DictConstruct" && n.inputs().size() % 2) refuse(n, "prim::DictConstruct takes keys and values in turn");
    } else if (kind == "prim::ListUnpack" || kind == "prim::TupleUnpack") {
      want_inputs(1);
      if (kind == "prim::TupleUnpack" && n.input(0).is_value()) {
        const Type* t = n.input(0).value().type();
        if (t->is(TypeKind::tuple) && t->elements().size() != n.num_outputs())
          refuse(n, fmt::format("a tuple of {} is unpacked into {}", t->elements().size(), n.num_outputs()));
      }
    } else if (kind == "prim::GetAttr" || kind == "prim::SetAttr" || kind == "prim::CallMethod") {
      const tern::Value* name = n.attribute("name");
      if (!name || !name->is_string()) refuse(n, fmt::format("{} needs the attribute name", kind));
    }
  }

  void block(const Block& b, const Node* owner) {
    std::vector<const Value*> here;
    for (size_t i = 0; i < b.params().size(); ++i) {
      const Value& p = b.param(i);
      if (p.param_of() != &b || p.index() != i)
        failf(ErrorKind::value, "the graph is not valid: the parameter %{} does not point back to its block", p.name());
      define(p, owner);
      here.push_back(&p);
    }
    for (const Node& n : b) {
      ++nodes;
      if (&n.block() != &b) refuse(n, "the node does not point back to its block");
      if (n.next()->prev() != &n || n.prev()->next() != &n) refuse(n, "the list of nodes is broken");
      for (const Operand& o : n.inputs()) operand(n, o);
      if (n.op()) check_schema(n);
      else check_structure(n);
      for (const Block* inner : n.blocks()) {
        if (inner->parent() != &n) refuse(n, "a block does not point back to its node");
        block(*inner, &n);
      }
      for (size_t i = 0; i < n.num_outputs(); ++i) {
        const Value& v = n.output(i);
        if (v.node() != &n || v.index() != i) refuse(n, fmt::format("%{} does not point back to its node", v.name()));
        define(v, &n);
        here.push_back(&v);
      }
    }
    for (const Operand& o : b.returns()) operand(b.return_node(), o);
    if (!owner) {
      check_uses();
      return;
    }
    for (const Value* v : here) {
      check_users_inside(*v, b);
      check_use_count(*v);
      visible.erase(v);
    }
  }

  void check_users_inside(const Value& v, const Block& b) {
    for (const Use& u : v.uses()) {
      const Block* at = &u.user->block();
      while (at && at != &b) at = at->parent() ? &at->parent()->block() : nullptr;
      if (!at) refuse(*u.user, fmt::format("%{} is used where it is not defined", v.name()));
    }
  }
  // Every use is inside the block, so all of them have been seen when it ends.
  void check_use_count(const Value& v) {
    auto it = counted.find(&v);
    uint32_t seen = it == counted.end() ? 0 : it->second;
    if (seen != v.num_uses())
      failf(ErrorKind::value, "the graph is not valid: %{} is used {} times but counts {}", v.name(), seen, v.num_uses());
    if (it != counted.end()) counted.erase(it);
    for (const Use& u : v.uses())
      if (u.value != &v)
        failf(ErrorKind::value, "the graph is not valid: a use in the list of %{} is of another value", v.name());
  }
  void check_uses() {
    for (const Value* v : visible) check_use_count(*v);
  }
};

}  // namespace

void verify(const Graph& graph) {
  Verifier v{graph, {}, {}};
  v.visible.reserve(graph.num_nodes() + graph.inputs().size());
  v.counted.reserve(graph.num_nodes() + graph.inputs().size());
  v.block(graph.top(), nullptr);
  if (v.nodes != graph.num_nodes())
    failf(ErrorKind::value, "the graph is not valid: it has {} nodes but counts {}", v.nodes, graph.num_nodes());
}

}  // namespace tern::ir
