// The command on .pt files: TorchScript archives with their methods and code, and checkpoints of torch.save.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>

#include "commands.h"
#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/export/script.h"
#include "tern/io/json.h"
#include "tern/ir/verify.h"
#include "tern/jit/archive.h"
#include "tern/jit/freeze.h"
#include "tern/onnx/program.h"
#include "tern/runtime/model_file.h"
#include "tern/sym/shape_env.h"
#include "tern/tensor/generator.h"
#include "tern/tree/tree.h"

namespace tern::command {
namespace {

std::string tensor_text(const Tensor& t) {
  return std::string(name(t.dtype())) + (t.is_nested() ? " nested" : "") + str(t.sizes());
}

void count(const ir::Block& block, std::map<std::string, size_t>& counts) {
  for (const ir::Node& n : block) {
    if (!n.is("prim::GetAttr") && !n.is("prim::Constant")) ++counts[n.qualified()];
    for (ir::Block* b : n.blocks()) count(*b, counts);
  }
}

struct Facts {
  int64_t tensors = 0, elements = 0, bytes = 0;
  void add(const Tensor& t) {
    ++tensors;
    elements += t.numel().guard_int();
    bytes += t.nbytes().guard_int();
  }
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

int script_info(const Info& options) {
  jit::ArchiveFacts archive;
  jit::ScriptModule module = jit::load(options.model, {.facts = &archive});
  std::map<std::string, size_t> counts;
  for (const std::string& m : module.methods()) count(module.inlined_graph(m)->top(), counts);
  Facts facts;
  for (const auto& [name, t] : module.named_parameters()) facts.add(t);
  for (const auto& [name, t] : module.named_buffers()) facts.add(t);
  if (options.json) {
    io::JsonWriter json({.indent = 2});
    json.begin_object();
    json.member("format", "pt");
    json.member("version", static_cast<int64_t>(archive.version));
    json.member("class", module.type_name());
    json.key("methods");
    json.begin_object();
    for (const std::string& m : module.methods()) {
      json.key(m);
      json.begin_object();
      json.member("signature", module.signature(m));
      json.key("inputs");
      json.begin_array();
      InputList list = inputs_of(module, m);
      for (size_t i = 0; i < list.names.size(); ++i) {
        json.begin_object();
        json.member("name", list.names[i]);
        json.member("type", type_text(*list.types[i]));
        json.end_object();
      }
      json.end_array();
      json.end_object();
    }
    json.end_object();
    for (bool parameters : {true, false}) {
      json.key(parameters ? "parameters" : "buffers");
      json.begin_object();
      for (const auto& [name, t] : parameters ? module.named_parameters() : module.named_buffers())
        json.member(name, tensor_text(t));
      json.end_object();
    }
    json.key("operators");
    json.begin_object();
    for (auto& [op, n] : counts) json.member(op, static_cast<int64_t>(n));
    json.end_object();
    json.key("extra_files");
    json.begin_array();
    for (const std::string& name : archive.extra_files) json.value(name);
    json.end_array();
    json.member("tensors", facts.tensors);
    json.member("elements", facts.elements);
    json.member("bytes", facts.bytes);
    json.end_object();
    std::printf("%s\n", json.str().c_str());
    return 0;
  }
  std::printf("%s: TorchScript, archive version %d\n", options.model.c_str(), archive.version);
  std::printf("class\n  %s\n", module.type_name().c_str());
  std::printf("methods\n");
  for (const std::string& m : module.methods()) {
    std::printf("  %s\n", module.signature(m).c_str());
    InputList list = inputs_of(module, m);
    if (!module.traced_inputs(m).empty())
      for (size_t i = 0; i < list.names.size(); ++i)
        std::printf("    traced with %-12s %s\n", list.names[i].c_str(), type_text(*list.types[i]).c_str());
  }
  for (bool parameters : {true, false}) {
    jit::NamedTensors tensors = parameters ? module.named_parameters() : module.named_buffers();
    if (tensors.empty()) continue;
    std::printf("%s\n", parameters ? "parameters" : "buffers");
    for (const auto& [name, t] : tensors) std::printf("  %-40s %s\n", name.c_str(), tensor_text(t).c_str());
  }
  std::printf("weights\n  %lld tensors, %lld elements, %s\n", static_cast<long long>(facts.tensors),
              static_cast<long long>(facts.elements), bytes_text(static_cast<double>(facts.bytes)).c_str());
  size_t nodes = 0;
  for (auto& [op, n] : counts) nodes += n;
  std::printf("operators (%zu nodes)\n", nodes);
  for (auto& [op, n] : counts) std::printf("  %6zu  %s\n", n, op.c_str());
  if (!archive.extra_files.empty()) std::printf("extra files\n");
  for (const std::string& name : archive.extra_files) std::printf("  %s\n", name.c_str());
  return 0;
}

namespace {

void print_tree(const Value& v, const std::string& path, Facts& facts, io::JsonWriter* json) {
  auto show = [&](const std::string& text) {
    if (json)
      json->member(path.empty() ? "." : path, text);
    else
      std::printf("  %-48s %s\n", path.empty() ? "." : path.c_str(), text.c_str());
  };
  auto inside = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
  if (v.is_tensor()) {
    facts.add(v.tensor());
    show(tensor_text(v.tensor()) + (v.tensor()->is_parameter ? " parameter" : ""));
  } else if (v.is_dict() && !v.entries().empty()) {
    for (const auto& [k, item] : v.entries())
      print_tree(item, inside(k.is_string() ? k.string() : k.str()), facts, json);
  } else if ((v.is_list() || v.is_tuple()) && !v.items().empty() && v.items().size() <= 10000) {
    bool plain = true;
    for (const Value& item : v.items()) plain &= item.is_number() || item.is_string() || item.is_none();
    if (plain && v.items().size() <= 16) return show(v.str());
    for (size_t i = 0; i < v.items().size(); ++i)
      print_tree(v.items()[i], inside(std::to_string(i)), facts, json);
  } else if (const std::string* name = jit::opaque_class(v)) {
    show("object of " + *name);
  } else {
    std::string text = v.is_string() ? "'" + v.string() + "'" : v.str();
    show(text.size() > 100 ? text.substr(0, 97) + "..." : text);
  }
}

}  // namespace

int checkpoint_info(const Info& options) {
  Value root = jit::load_checkpoint(options.model);
  Facts facts;
  if (options.json) {
    io::JsonWriter json({.indent = 2});
    json.begin_object();
    json.member("format", "checkpoint");
    json.key("values");
    json.begin_object();
    print_tree(root, "", facts, &json);
    json.end_object();
    json.member("tensors", facts.tensors);
    json.member("elements", facts.elements);
    json.member("bytes", facts.bytes);
    json.end_object();
    std::printf("%s\n", json.str().c_str());
    return 0;
  }
  std::printf("%s: a checkpoint of torch.save\n", options.model.c_str());
  print_tree(root, "", facts, nullptr);
  std::printf("weights\n  %lld tensors, %lld elements, %s\n", static_cast<long long>(facts.tensors),
              static_cast<long long>(facts.elements), bytes_text(static_cast<double>(facts.bytes)).c_str());
  return 0;
}

namespace {

jit::ScriptModule load_module(const std::string& model, const std::string& path, bool frozen,
                              const std::string& method) {
  jit::ScriptModule root = jit::load(model);
  if (!path.empty() && !(root.has_attr(path) && root.attr(path).is_object()))
    failf(ErrorKind::usage, "--module {}: the model has no such module", path);
  jit::ScriptModule module = root.submodule(path);
  need_method(module, method);
  if (!frozen) return module;
  std::vector<std::string> preserved;
  if (method != "forward") preserved.push_back(method);
  return jit::freeze(module.eval(), preserved);
}

}  // namespace

int run_code(const Code& options) {
  if (format_of_file(options.model) == ModelFormat::pt) {
    jit::ScriptModule module = load_module(options.model, options.module, options.frozen, options.method);
    script::CodeWithConstants code = module.code_with_constants(options.method);
    std::printf("%s", code.code.c_str());
    if (options.constants)
      for (auto& [name, v] : code.constants)
        std::printf("CONSTANTS.%s  %s\n", name.c_str(),
                    v.is_tensor() ? tensor_text(v.tensor()).c_str() : v.str().c_str());
  } else {
    if (!options.module.empty() || options.frozen || options.constants)
      fail(ErrorKind::usage, "--module, --frozen and --constants are for .pt files");
    if (options.method != "forward")
      failf(ErrorKind::usage, "'{}': only .pt files have methods", options.method);
    std::printf("%s\n", load_model(options.model).code().c_str());
  }
  return 0;
}

int run_graph(const GraphText& options) {
  if (format_of_file(options.model) == ModelFormat::pt) {
    jit::ScriptModule module = load_module(options.model, options.module, options.frozen, options.method);
    if (!options.shapes.empty() || !options.inputs.empty()) {
      auto symbols = new_shared<ShapeEnv>();
      NoGrad no_grad;
      std::vector<Value> inputs =
          make_inputs(inputs_of(module, options.method), options.inputs, options.shapes, symbols.get());
      std::printf("%s", module.shaped_graph(inputs, options.method, symbols)->str().c_str());
    } else if (options.optimized) {
      std::printf("%s", module.optimized_graph(options.method)->str().c_str());
    } else {
      std::printf("%s", options.inlined ? module.inlined_graph(options.method)->str().c_str()
                                        : module.graph(options.method).str().c_str());
    }
  } else {
    if (!options.module.empty() || options.frozen || options.optimized || !options.shapes.empty())
      fail(ErrorKind::usage, "--module, --frozen, --optimized and --shapes are for .pt files");
    if (options.method != "forward")
      failf(ErrorKind::usage, "'{}': only .pt files have methods", options.method);
    std::printf("%s", load_model(options.model).graph().str().c_str());
  }
  return 0;
}

int script_check(const Check& options) {
  jit::ScriptModule module = jit::load(options.model, {.check_weights = true});
  for (const auto& [path, m] : module.named_modules())
    for (const std::string& method : m.methods()) ir::verify(m.graph(method));
  std::vector<std::string> missing = module.missing_operators();
  for (const std::string& op : missing)
    std::printf("error: it calls %s, which Tern does not have\n", op.c_str());
  std::printf("%s: %s\n", options.model.c_str(), missing.empty() ? "valid" : "valid, but it cannot run here");
  return missing.empty() ? 0 : 4;
}

void need_method(const jit::ScriptModule& module, const std::string& method) {
  std::vector<std::string> all = module.methods();
  if (std::find(all.begin(), all.end(), method) != all.end()) return;
  std::string known;
  for (const std::string& m : all) known += (known.empty() ? "" : ", ") + m;
  failf(ErrorKind::usage, "{} has no method '{}' (it has {})", module.type_name(), method,
        known.empty() ? "none" : known);
}

int script_run(const Run& options) {
  jit::ScriptModule module = jit::load(options.model);
  need_method(module, options.method);
  std::vector<Value> inputs = make_inputs(inputs_of(module, options.method), options.inputs, options.shapes);
  std::vector<Value> outputs;
  std::vector<std::string> names;
  double seconds = 0;
  bool interpreted = options.backend == "interpreter";
  std::optional<Session> session;
  if (!interpreted) {
    ExportedProgram program;
    try {
      program = from_script(module, options.method);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::not_supported || options.backend != "native") throw;
      std::printf("note: %s; its script is interpreted\n", e.what());
      interpreted = true;
    }
    // ONNX Runtime needs to know the inputs beforehand.
    if (options.backend == "onnxrt") program = from_script(module, inputs, options.method);
    if (!interpreted)
      session.emplace(program, SessionOptions{.backend = options.backend, .threads = options.threads});
  }
  double start = now();
  if (interpreted) {
    NoGrad no_grad;
    Value result = module.call(options.method, inputs);
    seconds = now() - start;
    for (const Value& leaf : tree::flatten(result).leaves) outputs.push_back(leaf);
  } else {
    std::vector<Value> tensors;
    for (const Value& v : inputs) tensors.push_back(v);
    std::vector<Value> results = session->run(tensors);
    seconds = now() - start;
    for (const Value& r : results)
      for (const Value& leaf : tree::flatten(r).leaves) outputs.push_back(leaf);
  }
  for (size_t i = 0; i < outputs.size(); ++i) names.push_back(fmt::format("output_{}", i));
  if (session)
    if (std::string why = session->why_walked(); !why.empty())
      std::printf("note: not planned but walked node by node: %s\n", why.c_str());
  return report_results(options, names, outputs, seconds);
}

}  // namespace tern::command
