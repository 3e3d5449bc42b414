#include "tern/ir/graph.h"

#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/ir/names.h"
#include "tern/ir/text.h"

namespace tern::ir {

// What few nodes have.
struct Node::Extra {
  std::vector<std::pair<Symbol, tern::Value>> attributes;
  std::vector<std::pair<Symbol, tern::Value>> meta;
  std::vector<Block*> blocks;
  Value* label = nullptr;  // holds the name of a node with no output or several
};

struct Graph::Names : NameTable {};

constexpr uint32_t order_gap = 16;

// ---- operands and uses ----

In::In(const Operand& o) {
  if (o.is_value()) {
    value_ = &o.value();
  } else if (o.is_list()) {
    is_list_ = true;
    for (const Operand& item : o.list()) items_.emplace_back(item);
  } else {
    constant_ = o.constant();
  }
}

In In::list(std::vector<In> items) {
  In in;
  if (std::all_of(items.begin(), items.end(), [](const In& i) { return i.is_constant(); })) {
    std::vector<tern::Value> values;
    values.reserve(items.size());
    for (In& i : items) values.push_back(std::move(i.constant_));
    in.constant_ = tern::Value::list(std::move(values));
    return in;
  }
  in.is_list_ = true;
  in.items_ = std::move(items);
  return in;
}

const Type* Operand::type() const {
  if (is_value()) return value().type();
  if (is_constant()) return Type::of(constant());
  const Type* element = nullptr;
  bool has_none = false;
  for (const Operand& item : list()) {
    const Type* t = item.type();
    if (t->is(TypeKind::none)) {
      has_none = true;
      continue;
    }
    if (t->is_tensor()) t = Type::tensor();
    element = !element || element == t ? t : Type::any();
  }
  if (!element) element = Type::any();
  return Type::list(has_none ? Type::optional(element) : element);
}

void Graph::link(Use& use, Value& value) {
  use.value = &value;
  use.next = value.head_;
  use.link = &value.head_;
  if (value.head_) value.head_->link = &use.next;
  value.head_ = &use;
  ++value.uses_;
}

void Graph::unlink(Use& use) {
  *use.link = use.next;
  if (use.next) use.next->link = use.link;
  --use.value->uses_;
  use.next = free_uses_;
  free_uses_ = &use;
}

void Graph::bind(Operand& slot, Node& user, const In& in) {
  if (in.is_value()) {
    Use* use = free_uses_;
    if (use)
      free_uses_ = use->next;
    else
      use = static_cast<Use*>(arena_.allocate(sizeof(Use), alignof(Use)));
    use->user = &user;
    link(*use, *in.value());
    slot.set(Operand::use_tag, 0, use);
  } else if (in.is_list()) {
    Operand* items = arena_.make_array<Operand>(in.items().size());
    for (size_t i = 0; i < in.items().size(); ++i) bind(items[i], user, in.items()[i]);
    slot.set(Operand::list_tag, static_cast<uint32_t>(in.items().size()), items);
  } else {
    ::new (slot.bytes_) tern::Value(in.constant());
  }
}

void Graph::bind_constant(Operand& slot, const tern::Value& value) { ::new (slot.bytes_) tern::Value(value); }

void Graph::release(Operand& slot) {
  if (slot.is_value()) {
    unlink(slot.use());
  } else if (slot.is_list()) {
    for (Operand& item : slot.list()) release(item);
  } else {
    reinterpret_cast<tern::Value*>(slot.bytes_)->~Value();
  }
  slot = Operand();
}

void Value::replace_all_uses_with(Value& other) {
  if (this == &other || !head_) return;
  Use* last = nullptr;
  for (Use* u = head_; u; u = u->next) {
    u->value = &other;
    last = u;
  }
  last->next = other.head_;
  if (other.head_) other.head_->link = &last->next;
  other.head_ = head_;
  head_->link = &other.head_;
  other.uses_ += uses_;
  head_ = nullptr;
  uses_ = 0;
}

Block& Value::block() const { return param_ ? *block_ : node_->block(); }

// ---- nodes ----

std::string Node::qualified() const { return op_ ? op_->qualified() : kind_.str(); }
Graph& Node::graph() const { return block_->graph(); }
bool Node::is_return() const { return block_->return_ == this; }
Node* Node::parent() const { return block_->parent(); }

bool Node::is_before(const Node& other) const {
  if (is_return()) return false;
  if (other.is_return()) return true;
  if (!block_->ordered_) graph().reorder(*block_);
  return order_ < other.order_;
}

Operand* Node::find_input(Symbol schema_arg) const {
  int at = op_ ? op_->schema().find(schema_arg) : -1;
  return at < 0 || static_cast<size_t>(at) >= num_inputs_ ? nullptr : &inputs_[at];
}

void Node::set_input(size_t i, const In& in) {
  In copy = in;  // `in` may be made from the operand that is released
  graph().release(inputs_[i]);
  graph().bind(inputs_[i], *this, copy);
}
void Node::add_input(const In& in) { insert_input(num_inputs_, in); }
void Node::insert_input(size_t i, const In& in) {
  if (exact_ || (num_inputs_ & (num_inputs_ - 1)) == 0) {
    size_t capacity = 1;
    while (capacity <= num_inputs_) capacity *= 2;
    exact_ = 0;
    Operand* bigger = graph().arena_.make_array<Operand>(capacity);
    std::copy(inputs_, inputs_ + num_inputs_, bigger);
    inputs_ = bigger;
  }
  for (size_t k = num_inputs_; k > i; --k) inputs_[k] = inputs_[k - 1];
  ++num_inputs_;
  inputs_[i] = Operand();
  graph().bind(inputs_[i], *this, in);
}
void Node::remove_input(size_t i) {
  graph().release(inputs_[i]);
  for (size_t k = i; k + 1 < num_inputs_; ++k) inputs_[k] = inputs_[k + 1];
  --num_inputs_;
}
void Node::remove_all_inputs() {
  for (Operand& o : inputs()) graph().release(o);
  num_inputs_ = 0;
}

void Node::replace_input(Value& from, const In& to) {
  for (size_t i = 0; i < num_inputs_; ++i) {
    Operand& o = inputs_[i];
    if (o.is_value()) {
      if (&o.value() == &from) set_input(i, to);
    } else if (o.is_list()) {
      bool found = false;
      for (Operand& item : o.list()) found |= item.is_value() ? &item.value() == &from : item.is_list();
      if (!found) continue;
      auto replaced = [&](auto& self, const Operand& item) -> In {
        if (item.is_value()) return &item.value() == &from ? to : In(item);
        if (!item.is_list()) return In(item);
        std::vector<In> items;
        for (const Operand& inner : item.list()) items.push_back(self(self, inner));
        return In::list(std::move(items));
      };
      set_input(i, replaced(replaced, o));
    }
  }
}

Value& Node::add_output(const Type* type, std::string_view name) {
  Value& v = graph().new_output(*this, num_outputs_, type, name.empty() ? default_hint(*this) : name);
  Value** more = graph().arena_.make_array<Value*>(num_outputs_ + 1);
  std::copy(outputs().begin(), outputs().end(), more);
  more[num_outputs_] = &v;
  ++num_outputs_;
  if (num_outputs_ == 1)
    one_ = &v;
  else
    many_ = more;
  return v;
}
void Node::remove_output(size_t i) {
  Value& gone = output(i);
  if (gone.has_uses()) failf(ErrorKind::internal, "Node::remove_output: %{} is used", gone.name());
  graph().forget_value(gone);
  if (num_outputs_ == 1) {
    one_ = nullptr;
  } else {
    for (size_t k = i; k + 1 < num_outputs_; ++k) {
      many_[k] = many_[k + 1];
      many_[k]->index_ = k;
    }
    if (num_outputs_ == 2) one_ = many_[0];
  }
  --num_outputs_;
}

std::string Node::name() const {
  if (extra_ && extra_->label) return extra_->label->name();
  if (num_outputs_) return output(0).name();
  return std::string(default_hint(*this));
}

const Value* Node::label() const { return extra_ ? extra_->label : nullptr; }

Node::Extra& Node::extra() {
  if (!extra_) extra_ = graph().arena_.make<Extra>();
  return *extra_;
}

namespace {
using Entries = std::vector<std::pair<Symbol, tern::Value>>;
const tern::Value* look_up(const Entries& entries, Symbol key) {
  for (auto& [k, v] : entries)
    if (k == key) return &v;
  return nullptr;
}
void put(Entries& entries, Symbol key, tern::Value value) {
  for (auto& [k, v] : entries)
    if (k == key) {
      v = std::move(value);
      return;
    }
  entries.emplace_back(key, std::move(value));
}
}  // namespace

Span<const std::pair<Symbol, tern::Value>> Node::attributes() const {
  if (!extra_) return {};
  return extra_->attributes;
}
const tern::Value* Node::attribute(Symbol name) const {
  return extra_ ? look_up(extra_->attributes, name) : nullptr;
}
void Node::set_attribute(Symbol name, tern::Value value) { put(extra().attributes, name, std::move(value)); }
Span<const std::pair<Symbol, tern::Value>> Node::all_meta() const {
  if (!extra_) return {};
  return extra_->meta;
}
const tern::Value* Node::meta(Symbol key) const { return extra_ ? look_up(extra_->meta, key) : nullptr; }
void Node::set_meta(Symbol key, tern::Value value) { put(extra().meta, key, std::move(value)); }

Span<Block* const> Node::blocks() const {
  if (!extra_) return {};
  return extra_->blocks;
}
Block& Node::add_block() {
  Block& b = graph().new_block(this);
  extra().blocks.push_back(&b);
  return b;
}
void Node::remove_block(size_t i) {
  Block* b = extra_->blocks[i];
  b->return_->remove_all_inputs();
  for (Node* n = b->last(); n != b->return_;) {
    Node* before = n->prev();
    graph().erase(*n);
    n = before;
  }
  for (Value* p : b->params_) graph().forget_value(*p);
  b->~Block();
  extra_->blocks.erase(extra_->blocks.begin() + static_cast<ptrdiff_t>(i));
}

void Node::move_before(Node& other) {
  if (this == &other || next_ == &other) return;
  prev_->next_ = next_;
  next_->prev_ = prev_;
  Graph& g = graph();
  Node* saved = g.point_;
  g.point_ = &other;
  g.insert(*this);
  g.point_ = saved;
}
void Node::move_after(Node& other) { move_before(*other.next_); }

// ---- blocks ----

Value& Block::add_param(const Type* type, std::string_view name) {
  return insert_param(params_.size(), type, name);
}
Value& Block::insert_param(size_t i, const Type* type, std::string_view name) {
  Value& v = graph_->new_value(type, name.empty() ? "arg" : name);
  v.param_ = 1;
  v.block_ = this;
  params_.insert(params_.begin() + static_cast<ptrdiff_t>(i), &v);
  for (size_t k = i; k < params_.size(); ++k) params_[k]->index_ = static_cast<uint32_t>(k);
  return v;
}
void Block::remove_param(size_t i) {
  if (params_[i]->has_uses())
    failf(ErrorKind::internal, "Block::remove_param: %{} is used", params_[i]->name());
  graph_->forget_value(*params_[i]);
  params_.erase(params_.begin() + static_cast<ptrdiff_t>(i));
  for (size_t k = i; k < params_.size(); ++k) params_[k]->index_ = static_cast<uint32_t>(k);
}

// ---- the graph ----

Graph::Graph() : names_(new_owned<Names>()) {
  top_ = &new_block(nullptr);
  point_ = top_->return_;
}

Graph::~Graph() {
  auto drop = [](auto& self, Block& block) -> void {
    auto drop_node = [&](Node& n) {
      auto drop_operands = [](auto& again, Span<Operand> operands) -> void {
        for (Operand& o : operands) {
          if (o.is_list())
            again(again, o.list());
          else if (o.is_constant())
            o.constant().~Value();
        }
      };
      drop_operands(drop_operands, n.inputs());
      if (n.extra_) {
        for (Block* b : n.extra_->blocks) self(self, *b);
        n.extra_->~Extra();
      }
    };
    for (Node& n : block) drop_node(n);
    drop_node(*block.return_);
    block.~Block();
  };
  drop(drop, *top_);
}

Node& Graph::new_node(Symbol kind, const Op* op, size_t num_inputs) {
  Node& n = *arena_.make<Node>();
  n.kind_ = kind;
  n.op_ = op;
  n.num_inputs_ = static_cast<uint32_t>(num_inputs);
  n.exact_ = 1;
  if (num_inputs) n.inputs_ = arena_.make_array<Operand>(num_inputs);
  return n;
}

Node& Graph::insert(Node& n) {
  Node& at = *point_;
  n.block_ = at.block_;
  n.next_ = &at;
  n.prev_ = at.prev_;
  at.prev_->next_ = &n;
  at.prev_ = &n;
  uint32_t before = n.prev_->is_return() ? 0 : n.prev_->order_;
  if (at.is_return()) {
    n.order_ = before + order_gap;
    if (n.order_ < before) n.block_->ordered_ = false;
  } else {
    n.order_ = before + (at.order_ - before) / 2;
    if (n.order_ == before || n.order_ == at.order_) n.block_->ordered_ = false;
  }
  return n;
}

void Graph::reorder(Block& block) {
  uint32_t order = 0;
  for (Node& n : block) n.order_ = order += order_gap;
  block.ordered_ = true;
}

Block& Graph::new_block(Node* parent) {
  Block& b = *arena_.make<Block>();
  b.graph_ = this;
  b.parent_ = parent;
  Node& end = new_node("prim::Return", nullptr, 0);
  end.block_ = &b;
  end.next_ = end.prev_ = &end;
  b.return_ = &end;
  return b;
}

Value& Graph::new_value(const Type* type, std::string_view hint) {
  Value& v = *arena_.make<Value>();
  v.type_ = type;
  v.name_ = names_->give(hint, &v);
  return v;
}
Value& Graph::new_value(const Type* type, Name exact) {
  if (names_->find(exact))
    failf(ErrorKind::value, "the name %{} is already taken in this graph", exact.str());
  Value& v = *arena_.make<Value>();
  v.type_ = type;
  v.name_ = exact;
  names_->claim(exact, &v);
  return v;
}
void Graph::add_label(Node& node, std::string_view hint, bool exact) {
  Value& label = exact ? new_value(Type::none(), Name::parse(hint)) : new_value(Type::none(), hint);
  label.node_ = &node;
  node.extra().label = &label;
}
Value& Graph::new_output(Node& node, uint32_t index, const Type* type, std::string_view hint) {
  Value& v = new_value(type, hint);
  v.node_ = &node;
  v.index_ = index;
  return v;
}
void Graph::make_outputs(Node& node, Span<const Type* const> types, std::string_view hint) {
  node.num_outputs_ = static_cast<uint32_t>(types.size());
  std::string_view own = hint.empty() ? default_hint(node) : hint;
  if (wants_label(node)) {
    add_label(node, own, false);
    own = "getitem";
  }
  if (types.size() == 1) {
    node.one_ = &new_output(node, 0, types[0], own);
    return;
  }
  if (types.empty()) return;
  node.many_ = arena_.make_array<Value*>(types.size());
  for (uint32_t i = 0; i < types.size(); ++i) node.many_[i] = &new_output(node, i, types[i], own);
}

Node& Graph::call(const Op& op, Span<const In> inputs, const Type* type, std::string_view hint) {
  const Schema& schema = op.schema();
  if (inputs.size() > schema.args.size())
    failf(ErrorKind::type, "{}(): takes {} arguments but {} were given\n  {}", schema.qualified(),
          schema.args.size(), inputs.size(), schema.str());
  for (size_t i = inputs.size(); i < schema.args.size(); ++i)
    if (!schema.args[i].default_value && !schema.args[i].type.accepts_none())
      failf(ErrorKind::type, "{}(): missing value for argument '{}'\n  {}", schema.qualified(),
            schema.args[i].name.view(), schema.str());
  Node& n = new_node(schema.name, &op, schema.args.size());
  insert(n);
  ++num_nodes_;
  for (size_t i = 0; i < inputs.size(); ++i) bind(n.inputs_[i], n, inputs[i]);
  for (size_t i = inputs.size(); i < schema.args.size(); ++i)
    if (schema.args[i].default_value) bind_constant(n.inputs_[i], *schema.args[i].default_value);
  if (type && schema.returns.size() == 1) {
    make_outputs(n, {&type, 1}, hint);
    return n;
  }
  SmallVector<const Type*, 4> types;
  for (const SchemaArg& r : schema.returns) types.push_back(Type::of(r.type));
  if (type && types.size() > 1 && type->is(TypeKind::tuple) && type->elements().size() == types.size())
    for (size_t i = 0; i < types.size(); ++i) types[i] = type->element(i);
  make_outputs(n, types, hint);
  return n;
}

Node& Graph::call(std::string_view qualified, Span<const In> inputs, const Type* type,
                  std::string_view hint) {
  return call(get_op(qualified), inputs, type, hint);
}

Node& Graph::make(Symbol kind, Span<const In> inputs, Span<const Type* const> types, std::string_view hint) {
  Node& n = new_node(kind, nullptr, inputs.size());
  insert(n);
  ++num_nodes_;
  for (size_t i = 0; i < inputs.size(); ++i) bind(n.inputs_[i], n, inputs[i]);
  make_outputs(n, types, hint);
  return n;
}

namespace {
const In& mapped(const Value& v, const ValueMap& map) {
  auto it = map.find(&v);
  if (it == map.end())
    failf(ErrorKind::internal, "copying a graph: %{} is used before it is mapped", v.name());
  return it->second;
}
In mapped(const Operand& o, const ValueMap& map) {
  if (o.is_value()) return mapped(o.value(), map);
  if (!o.is_list()) return In(o.constant());
  std::vector<In> items;
  items.reserve(o.list().size());
  for (const Operand& item : o.list()) items.push_back(mapped(item, map));
  return In::list(std::move(items));
}
}  // namespace

Node& Graph::copy(const Node& from, ValueMap& map) {
  Node& n = new_node(from.kind_, from.op_, from.num_inputs_);
  insert(n);
  ++num_nodes_;
  for (size_t i = 0; i < from.num_inputs_; ++i) {
    const Operand& o = from.inputs_[i];
    if (o.is_value()) {
      bind(n.inputs_[i], n, mapped(o.value(), map));
    } else if (o.is_constant()) {
      bind_constant(n.inputs_[i], o.constant());
    } else {
      bind(n.inputs_[i], n, mapped(o, map));
    }
  }
  n.origin_ = from.origin_;
  if (from.extra_) {
    if (from.extra_->label) add_label(n, from.extra_->label->name(), false);
    if (!from.extra_->attributes.empty()) n.extra().attributes = from.extra_->attributes;
    if (!from.extra_->meta.empty()) n.extra().meta = from.extra_->meta;
    for (const Block* b : from.extra_->blocks) {
      Block& copied = n.add_block();
      for (Value* p : b->params()) map[p] = In(copied.add_param(p->type(), p->name()));
      Node* saved = point_;
      insert_at_end(copied);
      for (In& in : inline_block(*b, map)) copied.add_return(in);
      point_ = saved;
    }
  }
  n.num_outputs_ = from.num_outputs_;
  if (from.num_outputs_ > 1) n.many_ = arena_.make_array<Value*>(from.num_outputs_);
  for (uint32_t i = 0; i < from.num_outputs_; ++i) {
    Value& old = from.output(i);
    Value& v = *arena_.make<Value>();
    v.type_ = old.type();
    v.name_ = names_->give(old.name_, &v);
    v.node_ = &n;
    v.index_ = i;
    if (from.num_outputs_ == 1)
      n.one_ = &v;
    else
      n.many_[i] = &v;
    map[&old] = In(v);
  }
  return n;
}

std::vector<In> Graph::inline_block(const Block& block, ValueMap& map) {
  for (Node& n : block) copy(n, map);
  std::vector<In> returns;
  returns.reserve(block.returns().size());
  for (const Operand& o : block.returns()) returns.push_back(mapped(o, map));
  return returns;
}

void Graph::dispose(Node& n) {
  for (Operand& o : n.inputs()) release(o);
  n.num_inputs_ = 0;
  if (n.extra_) {
    while (!n.extra_->blocks.empty()) n.remove_block(n.extra_->blocks.size() - 1);
    if (n.extra_->label) forget_value(*n.extra_->label);
    n.extra_->~Extra();
    n.extra_ = nullptr;
  }
}

void Graph::erase(Node& n) {
  for (Value* v : n.outputs())
    if (v->has_uses()) failf(ErrorKind::internal, "Graph::erase: %{} is still used", v->name());
  dispose(n);
  for (Value* v : n.outputs()) forget_value(*v);
  if (point_ == &n) point_ = n.next_;
  n.prev_->next_ = n.next_;
  n.next_->prev_ = n.prev_;
  --num_nodes_;
}

void Graph::replace_all_uses(Value& from, const In& to) {
  if (to.is_value()) return from.replace_all_uses_with(*to.value());
  while (from.head_) from.head_->user->replace_input(from, to);
}

void Graph::forget_value(Value& v) { names_->remove(v.name_); }
Value* Graph::find(std::string_view text) const { return find(Name::parse(text)); }
Value* Graph::find(Name name) const {
  Value* v = names_->find(name);
  return v && v->node() && v->node()->extra_ && v->node()->extra_->label == v ? nullptr : v;
}
void Graph::rename(Value& v, std::string_view hint) {
  names_->remove(v.name_);
  v.name_ = names_->give(hint, &v);
}
void Graph::set_name(Value& v, std::string_view exact) {
  Name wanted = Name::parse(exact);
  if (wanted == v.name_) return;
  if (names_->find(wanted)) failf(ErrorKind::value, "the name %{} is already taken in this graph", exact);
  names_->remove(v.name_);
  v.name_ = wanted;
  names_->add(v.name_, &v);
}
std::string Graph::fresh_name(std::string_view hint) const { return names_->peek(hint).str(); }

Owned<Graph> Graph::clone() const {
  auto g = new_owned<Graph>();
  g->shapes = shapes;
  g->name = name;
  ValueMap map;
  map.reserve(num_nodes_ * 2);
  for (Value* p : inputs()) map[p] = In(g->add_input(p->type(), p->name()));
  for (In& in : g->inline_block(*top_, map)) g->add_output(in);
  // Names that text or a user gave exactly, such as %input, stay; the second round is for names that had
  // moved.
  for (int round = 0; round < 2; ++round)
    for (auto& [old, copy] : map) {
      if (!copy.is_value() || copy.value()->name_ == old->name_ || g->names_->find(old->name_)) continue;
      g->set_name(*copy.value(), old->name());
    }
  return g;
}

size_t Graph::bytes() const { return arena_.bytes() + names_->bytes(); }
std::string Graph::str() const { return print(*this); }

}  // namespace tern::ir
