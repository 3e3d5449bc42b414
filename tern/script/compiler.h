// From syntax tree to graph: one Compiler for one function. Types are checked on the way, control flow
// becomes SSA. Internal to this room.
#pragma once
#include <set>
#include <unordered_map>

#include "tern/base/pointer.h"
#include "tern/script/ast.h"
#include "tern/script/exits.h"
#include "tern/script/signature.h"
#include "tern/script/unit.h"

namespace tern::script {

std::string dotted(const Expr& e);  // "torch.nn.Linear"; empty if it is no path

// A value while compiling. List and tuple displays, and an operator's several results, stay in pieces until a
// node has to hold them, so that `torch.view(x, [2, n])` and `a, b = torch.max(x, 1)` need no nodes for them.
struct Val {
  enum Kind : uint8_t { plain, list, tuple } kind = plain;
  ir::In in;
  const ir::Type* type = nullptr;
  std::vector<Val> items;
  std::vector<Symbol> fields = {};  // of an operator's results: values, indices
  bool held = false;                // by a variable: another one does not name it again
  ir::Node* after = nullptr;        // of a display: the last node of its elements
  size_t order = 0;                 // of a display: which one it is

  bool is_constant() const { return kind == plain && in.is_constant(); }
  bool is_none() const { return is_constant() && in.constant().is_none() && type->is(ir::TypeKind::none); }
};

// What an expression can stand for before it is a value.
struct Sugar {
  enum Kind : uint8_t {
    value,
    space,    // a namespace: text is "torch.nn.functional"
    builtin,  // text is "aten::relu"; `self` is bound if has_self
    function,
    class_,
    method,   // of `self`
    special,  // the compiler's own: text is "len"
    type,
    iterable,  // range, enumerate, zip over `items`; text says which
  } kind = value;
  Val self;
  bool has_self = false;
  std::string text;
  Function* callee = nullptr;
  ClassType* owner = nullptr;
  const ir::Type* type_value = nullptr;
  std::vector<Sugar> items;
};

struct Refinement {
  std::string name;
  const ir::Type* type;
};
struct Condition {
  Val value;
  std::optional<bool> known;
  std::vector<Refinement> when_true, when_false;
};

// The value of `1.+2.j`, which is written as a sum; nothing if it is no such sum.
std::optional<tern::Value> complex_literal(std::string_view op, const tern::Value& real,
                                           const tern::Value& imaginary);

class Compiler {
 public:
  Compiler(Unit& unit, Function& function);

  static void declare(Unit& unit, Function& function);
  static void compile(Unit& unit, Function& function);
  static void declare_class(Unit& unit, ClassType& type);
  // A method, a property or what sets one.
  static Function& add_method(ClassType& type, Shared<const File> file, const Def& d);
  // All of them; @torch.jit._overload_method declarations make one method each of the body that follows.
  static void add_methods(ClassType& type, const Shared<const File>& file, const std::vector<Def>& all);
  static void declare_attributes(Unit& unit, ClassType& type, const Body& statements);
  static const ir::Type* resolve_type(Unit& unit, const Source& source, std::string_view qualifier,
                                      const Expr& e);

 private:
  using Type = ir::Type;
  using TypeKind = ir::TypeKind;
  using In = ir::In;
  using List = std::vector<const Stmt*>;

  // Why a name has no value; nothing to say: it is just not there.
  struct Undefined {
    std::string why;
    uint32_t at = 0;
  };
  struct Frame {
    Frame* parent = nullptr;
    ir::Block* block = nullptr;
    std::unordered_map<std::string, Val> values;
    std::unordered_map<std::string, Undefined> undefined;
    std::unordered_map<std::string, const Type*> declared;
    std::vector<std::string> assigned;
    std::set<std::string> assigned_set;
    bool diverged = false;
  };
  // While it lives, names are its own and nodes go to the end of `block`; or stay where they go now.
  struct Inside {
    Compiler& compiler;
    ir::Node& saved;
    Frame frame;
    explicit Inside(Compiler& c) : compiler(c), saved(c.graph_->insert_point()) {
      frame.parent = c.frame_;
      frame.block = c.frame_->block;
      c.frame_ = &frame;
    }
    Inside(Compiler& c, ir::Block& block) : Inside(c) {
      frame.block = &block;
      c.graph_->insert_at_end(block);
    }
    ~Inside() {
      compiler.frame_ = frame.parent;
      compiler.graph_->insert_at(saved);
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
  };
  // What a round of the loop around carries on, and what it asks before the next; nullptr: nothing.
  struct Loop {
    std::vector<std::string> carried;
    const Expr* condition = nullptr;
    bool unrolled = false;
  };

