#include "tern/runtime/session.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/capture/retrace.h"
#include "tern/dispatch/ladder.h"
#include "tern/export/export.h"
#include "tern/ir/interpreter.h"
#include "tern/ops.h"
#include "tern/runtime/onnxrt.h"
#include "tern/runtime/plan.h"
#include "tern/sym/input_checks.h"
#include "tern/tensor/nesting.h"

namespace tern {
namespace {

// The unbound inputs of a run put between the bound ones.
std::vector<Value> all_inputs(const SessionModel& model, Span<const Value> given) {
  std::vector<Value> all;
  size_t next = 0;
  for (const runtime::Binding& b : model.bindings)
    all.push_back(b.tensor.defined() ? Value(b.tensor) : given[next++]);
  return all;
}

bool asks_in(const ir::Block& block) {
  for (const ir::Node& n : block) {
    if (!n.op() && (n.is("aten::grad") || n.is("aten::backward"))) return true;
    for (const ir::Block* b : n.blocks())
      if (asks_in(*b)) return true;
  }
  return false;
}

class InterpreterEngine : public Engine {
 public:
  explicit InterpreterEngine(const SessionModel& model)
      : model_(model), program_(*model.graph), gradients_(asks_for_gradients(*model.graph)) {}
  std::vector<Value> run(Span<const Value> inputs) override {
    GradMode mode(gradients_);
    std::vector<Value> leaves;
    for (Value& v : program_.run(all_inputs(model_, inputs))) {
      if (!v.is_list() && !v.is_tuple() && !v.is_dict()) {
        leaves.push_back(std::move(v));
        continue;
      }
      for (Value& leaf : tree::flatten(v).leaves) leaves.push_back(std::move(leaf));
    }
    for (Value& leaf : leaves)
      if (gradients_ && leaf.is_tensor()) leaf = Value(leaf.tensor().detach());
    return leaves;
  }

 private:
  SessionModel model_;
  ir::Program program_;
  bool gradients_;
};

class NativeEngine : public Engine {
 public:
  explicit NativeEngine(const SessionModel& model) : model_(model) {}

  std::vector<Value> run(Span<const Value> inputs) override {
    // The signature of a run: everything a plan depends on.
    key_.clear();
    for (const Value& v : inputs) {
      if (v.is_tensor()) {
        const Tensor& t = v.tensor();
        key_.push_back(static_cast<int64_t>(t.dtype()) << 8 | t.dim());
        for (SymInt s : t.sizes()) key_.push_back(s.guard_int());
      } else if (v.is_float()) {
        key_.push_back(std::bit_cast<int64_t>(v.to_double()));
      } else if (v.is_int() || v.is_bool()) {
        key_.push_back(v.sym().guard_int());
      }
    }
    if (!last_ || key_ != last_key_) choose(inputs);
    if (!last_) return interpreter_->run(inputs);
    return last_->run(inputs, seconds_);
  }

  std::vector<StepTime> profile(Span<const Value> inputs) override {
    std::vector<double> seconds;
    seconds_ = &seconds;
    try {
      run(inputs);
    } catch (...) {
      seconds_ = nullptr;
      throw;
    }
    seconds_ = nullptr;
    std::vector<StepTime> times;
    for (size_t i = 0; i < seconds.size(); ++i) times.push_back({last_->steps()[i]->label, seconds[i]});
    return times;
  }
  std::string why_walked() const override { return last_ ? std::string() : reason_; }

 private:
  void choose(Span<const Value> inputs) {
    last_key_ = key_;
    last_ = nullptr;
    if (interpreter_) return;
    auto it = plans_.find(key_);
    if (it == plans_.end()) {
      try {
        it = plans_.emplace(key_, new_owned<runtime::Plan>(*model_.graph, model_.bindings, inputs)).first;
      } catch (const Error& e) {
        // Control flow and data-dependent sizes are walked, not planned. What is wrong with the inputs is
        // said by the walk as well, at the node where it happens.
        if (e.kind() == ErrorKind::internal) throw;
        interpreter_ = new_owned<InterpreterEngine>(model_);
        reason_ = e.message();
        return;
      }
    }
    last_ = it->second.get();
  }

