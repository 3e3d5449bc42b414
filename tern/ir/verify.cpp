#include "tern/ir/verify.h"

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/ir/higher_order.h"
#include "tern/ir/text.h"

namespace tern::ir {
namespace {

struct Verifier {
  const Graph& graph;
  size_t nodes = 0;
  size_t used = 0, listed = 0;  // uses seen in operands, uses in the values' lists

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
    // The user, or the node around it that stands in the value's block, must come after the definition.
    const Node* at = &n;
    while (at && &at->block() != &v.block()) at = at->parent();
    if (!at || (v.node() && !v.node()->is_before(*at)))
      refuse(n, fmt::format("%{} is used where it is not defined", v.name()));
    ++used;
  }

  void define(const Value& v, const Node* at) {
    auto complain = [&](std::string why) {
      if (at) refuse(*at, std::move(why));
      failf(ErrorKind::value, "the graph is not valid: {}", why);
    };
    if (!v.type()) complain(fmt::format("%{} has no type", v.name()));
    if (graph.find(v.key()) != &v) complain(fmt::format("the name %{} belongs to another value", v.name()));
    size_t count = 0;
    for (const Use& u : v.uses()) {
      if (u.value != &v) complain(fmt::format("a use in the list of %{} is of another value", v.name()));
      ++count;
    }
    if (count != v.num_uses())
      complain(fmt::format("%{} has {} uses but counts {}", v.name(), count, v.num_uses()));
    listed += count;
  }

  void check_schema(const Node& n) {
    const Schema& s = n.op()->schema();
    if (n.inputs().size() != s.args.size())
      refuse(n, fmt::format("{} takes {} arguments but has {}", s.qualified(), s.args.size(),
                            n.inputs().size()));
    if (!s.varret && n.num_outputs() != s.returns.size())
      refuse(n,
             fmt::format("{} gives {} results but has {}", s.qualified(), s.returns.size(), n.num_outputs()));
    for (size_t i = 0; i < s.args.size(); ++i) {
      const SchemaArg& a = s.args[i];
      const Operand& o = n.input(i);
      if (o.is_none()) {
        bool accepted = a.type.accepts_none() || a.type.base == BaseType::any ||
                        (a.default_value && a.default_value->is_none());
        if (!accepted)
          refuse(n, fmt::format("argument '{}' of {} cannot be None", a.name.view(), s.qualified()));
        continue;
      }
      if (o.is_list()) {
        if (!a.type.list && a.type.base != BaseType::any)
          refuse(n, fmt::format("argument '{}' of {} is {}, not a list", a.name.view(), s.qualified(),
                                a.type.str()));
        continue;
      }
      // Only what can never fit is refused: numbers stand for tensors, tensors for numbers, and optionals are
      // refined.
      TypeKind k = o.is_value() ? o.value().type()->kind() : Type::of(o.constant())->kind();
      if (k == TypeKind::optional) k = o.value().type()->element()->kind();
      bool text = k == TypeKind::string, wants_text = a.type.base == BaseType::string ||
                                                      a.type.base == BaseType::device ||
                                                      a.type.base == BaseType::dimname;
      bool mapping = k == TypeKind::dict || k == TypeKind::function;
      bool open = a.type.base == BaseType::any || a.type.base == BaseType::custom ||
                  a.type.base == BaseType::type_var;
      bool sequence = k == TypeKind::list || k == TypeKind::tuple;
      if (!open && ((text && !wants_text) || mapping || (sequence && !a.type.list)))
        refuse(n, fmt::format("argument '{}' of {} must be {}, not {}", a.name.view(), s.qualified(),
                              a.type.str(), o.type()->str()));
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
      if (n.inputs().size() < 2)
        refuse(n, "prim::Loop takes the trip count, the condition and the carried values");
      size_t carried = n.inputs().size() - 2;
      if (n.num_outputs() != carried)
        refuse(n, fmt::format("prim::Loop carries {} values but gives {}", carried, n.num_outputs()));
      block_params(0, carried + 1);
      block_returns(0, carried + 1);
    } else if (const HigherOrder* op = find_higher_order(kind)) {
      want_blocks(op->num_graphs);
      if (n.inputs().size() < op->first) refuse(n, fmt::format("{} lacks an input", kind));
      for (size_t i = 0; i < op->num_graphs; ++i) {
        block_params(i, n.inputs().size() - op->first);
        block_returns(i, kind == "higher_order::while_loop" && i == 0 ? 1 : n.num_outputs());
      }
      auto [carried, sliced] = operands_of(n);
      if (carried > n.num_outputs() || (kind == "higher_order::while_loop" && carried != n.num_outputs()))
        refuse(n, fmt::format("{} carries {} values but gives {}", kind, carried, n.num_outputs()));
      for (const HigherOrderPart& p : op->parts)
        if (p.kind == HigherOrderPart::constant && !n.attribute(p.name))
          refuse(n, fmt::format("{} needs the attribute {}", kind, p.name));
    } else if (kind == "prim::Constant") {
      want_inputs(0);
      if (n.num_outputs() != 1) refuse(n, "prim::Constant gives one value");
    } else if (kind == "prim::ListConstruct" || kind == "prim::TupleConstruct" ||
               kind == "prim::DictConstruct") {
      if (n.num_outputs() != 1) refuse(n, fmt::format("{} gives one value", kind));
      if (kind == "prim::DictConstruct" && n.inputs().size() % 2)
        refuse(n, "prim::DictConstruct takes keys and values in turn");
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
    for (size_t i = 0; i < b.params().size(); ++i) {
      const Value& p = b.param(i);
      if (p.param_of() != &b || p.index() != i)
        failf(ErrorKind::value, "the graph is not valid: the parameter %{} does not point back to its block",
              p.name());
      define(p, owner);
    }
    for (const Node& n : b) {
      ++nodes;
      if (&n.block() != &b) refuse(n, "the node does not point back to its block");
      if (n.next()->prev() != &n || n.prev()->next() != &n) refuse(n, "the list of nodes is broken");
      for (const Operand& o : n.inputs()) operand(n, o);
      if (n.op())
        check_schema(n);
      else
        check_structure(n);
      for (const Block* inner : n.blocks()) {
        if (inner->parent() != &n) refuse(n, "a block does not point back to its node");
        block(*inner, &n);
      }
      for (size_t i = 0; i < n.num_outputs(); ++i) {
        const Value& v = n.output(i);
        if (v.node() != &n || v.index() != i)
          refuse(n, fmt::format("%{} does not point back to its node", v.name()));
        define(v, &n);
      }
    }
    for (const Operand& o : b.returns()) operand(b.return_node(), o);
  }
};

}  // namespace

void verify(const Graph& graph) {
  Verifier v{graph};
  v.block(graph.top(), nullptr);
  if (v.nodes != graph.num_nodes())
    failf(ErrorKind::value, "the graph is not valid: it has {} nodes but counts {}", v.nodes,
          graph.num_nodes());
  if (v.used != v.listed)
    failf(ErrorKind::value, "the graph is not valid: nodes use {} values but the values know of {} uses",
          v.used, v.listed);
}

}  // namespace tern::ir