  // ---- the function ----
  void run(const Type* returns);
  [[noreturn]] void error(uint32_t at, std::string_view message) const { fail_at(source_, at, message); }
  std::string_view qualifier() const { return qualifier_; }

  // ---- nodes ----
  ir::Node& make(Symbol kind, std::vector<In> inputs, std::vector<const Type*> types,
                 std::string_view name = {});
  ir::Node& call_op(const Op& op, const std::vector<In>& inputs, std::string_view name = {});
  void mark(ir::Node& node);
  Val result(ir::Node& node);
  Val simple(Symbol kind, std::vector<In> inputs, const Type* type, std::string_view name = {});
  static Val constant(tern::Value v);
  static Val typed(In in, const Type* type);
  Val materialise(Val v, const Type* hint = nullptr);  // pieces into a node
  void mark_display(Val& v);
  Val make_display(Symbol kind, const Val& display, std::vector<In> inputs, const Type* type);
  In operand(const Val& v) { return materialise(v).in; }

  // ---- names ----
  Val* find(const std::string& name, Frame** where = nullptr);
  void set(const std::string& name, Val v);
  void refine(const Refinement& r);
  const Type* declared_type(const std::string& name);
  void name_value(const std::string& name, Val& v);
  static std::string_view shown_name(const std::string& name);

  // ---- statements ----
  void list(const List& statements);
  static List pointers(const Body& body);
  void statement(const Stmt& s);
  using Body_ = tern::Function<void()>;
  void if_statement(const Condition& c, const List& then, const List& otherwise, uint32_t at);
  void if_branches(const Condition& c, const Body_& then, const Body_& otherwise, uint32_t at);
  void merge(ir::Node& node, Frame& a, Frame& b, bool a_diverges, bool b_diverges, uint32_t at);
  void loop_statement(const Stmt& s);
  void for_statement(const Stmt& s, Sugar& over);
  void emit_loop(const Stmt& s, Val trip, const Condition* start,
                 std::vector<std::pair<const Expr*, Sugar>> per_trip, const Sugar* iterable);
  void unroll(const Stmt& s, std::vector<Sugar>& items);
  void leave_round(const Stmt& s, bool for_good);
  void return_statement(const Stmt& s);
  void assign(const Expr& target, Val v);
  void assign_sugar(const Expr& target, Sugar s);
  void assign_subscript(const Expr& target, Val v);
  void augmented(const Stmt& s);
  void mark_constant(const Expr& e);
  void keep_long_string(const std::string& name, Val& v);
  void check_reassigned(const Expr& target, const Val& v, const Type* declared);
  const Type* target_hint(const Expr& target);
  void annotated_statement(const Stmt& s);
  void delete_statement(const Stmt& s);
  void with_statement(const Stmt& s);
  static void mark_with(const Val& called);
  void assert_statement(const Stmt& s);
  void raise_statement(const Stmt& s);
  // Each once, in the order of the source.
  struct Names {
    std::vector<std::string> order;
    std::set<std::string> all;
    void insert(const std::string& name) {
      if (all.insert(name).second) order.push_back(name);
    }
  };
  void assigned_names(const Body& body, Names& names);
  void refined_names(const Expr& e, Names& names);
  void target_names(const Expr& e, Names& names);
  Val uninitialized(const Type* type);

  // ---- expressions ----
  Val value(const Expr& e, const Type* hint = nullptr);
  Sugar sugar(const Expr& e, const Type* hint = nullptr);
  Val as_value(Sugar s, uint32_t at);
  Sugar name(const Expr& e);
  Sugar attribute(const Sugar& s, const std::string& name, uint32_t at);
  Sugar value_attribute(const Val& v, const std::string& name, uint32_t at);
  Sugar operator_of(const std::string& name, uint32_t at);
  std::string method_of(const Val& v, const std::string& name, uint32_t at);
  static std::string class_text(const Type* t);
  Sugar space_attribute(const std::string& space, const std::string& name, uint32_t at);
  Condition condition(const Expr& e);
  Condition both_conditions(const Expr& e);
  Condition identity(const Expr& left, const Expr& right, bool negated, uint32_t at);
  Condition instance(const Expr& e);
  bool is_of_class(const ClassType& module, const std::vector<const Expr*>& names);
  Val to_bool(Val v, uint32_t at);
  Val short_circuit(const Expr& e);
  Val ternary(const Expr& e, const Type* hint);
  Val binary(const std::string& op, Val a, Val b, uint32_t at);
  Val unary(const Expr& e);
  Val subscript(const Expr& e);
  Val subscript_value(Val base, const Expr& e);
  Val index_tensor(Val base, const Expr& e, std::vector<Val>* indices = nullptr);
  Val comprehension(const Expr& e, const Type* hint);
  static const Type* container_hint(const Type* hint, TypeKind kind);
  std::vector<Val> starred_items(const Expr& item);
  Val list_display(const Expr& e, const Type* hint);
  Val dict_display(const Expr& e, const Type* hint);
  Val fstring(const Expr& e);
  const Type* type_expr(const Expr& e);