  SessionModel model_;
  std::map<std::vector<int64_t>, Owned<runtime::Plan>> plans_;
  std::vector<int64_t> key_, last_key_;
  runtime::Plan* last_ = nullptr;
  std::vector<double>* seconds_ = nullptr;  // while profiling
  Owned<InterpreterEngine> interpreter_;
  std::string reason_;
};

struct Backends {
  std::mutex mutex;
  std::map<std::string, Backend> table = {
      {"native", [](const SessionModel& m, const SessionOptions&) { return new_owned<NativeEngine>(m); }},
      {"interpreter",
       [](const SessionModel& m, const SessionOptions&) { return new_owned<InterpreterEngine>(m); }},
      {"onnxrt",
       [](const SessionModel& m, const SessionOptions& o) { return runtime::make_onnxrt_engine(m, o); }},
  };
};
Backends& all_backends() {
  static Backends* b = new Backends;
  return *b;
}

}  // namespace

std::vector<StepTime> Engine::profile(Span<const Value> inputs) {
  run(inputs);
  return {};
}

void register_backend(std::string name, Backend backend) {
  Backends& b = all_backends();
  std::lock_guard lock(b.mutex);
  if (!b.table.emplace(name, std::move(backend)).second)
    failf(ErrorKind::value, "register_backend: there is a backend '{}' already", name);
}

std::vector<std::string> backends() {
  Backends& b = all_backends();
  std::lock_guard lock(b.mutex);
  std::vector<std::string> names;
  for (auto& [name, backend] : b.table) names.push_back(name);
  return names;
}

struct Session::State {
  SessionModel model;
  SessionOptions options;
  Owned<Engine> engine;
  std::vector<const ir::Value*> inputs;  // the unbound ones
  std::mutex mutex;
  std::vector<int64_t> sizes, allowed;  // of this run; of the last one that passed the checks
};

Session::Session(const ExportedProgram& program, SessionOptions options)
    : Session(session_model(program), std::move(options)) {}

Session::Session(SessionModel model, SessionOptions options) : state_(new_shared<State>()) {
  Backend backend;
  {
    Backends& b = all_backends();
    std::lock_guard lock(b.mutex);
    auto it = b.table.find(options.backend);
    if (it == b.table.end()) {
      std::string known;
      for (auto& [name, ignored] : b.table) known += (known.empty() ? "" : ", ") + name;
      failf(ErrorKind::value, "Session: no backend '{}' (there are {})", options.backend, known);
    }
    backend = it->second;
  }
  state_->model = std::move(model);
  state_->options = std::move(options);
  for (size_t i = 0; i < state_->model.bindings.size(); ++i)
    if (!state_->model.bindings[i].tensor.defined())
      state_->inputs.push_back(state_->model.graph->inputs()[i]);
  state_->engine = backend(state_->model, state_->options);
}

const std::vector<std::string>& Session::input_names() const { return state_->model.input_names; }
const std::vector<std::string>& Session::output_names() const { return state_->model.output_names; }
std::string Session::why_walked() const {
  std::lock_guard lock(state_->mutex);
  return state_->engine->why_walked();
}
const ir::Type* Session::input_type(size_t i) const { return state_->inputs.at(i)->type(); }
const SessionModel& Session::model() const { return state_->model; }

namespace {

void check_input(const std::string& name, const ir::Type& type, const Value& v) {
  if (!type.is_tensor()) return;
  if (!v.is_tensor())
    failf(ErrorKind::type, "Session: input '{}' must be a Tensor, not {}", name, v.kind_name());
  const Tensor& t = v.tensor();
  check_not_nested(t, "Session");
  if (type.dtype() != DType::undefined && t.dtype() != type.dtype())
    failf(ErrorKind::type, "Session: input '{}' must be of dtype {}, but it is {}", name,
          tern::name(type.dtype()), tern::name(t.dtype()));
  if (!type.has_sizes()) return;
  bool fits = t.dim() == static_cast<int64_t>(type.sizes().size());
  for (int64_t d = 0; fits && d < t.dim(); ++d)
    fits = type.sizes()[d].is_symbolic() || type.sizes()[d].as_int() < 0 ||
           type.sizes()[d].as_int() == t.sizes()[d].guard_int();
  if (!fits)
    failf(ErrorKind::value, "Session: input '{}' must have the shape {}, but it has {}", name,
          str(type.sizes()), str(t.sizes()));
}

// The sizes that InputChecks looks at, in its order.
void collect_sizes(Span<const ir::Value* const> inputs, Span<const Value> given, const SessionModel& model,
                   std::vector<int64_t>& sizes) {
  sizes.clear();
  for (size_t i = 0; i < given.size(); ++i) {
    const ir::Type& type = *inputs[i]->type();
    if (model.constants[i]) continue;
    if (type.is_tensor() && type.has_sizes())
      for (SymInt s : given[i].tensor().sizes()) sizes.push_back(s.guard_int());
    else if (!type.is_tensor() && given[i].is_int())
      sizes.push_back(given[i].to_int());
  }
}

// New values into what the program writes to. A result that shows memory which is written now is copied
// first.
void write_back(const SessionModel& model, Span<const Value> inputs, std::vector<Value>& results) {
  std::vector<Tensor> targets;
  for (const SessionModel::Written& w : model.written)
    targets.push_back(w.tensor.defined() ? w.tensor : inputs[w.input].tensor());
  NoGrad no_grad;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].is_tensor()) continue;
    const Tensor& t = results[i].tensor();
    for (size_t k = 0; k < targets.size(); ++k)
      if (t.storage() == targets[k].storage() && !(i == k && t.is_same(targets[k]))) {
        results[i] = Value(t.clone());
        break;
      }
  }
  for (size_t k = 0; k < targets.size(); ++k)
    if (!results[k].tensor().is_same(targets[k])) targets[k].copy_(results[k].tensor());
  results.erase(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(targets.size()));
}

}  // namespace

