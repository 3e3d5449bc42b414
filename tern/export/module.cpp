#include "tern/export/module.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/export/control_flow.h"
#include "tern/ir/interpreter.h"
#include "tern/ir/text.h"
#include "tern/sym/input_checks.h"

namespace tern {
namespace {

// "*args[0]", "**kwargs['k'][1]" for each leaf of the input tree.
std::vector<std::string> run_time_paths(const tree::Spec& in_spec) {
  std::vector<std::string> paths;
  for (const tree::KeyPath& path : tree::key_paths(in_spec)) {
    tree::KeyPath rest(path.begin() + 1, path.end());
    bool positional = path[0].value.is_int() && path[0].value.to_int() == 0;
    paths.push_back((positional ? "*args" : "**kwargs") + tree::str(rest));
  }
  return paths;
}

[[noreturn]] void wrong_structure(const tree::Spec& wanted, const tree::Spec& found) {
  failf(ErrorKind::value,
        "Trying to flatten user inputs with exported input tree spec: \n{}\nbut actually got inputs with "
        "tree spec of: \n{}.\n"
        "Please check that the inputs have the same number and type of args and kwargs as the ones you used "
        "when tracing.",
        wanted.str(), found.str());
}

// While a program is captured again: its nodes are recorded where they were first, not where the program is
// called.
class Retold : public ir::Observer {
 public:
  Retold() : scope_(thread_state.scope), loc_(thread_state.loc) {}
  ~Retold() override {
    thread_state.scope = scope_;
    thread_state.loc = loc_;
  }
  void before(const ir::Node& node) override {
    const ir::Origin* o = node.origin();
    thread_state.scope = o && o->scope ? chain(o->scope) : scope_;
    thread_state.loc =
        o && o->has_place() ? Loc{o->file.c_str(), o->function.c_str(), o->line, o->column} : loc_;
  }

 private:
  // The root of the program stands for the module that is being captured.
  const Scope* chain(const ir::ModuleScope* s) {
    if (!s) return scope_;
    auto [it, fresh] = scopes_.try_emplace(s);
    if (fresh) {
      const Scope* parent = s->parent ? chain(s->parent) : nullptr;
      scopes_[s] = Scope{s->path, s->type_name, nullptr, parent};
    }
    return &scopes_[s];
  }
  std::unordered_map<const ir::ModuleScope*, Scope> scopes_;
  const Scope* scope_;
  Loc loc_;
};

}  // namespace

struct ExportedModule::Runner {
  Runner(const ExportedProgram& p, Run r) : program(p), custom(std::move(r)) {
    const ExportedProgram::Data& d = p.data();
    paths = run_time_paths(d.in_spec);
    std::vector<InputSize> sizes;
    size_t leaf = 0;
    for (size_t i = 0; i < d.signature.inputs.size(); ++i) {
      const InputSpec& spec = d.signature.inputs[i];
      if (spec.kind != InputKind::user_input) {
        const bool tensor = spec.kind != InputKind::custom_obj && spec.kind != InputKind::token;
        state.push_back(tensor ? p.state_of(spec) : Tensor());
        continue;
      }
      state.emplace_back();
      if (leaf >= paths.size())
        fail(ErrorKind::file, "the program has more inputs than its input tree has leaves");
      const ir::Type& type = *d.graph->inputs()[i]->type();
      if (!spec.constant && type.is_tensor() && type.has_sizes()) {
        for (size_t k = 0; k < type.sizes().size(); ++k)
          sizes.push_back({paths[leaf], static_cast<int64_t>(k), type.sizes()[k]});
      } else if (!spec.constant && type.is(ir::TypeKind::int_)) {
        if (const SymInt* s = p.symbol_of(i)) sizes.push_back({paths[leaf], -1, *s});
      }
      ++leaf;
    }
    if (d.graph->shapes) checks.emplace(*d.graph->shapes, std::move(sizes), d.runtime_checks);
  }

  const ir::Program& code() const {
    std::call_once(once, [&] { code_.emplace(program.graph()); });
    return *code_;
  }

  std::vector<Value> flatten(const std::vector<Value>& args, const Keywords& kwargs) const {
    const tree::Spec& in_spec = program.in_spec();
    std::vector<std::pair<Value, Value>> entries;
    for (const auto& [name, value] : kwargs) entries.emplace_back(Value(name), value);
    // Keywords may come in any order.
    if (in_spec.children().size() == 2 && in_spec.children()[1].context().is_list()) {
      std::vector<std::pair<Value, Value>> sorted;
      for (const Value& key : in_spec.children()[1].context().items())
        for (const auto& e : entries)
          if (e.first.equals(key)) sorted.push_back(e);
      if (sorted.size() == entries.size()) entries = std::move(sorted);
    }
    tree::Flat flat = tree::flatten(Value::tuple({Value::tuple(args), Value::dict(std::move(entries))}));
    if (!(flat.spec == in_spec)) wrong_structure(in_spec, flat.spec);
    return std::move(flat.leaves);
  }

