#include "tern/compile/compile.h"

#include <mutex>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/export/module.h"
#include "tern/sym/shape_env.h"

namespace tern {
namespace {

// A captured program and what must hold for the inputs it is used with.
struct Entry {
  ExportedProgram program;
  tree::Spec spec;
  Session session;

  // Structure, numbers, dtypes and sizes: a size that was a symbol must lie in the range the capture assumed.
  bool fits(const tree::Flat& flat) const {
    if (!(flat.spec == spec)) return false;
    const ExportedProgram::Data& data = program.data();
    size_t next = 0;
    std::unordered_map<int64_t, int64_t> known;  // symbol or expression -> size in this call
    for (size_t i = 0; i < data.signature.inputs.size(); ++i) {
      const InputSpec& in = data.signature.inputs[i];
      if (in.kind != InputKind::user_input) continue;
      const Value& v = flat.leaves[next++];
      if (in.constant) {
        if (!in.constant->equals(v)) return false;
        continue;
      }
      const ir::Type& type = *data.graph->inputs()[i]->type();
      if (!type.is_tensor() || !v.is_tensor()) return false;
      const Tensor& t = v.tensor();
      if (t.is_nested() || t.dtype() != type.dtype() || t.dim() != static_cast<int64_t>(type.sizes().size()))
        return false;
      for (int64_t d = 0; d < t.dim(); ++d) {
        SymInt wanted = type.sizes()[d];
        int64_t size = t.sizes()[d].guard_int();
        if (wanted.is_int()) {
          if (wanted.as_int() != size) return false;
          continue;
        }
        Range range = ShapeEnv::of(wanted).range(wanted);
        if (!range.contains(size)) return false;
        auto [it, fresh] = known.emplace(wanted.bits(), size);
        if (!fresh && it->second != size) return false;
      }
    }
    return data.runtime_checks.empty();
  }
};

}  // namespace

struct Compiled::State {
  Exportable what;
  CompileOptions options;
  std::vector<Entry> entries;
  size_t executions = 0;
  std::mutex mutex;

  const Entry& entry_for(const tree::Flat& flat, const std::vector<Value>& args) {
    for (const Entry& e : entries)
      if (e.fits(flat)) return e;
    NamedValues named;
    DynamicShapes dynamic;
    for (size_t i = 0; i < args.size(); ++i) {
      std::string name = fmt::format("arg{}", i);
      named.push_back(NamedValue(name, args[i]));
      if (!options.dynamic) continue;
      tree::Flat leaves = tree::flatten(args[i]);
      std::vector<tree::KeyPath> paths = tree::key_paths(leaves.spec);
      for (size_t k = 0; k < leaves.leaves.size(); ++k) {
        if (!leaves.leaves[k].is_tensor()) continue;
        std::vector<std::pair<int64_t, Dim>> dims;
        for (int64_t d = 0; d < leaves.leaves[k].tensor().dim(); ++d) dims.emplace_back(d, Dim::AUTO);
        dynamic.emplace_back(name + tree::str(paths[k]), std::move(dims));
      }
    }
    ExportedProgram program = export_program(what, named, {.dynamic = dynamic});
    Session session(program, {.backend = options.backend, .threads = options.threads});
    entries.push_back({program, flat.spec, session});
    return entries.back();
  }
};

Compiled::Compiled(Exportable what, CompileOptions options) : state_(new_shared<State>()) {
  state_->what = std::move(what);
  state_->options = std::move(options);
}

size_t Compiled::executions() const { return state_->executions; }
std::vector<ExportedProgram> Compiled::programs() const {
  std::vector<ExportedProgram> all;
  for (const Entry& e : state_->entries) all.push_back(e.program);
  return all;
}

Value Compiled::call(const std::vector<Value>& args) const {
  State& s = *state_;
  tree::Flat flat = tree::flatten(Value::tuple(args));
  std::lock_guard lock(s.mutex);
  const Entry& entry = s.entry_for(flat, args);
  bool wants_grad = false;
  if (thread_state.grad_enabled) {
    for (const Value& v : flat.leaves) wants_grad |= v.is_tensor() && v.tensor().requires_grad();
    for (const auto& [name, t] : entry.program.state_dict()) wants_grad |= t.requires_grad();
  }
  if (wants_grad) return entry.program.module().call(args);
  std::vector<Value> inputs;
  size_t next = 0;
  for (const InputSpec& in : entry.program.signature().inputs) {
    if (in.kind != InputKind::user_input) continue;
    inputs.push_back(flat.leaves[next++]);
  }
  ++s.executions;
  return tree::unflatten(entry.program.out_spec(), entry.session.run(inputs));
}

}  // namespace tern