bool asks_for_gradients(const ir::Graph& graph) { return asks_in(graph.top()); }

std::vector<Value> Session::run(Span<const Value> inputs) const {
  State& s = *state_;
  if (inputs.size() != s.inputs.size())
    failf(ErrorKind::value, "Session: the model takes {} inputs, but {} were given", s.inputs.size(),
          inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    check_input(s.model.input_names[i], *s.inputs[i]->type(), inputs[i]);
  for (size_t i = 0; i < s.model.constants.size(); ++i)
    if (s.model.constants[i] && !inputs[i].equals(*s.model.constants[i]))
      failf(ErrorKind::value,
            "Session: input '{}' must be {}, the value the model was made for, but it is {}",
            s.model.input_names[i], s.model.constants[i]->str(), inputs[i].str());
  std::lock_guard lock(s.mutex);
  if (s.model.checks) {
    collect_sizes(s.inputs, inputs, s.model, s.sizes);
    if (s.sizes != s.allowed) {
      if (auto violation = s.model.checks->first_violation(s.sizes))
        failf(ErrorKind::value, "Session: {}", *violation);
      s.allowed = s.sizes;
    }
  }
  if (s.options.threads) set_num_threads(s.options.threads);
  std::vector<Value> results = s.engine->run(inputs);
  if (!s.model.written.empty()) write_back(s.model, inputs, results);
  return results;
}

std::vector<StepTime> Session::profile(Span<const Value> inputs) const {
  State& s = *state_;
  run(inputs);  // checks them, and plans
  std::lock_guard lock(s.mutex);
  return s.engine->profile(inputs);
}

std::vector<Tensor> Session::run(std::initializer_list<Tensor> inputs) const {
  std::vector<Value> values(inputs.begin(), inputs.end());
  std::vector<Tensor> tensors;
  for (Value& v : run(Span<const Value>(values))) tensors.push_back(v.take_tensor());
  return tensors;
}

namespace {

// What the program asks of its inputs, by their names.
void add_checks(const ExportedProgram& program, SessionModel& m) {
  const ExportedProgram::Data& data = program.data();
  std::vector<InputSize> sizes;
  for (size_t i = 0; i < data.signature.inputs.size(); ++i) {
    const InputSpec& spec = data.signature.inputs[i];
    if (spec.kind != InputKind::user_input || spec.constant) continue;
    const ir::Type& type = *data.graph->inputs()[i]->type();
    if (type.is_tensor() && type.has_sizes()) {
      for (size_t d = 0; d < type.sizes().size(); ++d)
        sizes.push_back({spec.name, static_cast<int64_t>(d), type.sizes()[d]});
    } else if (const SymInt* s = program.symbol_of(i)) {
      sizes.push_back({spec.name, -1, *s});
    } else if (!type.is_tensor()) {
      return;  // a script's number: nothing is known of it
    }
  }
  bool open =
      std::any_of(sizes.begin(), sizes.end(), [](const InputSize& s) { return s.size.is_symbolic(); });
  if (open && data.graph->shapes)
    m.checks = new_shared<InputChecks>(*data.graph->shapes, std::move(sizes), data.runtime_checks);
}

// The leaves of the examples, where the program has all of them.
std::vector<Value> example_leaves(const ExportedProgram::Data& data) {
  if (!data.example_args) return {};
  Value both = Value::tuple({*data.example_args, data.example_kwargs.value_or(Value::dict())});
  return tree::flatten(both).leaves;
}

}  // namespace

SessionModel session_model(const ExportedProgram& given) {
  // A script's program has inputs of unknown size, or numbers of which nothing is known: it is made
  // functional when a plan is made for real ones.
  bool sized = true;
  for (size_t i = 0; i < given.graph().inputs().size(); ++i) {
    const ir::Type& type = *given.graph().inputs()[i]->type();
    sized &=
        type.is_tensor() ? type.has_sizes() : given.data().signature.inputs[i].constant || given.symbol_of(i);
  }
  ExportedProgram program = given.dialect() == Dialect::training && sized
                                ? lower(given, capture::is_composite, Dialect::aten)
                                : given;
  SessionModel m;
  const ExportedProgram::Data& data = program.data();
  m.graph = Shared<const ir::Graph>(new_shared<ExportedProgram>(program), data.graph.get());
  std::vector<std::string> changed;
  for (const OutputSpec& o : data.signature.outputs)
    if (o.kind == OutputKind::buffer_mutation || o.kind == OutputKind::parameter_mutation)
      changed.push_back(o.target);
  std::vector<Value> examples = example_leaves(data);
  for (size_t i = 0; i < data.signature.inputs.size(); ++i) {
    const InputSpec& in = data.signature.inputs[i];
    runtime::Binding b;
    if (in.kind == InputKind::user_input) {
      size_t leaf = m.input_names.size();
      m.input_names.push_back(in.name);
      m.constants.push_back(in.constant);
      m.examples.push_back(leaf < examples.size() ? std::optional(examples[leaf]) : std::nullopt);
    } else {
      b.tensor = program.state_of(in);
      b.is_weight = std::find(changed.begin(), changed.end(), in.target) == changed.end();
    }
    m.bindings.push_back(b);
  }
  for (const OutputSpec& o : data.signature.outputs) {
    if (o.kind == OutputKind::user_input_mutation) {
      auto it = std::find(m.input_names.begin(), m.input_names.end(), o.target);
      if (it == m.input_names.end())
        failf(ErrorKind::file, "Session: the program writes to the input '{}', which it does not have",
              o.target);
      m.written.push_back({.input = static_cast<size_t>(it - m.input_names.begin())});
    } else if (o.kind == OutputKind::buffer_mutation || o.kind == OutputKind::parameter_mutation) {
      for (const InputSpec& in : data.signature.inputs)
        if (in.kind != InputKind::user_input && in.target == o.target)
          m.written.push_back({.tensor = program.state_of(in)});
    } else {
      m.output_names.push_back(o.name);
    }
  }
  add_checks(program, m);
  return m;
}

}  // namespace tern
