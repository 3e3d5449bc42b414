// Python's statements and expressions as __init__ needs them; what calls mean is for whoever derives from it.
// Internal to this room.
#pragma once
#include <unordered_map>

#include "tern/base/error.h"
#include "tern/base/pointer.h"
#include "tern/jit/python_value.h"
#include "tern/script/unit.h"

namespace tern::jit {

class PythonEvaluator {
 public:
  using Expr = script::Expr;
  using ExprKind = script::ExprKind;
  using ExprPtr = script::ExprPtr;
  using Stmt = script::Stmt;
  using StmtKind = script::StmtKind;
  using PV = PythonValue;
  using Tree = Shared<ModuleTree>;
  static constexpr int max_depth = 200;
  static constexpr size_t max_steps = 1000000;

  PythonEvaluator(const PythonFile& file, std::string source_name)
      : file_(file), source_name_(std::move(source_name)), unit_(script::Unit::make()) {}
  virtual ~PythonEvaluator() = default;
  // Top-level assignments.
  void run_globals();

  Tree make(const script::Class& c, PythonArgs args, uint32_t at);
  const std::unordered_map<std::string, PV>& globals() const { return globals_; }
  // Attributes as they are at the end.
  void settle();

 protected:
  virtual PV call_expression(const Expr& e, std::unordered_map<std::string, PV>& names) = 0;
  virtual PV container(const std::string& kind, const std::vector<PV>& modules, uint32_t at) = 0;

  using Names = std::unordered_map<std::string, PV>;
  enum class Flow : uint8_t { on, break_, continue_, return_ };

  [[noreturn]] void error(uint32_t at, const std::string& message) const;
  // Errors of what is called point at the call.
  template <class F>
  auto pointing(uint32_t at, F&& f) -> decltype(f()) {
    try {
      return f();
    } catch (const Error& e) {
      if (e.message().find('^') != std::string::npos) throw;
      error(at, e.message());
    }
  }
  void step(uint32_t at);

  // What is known of a module is known by its address: none goes before this does.
  Tree keep(Tree tree) {
    kept_.push_back(tree);
    return tree;
  }

  // ---- functions ----
  const script::Def* find_method(const ModuleTree& tree, std::string_view name, const script::Class* after);
  PV call(const script::Def& def, std::optional<PV> self, const PythonArgs& args, uint32_t at);

  // ---- statements ----
  Flow body(const script::Body& statements, Names& names);
  Flow statement(const Stmt& s, Names& names);
  // Of a class body: annotations give types, constants are attributes.
  void class_statement(const Stmt& s, ModuleTree& tree);

  void assign(const Expr& target, const PV& v, Names& names, const Expr* annotation);
  void unpack(const std::vector<ExprPtr>& targets, const PV& v, Names& names, uint32_t at);
  static void put(PythonDict& d, const tern::Value& key, const PV& v);

  void set_attribute(ModuleTree& tree, const std::string& name, const PV& v, const Expr* annotation,
                     uint32_t at, std::optional<script::Role> role = {});
  // nn.Parameter: one that is there already stays, unless it is said whether it learns.
  tern::Value parameter(const tern::Value& v, std::optional<bool> grad, uint32_t at);
  static bool holds_parameters(const ModuleTree& tree);  // a ParameterList, a ParameterDict
  // What a container holds, by name.
  static std::vector<std::pair<std::string, PV>> held_by(const ModuleTree& tree);
  PV attribute(const PV& owner, const std::string& name, uint32_t at);
  static tern::Value size_list(const Tensor& t);
  static PV from_value(const tern::Value& v);

  // ---- expressions ----
  PV value(const Expr& e, Names& names);
  void add_item(const Expr& e, Names& names, std::vector<PV>& into);
  PV name(const Expr& e, Names& names);
  static bool is_container(std::string_view n);

  PV subscript(const Expr& e, Names& names);
  PV index_tensor(Tensor t, const Expr& e, Names& names);
  size_t position(const PV& index, size_t size, uint32_t at);

  std::vector<PV> items(const PV& v, uint32_t at);
  bool truth(const PV& v, uint32_t at);
  static std::string text_of(const PV& v);

  PV binary(const std::string& op, const PV& a, const PV& b, uint32_t at);

  const PythonFile& file_;
  std::string source_name_;
  Shared<script::Unit> unit_;  // for the types of annotations
  Names globals_;
  PV returned_;
  const script::Class* current_ = nullptr;   // whose method runs
  const script::Class* defining_ = nullptr;  // of the method that was found last
  std::unordered_map<const ModuleTree*, std::vector<const script::Class*>> classes_;
  std::unordered_map<const ModuleTree*, std::vector<std::pair<std::string, const Expr*>>> types_;
  std::unordered_map<const ModuleTree*, std::vector<std::pair<std::string, PV>>> live_;
  std::vector<const ModuleTree*> sequential_;
  std::vector<Tree> kept_;
  int depth_ = 0;
  size_t steps_ = 0;
};

}  // namespace tern::jit
