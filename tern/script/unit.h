// What compiled source is kept in: functions, classes and their objects. A Unit is one world of names
// ("__torch__.Net"); objects hold it, so that a module lives as long as anyone uses it.
#pragma once
#include <atomic>
#include <mutex>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "tern/base/flat_map.h"
#include "tern/base/function.h"
#include "tern/base/pointer.h"
#include "tern/ir/enum_member.h"
#include "tern/ir/graph.h"
#include "tern/ir/interpreter.h"
#include "tern/script/types.h"

namespace tern::script {

using ir::EnumMember;
struct Def;
struct Class;
struct File;
struct Source;

// A function or method. Its graph takes the arguments (self first) and gives one value, None included.
class Function {
 public:
  Function(Symbol qualified, ClassType* owner = nullptr) : name_(qualified), owner_(owner) {}

  Symbol qualified() const { return name_; }  // "__torch__.Net.forward"
  std::string_view name() const;              // "forward"
  ClassType* owner() const { return owner_; }
  const std::vector<Argument>& args() const { return args_; }
  const ir::Type* returns() const { return returns_; }
  const ir::Graph& graph() const;  // compiles it if it is not yet
  ir::Graph& mutable_graph();      // the next call runs what was changed
  bool compiled() const { return state_ == State::done && graph_; }
  void set(Owned<ir::Graph> graph, std::vector<Argument> args, const ir::Type* returns);
  std::string signature() const;  // "forward(self, Tensor x, int n=2) -> Tensor"
  bool compiling() const { return state_ == State::compiling; }

  // Positional arguments in order, then keywords; defaults fill the rest. Throws TypeError that names the
  // argument.
  tern::Value call(Span<const tern::Value> args,
                   Span<const std::pair<Symbol, tern::Value>> keywords = {}) const;
  std::vector<tern::Value> bind(Span<const tern::Value> args,
                                Span<const std::pair<Symbol, tern::Value>> keywords) const;

 private:
  friend class Compiler;
  friend class Unit;
  Symbol name_;
  ClassType* owner_;
  std::vector<Argument> args_;
  const ir::Type* returns_ = nullptr;
  Owned<ir::Graph> graph_;
  mutable Owned<ir::Program> program_;
  mutable std::mutex preparing_;
  // Until it is compiled.
  Shared<const File> file_;
  const Def* def_ = nullptr;
  const Def* signature_ = nullptr;  // of an overload: where its types are
  enum class State : uint8_t { declared, compiling, done };
  std::atomic<State> state_ = State::done;
  bool has_signature_ = false;
  friend struct Linker;

 public:
  Unit* unit = nullptr;                   // set when it is added
  bool is_static = false;                 // a method without self
  bool ignored = false;                   // @torch.jit.ignore, @torch.jit.unused: there is nothing to run
  std::vector<Function*> overloads = {};  // @torch.jit._overload declarations of this name
};

struct Attribute {
  Symbol name;
  const ir::Type* type = nullptr;
  Role role = Role::attribute;
  tern::Value value = {};  // of a constant
};

enum class ClassKind : uint8_t { module, plain, named_tuple, enumeration, interface };

class ClassType {
 public:
  Symbol name;  // "__torch__.torch.nn.modules.linear.Linear"
  ClassKind kind = ClassKind::module;
  std::vector<Attribute> attributes;  // constants last have no slot
  std::vector<Owned<Function>> methods;
  std::vector<std::tuple<Symbol, Function*, Function*>> properties;  // name, getter, setter or nullptr
  std::vector<std::string> pre_hooks, hooks;  // methods that whoever calls forward calls before and after it
  Unit* unit = nullptr;
  bool of_modules = false;     // an interface that modules have
  bool part_of_trace = false;  // its methods take what the trace around them hands in: not for users to call

  const ir::Type* type() const;
  const Attribute* find(Symbol attribute) const;
  int slot(Symbol attribute) const;  // -1 if there is none of that name, or it is a constant
  size_t num_slots() const;
  Function* method(Symbol name) const;
  Function* getter(Symbol property) const;  // of a @property; nullptr if there is none
  Function* setter(Symbol property) const;
  Attribute& add(Attribute attribute);  // throws when the name is taken
  Function& add_method(Owned<Function> method);
  bool is_module() const { return kind == ClassKind::module; }
  std::string_view short_name() const;  // "Linear"