  // ---- calls ----
  struct Args {
    std::vector<Val> positional;
    std::vector<std::pair<Symbol, Val>> keywords;
    bool bound =
        false;  // the first is what a method was called on: the schema's `self`, wherever that stands
  };
  Args arguments(const Expr& call, size_t skip = 0);
  Sugar call(const Expr& e, const Type* hint);
  Val call_builtin(const std::string& name, Args args, uint32_t at);
  std::optional<Val> number_in_front(std::string_view name, const Args& args, uint32_t at);
  std::optional<Val> try_builtin(const std::string& name, const Args& args, uint32_t at,
                                 std::vector<std::string>* why);
  std::optional<std::vector<In>> match(const Signature& s, const Args& args, bool conversions,
                                       Bindings& bindings, std::string* why);
  bool stands_in_order(const Val& list, size_t index, const std::vector<In>& inputs);
  bool bind_pattern(const Type* t, const Pattern& p, Bindings& b);
  std::optional<Val> coerce(const Val& v, const Pattern& p, Bindings& b, bool conversions, int fixed_size);
  // Without `conversions` only what needs no node: subtypes, tuples for lists.
  std::optional<Val> convert(const Val& v, const Type* type, bool conversions);
  std::optional<Val> try_type(Val v, const Type* type);
  bool subtype(const Type* a, const Type* b);
  bool implements(const Type* type, const Type* interface);
  Val pieces(const Val& v);
  std::string say(const Val& v) const;  // its type, for messages
  static std::string ir_text(const Type* t);
  Val call_function(Function& f, std::optional<Val> self, Args args, uint32_t at);
  Val call_overloaded(Function& f, std::optional<Val> self, Args args, uint32_t at);
  Function* dispatched(Function& f, Args& args);
  Val call_hooked(Function& forward, const Val& self, Args args, uint32_t at);
  Val to_list(const Val& tensor, const Type* type, uint32_t at);
  Val call_ignored(Function& f, Args args, uint32_t at);
  std::optional<std::vector<In>> bind_call(Function& f, bool has_self, const Args& args, std::string* why,
                                           bool conversions = true);
  static std::string schema_text(const Function& f);
  Val construct(ClassType& type, Args args, uint32_t at);
  Val call_magic(const Val& self, const char* method, std::vector<Val> args, uint32_t at);
  ClassType* class_of(const Val& v);
  Sugar special(const std::string& name, const Expr& e, const Type* hint);
  Val fork(const Expr& e);
  Val fork_closure(const Stmt& closure);
  Val unknown_operator(const std::string& name, Args args, uint32_t at);
  Val length(const Sugar& iterable, uint32_t at);
  void add_lengths(const Sugar& iterable, std::vector<In>& lengths, uint32_t at);
  Sugar element(const Sugar& iterable, const Val& index, uint32_t at);
  std::optional<std::vector<Sugar>> static_items(const Sugar& iterable, uint32_t at);
  Sugar iterable(Sugar s, uint32_t at);
  static std::vector<std::string> module_names(const ClassType& c);
  Val modules_of(const Val& dict, std::string_view what, uint32_t at);

  Unit& unit_;
  Function& function_;
  Shared<const File> file_;
  const Def& def_;
  const Source& source_;
  std::string qualifier_;  // "__torch__": where bare names are looked up
  bool strict_;            // operators nobody knows are errors; what they give fits everything otherwise
  Owned<ir::Graph> graph_;
  Frame* frame_ = nullptr;
  size_t displays_ = 0;
  std::unordered_map<const ir::Node*, size_t> display_order_;
  bool plain_list_ = false;  // of the call that was matched last: see its node's meta
  std::unordered_map<std::string, const Stmt*> closures_;  // what fork() may name
  std::vector<Loop*> loops_;
  ExitFacts exits_;
  bool leaves_ = false;   // there are paths that end before the function does
  bool in_task_ = false;  // what fork() runs, which is written inside this function
  std::unordered_map<const ir::Value*, std::vector<Symbol>> fields_;  // tuples of named results
  const Type* returns_ = nullptr;                                     // declared
  const Type* found_returns_ = nullptr;                               // of all return statements so far
  uint32_t at_ = 0;                                                   // of what is compiled now
  Symbol file_name_, function_name_;
  const ir::Origin* origin_ = nullptr;  // of the last node, which stood at marked_
  uint32_t marked_ = 0;
  int depth_ = 0;
};

}  // namespace tern::script
