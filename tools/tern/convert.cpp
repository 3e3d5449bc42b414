// tern convert: a model in another format, and --check: both run on the same input.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/export/script.h"
#include "tern/jit/archive.h"
#include "tern/ops.h"
#include "tern/runtime/model_file.h"
#include "tern/sym/shape_env.h"
#include "tern/tensor/generator.h"

namespace tern::command {
namespace {

// Each run gets its own: a model may write to its inputs.
std::vector<Value> copies(const std::vector<Value>& values) {
  std::vector<Value> all;
  for (const Value& v : values) all.push_back(v.is_tensor() ? Value(v.tensor().clone()) : v);
  return all;
}

// What a run gave: tensors, and numbers as tensors without dims, as a format without numbers has them.
void collect_results(const Value& value, std::vector<Tensor>& results) {
  for (const Value& leaf : tree::flatten(value).leaves) {
    if (leaf.is_tensor())
      results.push_back(leaf.tensor());
    else if (leaf.is_number())
      results.push_back(tensor(leaf.scalar()));
  }
}

// Largest differences of what two runs gave, then of what they wrote; gives the exit code.
int compare_runs(const std::vector<Value>& before, const std::vector<Value>& after,
                 const std::vector<Tensor>& written_before = {},
                 const std::vector<Tensor>& written_after = {}) {
  std::vector<Tensor> a, b;
  for (const Value& v : before) collect_results(v, a);
  for (const Value& v : after) collect_results(v, b);
  size_t results = a.size();
  a.insert(a.end(), written_before.begin(), written_before.end());
  b.insert(b.end(), written_after.begin(), written_after.end());
  if (a.size() != b.size()) {
    std::printf("check: %zu outputs became %zu\n", a.size(), b.size());
    return 3;
  }
  bool close = true;
  for (size_t i = 0; i < a.size(); ++i) {
    std::string name =
        i < results ? fmt::format("output_{}", i) : fmt::format("written value {}", i - results);
    Difference d = compare(name, b[i], a[i], 1e-4, 1e-5);
    std::printf("check: %s: largest difference %g%s\n", name.c_str(), d.largest, d.close ? "" : "  DIFFERS");
    close &= d.close;
  }
  return close ? 0 : 3;
}

// New values of what a session's program writes to, after a run on these inputs.
std::vector<Tensor> written(const Session& session, const std::vector<Value>& inputs) {
  std::vector<Tensor> all;
  for (const SessionModel::Written& w : session.model().written)
    all.push_back(w.tensor.defined() ? w.tensor : inputs[w.input].tensor());
  return all;
}

// A .pt2 file takes all inputs of a program, None and numbers too; an .onnx file those that are tensors.
std::vector<Value> inputs_taken(const Session& session, std::vector<Value> inputs) {
  if (session.input_names().size() != inputs.size())
    std::erase_if(inputs, [](const Value& v) { return !v.is_tensor(); });
  return inputs;
}

// Runs what was written. `effects` are the new values of what the original wrote to: an .onnx file gives them
// as further outputs.
int check_written(const std::string& path, const std::vector<Value>& before,
                  const std::vector<Tensor>& effects, const std::vector<Value>& inputs) {
  Session after(load_model(path), {.backend = "interpreter"});
  std::vector<Value> given = inputs_taken(after, copies(inputs));
  manual_seed(0);  // as the original was run
  std::vector<Value> results = after.run(given);
  if (format_of_name(path) == ModelFormat::onnx) return compare_runs(before, results, effects);
  std::vector<Tensor> now = written(after, given);
  return now.size() == effects.size() ? compare_runs(before, results, effects, now)
                                      : compare_runs(before, results);
}

ExportedProgram as_asked(const ExportedProgram& program, const Convert& options) {
  return options.core ? program.run_decompositions(Dialect::core) : program;
}

int convert_program(const Convert& options) {
  if (options.method != "forward") fail(ErrorKind::usage, "--method: only .pt files have methods");
  ExportedProgram program = load_model(options.from);
  save_model(as_asked(program, options), options.to, {.opset = options.opset});
  std::printf("%s -> %s\n", options.from.c_str(), options.to.c_str());
  if (!options.check) return 0;
  manual_seed(0);
  Session before(program, {.backend = "interpreter"});
  std::vector<Value> inputs = make_inputs(inputs_of(before), options.inputs, options.shapes);
  std::vector<Value> given = copies(inputs);
  manual_seed(0);
  std::vector<Value> results = before.run(given);
  return check_written(options.to, results, written(before, given), inputs);
}

int convert_script(const Convert& options) {
  jit::ScriptModule module = jit::load(options.from);
  need_method(module, options.method);
  ModelFormat format = format_of_name(options.to);
  manual_seed(0);
  NoGrad no_grad;
  if (format == ModelFormat::pt) {
    if (options.core) fail(ErrorKind::usage, "--core: a script that stays one is not decomposed");
    module.save(options.to);
    std::printf("%s -> %s\n", options.from.c_str(), options.to.c_str());
    if (!options.check) return 0;
    std::vector<Value> inputs =
        make_inputs(inputs_of(module, options.method), options.inputs, options.shapes);
    std::vector<Value> first = copies(inputs), second = copies(inputs);
    manual_seed(0);  // both draw alike: a model in training mode may have dropout
    Value before = module.call(options.method, first);
    manual_seed(0);
    Value after = jit::load(options.to).call(options.method, second);
    std::vector<Tensor> a, b;
    for (const Value& v : first) collect_results(v, a);
    for (const Value& v : second) collect_results(v, b);
    return compare_runs({before}, {after}, a, b);
  }
  auto symbols = new_shared<ShapeEnv>();
  std::vector<Value> examples;
  try {
    examples = make_inputs(inputs_of(module, options.method), options.inputs, options.shapes, symbols.get());
  } catch (const Error& e) {
    throw Error(e.kind(), fmt::format("{}: a .pt file does not say the sizes of its inputs: {}", options.from,
                                      e.what()));
  }
  // What nobody gave stays what the script says, as when torch.export is given no such argument.
  const std::vector<script::Argument>& arguments = module.arguments(options.method);
  while (!examples.empty() && !examples.back().is_tensor() && arguments[examples.size()].default_value &&
         examples.back().equals(*arguments[examples.size()].default_value))
    examples.pop_back();
  ExportedProgram program = from_script(module, examples, options.method, symbols);
  save_model(as_asked(program, options), options.to, {.opset = options.opset});
  std::printf("%s -> %s\n", options.from.c_str(), options.to.c_str());
  if (!options.check) return 0;
  // With the sizes of the example where they were left open.
  for (Value& v : examples)
    if (v.is_tensor() && v.tensor().is_fake()) {
      Dims sizes;
      for (SymInt s : v.tensor().sizes()) sizes.push_back(s.is_symbolic() ? SymInt(s.hint().value_or(4)) : s);
      InputList one{
          {"x"}, {ir::Type::tensor_like(make_tensor(sizes, v.tensor().dtype(), kCPU, true))}, {std::nullopt}};
      v = make_inputs(one, {}, {})[0];
    }
  std::vector<Value> given = copies(examples);
  manual_seed(0);
  Value before = module.call(options.method, given);
  std::vector<Tensor> effects;
  for (const OutputSpec& o : program.signature().outputs) {
    if (o.kind == OutputKind::buffer_mutation || o.kind == OutputKind::parameter_mutation)
      effects.push_back(module.attr(o.target).tensor());
    size_t leaf = 0;
    for (const InputSpec& in : program.signature().inputs) {
      if (in.kind != InputKind::user_input) continue;
      if (o.kind == OutputKind::user_input_mutation && in.name == o.target)
        effects.push_back(given.at(leaf).tensor());
      ++leaf;
    }
  }
  return check_written(options.to, {before}, effects, examples);
}

}  // namespace

int run_convert(const Convert& options) {
  try {
    format_of_name(options.to);
  } catch (const Error& e) {
    fail(ErrorKind::usage, e.message());
  }
  return format_of_file(options.from) == ModelFormat::pt ? convert_script(options) : convert_program(options);
}

}  // namespace tern::command