  void check(const std::vector<Value>& leaves) const {
    const ExportedProgram::Data& d = program.data();
    std::vector<int64_t> sizes;
    std::vector<SymInt> symbolic;
    bool any_symbolic = false;
    size_t leaf = 0;
    auto add = [&](SymInt s) {
      symbolic.push_back(s);
      any_symbolic |= s.is_symbolic();
      std::optional<int64_t> hint = s.is_int() ? std::optional(s.as_int()) : s.hint();
      if (!hint) failf("a size of {} that depends on data reaches an exported program", paths[leaf]);
      sizes.push_back(*hint);
    };
    for (size_t i = 0; i < d.signature.inputs.size(); ++i) {
      const InputSpec& spec = d.signature.inputs[i];
      if (spec.kind != InputKind::user_input) continue;
      const Value& given = leaves[leaf];
      const std::string& path = paths[leaf];
      const ir::Type& type = *d.graph->inputs()[i]->type();
      if (spec.constant) {
        if (!given.equals(*spec.constant))
          failf("Expected input at {} to be equal to {}, but got {}", path, spec.constant->str(),
                given.str());
      } else if (type.is_tensor()) {
        if (!given.is_tensor())
          failf("Expected input at {} to be a tensor, but got {}", path, given.kind_name());
        const Tensor& t = given.tensor();
        if (type.dtype() != DType::undefined && t.dtype() != type.dtype())
          failf("Expected input at {}.dtype to be torch.{}, but got torch.{}", path, tern::name(type.dtype()),
                tern::name(t.dtype()));
        if (type.has_sizes()) {
          if (static_cast<size_t>(t.dim()) != type.sizes().size())
            failf("Unexpected number of dimensions in input at {}.shape, expected {}, got {}", path,
                  tern::str(type.sizes()), tern::str(t.sizes()));
          for (SymInt s : t.sizes()) add(s);
        }
      } else if (type.is(ir::TypeKind::int_) && program.symbol_of(i)) {
        if (!given.is_int()) failf("Expected input at {} to be an int, but got {}", path, given.kind_name());
        add(given.sym());
      }
      ++leaf;
    }
    if (!checks) return;
    if (auto violation = checks->first_violation(sizes)) fail(*violation);
    if (any_symbolic) constrain(symbolic);
  }

  // The program is being captured again: what it asks of its sizes becomes guards of the outer capture.
  void constrain(const std::vector<SymInt>& sizes) const {
    for (const InputCheck& row : checks->rows()) {
      if (row.kind == InputCheck::Kind::condition) continue;
      SymInt s = sizes[row.input];
      if (!s.is_symbolic()) continue;
      bool ok = true;
      switch (row.kind) {
        case InputCheck::Kind::equal_int:
          ok = s == row.value;
          break;
        case InputCheck::Kind::at_least:
          ok = row.value <= 2 || s >= row.value;
          break;
        case InputCheck::Kind::at_most:
          ok = s <= row.value;
          break;
        default:
          break;
      }
      if (!ok) fail("the sizes of an exported program that is captured again do not hold");
    }
  }

  Value run(const std::vector<Value>& leaves) const {
    check(leaves);
    const ExportedProgram::Data& d = program.data();
    std::vector<Value> inputs;
    inputs.reserve(d.signature.inputs.size());
    size_t leaf = 0;
    for (size_t i = 0; i < d.signature.inputs.size(); ++i) {
      const InputSpec& spec = d.signature.inputs[i];
      inputs.push_back(spec.kind == InputKind::user_input ? leaves[leaf++] : Value(state[i]));
    }
    std::vector<Value> outputs = custom ? custom(inputs) : interpret(inputs);
    std::vector<Value> results;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const OutputSpec& spec = d.signature.outputs[i];
      switch (spec.kind) {
        case OutputKind::buffer_mutation:
          write(state_input(InputKind::buffer, spec.target), outputs[i], inputs);
          break;
        case OutputKind::parameter_mutation:
          write(state_input(InputKind::parameter, spec.target), outputs[i], inputs);
          break;
        case OutputKind::user_input_mutation:
          write(user_input(spec.target), outputs[i], inputs);
          break;
        case OutputKind::user_output:
        case OutputKind::loss_output:
          results.push_back(outputs[i]);
          break;
        default:
          break;  // gradients and tokens are no results of a call
      }
    }
    return tree::unflatten(d.out_spec, results);
  }

  std::vector<Value> interpret(const std::vector<Value>& inputs) const {
    if (!(thread_state.active & rung_record)) return code().run(inputs);
    Retold retold;
    ir::RunOptions options;
    options.observer = &retold;
    RecordControl control;
    options.control = &control;
    return code().run(inputs, options);
  }

