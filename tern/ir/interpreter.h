// Runs graphs. A Program is prepared once (registers, last uses, constants bound); running it goes through
// the ladder, so gradients, recording and fake tensors work under it.
#pragma once
#include <vector>

#include "tern/base/function.h"
#include "tern/base/pointer.h"
#include "tern/ir/graph.h"

namespace tern::ir {

// Sees each node before it runs and its results after; retrace() copies origins and names with it.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(const Node& node) = 0;
  virtual void after(const Node& node, Span<const tern::Value> results) {
    (void)node;
    (void)results;
  }
};

// What graphs of modules call out to: attributes and methods of objects. The default refuses each.
class Host {
 public:
  virtual ~Host() = default;
  virtual tern::Value get_attribute(const tern::Value& object, Symbol name);
  virtual void set_attribute(const tern::Value& object, Symbol name, const tern::Value& value);
  virtual tern::Value call_method(const tern::Value& object, Symbol name, Span<const tern::Value> args);
  virtual tern::Value call_function(const Node& node,
                                    Span<const tern::Value> args);  // prim::CallFunction, PythonOp
  virtual tern::Value create_object(const Type& type);
  virtual bool is_instance(const tern::Value& value, const Type& type);
};

// A function of the program that runs the graph: what a prim::PythonOp keeps in its meta "function".
struct CallBox : Box {
  virtual tern::Value call(Span<const tern::Value> args) = 0;
};

// Runs operators that take functions (cond, map, ...) in the interpreter's place: under a capture they are
// recorded, not decided. False leaves one to the interpreter.
class Control {
 public:
  using Body = Function<std::vector<tern::Value>(const std::vector<tern::Value>& operands)>;
  virtual ~Control() = default;
  virtual bool run(const Node& node, const std::vector<tern::Value>& inputs, const std::vector<Body>& bodies,
                   std::vector<tern::Value>& outputs) = 0;
};

struct RunOptions {
  Observer* observer = nullptr;
  Host* host = nullptr;
  Control* control = nullptr;
  int64_t max_steps = 0;  // of nodes; 0: no limit
};

class Program {
 public:
  // The graph must stay as it is while the program lives. Throws not_supported for operators nobody knows;
  // with `unknown_when_reached` only a run that comes to one does (scripts have branches that are never
  // taken).
  explicit Program(const Graph& graph, bool unknown_when_reached = false);
  ~Program();
  Program(Program&&) noexcept;
  // Thread-safe. Errors name the node, its operator and its source line.
  std::vector<tern::Value> run(Span<const tern::Value> inputs, const RunOptions& options = {}) const;

 private:
  struct Code;
  Owned<Code> code_;
};

std::vector<tern::Value> run(const Graph& graph, Span<const tern::Value> inputs,
                             const RunOptions& options = {});

}  // namespace tern::ir