 private:
  friend class Compiler;
  friend class Unit;
  Shared<const File> file_;
  const Class* tree_ = nullptr;  // until it is declared
};

// An instance: a module or an object of a user's class.
struct Object final : Box {
  Shared<Unit> unit;
  ClassType* type = nullptr;
  std::vector<tern::Value> slots;  // of the attributes that are no constants, in order

  static tern::Value make(Shared<Unit> unit, ClassType& type);  // every slot None
  static Object* of(const tern::Value& value);                  // nullptr if it is something else
  const tern::Value* find(Symbol attribute) const;              // slots and constants
  tern::Value get(Symbol attribute) const;                      // throws AttributeError's message
  void set(Symbol attribute, tern::Value value);
  // After attributes were added to the class.
  void grow() { slots.resize(type->num_slots()); }
};

// How a Unit reads what it does not know yet: the source of "__torch__.torch.nn" for that name; empty if
// there is none.
using SourceLoader = tern::Function<Shared<const Source>(std::string_view qualifier)>;

// Example inputs by the qualified name of a method: shapes and types, no data.
using TracedInputs = std::unordered_map<std::string, std::vector<tern::Value>>;

class Unit : public SharedFromThis<Unit> {
 public:
  static Shared<Unit> make();
  ~Unit();

  // Declares what the source defines under `qualifier` ("__torch__"), and compiles it unless `lazily`.
  void define(Shared<const Source> source, std::string_view qualifier, bool lazily = false);
  // Methods for a class whose attributes are known: "def forward(self, x): ...". Compiled when first needed.
  void define_methods(ClassType& type, Shared<const Source> source);
  ClassType* find_class(Symbol qualified);  // declared and with attributes; nullptr if unknown
  Function* find_function(Symbol qualified);
  ClassType& add_class(Owned<ClassType> type);
  Function& add_function(Owned<Function> function);
  Symbol unique_class_name(std::string_view wanted);  // mangled as PyTorch does if taken
  void compile(Function& function);                   // if it is not yet
  void compile_all();
  void declare(Function& function);  // its arguments and, where it can be said, what it returns
  bool has(Symbol qualified) const;

  const std::vector<Owned<ClassType>>& classes() const { return classes_; }
  const std::vector<Owned<Function>>& functions() const { return functions_; }

  SourceLoader loader;
  std::vector<tern::Value> constants;  // CONSTANTS.c0, ...
  TracedInputs& traced_inputs();
  tern::Function<TracedInputs()> read_traced_inputs;     // if an archive has them: for the first who asks
  tern::Function<void(ir::Graph& graph)> after_compile;  // changes what was compiled (jit/upgraders.h)
  // Where a place in the source comes from, if an archive says so: nullopt if not.
  tern::Function<std::optional<ir::Origin>(const ir::Origin& place)> original;
  std::unordered_map<std::string, tern::Value> globals;  // what sources may name besides what they define
  bool known_operators_only =
      false;                 // an operator Tern does not know is an error when compiling, not when running
  size_t max_depth = 800;    // of calls at run time
  size_t first_defined = 0;  // functions before it came from elsewhere

 private:
  friend class Compiler;
  Unit() = default;
  bool load(std::string_view qualified);
  std::vector<Owned<ClassType>> classes_;
  std::vector<Owned<Function>> functions_;
  FlatMap<Symbol, ClassType*> class_by_name_;
  FlatMap<Symbol, Function*> function_by_name_;
  FlatMap<Symbol, bool> loaded_;     // qualifiers
  FlatMap<Symbol, size_t> mangled_;  // by the name that was wanted: the first number that may be free
  TracedInputs traced_inputs_;
  // Classes by the text of their attributes: an archive names the layers of a model apart, and most are
  // alike.
  std::unordered_map<std::string_view, const ClassType*> by_attributes_;
  std::recursive_mutex growing_;  // whoever calls a function first compiles it, whichever thread that is
};

// Sees calls of compiled functions while a trace is recorded on this thread, and answers those that stay
// calls.
class CallRecorder {
 public:
  virtual ~CallRecorder() = default;
  virtual std::optional<tern::Value> call(const Function& function, Span<const tern::Value> inputs) = 0;
};
CallRecorder* record_calls(CallRecorder* recorder);  // gives the one before

// Whether a value is of that type, by looking inside.
bool is_instance(const tern::Value& value, const ir::Type& type);

}  // namespace tern::script