  size_t state_input(InputKind kind, const std::string& target) const {
    const auto& specs = program.signature().inputs;
    for (size_t i = 0; i < specs.size(); ++i)
      if (specs[i].kind == kind && specs[i].target == target) return i;
    failf(ErrorKind::file, "the program writes to '{}', which is no {} of it", target, name_of(kind));
  }
  size_t user_input(const std::string& name) const {
    const auto& specs = program.signature().inputs;
    for (size_t i = 0; i < specs.size(); ++i)
      if (specs[i].kind == InputKind::user_input && specs[i].name == name) return i;
    failf(ErrorKind::file, "the program writes to the input '{}', which it does not have", name);
  }
  void write(size_t input, const Value& value, const std::vector<Value>& inputs) const {
    if (!value.is_tensor() || !inputs[input].is_tensor()) return;
    const Tensor& target = inputs[input].tensor();
    if (target.is_same(value.tensor())) return;
    bool is_state = program.signature().inputs[input].kind != InputKind::user_input;
    GradMode mode(thread_state.grad_enabled && !is_state);
    target.copy_(value.tensor());
  }

  ExportedProgram program;
  Run custom;
  std::vector<Tensor> state;  // by graph input; undefined for the user's
  std::vector<std::string> paths;
  std::optional<InputChecks> checks;
  mutable std::once_flag once;
  mutable std::optional<ir::Program> code_;
};

namespace {

// The module that owns the last part of a dotted name, made on the way if need be.
nn::Module owner_of(const nn::Module& root, std::string_view path,
                    const std::unordered_map<std::string, std::string>& types) {
  nn::Module at = root;
  std::string so_far;
  while (true) {
    size_t dot = path.find('.');
    if (dot == std::string_view::npos) return at;
    std::string name(path.substr(0, dot));
    so_far += so_far.empty() ? name : "." + name;
    path.remove_prefix(dot + 1);
    bool found = false;
    for (auto& [child_name, child] : at.named_children())
      if (child_name == name) {
        std::destroy_at(&at);
        std::construct_at(&at, child);
        found = true;
        break;
      }
    if (found) continue;
    nn::Module child;
    auto type = types.find(so_far);
    child.set_type(type == types.end() ? "torch.nn.modules.module.Module" : type->second);
    nn::Module added = at.add(name, child);
    std::destroy_at(&at);
    std::construct_at(&at, added);
  }
}

std::string_view last_part(std::string_view path) {
  size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

}  // namespace

ExportedModule::ExportedModule(const ExportedProgram& program, Run run)
    : runner_(new_shared<Runner>(program, std::move(run))) {
  const ExportedProgram::Data& d = program.data();
  set_type(d.root_type.empty() ? "torch.fx.graph_module.GraphModule" : d.root_type);
  std::unordered_map<std::string, std::string> types;
  for (const ir::Node& n : d.graph->top())
    for (const ir::ModuleScope* s = n.scope(); s; s = s->parent)
      if (!s->type_name.empty()) types.emplace(s->path.str(), s->type_name.str());
  auto kind_of = [&](const Tensor& t) {
    for (size_t i = 0; i < d.signature.inputs.size(); ++i)
      if (runner_->state[i].defined() && runner_->state[i].is_same(t)) return d.signature.inputs[i].kind;
    return t.requires_grad() ? InputKind::parameter : InputKind::buffer;
  };
  for (const auto& [name, tensor] : d.state) {
    nn::Module owner = owner_of(*this, name, types);
    if (kind_of(tensor) == InputKind::parameter)
      owner.register_parameter(last_part(name), tensor);
    else
      owner.register_buffer(last_part(name), tensor);
  }
  for (size_t i = 0; i < d.signature.inputs.size(); ++i) {
    const InputSpec& s = d.signature.inputs[i];
    if (s.kind == InputKind::buffer && !s.persistent)
      owner_of(*this, s.target, types).register_buffer(last_part(s.target), runner_->state[i], false);
  }
}

Value ExportedModule::call(const std::vector<Value>& args, const Keywords& kwargs) const {
  return runner_->run(runner_->flatten(args, kwargs));
}

Value ExportedModule::call_flat_args(const std::vector<Value>& args) const {
  const ExportedProgram::Data& d = runner_->program.data();
  size_t positional = d.in_spec.children().empty() ? 0 : d.in_spec.children()[0].children().size();
  if (args.size() <= positional || d.in_spec.children().size() < 2) return call(args);
  Keywords kwargs;
  const Value& keys = d.in_spec.children()[1].context();
  for (size_t i = positional; i < args.size(); ++i) {
    size_t k = i - positional;
    if (!keys.is_list() || k >= keys.items().size())
      failf(ErrorKind::type, "the program takes {} arguments, {} were given", positional, args.size());
    kwargs.emplace_back(keys.items()[k].string(), args[i]);
  }
  return call(std::vector<Value>(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(positional)),
              kwargs);
}

const ExportedProgram& ExportedModule::program() const { return runner_->program; }

std::string ExportedModule::code() const {
  ir::FxOptions options;
  for (const InputSpec& s : runner_->program.signature().inputs)
    if (s.kind != InputKind::user_input) options.self_attributes.emplace_back(s.name, s.target);
  return ir::fx_code(runner_->program.graph(), options);
}

}  // namespace tern
