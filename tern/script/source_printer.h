// The writer of one function's source: what print_source.cpp (functions, classes, lines and names),
// print_nodes.cpp (expressions) and print_control.cpp (branches, loops, tasks) share. Internal to this room.
#pragma once
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "tern/base/function.h"
#include "tern/dispatch/op.h"
#include "tern/script/compile.h"
#include "tern/script/signature.h"

namespace tern::script {

// Numbers that names end with; the methods of a class share them.
using NextNumbers = std::unordered_map<std::string, uint32_t>;

class SourcePrinter {
 public:
  SourcePrinter(ConstantTable& constants, int indent, NextNumbers& next)
      : constants_(constants), indent_(indent), next_(next) {}

  // `self_type`: whether it says the type of self, as a class needs it.
  std::string function(const ir::Graph& graph, std::string_view name, const std::vector<Argument>& args,
                       const ir::Type* returns, bool is_method, bool self_type);

 private:
  using Type = ir::Type;

  static const Type* returned(const ir::Graph& graph);
  std::string constant(const tern::Value& v, const Type* type = nullptr);

  // ---- lines ----
  // Inside a text the nodes it is made of are marked, so that their places are known when it is written:
  // \1 number \2 begins one, \3 ends it.
  std::string marked(const ir::Node& n, const std::string& text);
  static size_t shown_size(std::string_view text);
  void line(std::string_view text, const ir::Origin* origin = nullptr);
  bool is_long(std::string_view text) const;

  // ---- names ----
  const std::string& name_value(const ir::Value& v, std::string_view wanted);
  std::string unique(const std::string& base);
  std::string fresh() { return unique("_"); }
  // A second x is x_1 in a graph and x0 here.
  std::string variable_of(const ir::Value& v) const;
  const std::string& name_of(const ir::Value& v);
  std::string names_of(const ir::Node& n);

  // ---- expressions that wait for the statement they are part of ----
  static constexpr size_t most_pending = 512;

  static const Type* nothing(size_t) { return nullptr; }

  // In the order in which they happen. A list that stands in an operand is one of its own.
  struct Pending {
    const void* key;         // the value or the operand
    const ir::Value* value;  // nullptr of a list
    std::string text;
  };
  size_t find_pending(const ir::Operand& o) const;
  size_t first_pending(Span<ir::Operand> operands) const;
  // Gives them statements, the first `count`.
  void flush(size_t count);
  // Before a node is written: lists among its operands become expressions, and what is too long a statement,
  // with all that happens before it. Whether there was any.
  bool prepare(Span<ir::Operand> operands, const tern::Function<const Type*(size_t)>& type_of);

  std::string list_text(const ir::Operand& o, const Type* type);
  std::string operand(const ir::Operand& o, const Type* type = nullptr);
  std::string said_before(std::string text) const;
  std::string operands(const ir::Node& n, size_t from = 0);

  // The variables that held long strings first, where they come up first.
  using FirstHolders = std::unordered_map<std::string, const ir::Value*>;
  void first_holders(const ir::Block& b, FirstHolders& first);
  // Long strings and names of functions are said once, before all.
  void long_constants(const ir::Block& b);
  void long_constants(const ir::Block& b, const FirstHolders& first);

  void block(const ir::Block& b);

  void give(const ir::Node& n, const std::string& expression);

  // A task is a function of its own, without arguments.
  void fork_node(const ir::Node& n);

  // ---- with ----
  static bool is_enter(const ir::Node& n) { return n.attribute("name")->string() == "__enter__"; }
  // Whether both ends stand in one block; a path that leaves early has an end of its own, and calls are
  // written for all of them.
  static bool writes_with(const ir::Node& n);
  void with_node(const ir::Node& n);

  void prepare_inputs(const ir::Node& n);
  // A list of tensors may stand where one of optional tensors is due, and is written as what it is.
  static const Type* argument_type(const ir::Node& n, const Schema& s, size_t i);

  void node(const ir::Node& n);

  std::string call(const ir::Node& n);
  static bool is_builtin_default(const ir::Node& n, size_t i);
  // Of builtins that share a name, those on lists and those on dicts are told apart by their containers.
  static bool could_be(const Signature& s, const ir::Node& n);
  // x.to(device): PyTorch has an operator for it.
  static bool is_move(const ir::Node& n);
  // Arguments that are the defaults are left out at the end; where results go comes after them.
  struct Written {
    size_t leading, outs;
  };
  static Written written_of(const ir::Node& n);
  static bool same(const tern::Value& a, const tern::Value& b) { return a.kind() == b.kind() && a.equals(b); }

  void if_node(const ir::Node& n);
  static bool needs_word(const ir::Operand& o, const Type* type);
  // A variable that may be None is declared whatever it starts with.
  static bool is_declared(const ir::Operand& o, const Type* type);
  // Whether a reader of the two branches finds the type of the result.
  static bool joins_to(const ir::Node& n, size_t i);
  // The operand with its type said where the reader could not find it out.
  std::string widened(const ir::Operand& o, const Type* type);

  void loop_node(const ir::Node& n);

  ConstantTable& constants_;
  int indent_;
  NextNumbers& next_;
  const ir::Graph* graph_ = nullptr;
  std::unordered_set<const ir::Node*> inlined_;
  std::string out_;
  std::vector<Pending> pending_;
  std::vector<const ir::Origin*> origins_;
  std::unordered_map<const ir::Operand*, std::string> list_names_;
  std::unordered_map<std::string, std::string> long_constants_, beyond_ascii_;
  std::unordered_map<const ir::Value*, std::string> names_;
  std::unordered_map<const ir::Value*, const tern::Value*> constants_of_;
  std::set<std::string> used_;
};

}  // namespace tern::script
