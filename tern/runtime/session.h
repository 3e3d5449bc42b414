// Session: runs a captured model on a backend. `native` plans memory and packs weights per distinct input
// size; `onnxrt` is ONNX Runtime's C interface, opened when present; `interpreter` walks the graph through
// the ladder.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tern/base/function.h"
#include "tern/base/pointer.h"
#include "tern/ir/graph.h"

namespace tern {

namespace runtime {
// What a graph input is bound to for good. A weight may be packed and folded; a variable may change between
// runs.
struct Binding {
  Tensor tensor;  // undefined: an input of every run
  bool is_weight = false;
};
}  // namespace runtime

class ExportedProgram;
class InputChecks;

struct SessionOptions {
  std::string backend = "native";  // native, onnxrt, interpreter
  int threads = 0;                 // 0: as the process has it
  std::string onnxruntime = {};    // path of libonnxruntime.so; by default searched (see docs/build.md)
};

// What a backend is given: a functional graph and what its inputs are bound to.
struct SessionModel {
  Shared<const ir::Graph> graph;
  std::vector<runtime::Binding> bindings;  // one per graph input
  std::vector<std::string> input_names;    // of the unbound ones
  std::vector<std::string> output_names;   // of the results
  // The first outputs are new values of these: a bound tensor, or the unbound input of that number.
  struct Written {
    Tensor tensor = {};
    size_t input = 0;
  };
  std::vector<Written> written = {};
  // What the program asks of the sizes of its unbound inputs, and of those that are no tensors; null where it
  // asks nothing.
  Shared<const InputChecks> checks = {};
  // By unbound input: the value the program was made for, where it takes no other; an example, where a file
  // had one.
  std::vector<std::optional<Value>> constants = {}, examples = {};
};

struct StepTime {
  std::string step;  // "aten::convolution+relu %conv1"
  double seconds = 0;
};

// A backend is a function from a model to something that runs it.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::vector<Value> run(Span<const Value> inputs) = 0;
  virtual std::string why_walked() const { return {}; }  // see Session
  // Runs once and says how long each step took, in order; {} where the backend cannot tell.
  virtual std::vector<StepTime> profile(Span<const Value> inputs);
};
using Backend = Function<Owned<Engine>(const SessionModel& model, const SessionOptions& options)>;
// Adds a backend of the user's; throws when the name is taken.
void register_backend(std::string name, Backend backend);
std::vector<std::string> backends();

// Whether the graph calls torch.autograd.grad or backward(): gradients are on then while it is walked.
bool asks_for_gradients(const ir::Graph& graph);

// A cheap handle. Runs may come from several threads; they take turns.
class Session {
 public:
  explicit Session(const ExportedProgram& program, SessionOptions options = {});
  explicit Session(SessionModel model, SessionOptions options = {});

  // The leaves of the inputs in order (nested containers are flattened); the leaves of the outputs. Throws
  // where number, dtype or sizes are not the model's, naming the input.
  std::vector<Value> run(Span<const Value> inputs) const;
  std::vector<Tensor> run(std::initializer_list<Tensor> inputs) const;

  // Runs once and says how long each step took, in order; {} where the backend cannot tell.
  std::vector<StepTime> profile(Span<const Value> inputs) const;

  const std::vector<std::string>& input_names() const;
  const std::vector<std::string>& output_names() const;
  const ir::Type* input_type(size_t i) const;
  const SessionModel& model() const;
  // Why the last run walked the graph instead of following a plan; empty when it did not.
  std::string why_walked() const;

 private:
  struct State;
  Shared<State> state_;
};

// The model of an exported program: functional, weights bound.
SessionModel session_model(const ExportedProgram& program);

}  // namespace tern
