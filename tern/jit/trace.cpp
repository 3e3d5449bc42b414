#include "tern/jit/trace.h"

#include <unordered_map>

#include "tern/base/format.h"
#include "tern/base/warning.h"
#include "tern/capture/trace.h"
#include "tern/dispatch/ladder.h"
#include "tern/ir/text.h"
#include "tern/ops.h"
#include "tern/tree/tree.h"

namespace tern::jit {
namespace {

std::vector<capture::StateTensor> state_of(const nn::Module* module) {
  std::vector<capture::StateTensor> state;
  if (!module) return state;
  for (const auto& [name, t] : module->named_parameters()) state.push_back({name, t});
  for (const auto& [name, t] : module->named_buffers()) state.push_back({name, t});
  return state;
}

std::shared_ptr<ModuleTree> tree_of(const nn::Module& module,
                                    std::unordered_map<const void*, std::shared_ptr<ModuleTree>>& made) {
  auto& tree = made[module.id()];
  if (tree) return tree;
  auto fresh = std::make_shared<ModuleTree>();
  tree = fresh;
  fresh->type_name = module.type_name();
  fresh->training = module.training();
  for (const auto& [name, t] : module.named_parameters(false))
    fresh->members.push_back({name, t, script::Role::parameter});
  for (const auto& [name, t] : module.named_buffers(false))
    fresh->members.push_back({name, t, script::Role::buffer});
  for (const auto& [name, child] : module.named_children())
    fresh->children.emplace_back(name, tree_of(child, made));
  return fresh;
}

capture::Trace record(const Traced& what, const std::vector<tern::Value>& inputs, const TraceOptions& options,
                      bool is_module) {
  capture::TraceOptions o;
  o.is_module = is_module;
  o.strict = options.strict;
  o.force_outplace = options.force_outplace;
  o.names = options.names;
  return capture::trace(what.call, inputs, state_of(what.module), o);
}

std::vector<tern::Value> fresh_copy(const std::vector<tern::Value>& inputs) {
  std::vector<tern::Value> copies;
  for (const tern::Value& v : inputs)
    copies.push_back(tree::map(v, [](const tern::Value& leaf) -> tern::Value {
      if (!leaf.is_tensor()) return leaf;
      Tensor t = leaf.tensor().detach().clone();
      if (leaf.tensor().requires_grad()) t.requires_grad_();
      return t;
    }));
  return copies;
}

// The graph's text without sizes: those differ between inputs, the program must not.
std::string shapeless(const ir::Graph& graph) {
  std::unique_ptr<ir::Graph> copy = graph.clone();
  auto erase = [](auto& self, const ir::Block& block) -> void {
    for (ir::Value* v : block.params())
      if (v->type()->is_tensor()) v->set_type(ir::Type::tensor());
    for (ir::Node& n : block) {
      for (ir::Value* v : n.outputs())
        if (v->type()->is_tensor()) v->set_type(ir::Type::tensor());
      for (ir::Block* b : n.blocks()) self(self, *b);
    }
  };
  erase(erase, copy->top());
  return ir::torch_text(*copy, false);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// Lines that one of two texts has and the other has not, around where they part and meet again.
std::string difference(const std::string& a, const std::string& b) {
  std::vector<std::string> x = lines_of(a), y = lines_of(b);
  size_t head = 0, tail = 0;
  while (head < x.size() && head < y.size() && x[head] == y[head]) ++head;
  while (tail < x.size() - head && tail < y.size() - head && x[x.size() - 1 - tail] == y[y.size() - 1 - tail])
    ++tail;
  std::string text;
  for (size_t i = 0; i < head; ++i) text += "\t\t  " + x[i] + "\n";
  for (size_t i = head; i < x.size() - tail; ++i) text += "\t\t- " + x[i] + "\n";
  for (size_t i = head; i < y.size() - tail; ++i) text += "\t\t+ " + y[i] + "\n";
  for (size_t i = x.size() - tail; i < x.size(); ++i) text += "\t\t  " + x[i] + "\n";
  return text;
}

std::optional<std::string> compare(const Tensor& got, const Tensor& expected, double tolerance) {
  if (str(got.sizes()) != str(expected.sizes()))
    return fmt::format("The shapes are {} and {}.", str(got.sizes()), str(expected.sizes()));
  if (got.int_numel() == 0) return std::nullopt;
  Tensor a = got.detach().to(kDouble), b = expected.detach().to(kDouble);
  Tensor off = (a - b).abs();
  Tensor wrong = off > b.abs() * tolerance + tolerance;
  int64_t count = wrong.sum().item<int64_t>();
  if (!count) return std::nullopt;
  return fmt::format(
      "Tensor-likes are not close!\n\nMismatched elements: {} / {} ({:.1f}%)\nGreatest absolute difference: "
      "{}",
      count, got.int_numel(), 100.0 * static_cast<double>(count) / static_cast<double>(got.int_numel()),
      off.max().item<double>());
}

void check(const ScriptModule& module, const ir::Graph& graph, const Traced& what,
           const TraceOptions& options, const std::vector<tern::Value>& inputs) {
  std::vector<std::vector<tern::Value>> sets = options.check_inputs;
  if (sets.empty()) sets.push_back(inputs);
  std::string first = shapeless(graph);
  for (const std::vector<tern::Value>& set : sets) {
    capture::Trace again = record(what, fresh_copy(set), options, true);
    std::string second = shapeless(*again.graph);
    if (first != second)
      fail("Tracing failed sanity checks!\nERROR: Graphs differed across invocations!\n\tGraph diff:\n" +
           difference(first, second));
    std::vector<tern::Value> expected = tree::flatten(what.call(fresh_copy(set))).leaves;
    std::vector<tern::Value> got = tree::flatten(module.forward(fresh_copy(set))).leaves;
    for (size_t i = 0; i < expected.size() && i < got.size(); ++i) {
      if (!expected[i].is_tensor() || !got[i].is_tensor()) continue;
      if (auto why = compare(got[i].tensor(), expected[i].tensor(), options.check_tolerance))
        warn(
            "TracerWarning",
            fmt::format("Output nr {}. of the traced function does not match the corresponding output of the "
                        "Python function. Detailed error:\n{}",
                        i + 1, *why));
    }
  }
}

}  // namespace

ScriptModule trace(const Traced& what, const std::vector<tern::Value>& inputs, const TraceOptions& options) {
  // The function is run on the user's own tensors, as PyTorch does; what it is checked with must be from
  // before.
  std::vector<tern::Value> before = options.check_trace ? fresh_copy(inputs) : std::vector<tern::Value>();
  capture::Trace recorded = record(what, inputs, options, true);
  std::unique_ptr<ir::Graph> kept = options.check_trace ? recorded.graph->clone() : nullptr;

  std::unordered_map<const void*, std::shared_ptr<ModuleTree>> made;
  std::shared_ptr<ModuleTree> tree =
      what.module ? tree_of(*what.module, made) : std::make_shared<ModuleTree>();
  if (!what.module) tree->type_name = "TracedFunction";
  ModuleTree::Method forward;
  forward.name = "forward";
  forward.graph = std::move(recorded.graph);
  tree->methods.push_back(std::move(forward));
  ScriptModule module = make_module(tree);
  module.set_traced_inputs("forward", inputs);
  if (options.check_trace) check(module, *kept, what, options, before);
  return module;
}

TracedGraph trace_graph(const Traced& what, const std::vector<tern::Value>& inputs,
                        const TraceOptions& options) {
  capture::Trace recorded = record(what, inputs, options, true);
  TracedGraph result;
  result.outputs = recorded.outputs;
  result.graph = std::move(recorded.graph);
  for (const tern::Value& v : inputs)
    for (const Tensor& t : tree::tensors(v)) result.inputs.push_back(t);
  // Every attribute that is read becomes an input; the chain of GetAttr and self go.
  ir::Graph& g = *result.graph;
  std::unordered_map<const ir::Value*, std::string> paths{{g.inputs()[0], ""}};
  std::vector<ir::Node*> reads;
  std::vector<capture::StateTensor> state = state_of(what.module);
  for (ir::Node& n : g.top()) {
    if (!n.is("prim::GetAttr")) continue;
    std::string owner = paths.at(&n.input(0).value()), name = n.attribute("name")->string();
    std::string path = owner.empty() ? name : owner + "." + name;
    paths[&n.output()] = path;
    reads.push_back(&n);
    for (const capture::StateTensor& s : state)
      if (s.path == path) {
        ir::Value& in = g.add_input(n.output().type(), name);
        n.output().replace_all_uses_with(in);
        result.inputs.push_back(s.tensor);
      }
  }
  for (size_t i = reads.size(); i-- > 0;) g.erase(*reads[i]);
  g.top().remove_param(0);
  return result;
}

}  // namespace tern::jit
