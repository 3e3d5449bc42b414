#include "tern/runtime/session.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/dispatch/ladder.h"
#include "tern/export/program.h"
#include "tern/ir/interpreter.h"
#include "tern/ops.h"
#include "tern/runtime/onnxrt.h"

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

class InterpreterEngine : public Engine {
 public:
  explicit InterpreterEngine(const SessionModel& model) : model_(model), program_(*model.graph) {}
  std::vector<Value> run(Span<const Value> inputs) override {
    NoGrad no_grad;
    return program_.run(all_inputs(model_, inputs));
  }

 private:
  SessionModel model_;
  ir::Program program_;
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
        it = plans_.emplace(key_, std::make_unique<runtime::Plan>(*model_.graph, model_.bindings, inputs))
                 .first;
      } catch (const Error& e) {
        // Control flow and data-dependent sizes are walked, not planned. What is wrong with the inputs is
        // said by the walk as well, at the node where it happens.
        if (e.kind() == ErrorKind::internal) throw;
        interpreter_ = std::make_unique<InterpreterEngine>(model_);
        reason_ = e.message();
        return;
      }
    }
    last_ = it->second.get();
  }

  SessionModel model_;
  std::map<std::vector<int64_t>, std::unique_ptr<runtime::Plan>> plans_;
  std::vector<int64_t> key_, last_key_;
  runtime::Plan* last_ = nullptr;
  std::vector<double>* seconds_ = nullptr;  // while profiling
  std::unique_ptr<InterpreterEngine> interpreter_;
  std::string reason_;
};

struct Backends {
  std::mutex mutex;
  std::map<std::string, Backend> table = {
      {"native",
       [](const SessionModel& m, const SessionOptions&) { return std::make_unique<NativeEngine>(m); }},
      {"interpreter",
       [](const SessionModel& m, const SessionOptions&) { return std::make_unique<InterpreterEngine>(m); }},
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
  std::unique_ptr<Engine> engine;
  std::vector<const ir::Value*> inputs;  // the unbound ones
  std::mutex mutex;
};

Session::Session(const ExportedProgram& program, SessionOptions options)
    : Session(session_model(program), std::move(options)) {}

Session::Session(SessionModel model, SessionOptions options) : state_(std::make_shared<State>()) {
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

namespace {

void check_input(const std::string& name, const ir::Type& type, const Value& v) {
  if (!type.is_tensor()) return;
  if (!v.is_tensor())
    failf(ErrorKind::type, "Session: input '{}' must be a Tensor, not {}", name, v.kind_name());
  const Tensor& t = v.tensor();
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

}  // namespace

std::vector<Value> Session::run(Span<const Value> inputs) const {
  State& s = *state_;
  if (inputs.size() != s.inputs.size())
    failf(ErrorKind::value, "Session: the model takes {} inputs, but {} were given", s.inputs.size(),
          inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    check_input(s.model.input_names[i], *s.inputs[i]->type(), inputs[i]);
  std::lock_guard lock(s.mutex);
  if (s.options.threads) set_num_threads(s.options.threads);
  std::vector<Value> results = s.engine->run(inputs);
  NoGrad no_grad;
  for (size_t i = 0; i < s.model.written.size(); ++i) s.model.written[i].copy_(results[i].tensor());
  results.erase(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(s.model.written.size()));
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

SessionModel session_model(const ExportedProgram& given) {
  // A script's program has inputs of unknown size: it is made functional when a plan is made for real ones.
  bool sized = true;
  for (const ir::Value* v : given.graph().inputs())
    sized &= !v->type()->is_tensor() || v->type()->has_sizes();
  ExportedProgram program =
      given.dialect() == Dialect::training && sized ? given.run_decompositions() : given;
  SessionModel m;
  const ExportedProgram::Data& data = program.data();
  m.graph = std::shared_ptr<const ir::Graph>(std::make_shared<ExportedProgram>(program), data.graph.get());
  std::vector<std::string> changed;
  for (const OutputSpec& o : data.signature.outputs)
    if (o.kind == OutputKind::buffer_mutation || o.kind == OutputKind::user_input_mutation ||
        o.kind == OutputKind::parameter_mutation)
      changed.push_back(o.target);
  for (size_t i = 0; i < data.signature.inputs.size(); ++i) {
    const InputSpec& in = data.signature.inputs[i];
    runtime::Binding b;
    if (in.kind == InputKind::user_input) {
      m.input_names.push_back(in.name);
    } else {
      b.tensor = program.state_of(in);
      b.is_weight = std::find(changed.begin(), changed.end(), in.target) == changed.end();
    }
    m.bindings.push_back(b);
  }
  for (const OutputSpec& o : data.signature.outputs) {
    if (o.kind == OutputKind::user_input_mutation)
      failf(ErrorKind::not_supported,
            "Session: the model writes to its input '{}'; run it with program.module()", o.target);
    if (o.kind == OutputKind::buffer_mutation || o.kind == OutputKind::parameter_mutation) {
      for (const InputSpec& in : data.signature.inputs)
        if (in.kind != InputKind::user_input && in.target == o.target)
          m.written.push_back(program.state_of(in));
    } else {
      m.output_names.push_back(o.name);
    }
  }
  return m;
}

}  // namespace tern
