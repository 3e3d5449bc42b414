// The one representation: a Graph of Nodes in nested Blocks, everything in one arena. A node is a call of an
// operator, or structural (prim::If, prim::ListConstruct, ...); its inputs stand in schema order, constants
// and lists inline.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/base/arena.h"
#include "tern/base/flat_map.h"
#include "tern/base/location.h"
#include "tern/base/pointer.h"
#include "tern/base/span.h"
#include "tern/base/symbol.h"
#include "tern/ir/type.h"
#include "tern/tensor/value.h"

namespace tern {
struct Op;
struct Scope;
class ShapeEnv;
}  // namespace tern

namespace tern::ir {

class Graph;
class Block;
class Node;
class Value;
class In;

// A name without a string of its own: "add", "add_3" (base and number), "3" (no base).
struct Name {
  Symbol base;
  uint32_t number = 0;  // one more than what is written; 0: nothing is written
  std::string str() const;
  static Name parse(std::string_view text);
  friend bool operator==(Name, Name) = default;
};

// One place where a value is used; linked into the value's list.
struct Use {
  Value* value;
  Node* user;
  Use* next;
  Use** link;
};

// An input, 16 bytes: a use of a value, a constant, or a list of operands of which at least one is a use.
class Operand {
 public:
  bool is_value() const { return tag() == use_tag; }
  bool is_list() const { return tag() == list_tag; }
  bool is_constant() const { return tag() < use_tag; }
  bool is_none() const { return tag() == 0; }
  Value& value() const { return *use().value; }  // precondition: is_value()
  const tern::Value& constant() const {
    return *reinterpret_cast<const tern::Value*>(bytes_);
  }                             // is_constant()
  Span<Operand> list() const {  // is_list()
    return {static_cast<Operand*>(pointer()), *reinterpret_cast<const uint32_t*>(bytes_ + 4)};
  }
  const Type* type() const;  // of the value, the constant or the list

 private:
  friend class Graph;
  friend class Node;
  static constexpr uint8_t use_tag = 0x80, list_tag = 0x81;
  static_assert(std::is_standard_layout_v<tern::Value>, "the first byte of a constant is its kind");
  uint8_t tag() const { return bytes_[0]; }
  void* pointer() const { return *reinterpret_cast<void* const*>(bytes_ + 8); }
  Use& use() const { return *static_cast<Use*>(pointer()); }
  void set(uint8_t tag, uint32_t count, void* p) {
    bytes_[0] = tag;
    *reinterpret_cast<uint32_t*>(bytes_ + 4) = count;
    *reinterpret_cast<void**>(bytes_ + 8) = p;
  }
  alignas(8) unsigned char bytes_[16] = {};
};
static_assert(sizeof(Operand) == 16);

// What an operand is made from: a value, a constant (anything a tern::Value is made from), or a list of
// these.
class In {
 public:
  In() = default;  // None
  In(Value& v) : value_(&v) {}
  In(Value* v) : value_(v) {}
  In(const Operand& o);
  template <class T>
  requires(std::is_constructible_v<tern::Value, T> && !std::is_convertible_v<T, Value*> &&
           !std::is_same_v<std::remove_cvref_t<T>, In>) In(T&& constant)
      : constant_(std::forward<T>(constant)) {}
  static In list(std::vector<In> items);  // a list of constants becomes a constant

  bool is_value() const { return value_ != nullptr; }
  bool is_list() const { return is_list_; }
  bool is_constant() const { return !value_ && !is_list_; }
  Value* value() const { return value_; }
  const tern::Value& constant() const { return constant_; }
  const std::vector<In>& items() const { return items_; }

