#include "tern/script/inlining.h"

#include "tern/ir/names.h"

namespace tern::script {
namespace {

bool is_constant(const ir::Node& n) { return n.is("prim::Constant"); }

const ir::Node* previous(const ir::Node& n) {
  const ir::Node* p = n.prev();
  while (!p->is_return() && is_constant(*p)) p = p->prev();
  return p;
}

class Scan {
 public:
  void block(const ir::Block& b) {
    node(b.return_node());
    for (const ir::Node* n = b.last(); !n->is_return(); n = n->prev()) {
      if (inlined.count(n)) continue;
      node(*n);
      for (const ir::Block* inside : n->blocks()) block(*inside);
    }
  }
  std::unordered_set<const ir::Node*> inlined;

 private:
  struct Waiting {
    const ir::Operand* operand;
    const ir::Node* user;
  };

  // Walks back from a statement: its operands, the last first, and theirs.
  void node(const ir::Node& statement) {
    size_t from = 0, to = statement.inputs().size();
    if (statement.is("prim::Loop")) {
      // What the rounds carry has names, and of a loop that counts and asks the limit is written twice.
      to = 2;
      if (form_of(statement) == LoopForm::both) return;
    }
    if (statement.is_return() && statement.block().parent() && statement.block().parent()->is("prim::Loop")) {
      LoopForm form = form_of(*statement.block().parent());
      if (form == LoopForm::both) return;
      if (form == LoopForm::counted) from = 1;
    }
    waiting_.clear();
    for (size_t i = from; i < to; ++i) waiting_.push_back({&statement.input(i), &statement});
    const ir::Node* point = previous(statement);
    while (!waiting_.empty()) {
      auto [o, user] = waiting_.back();
      waiting_.pop_back();
      if (o->is_list()) {
        for (const ir::Operand& item : o->list()) waiting_.push_back({&item, user});
        continue;
      }
      if (!o->is_value()) continue;
      if (o->value().node() != point || !may_inline(*point, *user)) continue;
      inlined.insert(point);
      for (const ir::Operand& input : point->inputs()) waiting_.push_back({&input, point});
      point = previous(*point);
    }
  }

  static bool may_inline(const ir::Node& n, const ir::Node& user) {
    if (n.is_return() || n.num_outputs() != 1 || n.output().num_uses() != 1) return false;
    if (!n.blocks().empty()) return false;
    if (is_named(n.output()) && !user.is_return()) return false;
    // A condition that was refined once already, and statements that are no expressions.
    return !n.meta("with") && !n.is("prim::isinstance") && !n.is("prim::TupleUnpack") &&
           !n.is("prim::ListUnpack");
  }

  std::vector<Waiting> waiting_;
};

}  // namespace

std::unordered_set<const ir::Node*> inlined_nodes(const ir::Graph& graph) {
  Scan scan;
  scan.block(graph.top());
  return std::move(scan.inlined);
}

bool is_named(const ir::Value& value) {
  if (!value.node()) return !value.key().base.empty() && value.key().base.view() != "arg";
  const ir::Node& n = *value.node();
  if (n.is("prim::GetAttr") || noted_variable(value)) return true;
  std::string_view base = value.key().base.view();
  return !base.empty() && base != (n.op() && n.num_outputs() != 1 ? "getitem" : ir::default_hint(n));
}

void note_variable(const ir::Value& value, std::string_view variable) {
  if (!value.node() || (is_named(value) && ir::Name::parse(variable).number == 0)) return;
  const tern::Value* noted = value.node()->meta("variables");
  tern::Value names = noted ? *noted : tern::Value::dict();
  names.entries().emplace_back(tern::Value(value.name()), tern::Value(variable));
  value.node()->set_meta("variables", std::move(names));
}
const std::string* noted_variable(const ir::Value& value) {
  const tern::Value* noted = value.node() ? value.node()->meta("variables") : nullptr;
  if (!noted) return nullptr;
  const tern::Value* name = noted->find(tern::Value(value.name()));
  return name ? &name->string() : nullptr;
}

LoopForm form_of(const ir::Node& loop) {
  const ir::Block& body = *loop.blocks()[0];
  auto always = [](const ir::Operand& o) {
    return o.is_constant() && o.constant().is_bool() && o.constant().to_bool();
  };
  if (always(loop.input(1)) && always(body.returns()[0])) return LoopForm::counted;
  const ir::Operand& trip = loop.input(0);
  bool endless = trip.is_constant() && trip.constant().is_int() && trip.constant().to_int() == INT64_MAX;
  return endless && !body.param(0).has_uses() ? LoopForm::conditional : LoopForm::both;
}

}  // namespace tern::script