 private:
  Value* value_ = nullptr;
  bool is_list_ = false;
  tern::Value constant_;
  std::vector<In> items_;
};

// Where a node comes from. Interned for the life of the process: compare and copy the pointer, also across
// graphs.
struct ModuleScope {
  Symbol path;       // "encoder.layers.0"; empty for the root
  Symbol type_name;  // "torch.nn.modules.linear.Linear"; empty if unknown
  const ModuleScope* parent = nullptr;
  static const ModuleScope* make(Symbol path, Symbol type_name, const ModuleScope* parent);
  static const ModuleScope* of(const Scope* scope);  // the chain a capture runs in
  std::string str() const;                           // "path<Type>/path<Type>"; the root's path is empty
  bool operator==(const ModuleScope&) const = default;
};
struct Origin {
  Symbol file, function, text;
  uint32_t line = 0, column = 0;
  const ModuleScope* scope = nullptr;
  static const Origin* make(const Origin& origin);
  static const Origin* at(Loc loc, const ModuleScope* scope = nullptr);
  bool has_place() const { return line || !file.empty(); }
  std::string place() const;  // "net.cpp:12:3"; empty if unknown
  bool operator==(const Origin&) const = default;
};

class Value {
 public:
  std::string name() const { return name_.str(); }
  Name key() const { return name_; }
  const Type* type() const { return type_; }
  void set_type(const Type* t) { type_ = t; }
  Node* node() const { return param_ ? nullptr : node_; }  // nullptr for a parameter of a block
  Block* param_of() const { return param_ ? block_ : nullptr; }
  Block& block() const;                      // where it is visible: in it and in blocks inside it
  uint32_t index() const { return index_; }  // among the outputs or parameters
  uint32_t num_uses() const { return uses_; }
  bool has_uses() const { return uses_ != 0; }

  class UseIterator {
   public:
    explicit UseIterator(Use* u) : u_(u), next_(u ? u->next : nullptr) {}
    Use& operator*() const { return *u_; }
    UseIterator& operator++() {
      u_ = next_;
      next_ = u_ ? u_->next : nullptr;
      return *this;
    }
    bool operator!=(const UseIterator& o) const { return u_ != o.u_; }

   private:
    Use *u_, *next_;  // the current use may be removed while iterating
  };
  struct UseRange {
    Use* head;
    UseIterator begin() const { return UseIterator(head); }
    UseIterator end() const { return UseIterator(nullptr); }
  };
  UseRange uses() const { return {head_}; }
  void replace_all_uses_with(Value& other);  // O(uses)

 private:
  friend class Graph;
  friend class Node;
  friend class Block;
  friend class GraphParser;
  Name name_;
  const Type* type_ = nullptr;
  union {
    Node* node_ = nullptr;
    Block* block_;
  };
  Use* head_ = nullptr;
  uint32_t uses_ = 0;
  uint32_t index_ : 31 = 0;
  uint32_t param_ : 1 = 0;
};

class Node {
 public:
  const Op* op() const { return op_; }   // nullptr for structural nodes and unknown operators
  Symbol kind() const { return kind_; }  // "aten::add", "prim::If"; of an unknown operator as it was written
  bool is(std::string_view kind) const { return kind_.view() == kind; }
  bool is(const char* kind) const { return kind_.view() == kind; }
  bool is(Symbol kind) const { return kind_ == kind; }
  std::string qualified() const;  // "aten::add.Tensor"

  Graph& graph() const;
  Block& block() const { return *block_; }
  bool is_return() const;                   // the end of a block; its inputs are what the block returns
  Node* next() const { return next_; }      // the block's return node after the last
  Node* prev() const { return prev_; }      // the block's return node before the first
  Node* parent() const;                     // the node this one's block belongs to; nullptr at the top
  bool is_before(const Node& other) const;  // in the same block; amortised O(1)

  Span<Operand> inputs() const { return {inputs_, num_inputs_}; }
  Operand& input(size_t i) const { return inputs_[i]; }
  Operand* find_input(Symbol schema_arg) const;  // nullptr if the schema has none of that name
  void set_input(size_t i, const In& in);
  void add_input(const In& in);
  void insert_input(size_t i, const In& in);
  void remove_input(size_t i);
  void remove_all_inputs();
  void replace_input(Value& from, const In& to);  // wherever it is used in the inputs, inside lists too

  size_t num_outputs() const { return num_outputs_; }
  Value& output(size_t i = 0) const { return num_outputs_ == 1 ? *one_ : *many_[i]; }
  Span<Value* const> outputs() const { return {num_outputs_ == 1 ? &one_ : many_, num_outputs_}; }
  Value& add_output(const Type* type, std::string_view name = {});
  void remove_output(size_t i);  // precondition: unused
  // Of a node with one output its name; otherwise a unique name made with the node (fx shows it).
  std::string name() const;
  const Value* label() const;  // holds that unique name; nullptr where there is none

  Span<const std::pair<Symbol, tern::Value>> attributes() const;
  const tern::Value* attribute(Symbol name) const;  // nullptr if absent
  void set_attribute(Symbol name, tern::Value value);
  Span<Block* const> blocks() const;
  Block& add_block();
  void remove_block(size_t i);

  const Origin* origin() const { return origin_; }  // nullptr if unknown
  void set_origin(const Origin* o) { origin_ = o; }
  const ModuleScope* scope() const { return origin_ ? origin_->scope : nullptr; }
  // What users and front ends note: "torch_fn", "from_node", "stack_trace", ...
  const tern::Value* meta(Symbol key) const;
  void set_meta(Symbol key, tern::Value value);
  Span<const std::pair<Symbol, tern::Value>> all_meta() const;

  void move_before(Node& other);
  void move_after(Node& other);

 private:
  friend class Graph;
  friend class Block;
  friend class Value;
  friend class GraphParser;
  struct Extra;
  Extra& extra();
  Node *next_ = nullptr, *prev_ = nullptr;
  Block* block_ = nullptr;
  const Op* op_ = nullptr;
  Operand* inputs_ = nullptr;
  union {
    Value* one_ = nullptr;
    Value** many_;
  };
  Extra* extra_ = nullptr;
  const Origin* origin_ = nullptr;
  Symbol kind_;
  uint32_t num_inputs_ : 31 = 0;
  uint32_t exact_ : 1 = 0;  // the input array has no spare room; otherwise it has up to the next power of two
  uint32_t num_outputs_ = 0;
  uint32_t order_ = 0;
};

class Block {
 public:
  Graph& graph() const { return *graph_; }
  Node* parent() const { return parent_; }  // nullptr: the top block
  Span<Value* const> params() const { return params_; }
  Value& param(size_t i) const { return *params_[i]; }
  Value& add_param(const Type* type, std::string_view name = {});
  Value& insert_param(size_t i, const Type* type, std::string_view name = {});
  void remove_param(size_t i);  // precondition: unused
  Node& return_node() const { return *return_; }
  Span<Operand> returns() const { return return_->inputs(); }
  void add_return(const In& in) { return_->add_input(in); }

  bool empty() const { return return_->next_ == return_; }
  Node* first() const { return return_->next_; }  // the return node if empty
  Node* last() const { return return_->prev_; }
  // Iteration may erase the current node.
  class Iterator {
   public:
    explicit Iterator(Node* n) : n_(n), next_(n->next()) {}
    Node& operator*() const { return *n_; }
    Node* operator->() const { return n_; }
    Iterator& operator++() {
      n_ = next_;
      next_ = n_->next();
      return *this;
    }
    bool operator!=(const Iterator& o) const { return n_ != o.n_; }

   private:
    Node *n_, *next_;
  };
  Iterator begin() const { return Iterator(return_->next_); }
  Iterator end() const { return Iterator(return_); }

 private:
  friend class Graph;
  friend class Node;
  friend class GraphParser;
  Graph* graph_ = nullptr;
  Node* parent_ = nullptr;
  Node* return_ = nullptr;
  std::vector<Value*> params_;
  bool ordered_ = true;
};

using ValueMap = FlatMap<const Value*, In>;

class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Block& top() const { return *top_; }
  Span<Value* const> inputs() const { return top_->params(); }
  Span<Operand> outputs() const { return top_->returns(); }
  Value& add_input(const Type* type, std::string_view name = {}) { return top_->add_param(type, name); }
  void add_output(const In& in) { top_->add_return(in); }

  // ---- making nodes: they are put where insert_at() points, by default the end of the top block ----
  // A call; missing trailing arguments get the schema's defaults. Output types are the schema's unless given.
  // The name of a single output starts from `name`, else from the operator's. Throws TypeError for too many
  // or missing arguments.
  Node& call(const Op& op, Span<const In> inputs, const Type* type = nullptr, std::string_view name = {});
  Node& call(std::string_view qualified_op, Span<const In> inputs, const Type* type = nullptr,
             std::string_view name = {});
  // A structural node, or an operator Tern does not know.
  Node& make(Symbol kind, Span<const In> inputs, Span<const Type* const> output_types,
             std::string_view name = {});
  // The same kind, inputs (through `map`), attributes, blocks, origin and meta; outputs get new names like
  // the old ones and are entered in `map`. Works across graphs.
  Node& copy(const Node& node, ValueMap& map);
  // All nodes of a block at the insertion point; params must be in `map`. Gives what the block returns.
  std::vector<In> inline_block(const Block& block, ValueMap& map);

  void insert_at(Node& before) { point_ = &before; }
  void insert_at_end(Block& block) { point_ = &block.return_node(); }
  Node& insert_point() const { return *point_; }

  void erase(Node& node);  // throws if an output is used
  void replace_all_uses(Value& from, const In& to);

  // ---- names ----
  Value* find(std::string_view name) const;
  Value* find(Name name) const;
  void rename(Value& v, std::string_view name);         // made unique if it is taken
  void set_name(Value& v, std::string_view exact);      // throws if it is taken
  std::string fresh_name(std::string_view hint) const;  // what the next value of that hint would be called

  Owned<Graph> clone() const;
  size_t num_nodes() const { return num_nodes_; }  // blocks included
  size_t bytes() const;                            // of the arena and the names
  std::string str() const;                         // the native text

  Shared<ShapeEnv> shapes;  // of the symbolic dims; may be null
  std::string name;

 private:
  friend class Node;
  friend class Block;
  friend class Value;
  friend class GraphParser;
  struct Names;
  Node& new_node(Symbol kind, const Op* op, size_t num_inputs);
  Node& insert(Node& node);
  Block& new_block(Node* parent);
  Value& new_value(const Type* type, std::string_view name_hint);
  Value& new_value(const Type* type, Name exact);  // throws if it is taken
  void add_label(Node& node, std::string_view hint, bool exact);
  Value& new_output(Node& node, uint32_t index, const Type* type, std::string_view name_hint);
  void make_outputs(Node& node, Span<const Type* const> types, std::string_view name_hint);
  void forget_value(Value& v);
  void bind(Operand& slot, Node& user, const In& in);
  void bind_constant(Operand& slot, const tern::Value& value);
  void release(Operand& slot);
  void link(Use& use, Value& value);
  void unlink(Use& use);
  void dispose(Node& node);  // releases constants, uses, blocks
  void reorder(Block& block);

  Arena arena_{1 << 14};
  Owned<Names> names_;
  Use* free_uses_ = nullptr;
  Block* top_ = nullptr;
  Node* point_ = nullptr;
  size_t num_nodes_ = 0;
};

// Puts the insertion point somewhere for a scope.
class InsertAt {
 public:
  explicit InsertAt(Node& before) : graph_(before.graph()), saved_(graph_.insert_point()) {
    graph_.insert_at(before);
  }
  ~InsertAt() { graph_.insert_at(saved_); }
  InsertAt(const InsertAt&) = delete;

 private:
  Graph& graph_;
  Node& saved_;
};

}  // namespace tern::ir
